/* SPDX-License-Identifier: Apache-2.0 */
/* Ring buffers: output, reserve, submit, discard, and a ring that is full. */
#include "rubato/policy.bpf.h"

struct record {
	__u64 task;
	__u64 n;
	__u8 rest[48];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

__u64 n_events;

GPU_SCHED_HOOK(task_destroy, ctx)
{
	struct record out = {.task = ctx->task, .n = ++n_events};

	bpf_ringbuf_output(&events, &out, sizeof(out), 0);
}

GPU_SCHED_HOOK(task_init, ctx)
{
	struct record *r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);

	ctx->priority = r != 0;
	if (!r) {
		return;
	}
	r->task = ctx->task;
	r->n = ++n_events;
	__builtin_memset(r->rest, 0x11, sizeof(r->rest));
	if (ctx->uid == 1) {
		bpf_ringbuf_discard(r, 0);
	} else {
		bpf_ringbuf_submit(r, 0);
	}
}

GPU_SCHED_HOOK(work_submit, ctx)
{
	struct record out = {.task = ctx->task};

	ctx->timeslice = (__u64)bpf_ringbuf_output(&events, &out, 13, ctx->token);
	gpu_sched_log("%d %u %x", (__s64)-5, ctx->task, 255);
	gpu_sched_log("%lld %llu %c %llx %%", -1, ctx->task, 'z', ~0ull);
}

char LICENSE[] SEC("license") = "GPL";
