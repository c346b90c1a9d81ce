/* SPDX-License-Identifier: Apache-2.0 */
#include "util/utf8.h"

#include <stdbool.h>

size_t rbt_utf8_length(const unsigned char *p)
{
	/* The second byte's range also keeps out long forms, surrogates and what is too large. */
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
