/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reserve: while a latency program counts as busy, every program of strictly lower priority is
 * kept off its GPUs. Short slices give the GPU to its first submission at once; the reserve keeps
 * the others from coming back whenever its ring runs empty, which costs 0.3 ms each time. On an
 * H200, requests of 16 synchronised graph replays beside a trainer take 1.66 times as long as alone
 * with short slices only, and 1.05 times with the reserve.
 *
 * When it begins:
 * - With the first submission, if the program has shown gaps inside its requests or keeps
 *   submitting for long: its work on the device may run out at any time.
 * - Otherwise shortly before the program's slice ends. Until then a reserve would only cost the
 *   neighbours: once a program waits for its submissions, the device does not leave them before the
 *   slice ends, and a latency program's slice is long (decide.c).
 *
 * It ends one window after the last activity (learn.h), exactly at the end of announced requests,
 * and after max_reserve_ms in any case.
 *
 * A program whose requests are as fast without a reserve is *spared* one (trial.h). It then counts
 * as busy, and is limited, as if it had one. A program that announces its requests always gets a
 * reserve, because it has asked for one. So does a program on a device without slices, because
 * nothing else lets it in.
 *
 * A device without slices runs everything side by side. There a normal program gets a reserve, too:
 * against lower classes, not against lower priorities of its own class. And a reserve lasts as long
 * as its program is busy, because there is no slice to share by afterwards; until then the guard
 * (guard.c) gives the others their min_share.
 */
#include <stdlib.h>

#include "sched/impl.h"

/* Keeping the others off takes 0.4 ms to have an effect, and 0.4 ms to undo: shorter requests would
 * be over by then. */
#define WORTH_NS UINT64_C(500000)

unsigned rbt_reserve_level(const struct rbt_sched_gpu *gpu)
{
	return gpu->reserve_bits == 0 ? 0 : 31 - (unsigned)__builtin_clz(gpu->reserve_bits);
}

/* Keeping others off needs class latency, or the rights that this class needs. */
static bool has_right(const struct rbt_sched_prog *p)
{
	return rbt_class_of(p->params.priority) == RBT_CLASS_LATENCY || p->params.may_reserve;
}

unsigned rbt_reserve_rank(const struct rbt_sched *s, const struct rbt_sched_prog *p, uint32_t g)
{
	const struct rbt_sched_unit *u = p->unit;

	if (u->has_reserve && has_right(p)) {
		return u->level;
	}
	/* A slice takes no rights either. */
	return s->config.policy->is_strict && p->params.tasks[g].no_slices
		       ? rbt_class_lowest(rbt_class_of(u->priority))
		       : 0;
}

bool rbt_reserve_applies(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	const struct rbt_sched_unit *u = p->unit;
	bool has_rank = false;

	if (u->role != RBT_ROLE_FREE || u->is_blocked || !(p->params.is_known || p->requests > 0)) {
		return false;
	}
	if (u->is_due || u->was_refused) {
		return false; /* the policy has not admitted it */
	}
	for (uint32_t m = p->mask; m != 0; m &= m - 1) {
		has_rank |= rbt_reserve_rank(s, p, rbt_first_bit(m)) > 0;
	}
	return has_rank;
}

/* Returns whether that takes it off. */
static bool update_on(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	bool was_on = u->is_on;

	rbt_unit_update_on(s, u);
	return was_on && !u->is_on;
}

/* Applies the change of a GPU's reserve from one level to another to the units in between. Idle
 * units are left alone: taking them off would only cost time. Returns how many it takes off. */
static unsigned review(
	struct rbt_sched *s, struct rbt_sched_gpu *gpu, unsigned before, unsigned after)
{
	unsigned low = before < after ? before : after, high = before < after ? after : before;
	unsigned n_off = 0;

