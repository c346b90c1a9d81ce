/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out the core's decisions. Their order matters: slices are lengthened and programs
 * suspended before any program is resumed or any slice shortened, so that two tasks with short
 * slices are never runnable together. If the driver refuses to suspend a program, the core is told
 * before another program is resumed in its place, and decides again.
 */
#include "daemon/apply.h"

#include <errno.h>
#include <string.h>

#include "daemon/daemon.h"
#include "daemon/edge.h"
#include "daemon/handlink.h"
#include "daemon/kick.h"
#include "daemon/metrics/accounting.h"
#include "daemon/peers/allowed.h"
#include "daemon/schedule.h"
#include "sched/class.h"
#include "util/log.h"
#include "util/time.h"

static void note(struct program *p, int r)
{
	/* The next round deals with a lost hand. */
	if (r < 0 && r != -ENOTCONN) {
		p->error = r;
		rbt_debug("process %d: %s", (int)p->pid, strerror(-r));
	}
}

bool program_is_waiting(const struct program *p)
{
	enum rbt_off off = p->sched.prog != NULL ? rbt_sched_decision(p->sched.prog)->off : RBT_ON;

	return off == RBT_OFF_SCHEDULING || off == RBT_OFF_FULL;
}

/*
 * Whether the slice of the client's tasks on a GPU has to be set. A stale record also means that
 * the program may have set a slice of its own after ours. Then even "its own" is set again, since
 * its value is known now.
 */
static bool slice_differs(const struct client *h, uint32_t gpu, uint64_t us)
{
	const struct rbt_applied *a = &h->mine->applied;

	return a->slice_us[gpu] != us ||
	       (h->stale && (us != RBT_TIMESLICE_OWN || a->slices_changed));
}

/* The same for copy tasks. `lengthen`: tasks that get their own slices back. */
static void apply_copies(
	struct daemon *d, struct program *p, struct client *h, uint32_t gpu, bool lengthen)
{
	const struct rbt_decision *decision = rbt_sched_decision(p->sched.prog);
	const struct rbt_applied *a = &h->mine->applied;
	bool is_short = (decision->short_copies >> gpu & 1) != 0;
	uint64_t wanted = is_short ? p->sched.params.tasks[gpu].copy_runlists : 0;
	uint64_t had = a->copy_runlists[gpu];
	bool is_in_doubt = h->stale && a->slices_changed;

	if (lengthen && wanted == 0 && (had != 0 || is_in_doubt)) {
		note(p, hand_set_slice(d, h, gpu, RBT_ALL_RUNLISTS, RBT_TIMESLICE_OWN));
	} else if (lengthen && (had & ~wanted) != 0) {
		note(p, hand_set_slice(d, h, gpu, had & ~wanted, RBT_TIMESLICE_OWN));
	} else if (!lengthen && wanted != 0 &&
		   (had != wanted || a->copy_us[gpu] != decision->slice_us[gpu] || h->stale)) {
		note(p, hand_set_slice(d, h, gpu, wanted, decision->slice_us[gpu]));
	}
}

/* Sets slices. `lengthen`: only longer slices; otherwise only shorter ones. */
static void apply_slices(struct daemon *d, struct program *p, bool lengthen)
{
	const struct rbt_decision *decision = rbt_sched_decision(p->sched.prog);
	struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		const struct rbt_applied *a = &h->mine->applied;

		for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
			uint64_t us = decision->slice_us[gpu], had_us = a->slice_us[gpu];
			bool longer = us == RBT_TIMESLICE_OWN || (had_us != 0 && us > had_us);

			if (rbt_gpu_of_index(&d->gpu_table, gpu).backend != h->backend ||
				(p->sched.params.tasks[gpu].n_compute == 0 &&
					!rbt_applied_has_slices(a, gpu))) {
				continue;
			}
			if (longer == lengthen && slice_differs(h, gpu, us)) {
				note(p, hand_set_slice(d, h, gpu, 0, us));
			}
			apply_copies(d, p, h, gpu, lengthen);
		}
	}
}

/* A stale record may name tasks that do not have the level yet. */
static void apply_interleave(struct daemon *d, struct program *p)
{
	uint32_t level = p->sched.interleave;
	struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		const struct rbt_backend *b = rbt_backend_by_id(h->backend);
		const struct rbt_applied *a = &h->mine->applied;
		bool is_in_doubt =
			h->stale && (level != RBT_INTERLEAVE_OWN || a->interleave_changed);

		if (b != NULL && b->set_interleave != NULL &&
			holding_may(h->mine, RBT_CAP_TIMESLICE) &&
			(level != a->interleave || is_in_doubt)) {
			int r = hand_set_interleave(d, h, level);
			/* Without CAP_SYS_NICE the program keeps its level, as `doctor` says. */
			note(p, r == -EPERM || r == -EACCES ? 0 : r);
		}
	}
}

/* A suspend that only lets the running slice expire needs a short slice in force. A task that is
 * suspended fully stays so, because the two ways of suspending must not be mixed on one task. */
static enum rbt_off way_off(const struct program *p, const struct client *h, enum rbt_off off)
{
	const struct rbt_applied *a = &h->mine->applied;

