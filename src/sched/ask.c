/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the policy: whether a unit may run (ops.admit).
 *
 * A unit that takes turns is asked about before its turn begins or goes on (turns.c). If it is
 * refused, it leaves the order of turns until it is asked about again.
 *
 * A unit that takes no turns (role FREE) is asked about when it begins to want the GPU, and about
 * ten times per second while it does. If it is refused, it is kept off, and has no reserve. Its
 * questions come at common times, so that many units cost one wake-up.
 *
 * An answer counts for 10 ms, whatever happens to the unit meanwhile: the answer may have changed
 * the unit's parameters, and that must not lead to the next question at once. A refused unit is
 * asked about again at least every 100 ms, and as soon as the number of programs of a class on one
 * of its GPUs changes. Guard turns (guard.c) are given to refused units without a question.
 *
 * A unit that cannot be suspended is asked about, too, and runs whatever the answer is.
 */
#include <string.h>

#include "sched/impl.h"

#define ANSWER_NS UINT64_C(10000000)
/* The common times are multiples of this: at most 100 ms after a question. */
#define GRID_NS UINT64_C(90000000)

bool rbt_ask_is_on(const struct rbt_sched *s)
{
	return s->config.policy->asks && s->ops.admit != NULL;
}

/* When the unit is asked about next. */
static uint64_t next_time(const struct rbt_sched *s, const struct rbt_sched_unit *u)
{
	if (u->role == RBT_ROLE_TURN) {
		return u->asked_ns + rbt_ms(s->config.turn_ms);
	}
	return (u->asked_ns + ANSWER_NS + GRID_NS - 1) / GRID_NS * GRID_NS;
}

static void set_refused(struct rbt_sched *s, struct rbt_sched_unit *u, bool is_refused)
{
	u->is_refused = is_refused;
	if (u->was_refused != is_refused) {
		rbt_unit_settle(s, u);
		u->was_refused = is_refused;
		rbt_count(&s->n_refused, 1, is_refused);
		rbt_unit_mark(s, u);
	}
	if (is_refused) {
		u->is_stuck = u->is_forced = false;
	}
	u->ask_ns = next_time(s, u);
}

void rbt_ask_forget(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	if (u->was_refused) {
		/* It may be current by a guard turn, and become so again. */
		u->is_unasked = true;
		set_refused(s, u, false);
	}
}

/* Gets the policy's answer, unless the last one still counts. */
static void get_answer(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	const struct rbt_sched_prog *p;

	if (u->is_answered && s->now_ns < u->asked_ns + ANSWER_NS) {
		return;
	}
	u->is_answered = u->is_allowed = true;
	u->asked_ns = s->now_ns;
	LIST_FOREACH (p, &u->members, member) {
		u->is_allowed = u->is_allowed && (p->mask == 0 || s->ops.admit(s->ctx, p->owner));
	}
}

bool rbt_ask_turn(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	if (!rbt_ask_is_on(s) || u->is_guarded || !u->is_wanting) {
		return true;
	}
	u->is_unasked = false;
	get_answer(s, u);
	set_refused(s, u, !u->is_allowed);
	return u->is_allowed;
}

void rbt_ask_begin(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	if (rbt_ask_is_on(s) && u->role == RBT_ROLE_FREE && !u->is_due) {
		u->is_due = true;
		LIST_INSERT_HEAD(&s->due, u, due);
	}
}

void rbt_ask_drop(struct rbt_sched_unit *u)
{
	if (u->is_due) {
		u->is_due = false;
		LIST_REMOVE(u, due);
	}
}

/* A request that was interrupted by a refusal says nothing about reserves. */
static void end_reserve(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	rbt_reserve_let_go(s, p);
	p->reserved_since_ns = 0;
	p->is_spared = false;
	p->trial = p->pace.trial = NULL;
}

/* Asks about a unit that takes no turns, and acts on the answer. */
static void ask_free(struct rbt_sched *s, struct rbt_sched_unit *u, bool is_new)
{
	bool was_refused = u->was_refused;
	struct rbt_sched_prog *p;

	rbt_unit_settle(s, u);
	get_answer(s, u);
	set_refused(s, u, !u->is_allowed);
	LIST_FOREACH (p, &u->members, member) {
		if (u->is_refused) {
			end_reserve(s, p);
		}
	}
	rbt_unit_update_on(s, u);
	LIST_FOREACH (p, &u->members, member) {
		if (p->busy && !u->is_refused && (was_refused || is_new)) {
			rbt_reserve_begin(s, p);
		}
	}
	rbt_turns_arm(s, u);
}

uint64_t rbt_ask_next(const struct rbt_sched *s, const struct rbt_sched_unit *u)
{
	return rbt_ask_is_on(s) && u->is_wanting && !u->is_due ? u->ask_ns : RBT_NEVER;
}

void rbt_ask_again(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	struct rbt_sched_prog *p;

	if (s->now_ns < rbt_ask_next(s, u)) {
		return;
	}
	/* A unit that has become idle is not asked about before it wants the GPU again. While it is
	 * off, its silence says nothing. */
	LIST_FOREACH (p, &u->members, member) {
		if (u->is_on && p->busy) {
			rbt_busy_check(s, p);
		}
	}
	if (u->is_wanting) {
		ask_free(s, u, false);
	}
}

/* The programs on a GPU are others now, so answers may be, too. */
static void review(struct rbt_sched *s, uint32_t changed)
{
	struct rbt_sched_unit *u;

	LIST_FOREACH (u, &s->units, entries) {
		uint64_t at_ns = u->asked_ns + ANSWER_NS;

		if (u->is_refused && (u->mask & changed) != 0 && at_ns < u->ask_ns) {
			u->ask_ns = at_ns;
			rbt_turns_arm(s, u);
		}
	}
}

void rbt_ask_run(struct rbt_sched *s)
{
	uint32_t changed = 0;

	for (uint32_t m = s->recounted; m != 0; m &= m - 1) {
		struct rbt_sched_gpu *gpu = rbt_first_gpu(s, m);

		if (memcmp(gpu->n_class, gpu->seen_class, sizeof(gpu->n_class)) != 0) {
			memcpy(gpu->seen_class, gpu->n_class, sizeof(gpu->n_class));
			changed |= m & -m;
		}
	}
	s->recounted = 0;
	if (changed != 0 && s->n_refused > 0) {
		review(s, changed);
	}
	while (!LIST_EMPTY(&s->due)) {
		struct rbt_sched_unit *u = LIST_FIRST(&s->due);

		rbt_ask_drop(u);
		if (u->is_wanting) {
			ask_free(s, u, true);
		}
	}
}
