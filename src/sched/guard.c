/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The starvation guard. With strict priorities, lower ones may get nothing; the guard gives each
 * program its min_share over a window in any case.
 *
 * A unit's debt grows at min_share for as long as something above it is served, and shrinks by the
 * time it gets. When the debt reaches min_share of a whole window, the unit gets a guard turn, in
 * spite of the order and of reserves, until the debt is paid: with its short slice if it has the
 * GPU to itself; beside busy programs with the default slice, for twice as long.
 *
 * A policy that refuses a unit counts as something above it, from the refusal until the unit is
 * admitted. So min_share holds against policies, too. For a unit that takes no turns, all time for
 * which it is kept off counts, whatever the reason.
 *
 * Only known programs count as something above: beside a busy program without a board, the device
 * shares by slice as it does without Rubato.
 *
 * The guard checks debts eight times per window, and only while a unit is kept waiting. Each check
 * serves one unit per GPU, the one with the largest debt. So the guard takes at most 8 x min_share,
 * however many units there are.
 */
#include "sched/impl.h"

#define CHECKS_PER_WINDOW 8
#define MAX_TURN_FACTOR   2 /* times the debt that starts a guard turn */

static uint64_t window_ns(const struct rbt_sched *s)
{
	return rbt_ms(s->config.share_window_ms);
}

static uint64_t share_of(const struct rbt_sched_unit *u, uint64_t ns)
{
	return ns / 1000 * u->min_share_permille;
}

unsigned rbt_guard_top(const struct rbt_sched_gpu *gpu)
{
	uint32_t bits = gpu->reserve_bits | gpu->busy_bits;
	const struct rbt_sched_unit *u = gpu->current;

	/* A current unit counts also while a reserve keeps it off: if the reserve is on another of
	 * its GPUs, the unit is all that those below it wait for on this one. */
	if (u != NULL && u->is_wanting && !u->is_guarded) {
		bits |= UINT32_C(1) << u->level;
	}
	return bits == 0 ? 0 : 31 - (unsigned)__builtin_clz(bits);
}

void rbt_guard_enter(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	u->seen_at_ns = s->now_ns;
	u->seen_served_ns = u->served_ns;
	u->seen_off_ns = u->off_ns;
	u->seen_denied_ns = u->denied_ns;
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		u->seen_above_ns[rbt_first_bit(m)] = rbt_first_gpu(s, m)->above_ns[u->level];
	}
}

static bool is_anybody_waiting(const struct rbt_sched_gpu *gpu)
{
	return (gpu->wanting_bits & ((UINT32_C(1) << rbt_guard_top(gpu)) - 1)) != 0;
}

void rbt_guard_arm(struct rbt_sched *s)
{
	uint32_t touched = s->touched;

	s->touched = 0;
	if (s->guard_timer.node.pos != 0 || s->n_shares == 0) {
		return;
	}
	for (uint32_t m = touched; m != 0; m &= m - 1) {
		if (s->n_refused > 0 || is_anybody_waiting(rbt_first_gpu(s, m))) {
			rbt_timer_set(
				s, &s->guard_timer, s->now_ns + window_ns(s) / CHECKS_PER_WINDOW);
			return;
		}
	}
}

/* The unit's debt now. */
static uint64_t debt_of(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	uint64_t passed_ns = s->now_ns - u->seen_at_ns, above_ns = 0, owed_ns, got_ns;

	rbt_unit_settle(s, u);
	if (u->role == RBT_ROLE_FREE) {
		/* The unit was runnable whenever it was not kept off; nothing else is known. */
		uint64_t off_ns = u->off_ns - u->seen_off_ns;
		owed_ns = share_of(u, passed_ns);
		got_ns = passed_ns - (off_ns < passed_ns ? off_ns : passed_ns);
	} else {
		for (uint32_t m = u->mask; m != 0; m &= m - 1) {
			uint64_t here_ns = rbt_first_gpu(s, m)->above_ns[u->level] -
					   u->seen_above_ns[rbt_first_bit(m)];
			above_ns = here_ns > above_ns ? here_ns : above_ns;
		}
		/* Both may have been at the same time. */
		above_ns += u->denied_ns - u->seen_denied_ns;
		owed_ns = share_of(u, above_ns < passed_ns ? above_ns : passed_ns);
		got_ns = u->served_ns - u->seen_served_ns;
	}
	if (owed_ns <= got_ns || !u->is_wanting) {
		rbt_guard_enter(s, u);
		return 0;
	}
	return owed_ns - got_ns;
}

