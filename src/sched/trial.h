/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reserve trial finds out whether a reserve costs the neighbours more than it gives: a few
 * requests run without a reserve, and the two kinds of requests are compared.
 *
 * A reserve gives a request d: the difference between its length without a reserve and with one. It
 * costs the neighbours c: the part of the time by which their pace is lower with reserves than
 * without. Their pace is the number of their submissions from the beginning of one request to the
 * beginning of the next. A millisecond of a latency program counts as much as W = 20 milliseconds
 * of its neighbours, so the reserve is worth its cost if
 *
 *     W * d >= c
 *
 * Both are measured. On an H200, a program that launches 200 tiny kernels per step kept 70 % of its
 * rate beside reserves and 95 % without them, while the requests took 3.9 ms either way. A trainer
 * whose ring is full loses nothing by a reserve: it made 29.0 it/s beside requests with gaps with
 * reserves, and 26.3 without. The margin c / W is limited to 1/16 of a request, because the pace is
 * what the neighbours themselves report: a neighbour must not be able to report a needed reserve
 * away.
 *
 * Lengths vary, and only few requests may be tried, because a program that needs its reserve is
 * late in each of them. So the comparison is by ranks (Mann and Whitney's U, after the margin is
 * subtracted), which outliers cannot distort. It is made after each request of the rarer kind:
 * - The reserve is worth its cost once that is clear (z >= 2.5), which takes three requests without
 *   one if all of them were late. Many are tried only if the reserve makes little difference. The
 *   reserve is also worth its cost if it helps some of the requests: more than n / 3 + 2 of n
 *   requests without one are slower than 7/8 of the others.
 * - The reserve is not worth its cost if all of this holds: its cost is clear (z >= 2 for the
 *   paces, or the requests themselves are faster without it, z <= -2.5); the cost exceeds the gain,
 *   after 16 requests (z <= -1) or after 64 (z <= 0); the mean of the faster 7/8 says the same; and
 *   no more than n / 6 + 1 of n requests without it are slower than 7/8 of the others.
 * - The reserve is kept if 64 requests show neither. 16 are enough if there is little to be said
 *   for a cost (z < 1), or if the cost is not clear and requests seem to be slower without a
 *   reserve (z >= 1). Six are enough if the reserve seems to cost nothing: the neighbours' pace is
 *   no higher without it (z <= 0), and the requests are not faster. (Of requests with gaps beside
 *   ResNet-50 training, on an H200 where lengths vary by half, 61 of the first 250 ran without a
 *   reserve before these rules, and p99 was 1.2 times that of a program alone.)
 * - The reserve is kept without a trial if the neighbours' pace is unknown, because they have no
 *   board, or if requests take less than 1/32 of the time.
 *
 * One request in four is tried. Which one is shuffled, because a program may do something special
 * in every fourth. After a trial there is a pause: 512 requests per tried request, or 64 per tried
 * request if the difference was not clear; at least 2048, and twice as long each time that the
 * verdict is the same. So a program that needs its reserve is late in at most two requests in a
 * thousand. If the reserve is not worth its cost, the next trial is the other way round, with a
 * reserve for one request in four. It begins after 512 requests, or once requests are clearly
 * slower than those with a reserve were.
 *
 * What is learnt holds for one company, the neighbours that are busy, and for its pace. A program
 * that starts up submits little and loses nothing by a reserve; its real work may be launch-bound.
 * So the first requests get reserves until the pace of 16 is that of the 16 before, but no more
 * than 256 of them. A pause ends when the pace doubles or halves. A few companies are remembered.
 * In a new company, the program gets reserves until a trial says otherwise. If the company or its
 * pace changes all the time, 96 requests are tried, and one more for every 128.
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

enum rbt_trial_phase {
	RBT_TRIAL_WARMS_UP, /* until the neighbours' pace is known and steady */
	RBT_TRIAL_TRIES,
	RBT_TRIAL_PAUSES, /* there is a verdict */
};

/* The neighbours' submissions during the latest requests. */
struct rbt_trial_count {
	uint32_t n_requests;
	uint64_t n_submitted, in_us;
};

/* Knowledge about one company. Arrays have one entry per kind of requests; 1: with a reserve. */
struct rbt_trial {
	uint64_t company; /* 0: unused entry */
	uint32_t met;     /* when it was last looked up */
	enum rbt_verdict verdict;
	enum rbt_trial_phase phase;
	uint32_t n_seen; /* requests since the phase began */
	uint32_t pause;  /* requests from the end of the trial to the next one */
	uint32_t margin_us;
	uint32_t cycle_us;  /* time from one request to the next, smoothed */
	uint32_t pace_then; /* the pace that the counted one is compared with */
	struct rbt_trial_count count;
	struct rbt_trial_ring took[2]; /* microseconds */
	struct rbt_trial_ring pace[2]; /* of the neighbours, in submissions per second */
};

/* Knowledge about one program. */
struct rbt_trials {
	struct rbt_trial known[RBT_TRIAL_COMPANIES];
	uint32_t n_met;
	uint32_t n_requests, n_spared; /* limit the number of tried requests */
};

/* The entry of a company, which is not 0. The entry is valid until the next call. */
struct rbt_trial *rbt_trial_meet(struct rbt_trials *ts, uint64_t company);
/* A request begins. Returns whether it gets a reserve. */
bool rbt_trial_choose(struct rbt_trials *ts, struct rbt_trial *t);
/* The request has ended, and took this long. */
void rbt_trial_add(struct rbt_trial *t, bool was_reserved, uint64_t took_ns);
/* The next request begins. The neighbours have submitted n_submitted in the in_ns since the last
 * one began. */
void rbt_trial_pace(struct rbt_trial *t, bool was_reserved, uint64_t n_submitted, uint64_t in_ns);

#endif
