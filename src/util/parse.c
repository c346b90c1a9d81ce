/* SPDX-License-Identifier: Apache-2.0 */
#include "util/parse.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int rbt_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	char *end;

	/* strtoull() accepts signs and spaces, and turns negative numbers into large ones. */
	if (!isdigit((unsigned char)s[0])) {
		return -EINVAL;
	}
	errno = 0;
	unsigned long long v = strtoull(s, &end, 10);
	if (*end != '\0') {
		return -EINVAL;
	}
	if (errno == ERANGE || v < min || v > max) {
		return -ERANGE;
	}
	*ret = v;
	return 0;
}

int rbt_parse_seconds(const char *s, uint64_t max_ms, uint64_t *ret_ms)
{
	char *end;

	if (!isdigit((unsigned char)s[0]) && s[0] != '.') {
		return -EINVAL;
	}
	double v = strtod(s, &end);
	if (*end != '\0' || end == s || !isfinite(v)) {
		return -EINVAL;
	}
	if (v <= 0 || v * 1000 > (double)max_ms) {
		return -ERANGE;
	}
	*ret_ms = (uint64_t)ceil(v * 1000);
	return 0;
}

int rbt_parse_permille(const char *s, uint64_t max_permille, uint64_t *ret)
{
	uint64_t whole, tenths = 0;
	char text[32];
	size_t n = strlen(s);

	if (n > 0 && s[n - 1] == '%') {
		do {
			n--;
		} while (n > 0 && isspace((unsigned char)s[n - 1]));
	}
	if (n >= sizeof(text)) {
		return -EINVAL;
	}
	memcpy(text, s, n);
	text[n] = '\0';
	char *point = strchr(text, '.');
	if (point != NULL) {
		*point = '\0';
		if (rbt_parse_u64(point + 1, 0, 9, &tenths) < 0 || strlen(point + 1) != 1) {
			return -EINVAL;
		}
	}
	int r = rbt_parse_u64(text, 0, max_permille, &whole);
	if (r < 0) {
		return r;
	}
	if (whole * 10 + tenths > max_permille) {
		return -ERANGE;
	}
	*ret = whole * 10 + tenths;
	return 0;
}