	for (uint32_t i = 0; i < gpu->n_free; i++) {
		struct rbt_sched_unit *u = gpu->free[i];
		struct rbt_sched_prog *p;

		if (u->level < low || u->level >= high) {
			continue;
		}
		if (after > before) {
			LIST_FOREACH (p, &u->members, member) {
				rbt_busy_check(s, p);
			}
		}
		n_off += update_on(s, u);
	}
	if (gpu->current != NULL && after < before) {
		rbt_turns_let_back(s, gpu->current);
	}
	return n_off + (gpu->current != NULL && update_on(s, gpu->current));
}

static void count(struct rbt_sched *s, struct rbt_sched_prog *p, bool begins)
{
	for (uint32_t m = p->mask; m != 0; m &= m - 1) {
		struct rbt_sched_gpu *gpu = rbt_first_gpu(s, m);
		unsigned before = rbt_reserve_level(gpu);
		unsigned level = rbt_reserve_rank(s, p, rbt_first_bit(m));

		if (level == 0) {
			continue;
		}
		rbt_gpu_settle(s, gpu);
		rbt_count(&gpu->n_reserve[level], 1, begins);
		gpu->reserve_bits &= ~(UINT32_C(1) << level);
		gpu->reserve_bits |= (uint32_t)(gpu->n_reserve[level] > 0) << level;
		if (rbt_reserve_level(gpu) != before) {
			p->stats.displaced += review(s, gpu, before, rbt_reserve_level(gpu));
		}
	}
}

static void reserve(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	p->is_reserving = true;
	p->reserve_ns = s->now_ns;
	p->stats.reserves++;
	count(s, p, true);
}

void rbt_reserve_let_go(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	if (p->is_reserving) {
		p->is_reserving = false;
		p->stats.reserved_ns += s->now_ns - p->reserve_ns;
		count(s, p, false);
	}
}

/* Whether the neighbours can have short slices, which let the program in at once. */
static bool has_slices(const struct rbt_sched_prog *p)
{
	for (uint32_t m = p->mask; m != 0; m &= m - 1) {
		if (p->params.tasks[rbt_first_bit(m)].own_us == RBT_TIMESLICE_OWN) {
			return false;
		}
	}
	return true;
}

/* Whether the unit yields the GPU at once to a newcomer. */
static bool is_short(const struct rbt_sched_unit *u, uint32_t g)
{
	const struct rbt_sched_prog *p;
	bool all_short = true;

	LIST_FOREACH (p, &u->members, member) {
		all_short &= (p->mask >> g & 1) == 0 ||
			     rbt_rule_is_short(p->decision.slice_us[g], p->params.tasks[g].own_us);
	}
	return all_short;
}

/* Whether every unit that may be busy there now has short slices. */
static bool is_among_short(const struct rbt_sched *s, const struct rbt_sched_prog *p, uint32_t g)
{
	const struct rbt_sched_gpu *gpu = &s->gpus[g];

	for (uint32_t i = 0; i < gpu->n_free; i++) {
		const struct rbt_sched_unit *u = gpu->free[i];
		if (u != p->unit && u->is_wanting && !is_short(u, g)) {
			return false;
		}
	}
	return gpu->current == NULL || !gpu->current->is_wanting || is_short(gpu->current, g);
}

/* For how long the program's submissions are not interrupted; it is enough to keep the others off
 * before that ends. But a neighbour at the driver's slice must be kept off at once, or the program
 * would wait for the end of that slice. */
static uint64_t safe_ns(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	bool is_long = p->mask != 0;

	for (uint32_t m = p->mask; m != 0; m &= m - 1) {
		uint32_t g = rbt_first_bit(m);
		is_long = is_long && rbt_prog_is_long(s, p, g) && is_among_short(s, p, g);
	}
	return is_long ? rbt_us(s->config.latency_slice_us) / 10 * 9 : rbt_us(s->config.burst_us);
}

/* Whether the reserve begins before the slice ends: the program has gaps, is known for long bursts,
 * or has no other way to get the GPU. */
