/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes decisions from the state of the units: slices by the rule that prevents collapse (rule.h),
 * and which programs are off, in which way.
 */
#include <string.h>

#include "sched/impl.h"

static uint64_t wanted_us(const struct rbt_sched_prog *p)
{
	return p->params.timeslice_us != RBT_TIMESLICE_OWN
		       ? p->params.timeslice_us
		       : rbt_priority_timeslice_us(rbt_prog_priority(p));
}

/*
 * A latency program without gaps in its requests is interrupted only when its own slice ends, so a
 * longer slice lets it finish. It still gives the device up when it idles. A program that never
 * idles gets the driver's slice instead, and so does every program while a unit is repaid its
 * min_share.
 */
bool rbt_prog_is_long(const struct rbt_sched *s, const struct rbt_sched_prog *p, uint32_t g)
{
	const struct rbt_sched_unit *u = p->unit;
	uint64_t own_us = p->params.tasks[g].own_us;

	return p->is_sole && p->params.is_known && u->role == RBT_ROLE_FREE && !p->has_overstayed &&
	       u->has_reserve && s->gpus[g].n_short > 0 && s->gpus[g].n_guard_long == 0 &&
	       rbt_rule_judge_gpu(&s->locks, g) == RBT_DENIED_NOTHING &&
	       wanted_us(p) == RBT_TIMESLICE_OWN && own_us != RBT_TIMESLICE_OWN &&
	       own_us < s->config.latency_slice_us;
}

static bool wants_short(const struct rbt_sched_prog *p, uint32_t g)
{
	return rbt_rule_is_short(wanted_us(p), p->params.tasks[g].own_us);
}

uint32_t rbt_prog_short_tasks(const struct rbt_sched_prog *p, uint32_t g)
{
	return !p->params.suspended && wants_short(p, g) ? p->params.tasks[g].n_compute : 0;
}

uint64_t rbt_prog_short_copies(const struct rbt_sched_prog *p, uint32_t g)
{
	const struct rbt_sched_tasks *tasks = &p->params.tasks[g];
	bool is_apart = tasks->compute_runlists != 0 &&
			(tasks->copy_runlists & tasks->compute_runlists) == 0;
	bool wants = rbt_prog_short_tasks(p, g) > 0 &&
		     rbt_rule_is_short(wanted_us(p), tasks->copy_own_us);

	return is_apart && wants ? tasks->copy_runlists : 0;
}

/* Tasks that would be runnable with a short slice beside the program's, including its own. Other
 * units that take turns do not count, but members of the same unit do. */
static uint32_t count_company(const struct rbt_sched *s, const struct rbt_sched_prog *p, uint32_t g)
{
	const struct rbt_sched_prog *peer;
	uint32_t n = 0;

	if (p->unit->role != RBT_ROLE_TURN) {
		return s->gpus[g].n_short;
	}
	LIST_FOREACH (peer, &p->unit->members, member) {
		n += rbt_prog_short_tasks(peer, g);
	}
	return n;
}

static enum rbt_denial judge(const struct rbt_sched *s, const struct rbt_sched_prog *p, uint32_t g)
{
	if (!wants_short(p, g)) {
		return RBT_DENIED_NOTHING;
	}
	if (p->params.suspended) {
		return RBT_DENIED_SUSPENDED;
	}
	return rbt_rule_judge(&s->locks, g, p->params.tasks[g].n_compute, count_company(s, p, g));
}

/* Copy tasks stay on when their program is kept off. So all copy tasks that wish for short slices
 * are company to each other, whether their programs take turns or not. */
static bool may_shorten_copies(
	const struct rbt_sched *s, const struct rbt_sched_prog *p, uint32_t g)
{
	uint64_t runlists = rbt_prog_short_copies(p, g);

	return runlists != 0 && rbt_rule_is_alone(&s->gpus[g].tally, runlists);
}

/* Fills in the slices. Returns true if all of them are short. */
static bool decide_slices(
	const struct rbt_sched *s, const struct rbt_sched_prog *p, struct rbt_decision *d)
{
	bool all_short = p->mask != 0;

	d->denial = p->is_admitted ? RBT_DENIED_NOTHING : RBT_DENIED_ADMISSION;
	for (uint32_t m = p->mask; m != 0; m &= m - 1) {
		uint32_t g = rbt_first_bit(m);
		enum rbt_denial denial = judge(s, p, g);
		bool granted = denial == RBT_DENIED_NOTHING;

		if (!granted) {
			d->denial = denial;
		} else if (p->params.tasks[g].own_us == RBT_TIMESLICE_OWN) {
			d->slice_us[g] = RBT_TIMESLICE_OWN; /* the device has no slices */
		} else if (rbt_prog_is_long(s, p, g)) {
			d->slice_us[g] = s->config.latency_slice_us;
		} else if (!p->unit->guard_is_long || !wants_short(p, g)) {
			d->slice_us[g] = wanted_us(p);
			d->short_copies |= (uint32_t)may_shorten_copies(s, p, g) << g;
		}
		/* The slices in force count too: suspends are carried out before slices are
		 * shortened. */
		all_short &= wants_short(p, g) && d->slice_us[g] != RBT_TIMESLICE_OWN &&
			     rbt_rule_is_short(p->decision.slice_us[g], p->params.tasks[g].own_us);
	}
	if (p->unit->was_refused) {
		d->denial = p->unit->can_suspend ? RBT_DENIED_POLICY : RBT_DENIED_IN_VAIN;
	}
	return all_short;
}

/* "Scheduling only" waits until the running slice expires, so it needs short slices. A program that
 * is off already stays off in the same way. */
static enum rbt_off decide_off(const struct rbt_sched_prog *p, bool all_short)
{
	enum rbt_off before = p->decision.off;

	if (p->params.suspended) {
		return RBT_OFF_COMMAND;
	}
	if (p->unit->is_on || p->unit->role == RBT_ROLE_NONE || p->params.cannot_suspend ||
		p->mask == 0) {
		return RBT_ON;
	}
	if (before == RBT_OFF_SCHEDULING || before == RBT_OFF_FULL) {
		return before;
	}
	return all_short ? RBT_OFF_SCHEDULING : RBT_OFF_FULL;
}

static void decide(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	struct rbt_decision d;

	memset(&d, 0, sizeof(d)); /* also the padding: decisions are compared with memcmp */
	bool all_short = decide_slices(s, p, &d);
	d.off = decide_off(p, all_short);
	if (memcmp(&d, &p->decision, sizeof(d)) == 0) {
		return;
	}
	memcpy(&p->decision, &d, sizeof(d));
	if (!p->is_changed) {
		p->is_changed = true;
		LIST_INSERT_HEAD(&s->changed, p, changed);
	}
}

void rbt_decide_flush(struct rbt_sched *s)
{
	while (!LIST_EMPTY(&s->dirty)) {
		struct rbt_sched_unit *u = LIST_FIRST(&s->dirty);
		struct rbt_sched_prog *p;

		LIST_REMOVE(u, dirty);
		u->is_dirty = false;
		LIST_FOREACH (p, &u->members, member) {
			decide(s, p);
		}
	}
}
