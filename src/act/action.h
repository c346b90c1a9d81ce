/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An action: one thing that is done to a holding (act/holding.h). The daemon sends actions to its
 * hand as they stand here (proto/hand.h), and both note what came of them with
 * rbt_holding_apply().
 */
#ifndef RBT_ACT_ACTION_H
#define RBT_ACT_ACTION_H

#include <assert.h>
#include <stdint.h>

enum rbt_action_op {
	/* gpu, minor, value = µs, 0: the tasks' own slices; runlists: the copy tasks on these
	 * runlists, a bit each; 0: the compute tasks */
	RBT_ACT_SET_SLICE = 1,
	RBT_ACT_SUSPEND, /* scope (ALL or COMPUTE), mode, value = deadline_ns */
	RBT_ACT_RESUME, /* scope: ALL, or COMPUTE if nothing else is off; REST: compute stays off */
	RBT_ACT_ROUSE,  /* the tasks that were resumed last; the hand does so after its reply */
	RBT_ACT_WATCH,  /* value = interval_us; 0: no longer */
	RBT_ACT_LEVEL,  /* value: of the backend's set_level() */
	/* The suspend lasts until value = deadline_ns. */
	RBT_ACT_RENEW,
	/* All slices go back to the tasks' own. */
	RBT_ACT_RESTORE_SLICES,
	/* The daemon was stopped for longer than a deadline, and the hand has let programs run; the
	 * daemon does not know which. Result 0: the slices that were set count no more. */
	RBT_ACT_LAPSE,
};

struct rbt_action {
	uint32_t op; /* enum rbt_action_op */
	/* Of the GPU: its index, by which the action is noted, and its minor number, by which the
	 * tasks of a record know it (backend/gpus.h). */
	uint32_t gpu, minor;
	uint32_t scope, mode; /* enum rbt_scope, enum rbt_suspend_mode */
	uint32_t pad;
	uint64_t value;
	uint64_t runlists;
	uint64_t at_ns; /* when the daemon asked for it, on the monotonic clock */
};
static_assert(sizeof(struct rbt_action) == 48, "travels between processes");

/* Copy tasks on all runlists, also those whose runlist is not known. */
#define RBT_ALL_RUNLISTS UINT64_MAX

#endif
