/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units: the sum of their members, whether they want the GPU, and whether they are on it. NCCL
 * peers spin for a rank that is kept off, so the ranks of a group are one unit: on or off together,
 * on all their GPUs.
 */
#include <string.h>

#include "sched/impl.h"

unsigned rbt_prog_priority(const struct rbt_sched_prog *p)
{
	unsigned highest_normal = RBT_PRIORITY_MAX;

	while (rbt_class_of(highest_normal) == RBT_CLASS_LATENCY) {
		highest_normal--;
	}
	return p->is_admitted || p->params.priority <= highest_normal ? p->params.priority
								      : highest_normal;
}

void rbt_timer_set(struct rbt_sched *s, struct rbt_timer *timer, uint64_t at_ns)
{
	if (at_ns == RBT_NEVER) {
		rbt_heap_remove(&s->timers, &timer->node);
	} else if (timer->node.pos == 0) {
		timer->node.major = at_ns;
		rbt_heap_push(&s->timers, &timer->node);
	} else if (timer->node.major != at_ns) {
		timer->node.major = at_ns;
		rbt_heap_update(&s->timers, &timer->node);
	}
}

void rbt_unit_mark(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	if (!u->is_dirty) {
		u->is_dirty = true;
		LIST_INSERT_HEAD(&s->dirty, u, dirty);
	}
}

/* How much GPU time `dt_ns` of the unit's turn was worth. A short slice beside a busy program at
 * the driver's slice is worth nothing. Programs of unknown activity do not count as busy. */
static uint64_t worth(struct rbt_sched *s, const struct rbt_sched_unit *u, uint64_t dt_ns)
{
	uint32_t n = 0;

	if (u->role == RBT_ROLE_FREE) {
		return dt_ns;
	}
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		const struct rbt_sched_gpu *gpu = rbt_first_gpu(s, m);
		n = gpu->n_busy_all > n ? gpu->n_busy_all : n;
	}
	return n > 0 && !u->guard_is_long ? 0 : dt_ns / (n + 1);
}

static void charge(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	uint64_t dt_ns = s->now_ns - u->charged_ns;
	struct rbt_sched_prog *p;

	u->charged_ns = s->now_ns;
	if (dt_ns == 0 || u->role == RBT_ROLE_NONE || !u->is_wanting) {
		return;
	}
	LIST_FOREACH (p, &u->members, member) {
		p->stats.on_ns += u->is_on ? dt_ns : 0;
		p->stats.kept_off_ns += u->is_on ? 0 : dt_ns;
	}
	if (!u->is_on) {
		u->off_ns += dt_ns;
		u->denied_ns += u->was_refused ? dt_ns : 0;
		return;
	}
	u->served_ns += worth(s, u, dt_ns);
	/* The timer may come late, and other events may cancel it: then no other code would end the
	 * turn. */
	if (u->is_current && u->left_ns > 0 && dt_ns >= u->left_ns) {
		u->is_over = true;
		s->resched |= u->mask;
	}
	u->left_ns -= dt_ns < u->left_ns ? dt_ns : u->left_ns;
	if (u->role == RBT_ROLE_TURN) {
		rbt_fair_charge(s, u, dt_ns);
	}
}

/* Whether a program has the GPU, as far as is known. */
static bool is_in_use(const struct rbt_sched_gpu *gpu)
{
	const struct rbt_sched_unit *u = gpu->current;

	return (gpu->reserve_bits | gpu->busy_bits) != 0 ||
	       (u != NULL && u->is_on && u->is_wanting);
}

void rbt_gpu_settle(struct rbt_sched *s, struct rbt_sched_gpu *gpu)
{
	uint64_t dt_ns = s->now_ns - gpu->settled_ns;
	unsigned top = rbt_guard_top(gpu);

	s->touched |= UINT32_C(1) << (gpu - s->gpus);
	if (dt_ns == 0) {
		return;
	}
	if (is_in_use(gpu)) {
		rbt_load_add(gpu, gpu->settled_ns, s->now_ns);
	}
	gpu->settled_ns = s->now_ns;
	for (unsigned level = 0; level < top; level++) {
		gpu->above_ns[level] += dt_ns;
	}
	if (gpu->current != NULL) {
		charge(s, gpu->current);
	}
}

