/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks that a policy may have. Their contexts are in rubato/policy_abi.h. */
#ifndef RBT_POLICY_HOOK_H
#define RBT_POLICY_HOOK_H

#include <stddef.h>

enum rbt_hook {
	RBT_HOOK_TASK_INIT,
	RBT_HOOK_SCHEDULE,
	RBT_HOOK_WORK_SUBMIT,
	RBT_HOOK_TASK_DESTROY,
	RBT_HOOK_INIT,
	RBT_HOOK_EXIT,
	RBT_HOOK_TICK,
	RBT_N_HOOKS
};

/* As in SEC("gpu_sched/NAME"). */
const char *rbt_hook_name(enum rbt_hook hook);
/* RBT_N_HOOKS if there is no hook of that name. */
enum rbt_hook rbt_hook_find(const char *name);
/* The size of the hook's context. */
size_t rbt_hook_ctx_size(enum rbt_hook hook);

#endif
