/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A holding: a record, and what has been applied to its tasks so far. Daemon and hand each keep a
 * table of the same holdings, with file descriptors of their own. If one of them dies, the other
 * one can restore everything.
 *
 * Both note every action with the same function, rbt_holding_apply(), so the two tables are equal.
 * The exceptions are the actions that the hand takes after its reply: it kicks tasks, and it
 * resumes tasks whose deadline has passed.
 */
#ifndef RBT_ACT_HOLDING_H
#define RBT_ACT_HOLDING_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "act/action.h"
#include "backend/backend.h"

/* The level at which the device treats a program as if Rubato were not there. */
#define RBT_LEVEL_OWN 1
/* The interleave level that a driver gives every new task. No driver tells a task's level. */
#define RBT_INTERLEAVE_OWN 1

/* Bits of rbt_applied_state(). */
enum {
	RBT_IS_OFF = 1 << 0,
	RBT_IS_IN_TURNS = 1 << 1, /* kept off for a turn or a reserve; not suspended by command */
};

/* What has been applied to a holding. Only rbt_holding_apply() writes it. Readers should use the
 * functions below. */
struct rbt_applied {
	/* RBT_IS_*: the bits that differ from the state at the last rbt_applied_take_edges(). */
	unsigned edges;
	bool is_off;         /* compute tasks were suspended; some may still run */
	bool others_are_off; /* all other tasks were suspended, too */
	/* of the last suspend. ALL: by command; COMPUTE: for a turn or a reserve */
	enum rbt_scope scope;
	enum rbt_suspend_mode mode; /* of the last suspend */
	/* when the suspend ends unless it is renewed, on the monotonic clock */
	uint64_t deadline_ns;
	/* A slice was set since all slices were last restored. A task may have a slice that is not
	 * its own even if the fields below say "own": the driver may have refused, or the hand may
	 * have died. */
	bool slices_changed;
	uint64_t slice_us[RBT_MAX_GPUS]; /* the slice set for compute tasks; 0: their own */
	/* The slice set for copy tasks, and a bit per runlist that has it. No bit: all copy tasks
	 * have their own slices. */
	uint64_t copy_us[RBT_MAX_GPUS], copy_runlists[RBT_MAX_GPUS];
	bool is_unsure;            /* resumed and not kicked since: the tasks may not be running */
	bool is_kicked;            /* a kick was ordered since the last resume */
	enum rbt_scope kick_scope; /* the tasks that may not be running */
	uint64_t on_ns;            /* the time of the last resume */
	uint32_t poll_us;          /* how often the queues are polled; 0: never */
	uint32_t level;            /* see set_level() of the backend */
	uint32_t interleave;       /* the level that was set last */
	/* A task may have another level than RBT_INTERLEAVE_OWN. */
	bool interleave_changed;
	/* The handles of tasks that were suspended alone; and when that ends unless it is
	 * renewed. */
	uint32_t n_tasks_off;
	uint32_t tasks_off[RBT_RECORD_MAX_TASKS];
	uint64_t tasks_deadline_ns;
};

struct rbt_holding {
	uint32_t id; /* chosen by the daemon, never 0 */
	bool force;  /* write to unknown drivers, too */
	struct rbt_record rec;
	struct rbt_applied applied;
	/* One entry per channel of the record: whether the driver has disabled it for this process.
	 * Owned; NULL means that no channel is disabled. `applied` has what was ordered for all
	 * tasks, and is equal in daemon and hand. This array has which channels obeyed. Only the
	 * process that calls the driver knows that, and it must know, because a device may count
	 * disables. The backend writes it. */
	bool *channel_off;
	bool restore_failed; /* the failure has been logged */
};

/* A holding stays at its address until it is dropped. */
struct rbt_holdings {
	struct rbt_holding **list;
	size_t n, capacity;
};

void rbt_holdings_finish(struct rbt_holdings *hs);
struct rbt_holding *rbt_holdings_find(struct rbt_holdings *hs, uint32_t id);

/* Adds a holding, or replaces the record of the holding with this id and keeps its state. Changes
 * of tasks that the new record does not name are undone, because they could not be undone later.
 * Tasks that the driver refuses to restore stay in the record. Takes ownership of *rec, also on
 * failure. Returns 0 or -ENOMEM. */
int rbt_holdings_put(struct rbt_holdings *hs, uint32_t id, bool force, struct rbt_record *rec);

/* Removes the holding and closes its fd. Restores nothing. */
void rbt_holdings_drop(struct rbt_holdings *hs, uint32_t id);
/* The same, but resumed tasks are kicked first, because they could not be kicked later. */
void rbt_holdings_let_go(struct rbt_holdings *hs, uint32_t id);

/* A result for rbt_holding_apply(): the action is about to be carried out, or may have been. */
#define RBT_UNDERWAY (-EINPROGRESS)

