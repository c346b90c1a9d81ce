/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/hook.h"

#include <string.h>

#include "rubato/policy_abi.h"

static const struct {
	const char *name;
	size_t ctx_size;
} hooks[RBT_N_HOOKS] = {
	[RBT_HOOK_TASK_INIT] = {"task_init", sizeof(struct bpf_gpu_task_ctx)},
	[RBT_HOOK_SCHEDULE] = {"schedule", sizeof(struct bpf_gpu_schedule_ctx)},
	[RBT_HOOK_WORK_SUBMIT] = {"work_submit", sizeof(struct bpf_gpu_work_ctx)},
	[RBT_HOOK_TASK_DESTROY] = {"task_destroy", sizeof(struct bpf_gpu_task_destroy_ctx)},
	[RBT_HOOK_INIT] = {"init", sizeof(struct bpf_gpu_policy_ctx)},
	[RBT_HOOK_EXIT] = {"exit", sizeof(struct bpf_gpu_policy_ctx)},
	[RBT_HOOK_TICK] = {"tick", sizeof(struct bpf_gpu_policy_ctx)},
};

const char *rbt_hook_name(enum rbt_hook hook)
{
	return hooks[hook].name;
}

enum rbt_hook rbt_hook_find(const char *name)
{
	for (int i = 0; i < RBT_N_HOOKS; i++) {
		if (strcmp(hooks[i].name, name) == 0) {
			return i;
		}
	}
	return RBT_N_HOOKS;
}

size_t rbt_hook_ctx_size(enum rbt_hook hook)
{
	return hooks[hook].ctx_size;
}
