/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a reserve costs the neighbours more than it gives, found out by trial: a few requests
 * run without one, and the two kinds are compared.
 *
 * A reserve gives a request the difference d between its length without one and with one. It costs
 * the neighbours c: their pace, which is what they submit from the beginning of a request to the
 * beginning of the next, is lower by a share of that time. A millisecond of a latency program
 * counts as much as W = 20 of its neighbours, so that the reserve is worth it if
 *
 *	W * d >= c
 *
 * Both are measured. On an H200, a program that launches 200 tiny kernels a step kept 70 % of its
 * rate beside reserves and 95 % by default, while the requests took 3.9 ms either way. A trainer
 * whose ring is full loses nothing by a reserve: it made 29.0 it/s beside requests with gaps, and
 * 26.3 without. The margin c / W is limited to 1/16 of a request, because a neighbour's pace is
 * what the neighbour says: it cannot talk a reserve away that is needed.
 *
 * Lengths vary, and few requests may be tried, because each one of a program that needs the
 * reserve is late without it. So the comparison is by ranks (Mann and Whitney's U, after the
 * margin is taken off), which no outlier can upset, and it is made after each request of the
 * rarer kind:
 * - The reserve is worth it once that is clear (z >= 2.5): after three requests without one, if all
 *   of them were late. Many are tried only if it makes little difference to them. It is worth it,
 *   too, if it helps a part of them: more than n / 3 + 2 of n without one are slower than 7/8 of
 *   the others.
 * - It is not worth it if its cost is clear (z >= 2 for the paces; or the requests themselves are
 *   faster without it, z <= -2.5), and if that is more than it gives, after 16 requests (z <= -1)
 *   or after 64 (z <= 0); if the mean of the faster 7/8 says the same; and if no more than
 *   n / 6 + 1 of n are slower than 7/8 of the others.
 * - It is kept if 64 requests tell neither. 16 are enough if its cost is not clear and requests
 *   seem to be slower without it (z >= 1). Six are enough if it seems to cost nobody anything: the
 *   neighbours' pace is no higher without it (z <= 0), nor are the requests faster. (Of requests
 *   with gaps beside ResNet-50 training, on an H200 where lengths vary by half, 61 of the first
 *   250 ran without a reserve before this rule, and p99 was 1.2 times that of a program alone.)
 * It is kept without a trial where the neighbours' pace is not known, because they have no board,
 * and where requests take less than 1/32 of the time.
 *
 * Which requests are tried, one in four, is shuffled: a program may do something else in every
 * fourth. The next trial comes after 512 requests for each that was tried, or after 64 for each
 * if the difference was not clear; after 2048 at least, and twice as late each time that the
 * verdict is the same. So of a program that needs its reserve two requests in a thousand are late
 * at most. A program whose reserve is not worth it is tried the other way round, one request in
 * four with a reserve, after 512 requests, or once its requests are clearly slower than those
 * with a reserve were.
 *
 * What is known belongs to a company: the neighbours that are at work. A few companies are
 * remembered. For one that is new, the program is reserved for until the trial says otherwise.
 * While companies change all the time, 96 requests are tried, and one more for every 128.
 */
#ifndef RBT_SCHED_TRIAL_H
#define RBT_SCHED_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#define RBT_TRIAL_COMPANIES 4
#define RBT_TRIAL_KEPT      64

enum rbt_verdict {
	RBT_VERDICT_NONE, /* no verdict yet: the program gets reserves */
	RBT_VERDICT_WORTH_IT,
	RBT_VERDICT_WORTHLESS,
};

/* A ring of the latest measurements. */
struct rbt_trial_ring {
	uint32_t n; /* number of all measurements so far */
	uint32_t value[RBT_TRIAL_KEPT];
};

/* Knowledge about one company. Arrays have one entry per kind of requests; 1: with a reserve. */
struct rbt_trial {
	uint64_t company; /* 0: unused entry */
	uint32_t met;     /* when it was last looked up */
	enum rbt_verdict verdict;
	bool is_over;
	uint32_t n_seen; /* requests since the trial began or ended */
	uint32_t pause;  /* requests from the end of the trial to the next one */
	uint32_t margin_us;
	uint32_t cycle_us;             /* time from one request to the next, smoothed */
	struct rbt_trial_ring took[2]; /* microseconds */
	struct rbt_trial_ring pace[2]; /* of the neighbours, in submissions per second */
};

/* Knowledge about one program. */
struct rbt_trials {
	struct rbt_trial known[RBT_TRIAL_COMPANIES];
	uint32_t n_met;
	uint32_t n_requests, n_spared; /* for the limit on trials */
};

/* The entry of a company, which is not 0. The entry is valid until the next call. */
struct rbt_trial *rbt_trial_meet(struct rbt_trials *ts, uint64_t company);
/* A request begins. Returns whether it gets a reserve. */
bool rbt_trial_choose(struct rbt_trials *ts, struct rbt_trial *t);
/* The request has ended, and took this long. */
void rbt_trial_add(struct rbt_trial *t, bool was_reserved, uint64_t took_ns);
/* The next request begins. The neighbours have submitted so much since the last one began. */
void rbt_trial_pace(struct rbt_trial *t, bool was_reserved, uint64_t n_submitted, uint64_t in_ns);

#endif
