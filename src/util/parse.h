/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_UTIL_PARSE_H
#define RBT_UTIL_PARSE_H

#include <stdint.h>

/* A whole decimal number and nothing else, within [min, max]. 0, -EINVAL or -ERANGE. */
int rbt_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret);

/* Seconds with an optional fraction ("1.5"), to milliseconds, rounded up; more than 0, at most
 * max_ms. 0, -EINVAL or -ERANGE. */
int rbt_parse_seconds(const char *s, uint64_t max_ms, uint64_t *ret_ms);

/* A share in percent, with an optional tenth and an optional % ("2", "2.5 %"), to thousandths; at
 * most max_permille. 0, -EINVAL or -ERANGE. */
int rbt_parse_permille(const char *s, uint64_t max_permille, uint64_t *ret);

#endif
