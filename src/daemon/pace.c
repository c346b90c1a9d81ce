/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/pace.h"

#include <stdbool.h>

/* Numbers that differ by less are the same: few submissions come at no regular times. */
#define NOISE 4
/* So many programs cost about as much to look at as one wake-up, and at 10 ms half a per cent of a
 * core. */
#define PER_ROUND 32

/* Whether n is about as many as m would be, had they come in as long a time. */
static bool is_near(double n, double m)
{
	return n <= 2 * m + NOISE && m <= 2 * n + NOISE;
}

static void wait_from(struct pace *p, uint64_t now_ns, uint64_t wait_ns)
{
	p->wait_ns = wait_ns < PACE_MAX_NS ? wait_ns : PACE_MAX_NS;
	p->due_ns = now_ns + p->wait_ns;
}

void pace_told(struct pace *p, uint64_t now_ns, uint64_t n, uint64_t interval_ns)
{
	double expected = p->interval_ns != 0
				  ? (double)p->n * (double)interval_ns / (double)p->interval_ns
				  : 0;
	bool is_steady = p->interval_ns != 0 && interval_ns <= 2 * PACE_MAX_NS &&
			 is_near((double)n, expected);

	p->n = n;
	p->interval_ns = interval_ns;
	wait_from(p, now_ns, is_steady && p->wait_ns != 0 ? 2 * p->wait_ns : PACE_MIN_NS);
}

void pace_silent(struct pace *p, uint64_t now_ns)
{
	if (now_ns >= p->due_ns) {
		wait_from(p, now_ns, p->wait_ns != 0 ? 2 * p->wait_ns : PACE_MIN_NS);
	}
}

uint64_t pace_due(const struct pace *p)
{
	return p->wait_ns < PACE_MAX_NS ? p->due_ns : UINT64_MAX;
}

uint64_t pace_round_ns(uint32_t n)
{
	return PACE_MIN_NS + PACE_MIN_NS / PER_ROUND * n;
}
