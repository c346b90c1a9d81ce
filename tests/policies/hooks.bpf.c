/* SPDX-License-Identifier: Apache-2.0 */
/* All hooks by the macro, a hash map with the context's field as its key, tunables, the log. */
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

enum rule { FIRST, SECOND = 5, THIRD };

const volatile __u64 slice_us = 200;
const volatile __u32 max_channels = 8;
const volatile __s16 offset = -3;
const volatile _Bool refuse = 0;
const volatile enum rule rule = SECOND;
__u64 n_submits;
__u64 scale = 3;

GPU_SCHED_HOOK(task_init, ctx)
{
	struct stat s = {.last_ns = 1000};

	bpf_map_update_elem(&stats, &ctx->task, &s, BPF_ANY);
	if (ctx->engine_type == GPU_SCHED_ENGINE_COPY) {
		return;
	}
	ctx->timeslice = slice_us * scale;
	ctx->interleave_level = ctx->comm[0] == 'p' ? 2 : 0;
	ctx->priority = rule;
	ctx->weight = (__u32)(ctx->uid + offset);
}

GPU_SCHED_HOOK(schedule, ctx)
{
	ctx->allow_schedule = !refuse && ctx->channel_count < max_channels;
}

GPU_SCHED_HOOK(work_submit, ctx)
{
	struct stat *s = bpf_map_lookup_elem(&stats, &ctx->task);

	if (!s) {
		gpu_sched_log("task %llu is not known, %u", ctx->task, ctx->tsg_id);
		return;
	}
	__sync_fetch_and_add(&s->submits, ctx->count);
	s->interval_ewma = (s->interval_ewma * 7 + (ctx->timestamp - s->last_ns)) >> 3;
	s->last_ns = ctx->timestamp;
	__sync_fetch_and_add(&n_submits, 1);
	ctx->priority = n_submits & 15;
}

GPU_SCHED_HOOK(task_destroy, ctx)
{
	gpu_sched_log("gone");
	bpf_map_delete_elem(&stats, &ctx->task);
}

GPU_SCHED_OPS_DEFINE(hooks, .timeout_ms = 5000, .base = "turns");
char LICENSE[] SEC("license") = "GPL";