static bool begins_at_once(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	uint64_t lasts_ns = p->learn.request_ns, long_ns = rbt_us(s->config.burst_us) + WORTH_NS;

	if (!has_slices(p)) {
		return true;
	}
	/* A program with gaps, after its waits or while it submits, may leave its ring empty. */
	bool has_gaps = (p->window_ns > 0 && rbt_learn_has_gaps(&p->learn)) ||
			(rbt_learn_has_window(&p->flight) && p->learn.submit_ns >= WORTH_NS);
	if (has_gaps && (lasts_ns == 0 || lasts_ns >= WORTH_NS)) {
		return true;
	}
	/* Shorter bursts with pauses do not count: polling would not find their end so soon. */
	return p->learn.submit_ns >= long_ns || lasts_ns >= safe_ns(s, p) + WORTH_NS;
}

/* When the program has used up its reserve time in this busy period. */
static uint64_t limit_at(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	uint32_t own_ms = p->params.limits.max_reserve_ms;
	bool is_limited = p->mask == 0;

	for (uint32_t m = p->mask; m != 0; m &= m - 1) {
		uint32_t g = rbt_first_bit(m);
		is_limited |= !p->params.tasks[g].no_slices && rbt_reserve_rank(s, p, g) > 0;
	}
	return is_limited ? p->reserved_since_ns +
				    rbt_ms(own_ms != 0 ? own_ms : s->config.max_reserve_ms)
			  : RBT_NEVER;
}

/* A request that takes unusually long gets its reserve whatever the verdict. So no trial makes a
 * request much slower, and requests do not pile up. */
static uint64_t spared_for_ns(const struct rbt_learn *l)
{
	return l->request_ns / 2 * 3 + 4 * l->deviation_ns + WORTH_NS;
}

/* The pace is measured from one request to the next, while the company stays the same. */
static void begin_pace(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	p->pace.trial = NULL;
	if (rbt_company_progress(s, p, &p->pace.n_submitted)) {
		p->pace.trial = p->trial;
		p->pace.was_reserved = !p->is_spared;
		p->pace.since_ns = s->now_ns;
	}
}

static void end_pace(struct rbt_sched *s, struct rbt_sched_prog *p, bool is_same)
{
	uint64_t n;

	if (is_same && p->pace.trial == p->trial && rbt_company_progress(s, p, &n) &&
		n >= p->pace.n_submitted) {
		rbt_trial_pace(p->trial, p->pace.was_reserved, n - p->pace.n_submitted,
			s->now_ns - p->pace.since_ns);
	}
}

/* Once per busy period, when the reserve would begin: whether to do without it. */
static void judge(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	uint64_t before = p->company, serial = p->company_serial, company = rbt_company_of(s, p);

	p->is_judged = true;
	p->was_spared = false;
	p->trial = NULL;
	if (company == 0 || !has_slices(p) || !p->params.is_known || s->config.always_reserve) {
		return;
	}
	if (p->trials == NULL) {
		p->trials = calloc(1, sizeof(*p->trials));
	}
	if (p->trials == NULL) {
		return;
	}
	bool is_same = serial == s->serial && company == before;
	struct rbt_trial *trial = rbt_trial_meet(p->trials, company);
	if (rbt_company_is_wanting(s, p)) {
		p->trial = trial;
		end_pace(s, p, is_same);
		p->is_spared = !rbt_trial_choose(p->trials, trial);
		begin_pace(s, p);
	} else {
		p->is_spared = trial->verdict == RBT_VERDICT_WORTHLESS;
		p->pace.trial = NULL;
	}
	p->was_spared = p->is_spared;
	p->spared_ns = p->first_ns + spared_for_ns(&p->learn);
	p->stats.spared += p->is_spared;
}

static void engage(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	if (p->requests > 0) {
		p->is_judged = true;
		p->trial = p->pace.trial = NULL;
	} else if (!p->is_judged) {
		judge(s, p);
	}
	if (p->reserved_since_ns == 0) {
		p->reserved_since_ns = s->now_ns;
	}
	if (!p->is_spared) {
		reserve(s, p);
	}
}

/* The length of a request counts unless the company has changed meanwhile, or the reserve covered
 * only a part of it. */