void rbt_unit_settle(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		rbt_gpu_settle(s, rbt_first_gpu(s, m));
	}
	charge(s, u);
}

static void set_bit(uint32_t *bits, unsigned level, bool on)
{
	*bits = (*bits & ~(UINT32_C(1) << level)) | (uint32_t)on << level;
}

static void count_wanting(struct rbt_sched *s, const struct rbt_sched_unit *u, bool begins)
{
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		struct rbt_sched_gpu *gpu = rbt_first_gpu(s, m);

		rbt_count(&gpu->n_wanting[u->level], 1, begins);
		set_bit(&gpu->wanting_bits, u->level, gpu->n_wanting[u->level] > 0);
	}
}

/* Keeps the GPUs' count of free units that are certainly busy. */
static void update_busy(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	struct rbt_sched_prog *p;
	bool is_busy = false;

	LIST_FOREACH (p, &u->members, member) {
		is_busy |= p->busy;
	}
	is_busy &= u->role == RBT_ROLE_FREE && u->is_on && u->is_wanting;
	if (is_busy == u->is_counted_busy) {
		return;
	}
	rbt_unit_settle(s, u);
	u->is_counted_busy = is_busy;
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		struct rbt_sched_gpu *gpu = rbt_first_gpu(s, m);

		rbt_count(&gpu->n_busy[u->level], 1, is_busy);
		rbt_count(&gpu->n_busy_all, 1, is_busy);
		set_bit(&gpu->busy_bits, u->level, gpu->n_busy[u->level] > 0);
	}
}

static bool is_kept_off(struct rbt_sched *s, const struct rbt_sched_unit *u)
{
	unsigned level = 0;

	if (!u->can_suspend || !u->is_wanting || u->is_guarded) {
		return false;
	}
	if (u->role == RBT_ROLE_FREE && u->is_refused) {
		return true;
	}
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		unsigned here = rbt_reserve_level(rbt_first_gpu(s, m));
		level = here > level ? here : level;
	}
	return level > u->level;
}

/* An idle unit out of turn is off, so that its next submission does not run at a short slice beside
 * the current unit's. Without slices it is on: its submissions then start at once, and only the
 * current unit is taken off for it. */
void rbt_unit_update_on(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	bool has_place =
		u->role == RBT_ROLE_FREE || u->is_current || (u->no_slices && !u->is_wanting);
	bool is_on = u->role != RBT_ROLE_NONE && !u->is_blocked && has_place && !is_kept_off(s, u);

	if (is_on != u->is_on) {
		rbt_unit_settle(s, u);
		u->is_on = is_on;
		u->on_since_ns = s->now_ns;
		rbt_unit_mark(s, u);
		update_busy(s, u);
		rbt_turns_arm(s, u);
	}
}

static bool is_wanting(struct rbt_sched *s, const struct rbt_sched_unit *u)
{
	const struct rbt_sched_prog *p;
	bool any = u->is_probing;

	LIST_FOREACH (p, &u->members, member) {
		any |= rbt_prog_is_wanting(s, p);
	}
	return u->role != RBT_ROLE_NONE && !u->is_blocked && any;
}

/* The unit begins to want the GPU. */
static void begin_wanting(struct rbt_sched *s, struct rbt_sched_unit *u, bool is_new)
{
	if (u->role == RBT_ROLE_TURN) {
		rbt_fair_join(s, u, is_new);
		if (u->is_current) {
			u->left_ns = rbt_turn_ns(s, u);
			u->on_since_ns = s->now_ns;
			u->is_unasked = true;
		}
	}
	rbt_ask_begin(s, u);
	u->is_wanting = true;
	count_wanting(s, u, true);
}

static void end_wanting(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	rbt_guard_end(s, u);
	rbt_ask_forget(s, u);
	u->is_stuck = false;
	u->is_forced = false;
	u->is_wanting = false;
	u->wanted_ns = s->now_ns;
	count_wanting(s, u, false);
}

