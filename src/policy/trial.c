/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/trial.h"

#include <errno.h>
#include <string.h>

#include "util/time.h"

#define TRIAL_SLICE_US 2048
#define TRIAL_VALID                                                                                \
	(GPU_SCHED_HAS_RUNLIST | GPU_SCHED_HAS_TSG | GPU_SCHED_HAS_ENGINE | GPU_SCHED_HAS_UID |    \
		GPU_SCHED_HAS_COMM | GPU_SCHED_HAS_DEFAULTS | GPU_SCHED_HAS_CHANNELS |             \
		GPU_SCHED_HAS_LOAD | GPU_SCHED_HAS_BUSY | GPU_SCHED_HAS_WORK |                     \
		GPU_SCHED_HAS_RUNTIME)
#define TASK .task = 1, .valid = TRIAL_VALID, .pid = 1, .user_priority = 8
#define OUTPUT                                                                                     \
	.timeslice = GPU_SCHED_KEEP, .interleave_level = GPU_SCHED_KEEP,                           \
	.priority = GPU_SCHED_KEEP, .weight = GPU_SCHED_KEEP

const enum rbt_hook rbt_trial_order[RBT_N_HOOKS] = {RBT_HOOK_INIT, RBT_HOOK_TASK_INIT,
	RBT_HOOK_SCHEDULE, RBT_HOOK_WORK_SUBMIT, RBT_HOOK_TICK, RBT_HOOK_TASK_DESTROY,
	RBT_HOOK_EXIT};

void rbt_trial_fill(enum rbt_hook hook, union rbt_any_ctx *ret)
{
	const uint64_t now_ns = rbt_now_ns();

	memset(ret, 0, sizeof(*ret));
	switch (hook) {
	case RBT_HOOK_TASK_INIT:
		ret->task = (struct bpf_gpu_task_ctx){TASK, .comm = "trial",
			.default_timeslice = TRIAL_SLICE_US, .default_interleave = 1, OUTPUT};
		return;
	case RBT_HOOK_SCHEDULE:
		ret->schedule = (struct bpf_gpu_schedule_ctx){TASK, .channel_count = 1, .load = 500,
			.n_normal = 1, .allow_schedule = 1, OUTPUT};
		return;
	case RBT_HOOK_WORK_SUBMIT:
		ret->work = (struct bpf_gpu_work_ctx){TASK, .timestamp = now_ns,
			.interval = RBT_NS_PER_MS * 100, .busy = RBT_NS_PER_MS * 50, .count = 10,
			.launches = 10, .syncs = 1, .bursts = 1, OUTPUT};
		return;
	case RBT_HOOK_TASK_DESTROY:
		ret->destroy = (struct bpf_gpu_task_destroy_ctx){
			TASK, .created = now_ns - RBT_NS_PER_S, .total_runtime = RBT_NS_PER_S / 2};
		return;
	default:
		ret->policy = (struct bpf_gpu_policy_ctx){.timestamp = now_ns, .n_gpus = 1};
	}
}

int rbt_trial_run(struct rbt_engine *e, struct rbt_why *why)
{
	for (size_t i = 0; i < RBT_N_HOOKS; i++) {
		const enum rbt_hook hook = rbt_trial_order[i];
		struct rbt_fault fault = {0};
		union rbt_any_ctx ctx;
		char text[160];

		rbt_trial_fill(hook, &ctx);
		int r = rbt_engine_run(e, hook, &ctx, &fault);
		if (r < 0 && r != -ENOENT) {
			rbt_fault_format(&fault, text, sizeof(text));
			return rbt_why_set(why, -EINVAL, "%s, in a dry run", text);
		}
	}
	return 0;
}