static void learn_worth(struct rbt_sched *s, struct rbt_sched_prog *p, uint64_t took_ns)
{
	if (p->trial != NULL && !p->has_overstayed && p->company_serial == s->serial) {
		rbt_trial_add(p->trial, !p->was_spared, took_ns);
	}
}

void rbt_reserve_begin(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	if (!rbt_reserve_applies(s, p)) {
		return;
	}
	/* The limit may have changed since; a program that never idles would not notice
	 * otherwise. */
	if (p->has_overstayed && s->now_ns < limit_at(s, p)) {
		p->has_overstayed = false;
		rbt_unit_mark(s, p->unit);
	}
	uint64_t max_ns = rbt_us(s->config.max_hold_us), cost_ns = rbt_us(s->config.switch_cost_us);
	p->window_ns = rbt_learn_window(&p->learn, max_ns, cost_ns);
	p->flight_ns = rbt_learn_window(&p->flight, max_ns, cost_ns);
	p->stats.window_ns = p->window_ns;
	p->engage_ns = s->now_ns;
	if (p->requests == 0 && !begins_at_once(s, p)) {
		p->engage_ns = p->first_ns + rbt_us(s->config.burst_us);
	}
	rbt_reserve_check(s, p);
}

void rbt_reserve_check(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	if (!rbt_reserve_applies(s, p)) {
		return;
	}
	if (p->is_spared && (p->requests > 0 || s->now_ns >= p->spared_ns)) {
		p->is_spared = false;
	}
	if (p->is_reserving || p->is_spared) {
		if (s->now_ns >= limit_at(s, p)) {
			rbt_reserve_let_go(s, p);
			p->has_overstayed = true;
			rbt_unit_mark(s, p->unit);
		}
	} else if (!p->has_overstayed && s->now_ns >= p->engage_ns) {
		uint64_t unsafe_ns = p->first_ns + safe_ns(s, p);
		if (p->requests == 0 && p->waiting && s->now_ns < unsafe_ns) {
			p->engage_ns = unsafe_ns;
		} else {
			engage(s, p);
		}
	}
}

uint64_t rbt_reserve_next(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	if (p->has_overstayed) {
		return RBT_NEVER;
	}
	if (p->is_spared && p->spared_ns < limit_at(s, p)) {
		return p->spared_ns;
	}
	return p->is_reserving || p->is_spared ? limit_at(s, p) : p->engage_ns;
}

void rbt_reserve_end(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	rbt_reserve_let_go(s, p);
	p->reserved_since_ns = 0;
	if (p->was_seen && p->params.is_known) {
		uint64_t took_ns = p->last_ns - p->first_ns;
		rbt_learn_request(
			&p->learn, took_ns, p->submit_ns < took_ns ? p->submit_ns : took_ns);
		learn_worth(s, p, took_ns);
	}
	p->is_judged = p->is_spared = false;
	p->trial = NULL;
	if (p->has_overstayed) {
		p->has_overstayed = false;
		rbt_unit_mark(s, p->unit);
	}
}

enum rbt_unreserved rbt_sched_unreserved(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	const struct rbt_sched_unit *u = p->unit;

	if (u->role != RBT_ROLE_FREE || !u->has_reserve || !has_right(p)) {
		return RBT_UNRESERVED_NOT;
	}
	if (!p->params.is_known && p->requests == 0) {
		return RBT_UNRESERVED_UNSEEN;
	}
	if (p->has_overstayed) {
		return RBT_UNRESERVED_OVERSTAYED;
	}
	/* As of its latest request: the company may have changed since. */
	bool was_tried = p->trials != NULL && !s->config.always_reserve;
	for (unsigned i = 0; was_tried && i < RBT_TRIAL_COMPANIES; i++) {
		const struct rbt_trial *t = &p->trials->known[i];
		if (t->company != 0 && t->company == p->company &&
			t->verdict == RBT_VERDICT_WORTHLESS) {
			return RBT_UNRESERVED_WORTHLESS;
		}
	}
	return RBT_UNRESERVED_NOT;
}