void rbt_unit_update_wanting(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	bool wants = is_wanting(s, u);

	if (wants == u->is_wanting) {
		update_busy(s, u);
		return;
	}
	rbt_unit_settle(s, u);
	if (wants) {
		u->order = ++s->next_order;
		begin_wanting(s, u, false);
	} else {
		end_wanting(s, u);
	}
	rbt_unit_update_on(s, u);
	update_busy(s, u);
	if (u->role == RBT_ROLE_TURN) {
		rbt_turns_update(s, u);
	}
}

static uint32_t min_share_of(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	uint32_t own = p->params.limits.min_share_permille;

	return own == RBT_SHARE_NONE ? 0 : own != 0 ? own : s->config.min_share_permille;
}

static bool has_no_slices(const struct rbt_sched_prog *p)
{
	bool is_true = true;

	for (uint32_t m = p->mask; m != 0; m &= m - 1) {
		is_true &= p->params.tasks[rbt_first_bit(m)].no_slices;
	}
	return is_true;
}

/* Derives the unit's properties from its members. */
static void sum_up(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	const struct rbt_sched_policy *policy = s->config.policy;
	const struct rbt_sched_prog *p;

	u->mask = 0;
	u->priority = RBT_PRIORITY_MAX;
	u->weight = RBT_WEIGHT_MAX;
	u->min_share_permille = 0;
	u->turn_ns = 0;
	u->can_suspend = true;
	u->no_slices = true;
	u->is_blocked = false;
	LIST_FOREACH (p, &u->members, member) {
		u->mask |= p->mask;
		u->no_slices &= has_no_slices(p);
		uint64_t turn_ns = p->params.timeslice_us * UINT64_C(1000);
		u->turn_ns = turn_ns > u->turn_ns ? turn_ns : u->turn_ns;
		u->priority =
			rbt_prog_priority(p) < u->priority ? rbt_prog_priority(p) : u->priority;
		u->weight = p->params.weight < u->weight ? p->params.weight : u->weight;
		u->can_suspend &= !p->params.cannot_suspend;
		uint32_t share = min_share_of(s, p);
		u->min_share_permille =
			share > u->min_share_permille ? share : u->min_share_permille;
		u->is_blocked |= p->params.suspended;
	}
	if (!u->no_slices || u->turn_ns < rbt_us(RBT_TURN_MIN_US)) {
		u->turn_ns = 0;
	}
	enum rbt_class cls = rbt_class_of(u->priority);
	bool is_timed_normal = u->turn_ns != 0 && cls == RBT_CLASS_NORMAL;
	enum rbt_role role = policy->role(policy->ctx, u->priority);
	u->level = policy->is_strict ? u->priority : 0;
	u->has_reserve = role == RBT_ROLE_RESERVE;
	u->role = RBT_ROLE_FREE;
	if (u->mask == 0) {
		u->role = RBT_ROLE_NONE;
	} else if ((role == RBT_ROLE_TURN || is_timed_normal) && u->can_suspend) {
		u->role = RBT_ROLE_TURN;
		/* Normal programs are equals, unless the policy says otherwise. */
		if (is_timed_normal && policy->is_strict && !u->has_reserve) {
			u->level = rbt_class_lowest(cls);
		}
	}
}

static void list_free(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		struct rbt_sched_gpu *gpu = rbt_first_gpu(s, m);

		gpu->free[gpu->n_free++] = u;
		u->free_pos[rbt_first_bit(m)] = gpu->n_free;
	}
}

static void unlist_free(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		struct rbt_sched_gpu *gpu = rbt_first_gpu(s, m);
		uint32_t g = rbt_first_bit(m);
		struct rbt_sched_unit *last = gpu->free[--gpu->n_free];

		gpu->free[u->free_pos[g] - 1] = last;
		last->free_pos[g] = u->free_pos[g];
		u->free_pos[g] = 0;
	}
}

