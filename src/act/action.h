/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An action: one change to a holding (act/holding.h). The daemon sends actions to its hand in this
 * form (proto/hand.h). Daemon and hand both note the result with rbt_holding_apply().
 */
#ifndef RBT_ACT_ACTION_H
#define RBT_ACT_ACTION_H

#include <assert.h>
#include <stdint.h>

enum rbt_action_op {
	/* Sets the slice of tasks on one GPU (gpu, minor). value: the slice in µs, or 0 for the
	 * tasks' own slices. runlists: a bit per runlist whose copy tasks are meant, or 0 for the
	 * compute tasks. */
	RBT_ACT_SET_SLICE = 1,
	RBT_ACT_SUSPEND, /* scope (ALL or COMPUTE), mode, value = deadline_ns */
	/* scope: ALL, COMPUTE if only compute tasks are off, or REST, after which compute stays
	 * off */
	RBT_ACT_RESUME,
	/* kicks the tasks that were resumed last; the hand does this after its reply */
	RBT_ACT_KICK,
	RBT_ACT_POLL,  /* value = polling interval in µs; 0 ends the polling */
	RBT_ACT_LEVEL, /* value: see set_level() of the backend */
	/* value = deadline_ns, until which the suspend lasts. */
	RBT_ACT_RENEW,
	/* All tasks get their own slices back. */
	RBT_ACT_RESTORE_SLICES,
	/* The daemon was stopped for longer than a deadline, so the hand has resumed programs, and
	 * the daemon does not know which. With result 0, the slices that were set before no longer
	 * count. */
	RBT_ACT_LAPSE,
	/* task, value = deadline_ns. Suspends one task, whatever happens to the others. */
	RBT_ACT_SUSPEND_TASK,
	RBT_ACT_RESUME_TASK, /* task */
	/* value: how often runlists visit the tasks; see set_interleave() of the backend.
	 * RBT_INTERLEAVE_OWN puts it back. */
	RBT_ACT_INTERLEAVE,
};

struct rbt_action {
	uint32_t op; /* enum rbt_action_op */
	/* The GPU's index, under which the action is noted, and its minor number, which the tasks
	 * of a record have (backend/gpus.h). */
	uint32_t gpu, minor;
	uint32_t scope, mode; /* enum rbt_scope, enum rbt_suspend_mode */
	uint32_t task;        /* a task's handle */
	uint64_t value;
	uint64_t runlists;
	uint64_t at_ns; /* when the daemon sent it, on the monotonic clock */
};
static_assert(sizeof(struct rbt_action) == 48, "travels between processes");

/* Copy tasks on all runlists, including tasks whose runlist is unknown. */
#define RBT_ALL_RUNLISTS UINT64_MAX

#endif
