/* SPDX-License-Identifier: Apache-2.0 */
#include "util/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/utf8.h"

static const char *name = "rubato";

void rbt_log_name(const char *n)
{
	name = n;
}

/* One write() per line, so that lines of several processes do not mix. Keeps errno. */
__attribute__((format(printf, 2, 0))) static void say(
	const char *prefix, const char *fmt, va_list ap)
{
	int saved_errno = errno;
	char line[1024];

	int n = snprintf(line, sizeof(line), "%s: %s", name, prefix);
	int m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	size_t len = (size_t)n + (m < 0 ? 0 : (size_t)m);
	if (len > sizeof(line) - 2) {
		len = sizeof(line) - 2;
	}
	/* File names and configuration text may contain anything, also control characters. */
	line[len] = '\0';
	rbt_utf8_make_harmless(line);
	len = strlen(line);
	line[len++] = '\n';
	ssize_t ignored = write(STDERR_FILENO, line, len);
	(void)ignored;
	errno = saved_errno;
}

void rbt_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("", fmt, ap);
	va_end(ap);
}

void rbt_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("warning: ", fmt, ap);
	va_end(ap);
}

void rbt_debug(const char *fmt, ...)
{
	va_list ap;

	if (getenv("RUBATO_DEBUG") == NULL) {
		return;
	}
	va_start(ap, fmt);
	say("debug: ", fmt, ap);
	va_end(ap);
}