/*
 * Notes an action and its result: 0, RBT_UNDERWAY, or -errno if the driver refused some tasks
 * (others may have obeyed). Daemon and hand note an action as under way before it is carried out.
 * If the hand dies half-way, the daemon knows what to restore. No I/O, no clock.
 *
 * The note never claims less than what may be in force: a suspend counts whatever its result, a
 * resume counts only with result 0.
 */
void rbt_holding_apply(struct rbt_holding *h, const struct rbt_action *action, int result);

/* Another process (a dead hand, or another scheduler) may have changed anything about the holding.
 * The next restore restores everything. */
void rbt_holding_assume_changed(struct rbt_holding *h);
/* The same, for suspends only. Tasks that another process has suspended alone do not count: such a
 * suspend ends with that process. */
void rbt_holding_assume_off(struct rbt_holding *h);
/* The same, for slices only. */
void rbt_holding_assume_slices(struct rbt_holding *h);
/* The same, for interleave levels only. */
void rbt_holding_assume_interleave(struct rbt_holding *h);
/* Another hand may have disabled any channel. Marks all as disabled, so that none is disabled
 * twice. Returns 0 or -ENOMEM. */
int rbt_holding_mark_channels(struct rbt_holding *h);

/* Whether it is kept off for a turn or a reserve. False for a suspend by command. */
static inline bool rbt_applied_is_in_turns(const struct rbt_applied *a)
{
	return a->is_off && a->scope == RBT_SCOPE_COMPUTE;
}

static inline bool rbt_applied_is_by_command(const struct rbt_applied *a)
{
	return a->is_off && a->scope == RBT_SCOPE_ALL;
}

/* Returns RBT_IS_* bits. */
static inline unsigned rbt_applied_state(const struct rbt_applied *a)
{
	return (a->is_off ? RBT_IS_OFF : 0u) | (rbt_applied_is_in_turns(a) ? RBT_IS_IN_TURNS : 0u);
}

/* Returns the state as of the previous call, for an owner that needs to know what changed since. */
static inline unsigned rbt_applied_take_edges(struct rbt_applied *a)
{
	unsigned before = rbt_applied_state(a) ^ a->edges;

	a->edges = 0;
	return before;
}

/* Whether tasks of this kind are off. */
static inline bool rbt_applied_is_off(const struct rbt_applied *a, uint32_t kind)
{
	return kind == RBT_TASK_COMPUTE ? a->is_off : a->others_are_off;
}

/* Whether the task was suspended alone. */
static inline bool rbt_applied_has_task_off(const struct rbt_applied *a, uint32_t handle)
{
	for (uint32_t i = 0; i < a->n_tasks_off; i++) {
		if (a->tasks_off[i] == handle) {
			return true;
		}
	}
	return false;
}

/* Whether any task is off, together with others or alone. */
static inline bool rbt_applied_has_any_off(const struct rbt_applied *a)
{
	return a->is_off || a->n_tasks_off > 0;
}

/* Whether slices that Rubato set are in force on the GPU. */
static inline bool rbt_applied_has_slices(const struct rbt_applied *a, uint32_t gpu)
{
	return a->slice_us[gpu] != 0 || a->copy_runlists[gpu] != 0;
}

/*
 * The functions below act on the device, and note the action as described above. If one task fails,
 * the others are still tried, and the first error is returned. A task that no longer exists
 * (-ENOENT) is not an error.
 */

/* Carries out SET_SLICE, SUSPEND, RESUME, SUSPEND_TASK, RESUME_TASK, KICK, RENEW, LEVEL, INTERLEAVE
 * or RESTORE_SLICES. A slice is set only for tasks whose own slice is known, and for copy tasks
 * only if it is shorter than their own. KICK takes as long as a suspend and a resume. */
int rbt_holding_act(struct rbt_holding *h, const struct rbt_action *action);
/* Carries out RESUME, with the current time. */
int rbt_holding_resume(struct rbt_holding *h, enum rbt_scope scope);

/* Resumes all tasks that were suspended alone. */
int rbt_holding_resume_tasks(struct rbt_holding *h);

/* Kicks resumed tasks, if the device needs it. Tasks that were suspended by command are kicked at
 * once, others when the owner has ordered it. Tasks that were resumed long ago are kicked in any
 * case, because the owner may have forgotten them or stopped. Returns when the next kick is due, or
 * UINT64_MAX. */
uint64_t rbt_holdings_kick(struct rbt_holdings *hs, uint64_t now_ns);

/*
 * The functions below return 0 if everything is as it would be without Rubato. Otherwise they
 * return the first error; what the driver refused stays marked as changed and can be tried again.
 */

/* Gives the tasks their own slices back, if these were changed. */
int rbt_holding_restore_slices(struct rbt_holding *h);

/* Restores one holding: first its tasks' own slices and interleave levels, then it resumes them.
 * Only changed tasks are touched. */
int rbt_holding_restore(struct rbt_holding *h);

/* Restores the slices and levels of all holdings, then resumes all. In this order, no program runs
 * at a short slice beside another one. */
int rbt_holdings_restore(struct rbt_holdings *hs);

#endif
