/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the decision core about the model, and carries out its decisions on the device.
 */
#include "daemon/reconcile.h"

#include <errno.h>

#include "daemon/activity.h"
#include "daemon/apply.h"
#include "daemon/daemon.h"
#include "daemon/gpulock.h"
#include "daemon/handlink.h"
#include "daemon/program.h"
#include "daemon/schedule.h"
#include "daemon/survive/state.h"
#include "sched/class.h"
#include "util/log.h"
#include "util/time.h"

/* Tells the core of every program. 0, or the first error. */
static int tell_all(struct daemon *d)
{
	struct program *p;
	int first = 0;

	LIST_FOREACH (p, &d->programs, entries) {
		p->error = 0; /* a refused action is tried again */
		program_end_setup(p, rbt_now_ns());
		int r = schedule_tell(d, p);
		first = first == 0 ? r : first;
	}
	return first;
}

static void give_to_hand(struct daemon *d)
{
	struct program *p;
	struct client *h;

	LIST_FOREACH (p, &d->programs, entries) {
		LIST_FOREACH (h, &p->clients, entries) {
			int r = h->in_hand ? 0 : hand_put(d, h);
			/* The next round deals with a lost hand. */
			p->error = r < 0 && r != -ENOTCONN ? r : p->error;
		}
	}
}

static bool is_spoken_for(struct daemon *d, const struct program *p)
{
	struct peer *peer;

	LIST_FOREACH (peer, &d->server.peers, entries) {
		if (peer->attached == p) {
			return true;
		}
	}
	return p->peer != NULL || p->awaited || p->rule[0] != '\0' || park_find(d, p) != NULL;
}

/* On a device without slices, a normal program has an effect on lower classes only if it is known
 * to be busy. So a program that a user has made normal is kept there, whichever of the programs is
 * reniced first. */
static bool counts_as_normal(const struct program *p)
{
	bool has_no_slices = false;

	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		const struct rbt_sched_tasks *tasks = &p->sched.params.tasks[gpu];
		has_no_slices = has_no_slices || (tasks->n_compute > 0 && tasks->no_slices);
	}
	return has_no_slices && (p->treat.said & RBT_TREAT_BIT(PRIORITY)) != 0;
}

/* Releases attached programs that need nothing any more: the daemon's fd would only keep the memory
 * of an ended program. */
static void let_go(struct daemon *d)
{
	struct program *p, *next;

	for (p = LIST_FIRST(&d->programs); p != NULL; p = next) {
		next = LIST_NEXT(p, entries);
		if (program_is_plain(p) && !is_spoken_for(d, p) && !program_is_changed(p) &&
			!counts_as_normal(p)) {
			program_release(d, p);
		}
	}
}

/* GPUs with slices that were set by the daemon, wanted or not. */
static uint32_t locks_in_use(struct daemon *d)
{
	uint32_t in_use = 0;
	struct program *p;
	struct client *h;

	LIST_FOREACH (p, &d->programs, entries) {
		LIST_FOREACH (h, &p->clients, entries) {
			for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
				in_use |= (uint32_t)rbt_applied_has_slices(&h->mine->applied, gpu)
					  << gpu;
			}
		}
	}
	return in_use;
}

/* Takes the locks that the core wants, and tells it which ones could be had. */
static void take_locks(struct daemon *d)
{
	gpulock_take(d, rbt_sched_locks_wanted(d->sched.core));
	schedule_tell_gpus(d);
}

/* Only after the last slice that is shorter than the driver's is restored. */
static void drop_locks(struct daemon *d)
{
	gpulock_drop(d, rbt_sched_locks_wanted(d->sched.core) | locks_in_use(d));
	schedule_tell_gpus(d);
}

static int reconcile_once(struct daemon *d)
{
	int r = tell_all(d);

	if (r < 0) {
		return r;
	}
	if (d->mine.n == 0) {
		apply_all(d);
		drop_locks(d);
		state_write(d);
		return 0;
	}
	r = hand_ensure(d);
	if (r < 0) {
		return r;
	}
	/* The file must be written before the hand changes a program. */
	state_write(d);
	give_to_hand(d);
	activity_update(d);
	take_locks(d);
	apply_all(d);
	drop_locks(d);
	let_go(d);
	/* The file is only emptied when everything is restored. */
	if (!state_is_needed(d)) {
		state_write(d);
	}
	return 0;
}

int reconcile(struct daemon *d)
{
	/* A hand that dies on the way makes the model dirty again. hand_ensure() limits how often
	 * that happens. */
	while (d->dirty) {
		d->dirty = false;
		int r = reconcile_once(d);
		if (r < 0) {
			d->retry_ns = rbt_now_ns() + RETRY_NS;
			return r;
		}
	}
	return 0;
}
