/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_UTIL_PARSE_H
#define RBT_UTIL_PARSE_H

#include <stdint.h>

/* A whole decimal number and nothing else, within [min, max]. 0, -EINVAL or -ERANGE. */
int rbt_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret);

/* A size in bytes with an optional suffix K, M, G or T, in powers of 1024, as docker and Slurm
 * have them: "512M", "20g", "20GB", "20GiB". Within [min, max]. 0, -EINVAL or -ERANGE. */
int rbt_parse_size(const char *s, uint64_t min, uint64_t max, uint64_t *ret);

/* Seconds, or with a suffix minutes or hours ("1.5", "90s", "1.5m", "2h"), to milliseconds, rounded
 * up; more than 0, at most max_ms. 0, -EINVAL or -ERANGE. */
int rbt_parse_seconds(const char *s, uint64_t max_ms, uint64_t *ret_ms);

/* A share in percent, with an optional tenth and an optional % ("2", "2.5 %"), to thousandths; at
 * most max_permille. 0, -EINVAL or -ERANGE. */
int rbt_parse_permille(const char *s, uint64_t max_permille, uint64_t *ret);

#endif
