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
	&cmd_trace,
	&cmd_suspend,
	&cmd_resume,
	&cmd_park,
	&cmd_unpark,
	&cmd_doctor,
	&cmd_policy,
	&cmd_profile,
	&cmd_cdi,
	&cmd_serve,
	&cmd_kfd,
	&cmd_vm_args,
};
#define NAME_MAX_LEN 16 /* of a command */
#define N_COMMANDS   (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *out)
{
	fputs("rubato: nice for GPUs\n\nUsage: rubato COMMAND [OPTIONS]\n\n", out);
	for (size_t i = 0; i < N_COMMANDS; i++) {
		fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
	}
	fputs("\nClasses: latency (priorities 15-11), normal (10-6), best-effort (5-0).\n"
	      "With --device soft, or RUBATO_DEVICE=soft in the environment, any command works on a\n"
	      "GPU in software; see rubato-softgpu(1).\n"
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

/* How many letters must be changed, added or left out to make `b` of `a`. */
static size_t distance(const char *a, const char *b)
{
	size_t row[NAME_MAX_LEN + 1], n = strlen(b);

	for (size_t j = 0; j <= n; j++) {
		row[j] = j;
	}
	for (size_t i = 1; a[i - 1] != '\0'; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			best = row[j] + 1 < best ? row[j] + 1 : best;
			row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
		}
	}
	return row[n];
}

static int no_command(const char *name)
{
	const struct command *nearest = NULL;
	size_t least = strlen(name) < 4 ? 2 : 3;

	for (size_t i = 0; i < N_COMMANDS; i++) {
		size_t d = distance(name, commands[i]->name);
		if (d < least) {
			least = d;
			nearest = commands[i];
		}
	}
	if (nearest != NULL) {
		rbt_error("no such command: %s; did you mean %s? (see `rubato help`)", name,
			nearest->name);
	} else {
		rbt_error("no such command: %s (see `rubato help`)", name);
	}
	return EXIT_USAGE;
}

static int help(int argc, char **argv)
{
	const struct command *cmd = argc > 2 ? find_command(argv[2]) : NULL;

	if (argc > 2 && cmd == NULL) {
		return no_command(argv[2]);
	}
	if (cmd != NULL) {
		return print_usage(cmd);
	}
	print_help(stdout);
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
		return no_command(argv[1]);
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
