/* SPDX-License-Identifier: Apache-2.0 */
/* A dry run: every hook is called once, in the order of a task's life, with plausible contexts. */
#ifndef RBT_POLICY_TRIAL_H
#define RBT_POLICY_TRIAL_H

#include "policy/engine.h"

/* Room for every context. */
union rbt_any_ctx {
	struct bpf_gpu_task_ctx task;
	struct bpf_gpu_schedule_ctx schedule;
	struct bpf_gpu_work_ctx work;
	struct bpf_gpu_task_destroy_ctx destroy;
	struct bpf_gpu_policy_ctx policy;
};

/* The hooks, in the order in which they are tried. */
extern const enum rbt_hook rbt_trial_order[RBT_N_HOOKS];
/* The context of a task of a process that does not exist. */
void rbt_trial_fill(enum rbt_hook hook, union rbt_any_ctx *ret);
/* Tries all hooks that the engine has. 0, or -errno and `why`. The engine should have been opened
 * without a predecessor, because hooks change entries. */
int rbt_trial_run(struct rbt_engine *e, struct rbt_why *why);

#endif
