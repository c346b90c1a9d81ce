/* SPDX-License-Identifier: Apache-2.0 */
/* Does what its tests tell it: by tunables for all programs, and by the map `orders` for one. */
#include "rubato/policy.bpf.h"

#ifndef TIMEOUT_MS
#define TIMEOUT_MS 60000
#endif
#ifndef SLOW_MAX /* the verifier goes through all of them */
#define SLOW_MAX 10
#endif

struct order {
	__u32 refuse; /* its turns */
	__u32 fail;   /* in each hook that is called for it */
	__u32 slow;   /* rounds of a loop in `schedule` */
	__u32 flip;   /* another priority in each hook */
};

struct life {
	__u64 inits, schedules, works;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32); /* pid */
	__type(value, struct order);
} orders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64); /* task */
	__type(value, struct life);
} lives SEC(".maps");

enum { TICKS, INITS, EXITS, DESTROYS, N_COUNTS };
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, N_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

const volatile __u64 slice_us = 0;
const volatile __u32 priority = GPU_SCHED_KEEP;
const volatile __u32 weight = GPU_SCHED_KEEP;
const volatile _Bool refuse_all = 0;
__u32 n_flips;
__u64 sink;

static __always_inline void count(__u32 what)
{
	__u64 *n = bpf_map_lookup_elem(&counts, &what);

	if (n) {
		__sync_fetch_and_add(n, 1);
	}
}

static __always_inline struct order *order_of(__u32 pid)
{
	return bpf_map_lookup_elem(&orders, &pid);
}

SEC("gpu_sched/task_init")
int task_init(struct bpf_gpu_task_ctx *ctx)
{
	struct order *order = order_of(ctx->pid);
	__u64 task = ctx->task;
	struct life *life = bpf_map_lookup_elem(&lives, &task);
	struct life first = {.inits = 1};

	if (life) {
		life->inits++;
	} else {
		bpf_map_update_elem(&lives, &task, &first, BPF_ANY);
	}
	ctx->timeslice = slice_us;
	ctx->priority = priority;
	ctx->weight = weight;
	return order && order->fail ? -1 : 0;
}

SEC("gpu_sched/schedule")
int schedule(struct bpf_gpu_schedule_ctx *ctx)
{
	struct order *order = order_of(ctx->pid);
	__u64 task = ctx->task;
	struct life *life = bpf_map_lookup_elem(&lives, &task);

	if (life) {
		life->schedules++;
	}
	ctx->allow_schedule = !refuse_all;
	if (!order) {
		return 0;
	}
	for (__u32 i = 0; i < SLOW_MAX && i < order->slow; i++) {
		sink += bpf_ktime_get_ns();
		sink += bpf_ktime_get_ns();
		sink += bpf_ktime_get_ns();
		sink += bpf_ktime_get_ns();
	}
	ctx->allow_schedule = !order->refuse;
	if (order->flip) {
		ctx->priority = n_flips++ & 3;
	}
	return order->fail ? -1 : 0;
}

SEC("gpu_sched/work_submit")
int work_submit(struct bpf_gpu_work_ctx *ctx)
{
	struct order *order = order_of(ctx->pid);
	__u64 task = ctx->task;
	struct life *life = bpf_map_lookup_elem(&lives, &task);

	if (life) {
		life->works++;
	}
	if (order && order->flip) {
		ctx->priority = n_flips++ & 3;
	}
	return order && order->fail ? -1 : 0;
}

SEC("gpu_sched/task_destroy")
int task_destroy(struct bpf_gpu_task_destroy_ctx *ctx)
{
	__u64 task = ctx->task;

	count(DESTROYS);
	bpf_map_delete_elem(&lives, &task);
	return 0;
}

GPU_SCHED_HOOK(init, ctx)
{
	count(INITS);
	gpu_sched_log("hello %u", TIMEOUT_MS);
}

GPU_SCHED_HOOK(exit, ctx)
{
	count(EXITS);
	gpu_sched_log("goodbye");
}

GPU_SCHED_HOOK(tick, ctx)
{
	count(TICKS);
}

GPU_SCHED_OPS_DEFINE(steered, .timeout_ms = TIMEOUT_MS);
char LICENSE[] SEC("license") = "GPL";
