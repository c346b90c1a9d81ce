/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission: decides whether a program may run. A program is refused
 * - at its first run, while the GPU's load is over max_load;
 * - at its first run, if it is a latency program and there are more than max_latency of them;
 * - at each turn, for a while, if it submits more often than its entry in rate_limit_map allows.
 *
 *     rubato policy load admission.bpf.o --set max_load=800 --set max_latency=2
 *     rubato policy map set rate_limit_map 24983 500           # process id, submissions per second
 *
 * One trainer alone makes a load of 100 %, so a rule "refuse over 95 %" would refuse everybody else
 * for good. The load therefore counts only while a latency program is on the GPU, which is the
 * program to protect (--set always=true: it counts always), only for programs below class latency,
 * and only at a program's first run: programs that run already are never stopped by their own load.
 */
#include <rubato/policy.bpf.h>

#define SECOND  1000000000ull
#define LATENCY 11 /* the lowest priority of the class */

const volatile __u32 max_load = 950; /* thousandths of the last second */
const volatile __u32 max_latency = 4;
const volatile __u64 default_rate = 0; /* submissions per second; 0: no limit */
const volatile _Bool always = 0;

struct program {
	__u32 n_tasks;
	__u32 is_admitted;
	__u64 since; /* the window of a second in which submissions are counted */
	__u64 count;
	__u64 until; /* refused, because it was too fast */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32); /* process id */
	__type(value, __u64);
} rate_limit_map SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32); /* process id */
	__type(value, struct program);
} programs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* task */
	__type(value, __u32);
} tasks SEC(".maps");

/* `rubato policy map dump .bss` */
__u64 n_admitted, n_load, n_latency, n_rate;
__u64 now; /* the hook schedule gets no time: init, tick and work_submit bring it */

/* Entries outlive a reload, and this variable does not: old pauses would begin anew. */
GPU_SCHED_HOOK(init, ctx)
{
	now = ctx->timestamp;
}

GPU_SCHED_HOOK(task_init, ctx)
{
	struct program new = {.n_tasks = 1}, *p = bpf_map_lookup_elem(&programs, &ctx->pid);

	/* A reload calls task_init again for tasks that are in the map already. */
	if (bpf_map_update_elem(&tasks, &ctx->task, &ctx->pid, BPF_NOEXIST) == 0) {
		if (p) {
			p->n_tasks++;
		} else {
			bpf_map_update_elem(&programs, &ctx->pid, &new, BPF_ANY);
		}
	}
}

GPU_SCHED_HOOK(schedule, ctx)
{
	struct program *p = bpf_map_lookup_elem(&programs, &ctx->pid);
	int is_latency = ctx->user_priority >= LATENCY;

	if (!p) { /* there are more than 1024 programs */
		return;
	}
	if (now < p->until) {
		ctx->allow_schedule = 0;
		n_rate++;
	} else if (p->is_admitted) {
		return;
	} else if (is_latency && ctx->n_latency > max_latency) { /* with itself */
		ctx->allow_schedule = 0;
		n_latency++;
	} else if (!is_latency && ctx->load > max_load && (always || ctx->n_latency > 0)) {
		ctx->allow_schedule = 0;
		n_load++;
	} else {
		p->is_admitted = 1;
		n_admitted++;
	}
}

/* A program that was twice as fast as it may be is off for as long as it ran, and so on. Two
 * seconds are the most: Rubato ejects a policy that keeps a program off for timeout_ms. */
static __always_inline __u64 pause(__u64 count, __u64 limit)
{
	__u64 ns = (count - limit) * SECOND / limit;

	return ns < 2 * SECOND ? ns : 2 * SECOND;
}

GPU_SCHED_HOOK(work_submit, ctx)
{
	struct program *p = bpf_map_lookup_elem(&programs, &ctx->pid);
	const __u64 *own = bpf_map_lookup_elem(&rate_limit_map, &ctx->pid);
	__u64 limit = own ? *own : default_rate, ms;

	now = ctx->timestamp;
	if (!p) {
		return;
	}
	p->is_admitted = 1; /* it runs: before this policy was loaded, or overruled */
	if (now < p->until) {
		return; /* what it had submitted before, or in turns that nobody can refuse it */
	}
	if (p->since <= p->until) {
		p->since = now - ctx->interval > p->until ? now - ctx->interval : p->until;
	}
	p->count += ctx->count;
	ms = (now - p->since) / (SECOND / 1000);
	if (ms >= 1000) {
		__u64 per_second = p->count * 1000 / ms;

		if (limit != 0 && per_second > limit) {
			p->until = now + pause(per_second, limit);
		}
		p->since = now;
		p->count = 0;
	}
}

GPU_SCHED_HOOK(tick, ctx)
{
	now = ctx->timestamp;
}

GPU_SCHED_HOOK(task_destroy, ctx)
{
	struct program *p = bpf_map_lookup_elem(&programs, &ctx->pid);

	if (bpf_map_delete_elem(&tasks, &ctx->task) == 0 && p && --p->n_tasks == 0) {
		bpf_map_delete_elem(&programs, &ctx->pid);
		bpf_map_delete_elem(&rate_limit_map, &ctx->pid);
	}
}

GPU_SCHED_OPS_DEFINE(admission, .timeout_ms = 5000, .base = "turns");
char LICENSE[] SEC("license") = "GPL";
