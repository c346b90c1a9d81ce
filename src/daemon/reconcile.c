/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings what the device does in line with what the model says. Order matters: slices are
 * lengthened and programs suspended before anything is resumed or shortened, so that at no moment
 * two short-slice tasks are runnable together.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/daemon.h"
#include "sched/class.h"
#include "util/log.h"
#include "util/time.h"

/* A claim and whose it is. */
struct plan {
	struct rbt_claim *claims;
	struct program **owners;
	size_t n, capacity;
};

static int plan_add(struct plan *plan, struct program *p, const struct rbt_claim *claim)
{
	if (plan->n == plan->capacity) {
		size_t capacity = plan->capacity > 0 ? plan->capacity * 2 : 32;
		struct rbt_claim *claims = realloc(plan->claims, capacity * sizeof(*claims));
		if (claims == NULL) {
			return -ENOMEM;
		}
		plan->claims = claims;
		struct program **owners = realloc(plan->owners, capacity * sizeof(*owners));
		if (owners == NULL) {
			return -ENOMEM;
		}
		plan->owners = owners;
		plan->capacity = capacity;
	}
	plan->claims[plan->n] = *claim;
	plan->owners[plan->n++] = p;
	return 0;
}

/* Counts the program's compute tasks on `gpu` over all its clients.
 * Those we may not write to claim nothing. */
static void claim_fill(struct daemon *d, struct program *p, struct rbt_claim *claim)
{
	struct hold *h;

	LIST_FOREACH (h, &p->holds, link) {
		struct rbt_holding *mine = rbt_holdings_find(&d->mine, h->id);
		if (mine == NULL || !hold_is_writable(mine)) {
			continue;
		}
		for (uint32_t i = 0; i < mine->rec.n_tasks; i++) {
			const struct rbt_task *t = &mine->rec.tasks[i];
			if (t->kind != RBT_TASK_COMPUTE || t->gpu != claim->gpu) {
				continue;
			}
			if (claim->n_compute == 0 || t->own_timeslice_us < claim->own_us) {
				claim->own_us = t->own_timeslice_us;
			}
			claim->n_compute++;
		}
	}
}

static int plan_build(struct daemon *d, struct plan *plan)
{
	struct program *p;
	int r = 0;

	LIST_FOREACH (p, &d->programs, link) {
		p->denial = RBT_DENIED_NOTHING;
		p->error = 0; /* what the driver refused is said again */
		for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS && r == 0; gpu++) {
			struct rbt_claim claim = {
				.gpu = gpu,
				.wanted_us = program_wanted_us(p),
				.suspended = p->suspended,
			};
			claim_fill(d, p, &claim);
			if (claim.n_compute > 0) {
				r = plan_add(plan, p, &claim);
			}
		}
	}
	return r;
}

static void note(struct program *p, int r)
{
	/* A lost hand is dealt with by the next round. */
	if (r < 0 && r != -ENOTCONN) {
		p->error = r;
		rbt_debug("process %d: %s", (int)p->pid, strerror(-r));
	}
}

/*
 * Whether the hold's tasks on the claim's GPU have to be told. A stale record also means that the
 * program may have set a slice of its own after ours: then even "its own" is said again, now that
 * we know what that is.
 */
static bool slice_differs(struct daemon *d, const struct hold *h, const struct rbt_claim *c)
{
	const struct rbt_holding *mine = rbt_holdings_find(&d->mine, h->id);

	return h->slice_us[c->gpu] != c->granted_us ||
	       (h->stale && (c->granted_us != RBT_TIMESLICE_OWN ||
				    (mine != NULL && mine->slices_changed)));
}

/* Sets the slices of one claim: those that get longer when
 * `lengthen`, else those that get shorter. */
static void apply_slices(
	struct daemon *d, struct program *p, const struct rbt_claim *c, bool lengthen)
{
	struct hold *h;

	LIST_FOREACH (h, &p->holds, link) {
		uint64_t had_us = h->slice_us[c->gpu];
		bool longer = c->granted_us == RBT_TIMESLICE_OWN ||
			      (had_us != 0 && c->granted_us > had_us);
		if (longer == lengthen && slice_differs(d, h, c)) {
			note(p, hand_set_slice(d, h, c->gpu, c->granted_us));
		}
	}
}

