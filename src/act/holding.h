/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A holding: a record somebody acts on, and what has been applied to it so far. Daemon and hand
 * each keep a table of the same holdings with fds of their own, so that whichever survives the
 * other can put everything back. Both note every action by the same function, rbt_holding_apply(),
 * so the two tables say the same, except for what the hand does after its reply: it rouses, and it
 * resumes what is past its deadline.
 */
#ifndef RBT_ACT_HOLDING_H
#define RBT_ACT_HOLDING_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "act/action.h"
#include "backend/backend.h"

/* The level at which the device treats a program as the program itself asked for. */
#define RBT_LEVEL_OWN 1

/* Of rbt_applied_state() */
enum {
	RBT_IS_OFF = 1 << 0,
	RBT_IS_IN_TURNS = 1 << 1, /* off in turns or for a reserve; not by command */
};

/* What has been applied to a holding. rbt_holding_apply() alone writes it; others read it, best by
 * the functions below. */
struct rbt_applied {
	/* RBT_IS_*: what has changed an odd number of times since rbt_applied_take_edges(). */
	unsigned edges;
	bool is_off;                /* compute tasks were suspended; some may still run */
	bool rest_is_off;           /* so were all other tasks */
	enum rbt_scope scope;       /* of the last suspend. ALL: by command; COMPUTE: in turns */
	enum rbt_suspend_mode mode; /* of the last suspend */
	uint64_t deadline_ns;       /* when it ends unless it is renewed, on the monotonic clock */
	/* A slice was set since all were last restored: a task may have one that is not its own,
	 * even if the fields below say "own" (the driver may have refused, or the hand died). */
	bool slices_changed;
	uint64_t slice_us[RBT_MAX_GPUS]; /* told to compute tasks; 0: their own */
	/* Told to copy tasks on these runlists, a bit each; 0: all of them have their own. */
	uint64_t copy_us[RBT_MAX_GPUS], copy_runlists[RBT_MAX_GPUS];
	bool is_unsure;             /* resumed, and not roused since: it may stand still */
	bool is_roused;             /* a rouse was asked for since it was last resumed */
	enum rbt_scope rouse_scope; /* which tasks are unsure */
	uint64_t on_ns;             /* when it was last resumed */
	uint32_t watch_us;          /* how often its queues are looked at; 0: not */
	uint32_t level;             /* of the backend's set_level() */
};

struct rbt_holding {
	uint32_t id; /* chosen by the daemon, never 0 */
	bool force;  /* write to unknown drivers too */
	struct rbt_record rec;
	struct rbt_applied applied;
	/* Which channels the driver has disabled for this process, one per channel of the record;
	 * owned; NULL: none. `applied` says what was asked for, of all tasks alike, and is the same
	 * on both sides. This says which channels have obeyed; only the side that calls the driver
	 * knows, and must, because a device may count. The backend writes it. */
	bool *channel_off;
	bool restore_failed; /* and that was said */
};

/* Holdings stay at their addresses until they are dropped. */
struct rbt_holdings {
	struct rbt_holding **list;
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

/* A result of rbt_holding_apply(): the action is about to be carried out, or may have been. */
#define RBT_UNDERWAY (-EINPROGRESS)

/*
 * Notes an action and its result: 0; -errno, when the driver refused some of it and other tasks may
 * have obeyed; or RBT_UNDERWAY. Both sides note an action as under way before it is carried out: if
 * the hand dies half-way, the daemon knows what to put back. No I/O, no clock.
 *
 * What is noted is never less than what may be in force: a suspend counts whatever its result, a
 * resume only with result 0.
 */
void rbt_holding_apply(struct rbt_holding *h, const struct rbt_action *action, int result);

/* Somebody else may have changed anything about it (a hand that died, or another scheduler): a
 * restore is to put back everything. */
void rbt_holding_assume_changed(struct rbt_holding *h);
/* The same about suspends alone. */
void rbt_holding_assume_off(struct rbt_holding *h);
/* The same about slices alone. */
void rbt_holding_assume_slices(struct rbt_holding *h);
/* Another hand may have disabled any channel: none is to be disabled twice. 0 or -ENOMEM. */
int rbt_holding_mark_channels(struct rbt_holding *h);

/* Off in turns or for a reserve; not by command. */
static inline bool rbt_applied_is_in_turns(const struct rbt_applied *a)
{
	return a->is_off && a->scope == RBT_SCOPE_COMPUTE;
}

static inline bool rbt_applied_is_by_command(const struct rbt_applied *a)
{
	return a->is_off && a->scope == RBT_SCOPE_ALL;
}

/* RBT_IS_* */
static inline unsigned rbt_applied_state(const struct rbt_applied *a)
{
	return (a->is_off ? RBT_IS_OFF : 0u) | (rbt_applied_is_in_turns(a) ? RBT_IS_IN_TURNS : 0u);
}

/* For an owner that wants to know what has changed: the state as of the last call. */
static inline unsigned rbt_applied_take_edges(struct rbt_applied *a)
{
	unsigned before = rbt_applied_state(a) ^ a->edges;

	a->edges = 0;
	return before;
}

/* Whether tasks of this kind are off. */
static inline bool rbt_applied_is_off(const struct rbt_applied *a, uint32_t kind)
{
	return kind == RBT_TASK_COMPUTE ? a->is_off : a->rest_is_off;
}

/* Whether slices of our making are in force there. */
static inline bool rbt_applied_has_slices(const struct rbt_applied *a, uint32_t gpu)
{
	return a->slice_us[gpu] != 0 || a->copy_runlists[gpu] != 0;
}

/*
 * Actions on the device, noted as above. Errors of single tasks do not stop the others; the first
 * is returned, except that tasks which have gone meanwhile (-ENOENT) are no error.
 */

/* SET_SLICE, SUSPEND, RESUME, ROUSE, RENEW, LEVEL, RESTORE_SLICES. A slice is set for tasks whose
 * own is known and, of copy tasks, longer. ROUSE takes as long as a suspend and a resume. */
int rbt_holding_act(struct rbt_holding *h, const struct rbt_action *action);
/* RESUME at this moment. */
int rbt_holding_resume(struct rbt_holding *h, enum rbt_scope scope);

/* Makes sure that resumed tasks do run, if the device needs that: at once if they were suspended by
 * command, else when the owner has asked for it. The owner may have forgotten some of them, or have
 * stopped, so tasks that were resumed long ago are roused too. Returns when the next of these is
 * due; UINT64_MAX: none. */
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
