/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "util/log.h"

static const struct command *const commands[] = {
	&cmd_run,
	&cmd_renice,
	&cmd_ps,
	&cmd_top,
	&cmd_suspend,
	&cmd_resume,
	&cmd_doctor,
	&cmd_policy,
	&cmd_profile,
	&cmd_kfd,
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *out)
{
	fputs("rubato: nice for GPUs\n\nUsage: rubato COMMAND [OPTIONS]\n\n", out);
	for (size_t i = 0; i < N_COMMANDS; i++) {
		fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
	}
	fputs("\nClasses: latency (priorities 15-11), normal (10-6), best-effort (5-0).\n"
	      "With --device soft, any command works on a GPU in software; see rubato-softgpu(1).\n"
	      "`rubato COMMAND --help` tells more; so does rubato(1).\n",
		out);
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (strcmp(commands[i]->name, name) == 0) {
			return commands[i];
		}
	}
	return NULL;
}

static int help(int argc, char **argv)
{
	const struct command *cmd = argc > 2 ? find_command(argv[2]) : NULL;

	if (argc > 2 && cmd == NULL) {
		rbt_error("no such command: %s (see `rubato help`)", argv[2]);
		return EXIT_USAGE;
	}
	if (cmd != NULL) {
		fputs(cmd->usage, stdout);
	} else {
		print_help(stdout);
	}
	return EXIT_OK;
}

static int dispatch(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
		strcmp(argv[1], "-h") == 0) {
		return help(argc, argv);
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
		puts("rubato " RUBATO_VERSION);
		return EXIT_OK;
	}
	const struct command *cmd = find_command(argv[1]);
	if (cmd == NULL) {
		rbt_error("no such command: %s (see `rubato help`)", argv[1]);
		return EXIT_USAGE;
	}
	/* The name under which getopt() complains. */
	static char name[32];
	snprintf(name, sizeof(name), "rubato: %s", cmd->name);
	argv[1] = name;
	argc--;
	int code = device_select(cmd, &argc, argv + 1);
	return code != EXIT_OK ? code : cmd->run(argc, argv + 1);
}

int main(int argc, char **argv)
{
	cli_begin();
	return cli_end(dispatch(argc, argv));
}
