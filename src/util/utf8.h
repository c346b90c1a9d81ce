/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_UTIL_UTF8_H
#define RBT_UTIL_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The length in bytes of the character at `p`, in a NUL-terminated string; 0: no valid character,
 * as in file names in older encodings. */
size_t rbt_utf8_length(const unsigned char *p);

/* Whether a character of that length neither controls a terminal nor changes how other characters
 * are shown (directions, joiners, tags). */
bool rbt_utf8_is_harmless(const unsigned char *p, size_t len);

/*
 * Makes foreign text safe to show, in place: it never becomes longer. Control characters (also
 * U+0080 to U+009F, which some terminals obey) become spaces. Invalid bytes, and characters that
 * change how others are shown (directions, joiners, tags), become question marks.
 */
void rbt_utf8_make_harmless(char *text);

#endif
