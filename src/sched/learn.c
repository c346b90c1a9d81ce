/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/learn.h"

#define STEP_NS    2000u /* width of the steps in the first octave, which begins at 4 steps */
#define TOTAL_MAX  128u
#define TOTAL_FEW  4u
#define SMOOTHNESS 8
#define LEAST_OF   16u

/* The upper edge of a bucket. */
static uint64_t edge_ns(unsigned bucket)
{
	unsigned next = bucket + 1;

	return (uint64_t)(4 + next % 4) * STEP_NS << (next / 4);
}

/* gap_ns must be long enough to count as a gap. */
static unsigned bucket_of(uint64_t gap_ns)
{
	uint64_t steps = gap_ns / STEP_NS;
	unsigned octave = 61 - (unsigned)__builtin_clzll(steps);
	unsigned bucket = octave * 4 + (unsigned)(steps >> octave & 3);

	return bucket < RBT_LEARN_BUCKETS ? bucket : RBT_LEARN_BUCKETS - 1;
}

static void halve(struct rbt_learn *l)
{
	l->total = 0;
	for (unsigned i = 0; i < RBT_LEARN_BUCKETS; i++) {
		l->counts[i] /= 2;
		l->total = (uint16_t)(l->total + l->counts[i]);
	}
}

void rbt_learn_gap(struct rbt_learn *l, uint64_t gap_ns, uint32_t n)
{
	if (gap_ns / STEP_NS < 4 || n == 0) {
		return;
	}
	/* One report, however large, must not replace all that was learnt before. */
	n = n < TOTAL_MAX / 4 ? n : TOTAL_MAX / 4;
	if (l->total + n > TOTAL_MAX) {
		halve(l);
	}
	l->n_gaps += gap_ns <= l->max_ns ? n : 0;
	unsigned bucket = bucket_of(gap_ns);
	l->counts[bucket] = (uint16_t)(l->counts[bucket] + n);
	l->total = (uint16_t)(l->total + n);
	l->stale = true;
}

static void smooth(uint64_t *mean, uint64_t value)
{
	if (*mean == 0) {
		*mean = value + 1;
	} else if (value > *mean) {
		*mean += (value - *mean) / SMOOTHNESS;
	} else {
		*mean -= (*mean - value) / SMOOTHNESS;
	}
}

void rbt_learn_request(struct rbt_learn *l, uint64_t took_ns, uint64_t submit_ns)
{
	uint64_t mean_ns = l->request_ns != 0 ? l->request_ns : took_ns;

	smooth(&l->deviation_ns, took_ns > mean_ns ? took_ns - mean_ns : mean_ns - took_ns);
	smooth(&l->request_ns, took_ns);
	smooth(&l->submit_ns, submit_ns);
	if (l->n_requests++ % LEAST_OF == 0) {
		l->least_ns[1] = l->n_requests > 1 ? l->least_ns[0] : took_ns;
		l->least_ns[0] = took_ns;
	}
	l->least_ns[0] = took_ns < l->least_ns[0] ? took_ns : l->least_ns[0];
	smooth(&l->gaps_milli, UINT64_C(1000) * l->n_gaps);
	l->n_gaps = 0;
}

uint64_t rbt_learn_least(const struct rbt_learn *l)
{
	return l->least_ns[0] < l->least_ns[1] ? l->least_ns[0] : l->least_ns[1];
}

bool rbt_learn_has_window(const struct rbt_learn *l)
{
	return l->total >= TOTAL_FEW && l->window_ns > 0;
}

bool rbt_learn_has_gaps(const struct rbt_learn *l)
{
	return l->gaps_milli == 0 || l->gaps_milli >= 750;
}

static uint64_t best_window(const struct rbt_learn *l, uint64_t max_ns, uint64_t switch_cost_ns)
{
	uint64_t least = l->total * switch_cost_ns, covered_ns = 0, best_ns = 0;
	uint64_t beyond = l->total;

	for (unsigned i = 0; i < RBT_LEARN_BUCKETS - 1 && edge_ns(i) <= max_ns; i++) {
		covered_ns += l->counts[i] * edge_ns(i);
		beyond -= l->counts[i];
		uint64_t cost = covered_ns + beyond * (edge_ns(i) + switch_cost_ns);
		if (cost < least) {
			least = cost;
			best_ns = edge_ns(i + 1); /* one step of margin */
		}
	}
	return best_ns < max_ns ? best_ns : max_ns;
}

uint64_t rbt_learn_window(struct rbt_learn *l, uint64_t max_ns, uint64_t switch_cost_ns)
{
	l->max_ns = max_ns;
	if (l->total < TOTAL_FEW) {
		return max_ns;
	}
	if (l->stale) {
		l->window_ns = best_window(l, max_ns, switch_cost_ns);
		l->stale = false;
	}
	return l->window_ns < max_ns ? l->window_ns : max_ns;
}