	if (off == RBT_OFF_SCHEDULING && a->is_off && a->mode == RBT_SUSPEND_FULL) {
		return RBT_OFF_FULL;
	}
	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		const struct rbt_sched_tasks *tasks = &p->sched.params.tasks[gpu];
		if (off == RBT_OFF_SCHEDULING && tasks->n_compute > 0 &&
			!rbt_rule_is_short(a->slice_us[gpu], tasks->own_us)) {
			return RBT_OFF_FULL;
		}
	}
	return off;
}

/* Negative if the driver refused to suspend a program whose turn it is not. */
static int apply_off(struct daemon *d, struct program *p)
{
	enum rbt_off off = rbt_sched_decision(p->sched.prog)->off;
	uint64_t deadline_ns = rbt_now_ns() + LEASE_NS;
	struct client *h;
	int refused = 0;

	if (off == RBT_OFF_COMMAND && p->suspend.until_ns != 0 &&
		p->suspend.until_ns < deadline_ns) {
		deadline_ns = p->suspend.until_ns;
	}
	LIST_FOREACH (h, &p->clients, entries) {
		/* The way in which the client was suspended makes no difference any more. */
		bool is_done = off == RBT_OFF_COMMAND ? rbt_applied_is_by_command(&h->mine->applied)
						      : rbt_applied_is_in_turns(&h->mine->applied);
		if (off == RBT_ON || (is_done && !h->stale)) {
			continue;
		}
		int r = hand_suspend(d, h, way_off(p, h, off), deadline_ns);
		note(p, r);
		refused = r < 0 && r != -ENOTCONN ? r : refused;
	}
	trace_program(d, p);
	return off == RBT_OFF_COMMAND ? 0 : refused;
}

static void apply_on(struct daemon *d, struct program *p)
{
	enum rbt_off off = rbt_sched_decision(p->sched.prog)->off;
	struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		if (off == RBT_ON && h->mine->applied.is_off) {
			note(p, hand_resume(d, h));
		} else if (off != RBT_ON && off != RBT_OFF_COMMAND &&
			   h->mine->applied.others_are_off) {
			note(p, hand_resume_others(d, h));
		}
	}
	trace_program(d, p);
}

static void mark_pending(struct daemon *d, struct program *p)
{
	if (!p->sched.is_pending) {
		p->sched.is_pending = true;
		LIST_INSERT_HEAD(&d->pending, p, sched.pending);
	}
}

static void collect(struct daemon *d)
{
	const struct rbt_decision *ignored;
	struct program *p;

	while ((p = rbt_sched_next_change(d->sched.core, &ignored)) != NULL) {
		mark_pending(d, p);
	}
}

/* 0, or -EAGAIN when the core has decided again. */
static int make_room(struct daemon *d)
{
	struct program *p;
	int r = 0;

	LIST_FOREACH (p, &d->pending, sched.pending) {
		apply_slices(d, p, true);
	}
	LIST_FOREACH (p, &d->pending, sched.pending) {
		int refused = apply_off(d, p);
		if (refused < 0) {
			p->sched.no_turns_until_ns =
				rbt_now_ns() + (refused == -ETIMEDOUT ? SILENT_NS : NO_TURNS_NS);
			r = -EAGAIN;
		}
	}
	LIST_FOREACH (p, &d->pending, sched.pending) {
		if (r < 0 && schedule_tell(d, p) < 0) {
			d->dirty = true;
		}
	}
	return r;
}

/* The applied state now covers all of today's tasks. A client that the hand has lost again stays
 * stale, and so does a client that the driver refused something. */
static void mark_fresh(struct program *p)
{
	struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		h->stale = h->refused || (h->stale && !h->in_hand);
		h->refused = false;
	}
}

static void apply(struct daemon *d)
{
	struct program *p;
	uint64_t now_ns;
	int r;

	/* The loop ends, because a program that the driver refused to suspend takes no turns. */
	do {
		collect(d);
		r = make_room(d);
	} while (r == -EAGAIN && !d->dirty);
	if (r < 0) {
		return; /* no program is resumed before that is known: reconcile() goes on */
	}
	accounting_cleared(d, rbt_now_ns());
	LIST_FOREACH (p, &d->pending, sched.pending) {
		/* First: a queue that stays off must not run for a moment. */
		note(p, queues_apply(d, p));
		apply_on(d, p);
	}
	now_ns = rbt_now_ns();
	while ((p = LIST_FIRST(&d->pending)) != NULL) {
		LIST_REMOVE(p, sched.pending);
		p->sched.is_pending = false;
		apply_slices(d, p, false);
		apply_interleave(d, p);
		p->sched.denial = rbt_sched_decision(p->sched.prog)->denial;
		struct edge edge = edge_take(p);
		accounting_applied(d, p, &edge, now_ns);
		kick_applied(d, p, &edge, now_ns);
		mark_fresh(p);
	}
}

void apply_changes(struct daemon *d)
{
	collect(d);
	/* Without a hand nothing is applied; the next hand is told everything. */
	if (LIST_EMPTY(&d->pending) || d->hand.pid <= 0) {
		return;
	}
	apply(d);
}

void apply_all(struct daemon *d)
{
	struct program *p;

	LIST_FOREACH (p, &d->programs, entries) {
		if (p->sched.prog != NULL) {
			mark_pending(d, p);
		}
	}
	apply(d);
}
