/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "conformance.h"

static unsigned n_failures;

static void __attribute__((format(printf, 3, 0)))
say(const char *verdict, const char *name, const char *fmt, va_list ap)
{
	printf("%s %s: ", verdict, name);
	vprintf(fmt, ap);
	printf("\n");
	fflush(stdout);
}

void ok(const char *name)
{
	printf("ok %s\n", name);
	fflush(stdout);
}

void fail(const char *name, const char *fmt, ...)
{
	va_list ap;

	n_failures++;
	va_start(ap, fmt);
	say("FAIL", name, fmt, ap);
	va_end(ap);
}

void skip(const char *name, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("skip", name, fmt, ap);
	va_end(ap);
}

static const char *describe(int result)
{
	return result < 0 ? strerrorname_np(-result) : result == 0 ? "0" : "a positive number";
}

bool expect(const char *name, int result, int expected)
{
	if (result != expected) {
		fail(name, "got %s, not %s", describe(result), describe(expected));
		return false;
	}
	ok(name);
	return true;
}

void note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("note", "figures", fmt, ap);
	va_end(ap);
}

unsigned failures(void)
{
	return n_failures;
}
