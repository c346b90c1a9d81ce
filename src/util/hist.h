/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of durations: eight buckets per power of two of microseconds, so that a bucket is at
 * most an eighth wider than its lower end; and the exact sum and maximum. Adding a duration takes a
 * few instructions. Fixed widths, because it crosses sockets.
 */
#ifndef RBT_UTIL_HIST_H
#define RBT_UTIL_HIST_H

#include <stdint.h>

#define RBT_HIST_PER_OCTAVE 8u /* 2^RBT_HIST_BITS */
#define RBT_HIST_BITS       3u
#define RBT_HIST_OCTAVES    27u /* longer durations, from 134 s on, are in the last bucket */
#define RBT_HIST_BUCKETS    ((RBT_HIST_OCTAVES - RBT_HIST_BITS + 1) * RBT_HIST_PER_OCTAVE)

struct rbt_hist {
	uint64_t sum_ns, max_ns;
	/* The first eight buckets are 1 us wide each, the next eight too, the next 2 us, and so
	 * on. */
	uint32_t n[RBT_HIST_BUCKETS];
};

static inline uint32_t rbt_hist_bucket(uint64_t ns)
{
	uint64_t us = ns / 1000;

	if (us < RBT_HIST_PER_OCTAVE) {
		return (uint32_t)us;
	}
	uint32_t octave = 63u - (uint32_t)__builtin_clzll(us);
	uint32_t part = (uint32_t)(us >> (octave - RBT_HIST_BITS)) % RBT_HIST_PER_OCTAVE;
	uint32_t i = (octave - RBT_HIST_BITS + 1) * RBT_HIST_PER_OCTAVE + part;
	return i < RBT_HIST_BUCKETS ? i : RBT_HIST_BUCKETS - 1;
}

/* The shortest duration in bucket i; for i = RBT_HIST_BUCKETS, the end of the range. */
static inline uint64_t rbt_hist_begin_ns(uint32_t i)
{
	uint64_t part = RBT_HIST_PER_OCTAVE + i % RBT_HIST_PER_OCTAVE;
	uint64_t us = i < RBT_HIST_PER_OCTAVE ? i : part << (i / RBT_HIST_PER_OCTAVE - 1);

	return us * 1000;
}

static inline void rbt_hist_add(struct rbt_hist *h, uint64_t ns)
{
	h->n[rbt_hist_bucket(ns)]++;
	h->sum_ns += ns;
	h->max_ns = ns > h->max_ns ? ns : h->max_ns;
}

/* The number of durations in all buckets before `end`. */
static inline uint64_t rbt_hist_count_before(const struct rbt_hist *h, uint32_t end)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < end; i++) {
		n += h->n[i];
	}
	return n;
}

static inline uint64_t rbt_hist_count(const struct rbt_hist *h)
{
	return rbt_hist_count_before(h, RBT_HIST_BUCKETS);
}

/* The quantile (0 to 1000, in thousandths), as if the durations in its bucket were spread evenly up
 * to the bucket's end, or to the longest duration; 0: the histogram is empty. */
static inline uint64_t rbt_hist_quantile_ns(const struct rbt_hist *h, uint32_t permille)
{
	uint64_t rank = (rbt_hist_count(h) * permille + 999) / 1000, seen = 0;

	for (uint32_t i = 0; i < RBT_HIST_BUCKETS; i++) {
		uint64_t n = h->n[i];

		if (n == 0 || seen + n < rank) {
			seen += n;
			continue;
		}
		uint64_t from_ns = rbt_hist_begin_ns(i), to_ns = rbt_hist_begin_ns(i + 1);
		uint64_t nth = rank - seen;
		if (to_ns > h->max_ns || i + 1 == RBT_HIST_BUCKETS) {
			to_ns = h->max_ns > from_ns ? h->max_ns : from_ns;
		}
		uint64_t width_ns = to_ns - from_ns;
		return from_ns + width_ns / n * nth + width_ns % n * nth / n;
	}
	return 0;
}

#endif
