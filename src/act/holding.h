/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A holding: a record somebody acts on, and what has been done to it so far. Daemon and hand each
 * keep a table of the same holdings with fds of their own, so that whichever survives the other can
 * put everything back.
 */
#ifndef RBT_ACT_HOLDING_H
#define RBT_ACT_HOLDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"

struct rbt_holding {
	uint32_t id; /* chosen by the daemon, never 0 */
	bool force;  /* write to unknown drivers too */
	struct rbt_record rec;
	bool slices_changed;
	bool suspended;
	bool restore_failed;  /* and that was said */
	bool in_turns;        /* only its compute tasks, which may be back at any time */
	uint64_t deadline_ns; /* of the suspend, on the monotonic clock */
	bool is_unsure;       /* let back, and not roused since: it may stand still */
	uint64_t on_ns;       /* since when */
	bool is_to_rouse;     /* as soon as the owner has its answer */
	enum rbt_scope rouse_scope;
};

struct rbt_holdings {
	struct rbt_holding *list;
	size_t n, capacity;
};

void rbt_holdings_finish(struct rbt_holdings *hs);
struct rbt_holding *rbt_holdings_find(struct rbt_holdings *hs, uint32_t id);

/* Adds a holding, or replaces the record of the one with this id, keeping what was done to it. What
 * was done to tasks that the new one does not name is undone: nobody could later. What the driver
 * refuses stays in the record. Takes ownership of *rec, also on failure. 0 or -ENOMEM. */
int rbt_holdings_put(struct rbt_holdings *hs, uint32_t id, bool force, struct rbt_record *rec);

/* Closes its fd; nothing is restored. */
void rbt_holdings_drop(struct rbt_holdings *hs, uint32_t id);
/* The same, but tasks that were resumed are made to run before: nobody will later. */
void rbt_holdings_let_go(struct rbt_holdings *hs, uint32_t id);

/*
 * Actions on the device. Errors of single tasks do not stop the others; the first is returned,
 * except that tasks which have gone meanwhile (-ENOENT) are no error.
 */

/* Sets the slice of the holding's compute tasks on `gpu`; us 0 gives them back their own. */
int rbt_holding_set_slice(struct rbt_holding *h, uint32_t gpu, uint64_t us);
/* The same for its copy tasks on these runlists of the GPU, a bit each; all of them: also those
 * whose runlist is not known. A task whose own slice is not known, or not longer, is left alone. */
#define RBT_ALL_RUNLISTS UINT64_MAX
int rbt_holding_set_copy_slice(struct rbt_holding *h, uint32_t gpu, uint64_t runlists, uint64_t us);
int rbt_holding_suspend(struct rbt_holding *h, enum rbt_scope scope, enum rbt_suspend_mode mode,
	uint64_t deadline_ns);
/* The suspend lasts until then. */
void rbt_holding_renew(struct rbt_holding *h, uint64_t deadline_ns);
/* ALL, or COMPUTE where nothing else was suspended: what cannot be resumed stays marked as
 * suspended. REST: the compute tasks stay off. */
int rbt_holding_resume(struct rbt_holding *h, enum rbt_scope scope);

/* Makes sure that tasks which were resumed do run, where the device needs that said. It takes as
 * long as a suspend and a resume. So it is done at once only to what was suspended by command; of
 * what is off and on all the time, the owner says when. */
void rbt_holding_rouse(struct rbt_holding *h);

/* Does that to those it is to be done to by now, also to those let back so long ago that the owner
 * may have forgotten them, or have stopped. Returns when the next of these is due; UINT64_MAX:
 * none. */
uint64_t rbt_holdings_rouse(struct rbt_holdings *hs, uint64_t now_ns);

/*
 * Those below answer 0 when all is as it would be without us. What the driver refused stays marked
 * as changed, and can be tried again; the first error is returned.
 */

/* Gives the tasks back their own slices, if they were changed. */
int rbt_holding_restore_slices(struct rbt_holding *h);

/* Puts one holding back: its tasks' own slices, then resume. Touches only what was changed. */
int rbt_holding_restore(struct rbt_holding *h);

/* Default slices first, for all of them, then resume all: between the two nobody is runnable at a
 * short slice in company. */
int rbt_holdings_restore(struct rbt_holdings *hs);

#endif
