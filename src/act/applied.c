/* SPDX-License-Identifier: Apache-2.0 */
/* Changes struct rbt_applied, the note of what has been applied to a holding. No other file writes
 * it. */
#include <errno.h>
#include <string.h>

#include "act/holding.h"

static void forget_slices(struct rbt_applied *a)
{
	memset(a->slice_us, 0, sizeof(a->slice_us));
	memset(a->copy_us, 0, sizeof(a->copy_us));
	memset(a->copy_runlists, 0, sizeof(a->copy_runlists));
}

/* Whether the tasks have their own slices again. A process without the right to write cannot have
 * changed them. */
static bool is_given_back(int result)
{
	return result == 0 || result == -EPERM || result == -EACCES;
}

static void note_slice(struct rbt_applied *a, const struct rbt_action *action, int result)
{
	uint32_t gpu = action->gpu;
	uint64_t us = action->value;

	a->slices_changed = a->slices_changed || us != 0;
	if (result == RBT_UNDERWAY || gpu >= RBT_MAX_GPUS || (us == 0 && !is_given_back(result))) {
		return;
	}
	if (action->runlists == 0) {
		a->slice_us[gpu] = us;
	} else if (us == 0) {
		a->copy_runlists[gpu] &= ~action->runlists;
	} else {
		a->copy_us[gpu] = us;
		a->copy_runlists[gpu] |= action->runlists;
	}
}

/* A process without the right to set levels, or on a device without them, has changed none. */
static void note_interleave(struct rbt_applied *a, const struct rbt_action *action, int result)
{
	bool is_own = action->value == RBT_INTERLEAVE_OWN;
	bool cannot = result == -EPERM || result == -EACCES || result == -EOPNOTSUPP;

	if (result == RBT_UNDERWAY) {
		a->interleave_changed = a->interleave_changed || !is_own;
		return;
	}
	if (cannot || (is_own && result == 0)) {
		a->interleave_changed = false;
	}
	/* A refused level is not tried again, but a task is given its own level until it has it. */
	if (!is_own || !a->interleave_changed) {
		a->interleave = (uint32_t)action->value;
	}
}

/* The result does not matter: some tasks may have obeyed even if others did not. */
static void note_suspend(struct rbt_applied *a, const struct rbt_action *action)
{
	a->is_off = true;
	a->others_are_off = a->others_are_off || action->scope == RBT_SCOPE_ALL;
	a->scope = action->scope;
	a->mode = action->mode;
	a->deadline_ns = action->value;
	a->is_unsure = false;
}

static void note_resume(struct rbt_applied *a, const struct rbt_action *action, int result)
{
	if (result == RBT_UNDERWAY) {
		return;
	}
	if (action->scope != RBT_SCOPE_OTHERS) {
		a->is_off = result < 0;
	}
	if (action->scope != RBT_SCOPE_COMPUTE) {
		a->others_are_off = result < 0;
	}
	/* Some tasks may run again even if others do not. Programs that were suspended by command
	 * are kicked at once. */
	a->is_unsure = true;
	a->is_kicked = action->scope != RBT_SCOPE_COMPUTE;
	a->kick_scope = action->scope;
	a->on_ns = action->at_ns;
}

static void note_task_off(struct rbt_applied *a, const struct rbt_action *action)
{
	if (!rbt_applied_has_task_off(a, action->task) && a->n_tasks_off < RBT_RECORD_MAX_TASKS) {
		a->tasks_off[a->n_tasks_off++] = action->task;
	}
	a->tasks_deadline_ns = action->value;
}

static void note_task_on(struct rbt_applied *a, const struct rbt_action *action, int result)
{
	for (uint32_t i = 0; result == 0 && i < a->n_tasks_off; i++) {
		if (a->tasks_off[i] == action->task) {
			a->tasks_off[i] = a->tasks_off[--a->n_tasks_off];
			/* So that equal notes are equal bytes. */
			a->tasks_off[a->n_tasks_off] = 0;
			return;
		}
	}
}

/* RBT_UNDERWAY means that the kick was ordered and happens later. */
static void note_kick(struct rbt_applied *a, const struct rbt_action *action, int result)
{
	if (result != RBT_UNDERWAY) {
		a->is_unsure = false;
	} else if (!a->is_off) {
		a->is_unsure = a->is_kicked = true;
		a->kick_scope = action->scope;
	}
}

void rbt_holding_apply(struct rbt_holding *h, const struct rbt_action *action, int result)
{
	struct rbt_applied *a = &h->applied;
	unsigned before = rbt_applied_state(a);

	switch (action->op) {
	case RBT_ACT_SET_SLICE:
		note_slice(a, action, result);
		break;
	case RBT_ACT_SUSPEND:
		note_suspend(a, action);
		break;
	case RBT_ACT_RESUME:
		note_resume(a, action, result);
		break;
	case RBT_ACT_KICK:
		note_kick(a, action, result);
		break;
	case RBT_ACT_POLL:
		a->poll_us = result == 0 ? (uint32_t)action->value : 0;
		break;
	case RBT_ACT_LEVEL:
		/* A refused level is not tried again, because levels are only an improvement. */
		a->level = (uint32_t)action->value;
		break;
	case RBT_ACT_INTERLEAVE:
		note_interleave(a, action, result);
		break;
	case RBT_ACT_RENEW:
		a->deadline_ns = action->value;
		a->tasks_deadline_ns = action->value;
		break;
	case RBT_ACT_SUSPEND_TASK:
		note_task_off(a, action);
		break;
	case RBT_ACT_RESUME_TASK:
		note_task_on(a, action, result);
		break;
	case RBT_ACT_RESTORE_SLICES:
	case RBT_ACT_LAPSE:
		if (result == 0) {
			forget_slices(a);
			a->slices_changed = a->slices_changed && action->op == RBT_ACT_LAPSE;
		}
		break;
	default:
		break;
	}
	a->edges ^= before ^ rbt_applied_state(a);
}

void rbt_holding_assume_off(struct rbt_holding *h)
{
	struct rbt_action suspend = {
		.op = RBT_ACT_SUSPEND, .scope = RBT_SCOPE_ALL, .mode = RBT_SUSPEND_FULL};

	rbt_holding_apply(h, &suspend, RBT_UNDERWAY);
}

void rbt_holding_assume_slices(struct rbt_holding *h)
{
	struct rbt_action set_slice = {.op = RBT_ACT_SET_SLICE, .value = 1};

	rbt_holding_apply(h, &set_slice, RBT_UNDERWAY);
}

void rbt_holding_assume_interleave(struct rbt_holding *h)
{
	struct rbt_action interleave = {.op = RBT_ACT_INTERLEAVE, .value = RBT_INTERLEAVE_OWN + 1};

	rbt_holding_apply(h, &interleave, RBT_UNDERWAY);
}

void rbt_holding_assume_changed(struct rbt_holding *h)
{
	rbt_holding_assume_interleave(h);
	rbt_holding_assume_slices(h);
	rbt_holding_assume_off(h);
}