/* A wish of one program may change the decision for all others on the GPU. */
static void count_one(
	struct rbt_sched *s, const struct rbt_sched_prog *p, struct rbt_sched_gpu *gpu, bool begins)
{
	uint32_t g = (uint32_t)(gpu - s->gpus), n = rbt_prog_short_tasks(p, g);
	uint64_t copies = rbt_prog_short_copies(p, g);
	struct rbt_sched_unit *u;

	if (n == 0) {
		return;
	}
	rbt_count(&gpu->n_short, n, begins);
	rbt_rule_count(&gpu->tally, p->params.tasks[g].compute_runlists, begins);
	if (copies != 0) {
		rbt_rule_count(&gpu->tally, copies, begins);
	}
	LIST_FOREACH (u, &s->units, entries) {
		if (u->role != RBT_ROLE_NONE && (u->mask >> g & 1) != 0) {
			rbt_unit_mark(s, u);
		}
	}
}

/* Counts wishes for short slices. */
static void count_short(struct rbt_sched *s, struct rbt_sched_unit *u, bool begins)
{
	const struct rbt_sched_prog *p;

	LIST_FOREACH (p, &u->members, member) {
		for (uint32_t m = p->mask; m != 0; m &= m - 1) {
			count_one(s, p, rbt_first_gpu(s, m), begins);
		}
	}
}

void rbt_unit_enter(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	uint32_t mask_before = u->mask;
	unsigned level_before = u->level;
	struct rbt_sched_prog *p;

	s->serial++;
	sum_up(s, u);
	rbt_unit_mark(s, u);
	if (u->role == RBT_ROLE_NONE) {
		return;
	}
	if (u->mask != mask_before || u->level != level_before) {
		/* Clocks of other GPUs or levels differ, so virtual time starts anew there. On a
		 * GPU that it keeps, the unit keeps its time: otherwise a program that makes and
		 * frees a task elsewhere would always be first. */
		uint32_t fresh = u->level != level_before ? UINT32_MAX : u->mask & ~mask_before;

		for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
			if (fresh >> gpu & 1) {
				u->vtime_ns[gpu] = 0;
			}
		}
		rbt_unit_settle(s, u);
		rbt_guard_enter(s, u);
	}
	rbt_unit_settle(s, u);
	s->n_shares += u->min_share_permille > 0;
	if (is_wanting(s, u)) {
		/* A unit that is only changed keeps its place in the order of arrival. */
		u->order = u->was_wanting ? u->order : ++s->next_order;
		begin_wanting(s, u, true);
	}
	count_short(s, u, true);
	rbt_load_count(s, u, true);
	if (u->role == RBT_ROLE_FREE) {
		list_free(s, u);
	} else if (!u->is_blocked) {
		rbt_turns_enter(s, u);
	}
	rbt_unit_update_on(s, u);
	LIST_FOREACH (p, &u->members, member) {
		if (p->busy) {
			rbt_reserve_begin(s, p);
		}
	}
	rbt_turns_arm(s, u);
}

void rbt_unit_leave(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	struct rbt_sched_prog *p;

	if (u->role == RBT_ROLE_NONE) {
		return;
	}
	s->serial++;
	rbt_ask_drop(u);
	rbt_unit_settle(s, u);
	s->n_shares -= u->min_share_permille > 0;
	LIST_FOREACH (p, &u->members, member) {
		rbt_reserve_let_go(s, p);
	}
	u->was_wanting = u->is_wanting;
	if (u->is_wanting) {
		end_wanting(s, u);
	}
	if (u->role == RBT_ROLE_FREE) {
		unlist_free(s, u);
	} else {
		rbt_turns_leave(s, u);
	}
	update_busy(s, u);
	count_short(s, u, false);
	rbt_load_count(s, u, false);
	rbt_timer_set(s, &u->timer, RBT_NEVER);
	LIST_FOREACH (p, &u->members, member) {
		rbt_timer_set(s, &p->check, RBT_NEVER);
	}
	u->role = RBT_ROLE_NONE;
	u->is_on = false;
}
