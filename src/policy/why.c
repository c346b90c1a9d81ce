/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/why.h"

#include <stdarg.h>
#include <stdio.h>

int rbt_why_set(struct rbt_why *why, int error, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why->text, sizeof(why->text), fmt, args);
	va_end(args);
	for (char *c = why->text; *c != '\0'; c++) {
		if (*c < ' ' || *c > '~') {
			*c = '?';
		}
	}
	return error;
}
