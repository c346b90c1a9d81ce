/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/trial.h"

/* what a latency program's time counts, compared to its neighbours' time */
#define WEIGHT       20
#define MARGIN_SHARE 16 /* the margin is at most this part of a request */
/* no trial if more requests than this would fit between the beginnings of two */
#define CYCLE_MOST     32
#define FEW            6
#define ENOUGH         16
#define SPARED_MAX     96
#define REFILL         128
#define PAUSE_CLEAR    512 /* requests until the next trial, per tried request */
#define PAUSE_UNCLEAR  64
#define PAUSE_WORTH    2048
#define PAUSE_MAX      16384
#define PAUSE_LESS     512
#define PAUSE_LESS_MAX 4096
/* From this part of a pause on, slower requests may end the pause. They are checked every so many
 * requests. */
#define ALARM_SHARE 16
#define ALARM_EVERY 8
#define SMOOTHNESS  8
/* How many requests the pace is counted for, and how many submissions tell two paces apart. */
#define PACE_REQUESTS    16
#define PACE_SUBMISSIONS 32
#define WARM_UP_MOST     256

enum { WITHOUT, WITH };

struct rbt_trial *rbt_trial_meet(struct rbt_trials *ts, uint64_t company)
{
	struct rbt_trial *oldest = &ts->known[0];

	ts->n_met++;
	for (unsigned i = 0; i < RBT_TRIAL_COMPANIES; i++) {
		struct rbt_trial *t = &ts->known[i];

		if (t->company == company) {
			t->met = ts->n_met;
			return t;
		}
		oldest = t->met < oldest->met ? t : oldest;
	}
	*oldest = (struct rbt_trial){.company = company, .met = ts->n_met};
	return oldest;
}

/* Picks one request in four, in varying order. */
static bool is_picked(uint32_t n)
{
	uint32_t hash = (n / 4 + 1) * UINT32_C(2654435761);

	return (hash >> 24 & 3) == n % 4;
}

static void forget(struct rbt_trial *t)
{
	for (unsigned kind = WITHOUT; kind <= WITH; kind++) {
		t->took[kind].n = t->pace[kind].n = 0;
	}
}

static void enter(struct rbt_trial *t, enum rbt_trial_phase phase)
{
	t->phase = phase;
	t->n_seen = 0;
	t->count = (struct rbt_trial_count){0};
	if (phase == RBT_TRIAL_WARMS_UP) {
		forget(t);
	}
}

bool rbt_trial_choose(struct rbt_trials *ts, struct rbt_trial *t)
{
	bool usual = t->verdict != RBT_VERDICT_WORTHLESS;

	if (++ts->n_requests % REFILL == 0) {
		ts->n_spared -= ts->n_spared > 0;
	}
	if (t->phase == RBT_TRIAL_PAUSES && t->n_seen >= t->pause) {
		enter(t, RBT_TRIAL_WARMS_UP);
	}
	uint32_t n = t->n_seen++;
	if (t->phase != RBT_TRIAL_TRIES || !is_picked(n) || (usual && ts->n_spared >= SPARED_MAX)) {
		return usual;
	}
	ts->n_spared += usual;
	return !usual;
}

static void push(struct rbt_trial_ring *ring, uint64_t value)
{
	/* Half of the range stays free for margins. */
	uint32_t most = UINT32_MAX / 2;

	ring->value[ring->n++ % RBT_TRIAL_KEPT] = value < most ? (uint32_t)value : most;
}

/* A ring's values, the smallest first. */
struct sorted {
	unsigned n;
	uint32_t value[RBT_TRIAL_KEPT];
};

/* Sorts the latest `most` entries of a ring. */
static void sort(const struct rbt_trial_ring *ring, unsigned most, struct sorted *ret)
{
	ret->n = ring->n < most ? ring->n : most;
	for (unsigned i = 0; i < ret->n; i++) {
		uint32_t value = ring->value[(ring->n - 1 - i) % RBT_TRIAL_KEPT];
		unsigned k = i;

		for (; k > 0 && ret->value[k - 1] > value; k--) {
			ret->value[k] = ret->value[k - 1];
		}
		ret->value[k] = value;
	}
}

static uint64_t mean_of(const struct sorted *s, unsigned n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++) {
		sum += s->value[i];
	}
	return n > 0 ? sum / n : 0;
}

/* Over all pairs of an `a` and a `b`: the number of pairs in which `a` exceeds `b` by more than the
 * margin, less the number of the others. z^2 is 3 * sum^2 / spread. */
struct ranks {
	int64_t sum, spread;
};

static struct ranks compare(const struct sorted *a, const struct sorted *b, uint32_t margin)
{
	int64_t n = a->n, m = b->n, n_below = 0, n_up_to = 0;
	struct ranks ret = {.spread = n * m * (n + m + 1)};

