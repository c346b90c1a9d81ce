/* SPDX-License-Identifier: Apache-2.0 */
#include "util/parse.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

int rbt_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	char *end;

	/* strtoull takes signs and spaces, and wraps negative numbers round. */
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
