/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of durations: one count per power of two of microseconds. Fixed widths, because it
 * crosses sockets.
 */
#ifndef RBT_UTIL_HIST_H
#define RBT_UTIL_HIST_H

#include <stdint.h>

#define RBT_HIST_BUCKETS 28u

struct rbt_hist {
	uint64_t sum_ns, max_ns;
	/* n[0]: below 1 us; n[i]: from 2^(i-1) to below 2^i us; the last: all that are longer. */
	uint32_t n[RBT_HIST_BUCKETS];
};

static inline uint32_t rbt_hist_bucket(uint64_t ns)
{
	uint64_t us = ns / 1000;
	uint32_t bits = us == 0 ? 0 : 64u - (uint32_t)__builtin_clzll(us);

	return bits < RBT_HIST_BUCKETS ? bits : RBT_HIST_BUCKETS - 1;
}

static inline void rbt_hist_add(struct rbt_hist *h, uint64_t ns)
{
	h->n[rbt_hist_bucket(ns)]++;
	h->sum_ns += ns;
	h->max_ns = ns > h->max_ns ? ns : h->max_ns;
}

static inline uint64_t rbt_hist_count(const struct rbt_hist *h)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < RBT_HIST_BUCKETS; i++) {
		n += h->n[i];
	}
	return n;
}

/* The upper end of the bucket that holds the given quantile (0 to 1000, in thousandths), never more
 * than the longest duration seen; 0: the histogram is empty. */
static inline uint64_t rbt_hist_quantile_ns(const struct rbt_hist *h, uint32_t permille)
{
	uint64_t rank = (rbt_hist_count(h) * permille + 999) / 1000, seen = 0;

	for (uint32_t i = 0; i < RBT_HIST_BUCKETS; i++) {
		uint64_t end_ns = UINT64_C(1000) << i;

		seen += h->n[i];
		if (seen >= rank && seen > 0) {
			return i + 1 < RBT_HIST_BUCKETS && end_ns < h->max_ns ? end_ns : h->max_ns;
		}
	}
	return 0;
}

#endif