	for (int64_t i = 0; i < n; i++) {
		while (n_below < m && b->value[n_below] + margin < a->value[i]) {
			n_below++;
		}
		while (n_up_to < m && b->value[n_up_to] + margin <= a->value[i]) {
			n_up_to++;
		}
		ret.sum += n_below - (m - n_up_to);
	}
	return ret;
}

/* Whether z >= halves / 2. */
static bool is_above(struct ranks r, int64_t halves)
{
	return r.sum > 0 && 12 * r.sum * r.sum >= halves * halves * r.spread;
}

/* Returns what a reserve costs the neighbours, in microseconds per request, as far as is known.
 * Also returns how sure that is: the comparison of their paces without a reserve and with one. */
static uint64_t cost_us(const struct rbt_trial *t, struct ranks *ret)
{
	struct sorted without, with;

	sort(&t->pace[WITHOUT], RBT_TRIAL_KEPT, &without);
	sort(&t->pace[WITH], RBT_TRIAL_KEPT, &with);
	uint64_t fast = mean_of(&without, without.n), slow = mean_of(&with, with.n);

	*ret = compare(&without, &with, 0);
	return with.n > 0 && fast > slow ? t->cycle_us * (fast - slow) / fast : 0;
}

/* Counts the entries of `without` that are slower than the slow end of `with`, which must not be
 * empty. */
static unsigned count_slow(const struct sorted *without, const struct sorted *with, uint32_t margin)
{
	uint32_t slow = with->value[with->n - with->n / 8 - 1];
	unsigned n = 0;

	for (unsigned i = 0; i < without->n; i++) {
		n += without->value[i] > slow + margin;
	}
	return n;
}

static bool are_slower(const struct sorted *without, const struct sorted *with, uint32_t margin)
{
	return is_above(compare(without, with, margin), 5) ||
	       (with->n >= ENOUGH && count_slow(without, with, margin) > without->n / 3 + 2);
}

/* Compares by ranks, by the mean of the faster requests (slow ones have waited for something else),
 * and at the slow end. */
static bool are_as_fast(
	const struct sorted *without, const struct sorted *with, uint32_t margin, bool is_last)
{
	struct ranks r = compare(without, with, margin);
	bool seems_so = r.sum <= 0 && (is_last || 3 * r.sum * r.sum >= r.spread); /* z <= -1 */

	return seems_so && count_slow(without, with, margin) <= without->n / 6 + 1 &&
	       mean_of(without, without->n - without->n / 8) <=
		       mean_of(with, with->n - with->n / 8) + margin;
}

static uint32_t mean_pace(const struct rbt_trial_ring *ring)
{
	struct sorted s;

	sort(ring, RBT_TRIAL_KEPT, &s);
	return (uint32_t)mean_of(&s, s.n);
}

static uint32_t at_most(uint32_t value, uint32_t most)
{
	return value < most ? value : most;
}

static void decide(struct rbt_trial *t, enum rbt_verdict verdict, bool was_clear)
{
	bool is_worthless = verdict == RBT_VERDICT_WORTHLESS;
	uint32_t least = is_worthless ? PAUSE_LESS : PAUSE_WORTH;
	uint32_t most = is_worthless ? PAUSE_LESS_MAX : PAUSE_MAX;

	if (!is_worthless && t->verdict != RBT_VERDICT_WORTHLESS) {
		uint32_t tried = (was_clear ? PAUSE_CLEAR : PAUSE_UNCLEAR) * t->took[WITHOUT].n;
		least = tried > least ? tried : least;
	}
	t->pause =
		verdict == t->verdict && t->pause * 2 > least ? at_most(t->pause * 2, most) : least;
	t->verdict = verdict;
	t->pace_then = mean_pace(&t->pace[is_worthless ? WITHOUT : WITH]);
	enter(t, RBT_TRIAL_PAUSES);
}

