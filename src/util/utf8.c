/* SPDX-License-Identifier: Apache-2.0 */
#include "util/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

size_t rbt_utf8_length(const unsigned char *p)
{
	/* The range of the second byte also excludes overlong forms, surrogates and values that are
	 * too large. */
	static const struct {
		unsigned char first, last, low, high;
		size_t len;
	} forms[] = {
		{0x01, 0x7f, 0x00, 0xff, 1},
		{0xc2, 0xdf, 0x80, 0xbf, 2},
		{0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3},
		{0xed, 0xed, 0x80, 0x9f, 3},
		{0xee, 0xef, 0x80, 0xbf, 3},
		{0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4},
		{0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (*p < forms[i].first || *p > forms[i].last) {
			continue;
		}
		size_t len = forms[i].len;
		bool good = len == 1 || (p[1] >= forms[i].low && p[1] <= forms[i].high);
		for (size_t k = 2; good && k < len; k++) {
			good = (p[k] & 0xc0) == 0x80;
		}
		return good ? len : 0;
	}
	return 0;
}

static uint32_t decode(const unsigned char *p, size_t len)
{
	uint32_t c = len == 1 ? p[0] : p[0] & (0xffu >> (len + 1));

	for (size_t i = 1; i < len; i++) {
		c = c << 6 | (p[i] & 0x3fu);
	}
	return c;
}

/* Also U+0080 to U+009F, which some terminals obey. */
static bool is_control(uint32_t c)
{
	return c < ' ' || (c >= 0x7f && c <= 0x9f);
}

static bool is_misleading(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{0x00ad, 0x00ad}, /* shown only at the end of a line */
		{0x061c, 0x061c}, {0x180e, 0x180e}, {0x200b, 0x200f}, /* zero width; directions */
		{0x2028, 0x202e}, /* ends of lines and paragraphs; directions */
		{0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb},
		{0xe0000, 0xe007f}, /* tags, which are invisible */
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (c >= ranges[i].first && c <= ranges[i].last) {
			return true;
		}
	}
	return false;
}

bool rbt_utf8_is_harmless(const unsigned char *p, size_t len)
{
	uint32_t c = decode(p, len);

	return !is_control(c) && !is_misleading(c);
}

void rbt_utf8_make_harmless(char *text)
{
	const unsigned char *from = (const unsigned char *)text;
	unsigned char *to = (unsigned char *)text;

	while (*from != '\0') {
		size_t len = rbt_utf8_length(from);
		if (len > 0 && is_control(decode(from, len))) {
			*to++ = ' ';
		} else if (len == 0 || is_misleading(decode(from, len))) {
			*to++ = '?';
		} else {
			memmove(to, from, len);
			to += len;
		}
		from += len > 0 ? len : 1;
	}
	*to = '\0';
}
