/* SPDX-License-Identifier: Apache-2.0 */
/* The begin and end of a command, and its usage errors. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "util/fd.h"
#include "util/log.h"

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

int print_usage(const struct command *cmd)
{
	fputs(cmd->usage, stdout);
	if (strstr(cmd->usage, "--device") == NULL) {
		fputs("\n      --device soft        the software GPU; RUBATO_DEVICE=soft does the same\n",
			stdout);
	}
	return EXIT_OK;
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

void cli_begin(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	rbt_close(&fd);
}

int cli_end(int code)
{
	/* A full disk must not pass for success. */
	if (fflush(stdout) != 0 && code == EXIT_OK) {
		rbt_error("cannot write output: %s", strerror(errno));
		return EXIT_FAILED;
	}
	return code;
}