static void apply_suspended(struct daemon *d, bool suspend)
{
	struct program *p;
	struct hold *h;

	LIST_FOREACH (p, &d->programs, link) {
		LIST_FOREACH (h, &p->holds, link) {
			if (p->suspended != suspend ||
				(h->suspended == suspend && !(suspend && h->stale))) {
				continue;
			}
			uint64_t deadline_ns = rbt_now_ns() + LEASE_NS;
			if (p->resume_at_ns != 0 && p->resume_at_ns < deadline_ns) {
				deadline_ns = p->resume_at_ns;
			}
			note(p, suspend ? hand_suspend(d, h, deadline_ns) : hand_resume(d, h));
		}
	}
}

static void give_to_hand(struct daemon *d)
{
	struct program *p;
	struct hold *h;

	LIST_FOREACH (p, &d->programs, link) {
		LIST_FOREACH (h, &p->holds, link) {
			if (!h->in_hand) {
				note(p, hand_hold(d, h));
			}
		}
	}
}

/* What is applied now is applied to the tasks there are now. A hold that the hand has lost again
 * stays as it is; what was refused is to be said again. */
static void mark_fresh(struct daemon *d)
{
	struct program *p;
	struct hold *h;

	LIST_FOREACH (p, &d->programs, link) {
		LIST_FOREACH (h, &p->holds, link) {
			h->stale = h->refused || (h->stale && !h->in_hand);
			h->refused = false;
		}
	}
}

/* Whether something is left to be put back, as far as we know. */
static bool is_changed(const struct program *p)
{
	struct hold *h;

	LIST_FOREACH (h, &p->holds, link) {
		for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
			if (h->suspended || h->slice_us[gpu] != 0) {
				return true;
			}
		}
	}
	return false;
}

static bool is_spoken_for(struct daemon *d, const struct program *p)
{
	struct peer *peer;

	LIST_FOREACH (peer, &d->peers, link) {
		if (peer->attached == p) {
			return true;
		}
	}
	return p->peer != NULL || p->awaited;
}

/* Attached programs that want nothing any more are let go: their
 * fd would only keep a dead one's memory. */
static void let_go(struct daemon *d)
{
	struct program *p, *next;

	for (p = LIST_FIRST(&d->programs); p != NULL; p = next) {
		next = LIST_NEXT(p, link);
		if (program_is_plain(p) && !is_spoken_for(d, p) && !is_changed(p)) {
			program_release(d, p);
		}
	}
}

/* GPUs on which slices of our making are in force, wanted or not. */
static uint32_t locks_in_use(struct daemon *d)
{
	uint32_t in_use = 0;
	struct program *p;
	struct hold *h;

	LIST_FOREACH (p, &d->programs, link) {
		LIST_FOREACH (h, &p->holds, link) {
			for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
				in_use |= (uint32_t)(h->slice_us[gpu] != 0) << gpu;
			}
		}
	}
	return in_use;
}

static void carry_out(struct daemon *d, struct plan *plan, uint32_t locks_wanted)
{
	for (size_t i = 0; i < plan->n; i++) {
		apply_slices(d, plan->owners[i], &plan->claims[i], true);
	}
	apply_suspended(d, true);
	apply_suspended(d, false);
	for (size_t i = 0; i < plan->n; i++) {
		apply_slices(d, plan->owners[i], &plan->claims[i], false);
		if (plan->claims[i].denial != RBT_DENIED_NOTHING) {
			plan->owners[i]->denial = plan->claims[i].denial;
		}
	}
	/* Only after the last slice shorter than the driver's has gone. */
	gpulock_drop(d, locks_wanted | locks_in_use(d));
}

int reconcile(struct daemon *d)
{
	/* A hand that dies on the way makes the model dirty again;
	 * it cannot die for ever (hand_ensure). */
	while (d->dirty) {
		struct plan plan = {0};
		uint32_t locks_wanted = 0;

		d->dirty = false;
		if (d->mine.n == 0) {
			gpulock_drop(d, 0);
			state_write(d);
			return 0;
		}
		int r = hand_ensure(d);
		if (r < 0) {
			d->retry_ns = rbt_now_ns() + RETRY_NS;
			return r;
		}
		r = plan_build(d, &plan);
		if (r == 0) {
			give_to_hand(d);
			rbt_sched_plan(plan.claims, plan.n, &d->gpus, &locks_wanted);
			gpulock_take(d, locks_wanted);
			rbt_sched_plan(plan.claims, plan.n, &d->gpus, &locks_wanted);
			state_write(d);
			carry_out(d, &plan, locks_wanted);
			mark_fresh(d);
			let_go(d);
		}
		free(plan.claims);
		free(plan.owners);
		if (r < 0) {
			d->retry_ns = rbt_now_ns() + RETRY_NS;
			return r;
		}
	}
	return 0;
}
