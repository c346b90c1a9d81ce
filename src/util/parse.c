/* SPDX-License-Identifier: Apache-2.0 */
#include "util/parse.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Without strtoull(), which has a newer version in newer C libraries: the preloaded library parses
 * with this, too. */
int rbt_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	bool is_over = false;

	if (s[0] == '\0') {
		return -EINVAL;
	}
	for (; *s != '\0'; s++) {
		uint64_t digit = (uint64_t)(*s - '0');
		if (*s < '0' || *s > '9') {
			return -EINVAL;
		}
		is_over = is_over || v > (UINT64_MAX - digit) / 10;
		v = v * 10 + digit;
	}
	if (is_over || v < min || v > max) {
		return -ERANGE;
	}
	*ret = v;
	return 0;
}

/* Returns the power of 1024 that a suffix stands for, or -EINVAL. */
static int power_of(const char *suffix)
{
	static const char letters[] = "kmgt";
	const char *letter = strchr(letters, *suffix | 0x20);
	int power = 0;

	if (*suffix != '\0' && letter != NULL && *letter != '\0') {
		power = (int)(letter - letters) + 1;
		suffix++;
		suffix += suffix[0] == 'i' && (suffix[1] | 0x20) == 'b';
	}
	suffix += (*suffix | 0x20) == 'b';
	return *suffix == '\0' ? power : -EINVAL;
}

int rbt_parse_size(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	char digits[24];
	uint64_t v;
	size_t n = strspn(s, "0123456789");
	int power = power_of(s + n);

	if (n == 0 || power < 0) {
		return -EINVAL;
	}
	if (n >= sizeof(digits)) {
		return -ERANGE;
	}
	memcpy(digits, s, n);
	digits[n] = '\0';
	int r = rbt_parse_u64(digits, 0, UINT64_MAX >> (10 * power), &v);
	if (r < 0) {
		return r;
	}
	v <<= 10 * power;
	if (v < min || v > max) {
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
	if (end == s || !isfinite(v) || (*end != '\0' && end[1] != '\0')) {
		return -EINVAL;
	}
	switch (*end) {
	case '\0':
	case 's':
		break;
	case 'm':
		v *= 60;
		break;
	case 'h':
		v *= 3600;
		break;
	default:
		return -EINVAL;
	}
	if (v <= 0 || v * 1000 > (double)max_ms) {
		return -ERANGE;
	}
	/* Without ceil(), so that this file needs only libc. */
	uint64_t ms = (uint64_t)(v * 1000);
	*ret_ms = ms + ((double)ms < v * 1000);
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
