/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_UTIL_UTF8_H
#define RBT_UTIL_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character at `p`, in a string that ends with a NUL; 0 when it is none, as in file
 * names of other times. */
size_t rbt_utf8_length(const unsigned char *p);

/* Whether a character of that length neither controls a terminal nor changes how others are shown
 * (directions, joiners, tags). */
bool rbt_utf8_is_harmless(const unsigned char *p, size_t len);

/*
 * Makes text of strangers fit to be shown, in place: it never becomes longer. Control characters
 * (also U+0080 to U+009F, which some terminals obey) become spaces. What is no character, and what
 * changes how others are shown (directions, joiners, tags), becomes a question mark.
 */
void rbt_utf8_make_harmless(char *text);

#endif
