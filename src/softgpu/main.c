/* SPDX-License-Identifier: Apache-2.0 */
/* rubato-softgpu: software GPUs for unmodified programs, behind fake device nodes. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "softgpu/commands.h"
#include "util/log.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
} commands[] = {
	{"exec", cmd_exec, "run a command on software GPUs"},
	{"state", cmd_state, "print the state of the session's device server"},
	{"fault", cmd_fault, "make calls fail, or take longer"},
	{"kill", cmd_kill, "end the session's device server at once"},
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_help(void)
{
	printf("usage: rubato-softgpu COMMAND …\n\n");
	for (size_t i = 0; i < N_COMMANDS; i++) {
		printf("  %-7s %s\n", commands[i].name, commands[i].summary);
	}
	printf("\n`rubato-softgpu COMMAND --help` says more.\n");
}

/* Files that we open must not get the numbers of standard files, where they would be replaced
 * later. */
static void fill_standard_files(void)
{
	for (int fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) < 0) {
			(void)!open("/dev/null", O_RDWR);
		}
	}
}

int main(int argc, char **argv)
{
	rbt_log_name("rubato-softgpu");
	fill_standard_files();
	if (argc < 2) {
		rbt_error("no command given (see --help)");
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		print_help();
		return EXIT_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("rubato-softgpu %s\n", RUBATO_VERSION);
		return EXIT_OK;
	}
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (strcmp(argv[1], commands[i].name) == 0) {
			return commands[i].run(argc - 1, argv + 1);
		}
	}
	rbt_error("unknown command '%s' (see --help)", argv[1]);
	return EXIT_USAGE;
}
