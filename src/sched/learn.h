/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long to hold the GPU for a program after it was last seen active, learnt from the gaps in its
 * activity. A gap is the time from a submission or a returned synchronisation to the next
 * submission.
 *
 * It is the ski rental problem with a known distribution. Every gap, when it begins, may be one
 * inside a request (short) or the one after it (long). Holding costs the neighbours the time held;
 * letting go too early costs a release, a switch to a neighbour and back: `switch_cost`. With the
 * gaps seen lately as the distribution, the expected cost of a window w is
 *
 *	C(w) = sum over gaps g <= w of g  +  sum over gaps g > w of (w + switch_cost)
 *
 * and the window is the w that makes it least, over the edges of the histogram up to a bound. So
 * - single bursts, with gaps of 10 ms and more between them, give 0: any w > 0 only adds w to each;
 * - 16 tokens with 0.1 ms between them give 15 gaps of 0.1 ms to one long: a window just above
 *   0.1 ms costs a hundredth of letting go 15 times;
 * - bursts at random times (Poisson) give 0 unless their mean gap is shorter than switch_cost: then
 *   the GPU is hardly ever anybody else's anyway.
 *
 * Gaps under 8 µs are not gaps: a native launch takes 4.5 µs, so that a burst of launches shows
 * them without its ring ever running empty. The histogram has four linear steps an octave, so a
 * window is at most 25 % too long, plus one step of margin. Counts are halved at 128: the memory
 * is of 64 to 128 gaps, a few requests with gaps or a hundred without, whatever their rate.
 */
#ifndef RBT_SCHED_LEARN_H
#define RBT_SCHED_LEARN_H

#include <stdbool.h>
#include <stdint.h>

#define RBT_LEARN_BUCKETS 49 /* 8 µs to 32.8 ms; the last takes all that is longer */

struct rbt_learn {
	uint16_t counts[RBT_LEARN_BUCKETS];
	uint16_t total;
	bool stale;         /* the window must be computed again */
	uint64_t window_ns; /* as of the last computation */
	uint64_t max_ns;    /* its upper bound: longer gaps are between requests */
	uint32_t n_gaps;    /* in the current request */
	/* Smoothed; 0: unknown. Time from the first submission to the last activity (request_ns)
	 * and to the first wait for the device (submit_ns), the mean deviation from request_ns, and
	 * thousandths of gaps per request. */
	uint64_t request_ns, submit_ns, deviation_ns, gaps_milli;
	/* The shortest of the latest 1 to 16 requests, and of the 16 before. */
	uint64_t least_ns[2];
	uint32_t n_requests;
};

/* n gaps of about gap_ns each. */
void rbt_learn_gap(struct rbt_learn *l, uint64_t gap_ns, uint32_t n);
/* A request took took_ns, of which submit_ns before the program waited for the device. */
void rbt_learn_request(struct rbt_learn *l, uint64_t took_ns, uint64_t submit_ns);
/* The window, at most max_ns; max_ns itself while too few gaps are known. */
uint64_t rbt_learn_window(struct rbt_learn *l, uint64_t max_ns, uint64_t switch_cost_ns);

/* The length of the shortest recent request. */
uint64_t rbt_learn_least(const struct rbt_learn *l);
/* Whether enough gaps are known, and a window is worth its cost. */
bool rbt_learn_has_window(const struct rbt_learn *l);
/* Whether at least three in four requests have gaps, as far as is known. */
bool rbt_learn_has_gaps(const struct rbt_learn *l);

#endif
