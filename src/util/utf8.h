/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_UTIL_UTF8_H
#define RBT_UTIL_UTF8_H

#include <stddef.h>

/* Bytes of the character at `p`, in a string that ends with a NUL; 0 when it is none, as in file
 * names of other times. */
size_t rbt_utf8_length(const unsigned char *p);

#endif
