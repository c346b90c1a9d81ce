/* SPDX-License-Identifier: Apache-2.0 */
/* What bench/policy.c measures: hooks of the usual length. It has the same in C. */
#define GPU_SCHED_NO_LOG
#include "rubato/policy.bpf.h"

struct stat {
	__u64 submits;
	__u64 last_ns;
	__u64 interval_ewma;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct stat);
} stats SEC(".maps");

const volatile __u64 slice_us = 200;
const volatile __u32 max_channels = 8;
__u64 n_submits;

GPU_SCHED_HOOK(task_init, ctx)
{
	struct stat s = {.last_ns = bpf_ktime_get_ns()};

	bpf_map_update_elem(&stats, &ctx->task, &s, BPF_ANY);
	ctx->timeslice = slice_us;
	ctx->interleave_level = ctx->engine_type == GPU_SCHED_ENGINE_COMPUTE ? 2 : 0;
	ctx->priority = 10;
}

GPU_SCHED_HOOK(schedule, ctx)
{
	ctx->allow_schedule = ctx->channel_count < max_channels;
}

GPU_SCHED_HOOK(work_submit, ctx)
{
	struct stat *s = bpf_map_lookup_elem(&stats, &ctx->task);

	if (!s) {
		return;
	}
	__sync_fetch_and_add(&s->submits, ctx->count);
	s->interval_ewma = (s->interval_ewma * 7 + (ctx->timestamp - s->last_ns)) >> 3;
	s->last_ns = ctx->timestamp;
	__sync_fetch_and_add(&n_submits, 1);
}

GPU_SCHED_HOOK(task_destroy, ctx)
{
	bpf_map_delete_elem(&stats, &ctx->task);
}

GPU_SCHED_OPS_DEFINE(bench);
char LICENSE[] SEC("license") = "GPL";