/* Beside such a unit no program has a long slice (decide.c): otherwise the unit would get a sixth
 * of the GPU instead of half. */
static void set_long(struct rbt_sched *s, struct rbt_sched_unit *u, bool is_long)
{
	if (is_long == u->guard_is_long) {
		return;
	}
	u->guard_is_long = is_long;
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		struct rbt_sched_gpu *gpu = rbt_first_gpu(s, m);

		rbt_count(&gpu->n_guard_long, 1, is_long);
		for (uint32_t i = 0; i < gpu->n_free; i++) {
			rbt_unit_mark(s, gpu->free[i]);
		}
	}
}

static void begin(struct rbt_sched *s, struct rbt_sched_unit *u, uint64_t debt_ns)
{
	uint64_t most_ns = MAX_TURN_FACTOR * share_of(u, window_ns(s));
	uint32_t n_busy = 0;
	bool is_reserved = false;
	struct rbt_sched_prog *p;

	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		const struct rbt_sched_gpu *gpu = rbt_first_gpu(s, m);
		n_busy = gpu->n_busy_all > n_busy ? gpu->n_busy_all : n_busy;
		is_reserved |= rbt_reserve_level(gpu) > u->level;
	}
	u->is_guarded = true;
	set_long(s, u, n_busy > 0 || is_reserved);
	u->guard_ns = (debt_ns < most_ns ? debt_ns : most_ns) * (n_busy + 1);
	LIST_FOREACH (p, &u->members, member) {
		p->stats.guard_turns++;
	}
	rbt_unit_mark(s, u);
	if (u->is_current || u->role == RBT_ROLE_FREE) {
		u->left_ns = u->guard_ns;
	}
	rbt_unit_update_on(s, u);
	if (u->role == RBT_ROLE_TURN) {
		rbt_turns_update(s, u);
	} else {
		rbt_turns_arm(s, u);
	}
}

void rbt_guard_end(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	if (!u->is_guarded) {
		return;
	}
	rbt_unit_settle(s, u);
	u->is_guarded = false;
	set_long(s, u, false);
	rbt_unit_mark(s, u);
	rbt_unit_update_on(s, u);
	if (u->role == RBT_ROLE_TURN) {
		rbt_turns_update(s, u);
	}
}

void rbt_guard_scan(struct rbt_sched *s)
{
	struct rbt_sched_unit *most[RBT_MAX_GPUS] = {NULL}, *u;
	uint64_t debts_ns[RBT_MAX_GPUS] = {0};
	uint32_t taken = 0;

	LIST_FOREACH (u, &s->units, entries) {
		if (u->role == RBT_ROLE_NONE) {
			continue;
		}
		uint64_t debt_ns = debt_of(s, u);
		uint32_t g = rbt_first_bit(u->mask);
		taken |= u->is_guarded ? u->mask : 0;
		if (u->can_suspend && debt_ns > debts_ns[g] &&
			debt_ns >= share_of(u, window_ns(s))) {
			most[g] = u;
			debts_ns[g] = debt_ns;
		}
	}
	for (uint32_t g = 0; g < RBT_MAX_GPUS; g++) {
		if (most[g] != NULL && (most[g]->mask & taken) == 0) {
			taken |= most[g]->mask;
			begin(s, most[g], debts_ns[g]);
		}
	}
	s->touched = UINT32_MAX; /* check again if a unit still waits */
}