static void judge(struct rbt_trial *t)
{
	uint32_t n = t->took[WITHOUT].n, m = t->took[WITH].n, n_rarer = n < m ? n : m;
	struct sorted without, with;
	struct ranks cost;

	sort(&t->took[WITHOUT], RBT_TRIAL_KEPT, &without);
	sort(&t->took[WITH], RBT_TRIAL_KEPT, &with);
	uint64_t margin_us = cost_us(t, &cost) / WEIGHT;
	uint64_t most_us = mean_of(&with, with.n) / MARGIN_SHARE;
	t->margin_us = (uint32_t)(margin_us < most_us ? margin_us : most_us);
	/* The reserve may slow the requests themselves down. */
	struct ranks faster = compare(&with, &without, 0);
	bool costs = is_above(cost, 4) || is_above(faster, 5);
	bool leans = is_above(compare(&without, &with, t->margin_us), 2);
	uint32_t most = RBT_TRIAL_KEPT;
	if (cost.sum <= 0 && faster.sum <= 0) {
		most = FEW;
	} else if (!costs && (leans || !(is_above(cost, 2) || is_above(faster, 2)))) {
		most = ENOUGH;
	}
	bool is_last = n_rarer >= most;
	if (are_slower(&without, &with, t->margin_us)) {
		decide(t, RBT_VERDICT_WORTH_IT, true);
	} else if (costs && n_rarer >= ENOUGH &&
		   are_as_fast(&without, &with, t->margin_us, is_last)) {
		decide(t, RBT_VERDICT_WORTHLESS, true);
	} else if (is_last) {
		decide(t, RBT_VERDICT_WORTH_IT, false);
	}
}

/* Between trials: whether requests without a reserve have become slower than those with one
 * were. */
static bool is_alarming(const struct rbt_trial *t)
{
	struct sorted without, with;

	if (t->verdict != RBT_VERDICT_WORTHLESS || t->n_seen < t->pause / ALARM_SHARE ||
		t->took[WITHOUT].n % ALARM_EVERY != 0) {
		return false;
	}
	sort(&t->took[WITHOUT], ENOUGH, &without);
	sort(&t->took[WITH], RBT_TRIAL_KEPT, &with);
	return are_slower(&without, &with, t->margin_us);
}

void rbt_trial_add(struct rbt_trial *t, bool was_reserved, uint64_t took_ns)
{
	bool is_usual = was_reserved == (t->verdict != RBT_VERDICT_WORTHLESS);

	/* During a pause, the requests with a reserve from the last trial stay the basis of the
	 * comparison. */
	if (t->phase == RBT_TRIAL_PAUSES && was_reserved) {
		return;
	}
	push(&t->took[was_reserved], took_ns / 1000);
	if (t->phase == RBT_TRIAL_TRIES && !is_usual) {
		judge(t);
	} else if (t->phase == RBT_TRIAL_PAUSES && is_alarming(t)) {
		enter(t, RBT_TRIAL_WARMS_UP);
	}
}

/* The latest length of a request of that kind, or 0. */
static uint64_t last_us(const struct rbt_trial_ring *ring)
{
	return ring->n > 0 ? ring->value[(ring->n - 1) % RBT_TRIAL_KEPT] : 0;
}

/* Whether a pace differs from the one of a count by a factor of two. */
static bool is_other_pace(const struct rbt_trial_count *count, uint32_t pace)
{
	uint64_t n = count->n_submitted, expected = pace * count->in_us / 1000000;

	return (n >= PACE_SUBMISSIONS && n > 2 * expected) ||
	       (expected >= PACE_SUBMISSIONS && 2 * n < expected);
}

/* Outside of a trial: a warm-up ends when the pace is steady, a pause when it has changed. */
static void check_pace(struct rbt_trial *t)
{
	uint32_t now = (uint32_t)(t->count.n_submitted * 1000000 / t->count.in_us);
	bool is_other = is_other_pace(&t->count, t->pace_then);

	t->count = (struct rbt_trial_count){0};
	if (t->phase == RBT_TRIAL_PAUSES) {
		if (is_other) {
			enter(t, RBT_TRIAL_WARMS_UP);
		}
		return;
	}
	bool is_first = t->n_seen < 2 * PACE_REQUESTS;
	t->pace_then = now;
	if (t->n_seen < WARM_UP_MOST && (is_first || is_other)) {
		forget(t);
	} else {
		enter(t, RBT_TRIAL_TRIES);
	}
}

void rbt_trial_pace(struct rbt_trial *t, bool was_reserved, uint64_t n_submitted, uint64_t in_ns)
{
	uint64_t in_us = in_ns / 1000;

	if (in_us == 0 || in_us > CYCLE_MOST * last_us(&t->took[was_reserved]) ||
		n_submitted > UINT32_MAX) {
		return;
	}
	if (t->phase != RBT_TRIAL_PAUSES) {
		push(&t->pace[was_reserved], n_submitted * 1000000 / in_us);
		t->cycle_us = t->cycle_us == 0 ? (uint32_t)in_us
					       : t->cycle_us - t->cycle_us / SMOOTHNESS +
							 (uint32_t)in_us / SMOOTHNESS;
	}
	if (t->phase != RBT_TRIAL_TRIES) {
		t->count.n_submitted += n_submitted;
		t->count.in_us += in_us;
		if (++t->count.n_requests == PACE_REQUESTS) {
			check_pace(t);
		}
	}
}
