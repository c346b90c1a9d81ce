/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks without the macro, in the form that libbpf's users know. */
#include "rubato/policy.bpf.h"

SEC("gpu_sched/task_init")
int make(struct bpf_gpu_task_ctx *ctx)
{
	ctx->timeslice = ctx->default_timeslice / 2;
	ctx->priority = ctx->user_priority + 1;
	return 0;
}

SEC("gpu_sched/schedule")
int schedule(struct bpf_gpu_schedule_ctx *ctx)
{
	if (ctx->load > 950) {
		return -11;
	}
	ctx->allow_schedule = ctx->n_latency < 2;
	return 0;
}

SEC("gpu_sched/tick")
int tick(struct bpf_gpu_policy_ctx *ctx)
{
	return ctx->n_gpus == 1 ? 0 : 3;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
