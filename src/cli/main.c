/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "util/fd.h"
#include "util/log.h"

static const struct command *const commands[] = {
	&cmd_run,
	&cmd_renice,
	&cmd_ps,
	&cmd_top,
	&cmd_suspend,
	&cmd_resume,
	&cmd_doctor,
	&cmd_kfd,
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

enum exit_code exit_code_for(int error)
{
	switch (-error) {
	case 0:
		return EXIT_OK;
	case ESRCH:
	case ENXIO:
		return EXIT_NO_PROGRAM;
	case EPERM:
	case EACCES:
		return EXIT_NO_PERMISSION;
	case ENODEV:
		return EXIT_NO_DEVICE;
	default:
		return EXIT_FAILED;
	}
}

int usage_error(const struct command *cmd, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	rbt_error("%s: %s (see `rubato %s --help`)", cmd->name, text, cmd->name);
	return EXIT_USAGE;
}

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

/* Keeps what we open away from standard files that the caller closed, until exec. */
static void fill_standard_files(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	rbt_close(&fd);
}

/* The KFD tools under their own names: links to this program. NULL when it is called rubato. */
static char *tool_name(char *path)
{
	static const char *const names[] = {
		"queue_monitor", "kfd_preemption_poc", "get_queue_info"};
	char *base = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(base, names[i]) == 0) {
			return base;
		}
	}
	return NULL;
}

/* As if called `rubato kfd NAME …`. */
static int run_tool(char *name, int argc, char **argv)
{
	char **longer = calloc((size_t)argc + 3, sizeof(*longer));
	char rubato[] = "rubato", kfd[] = "kfd";

	if (longer == NULL) {
		rbt_error("%s", strerror(ENOMEM));
		return EXIT_FAILED;
	}
	longer[0] = rubato;
	longer[1] = kfd;
	longer[2] = name;
	memcpy(longer + 3, argv + 1, (size_t)(argc - 1) * sizeof(*longer));
	int code = dispatch(argc + 2, longer);
	free(longer);
	return code;
}

int main(int argc, char **argv)
{
	fill_standard_files();
	char *tool = argc > 0 ? tool_name(argv[0]) : NULL;
	int code = tool != NULL ? run_tool(tool, argc, argv) : dispatch(argc, argv);

	/* A full disk must not pass for success. */
	if (fflush(stdout) != 0 && code == EXIT_OK) {
		rbt_error("cannot write output: %s", strerror(errno));
		return EXIT_FAILED;
	}
	return code;
}
