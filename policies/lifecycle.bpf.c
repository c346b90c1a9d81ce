/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lifecycle: decides nothing, and keeps count. A template for policies that watch.
 *
 *     rubato policy load lifecycle.bpf.o --set silence_s=60
 *     rubato policy map dump global_stats
 *     rubato policy log --follow          # tasks that end, tasks that have become silent
 *
 * The ring buffer `events` has one record per task that is made, gone, silent or back. With the
 * kernel engine, programs of yours read it: bpf_map_get_fd_by_id() and libbpf's ring_buffer__new().
 */
#include <rubato/policy.bpf.h>

#define SECOND 1000000000ull

const volatile __u64 silence_s = 30; /* a task without work for so long is reported, once */

struct stats {
	__u64 made, gone;
	__u64 submissions, bursts, busy_ns;
	__u64 runtime_ns; /* of the tasks that are gone */
	__u64 n_silent;   /* now */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stats);
} global_stats SEC(".maps");

struct task {
	__u64 last; /* when it submitted last; 0: never */
	__u64 submissions, bursts;
	__u32 pid, is_silent;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* task */
	__type(value, struct task);
} tasks SEC(".maps");

/* A policy cannot go through a hash map, so the numbers of the tasks that submit are in an array.
 * A task that finds its place taken by a later one is not watched for silence. */
#define N_WATCHED 128
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, N_WATCHED);
	__type(key, __u32);
	__type(value, __u64);
} watched SEC(".maps");

enum kind { MADE, GONE, SILENT, BACK };
struct event {
	__u64 time;
	__u64 task;
	__u32 pid;
	enum kind kind;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} events SEC(".maps");

static __always_inline void tell(__u64 task, __u32 pid, enum kind kind)
{
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (e) { /* otherwise the ring is full, because nobody reads it */
		e->time = bpf_ktime_get_ns();
		e->task = task;
		e->pid = pid;
		e->kind = kind;
		bpf_ringbuf_submit(e, 0);
	}
}

/* Not on the stack: with CAP_BPF alone, Linux 6.1 refuses two 32-bit variables side by side. */
static const __u32 zero = 0;

static __always_inline struct stats *stats(void)
{
	return bpf_map_lookup_elem(&global_stats, &zero);
}

GPU_SCHED_HOOK(task_init, ctx)
{
	struct task new = {.pid = ctx->pid};
	struct stats *s = stats();

	/* A reload calls task_init again for tasks that are in the map already. */
	if (s && bpf_map_update_elem(&tasks, &ctx->task, &new, BPF_NOEXIST) == 0) {
		s->made++;
		tell(ctx->task, ctx->pid, MADE);
	}
}

GPU_SCHED_HOOK(work_submit, ctx)
{
	struct task *t = bpf_map_lookup_elem(&tasks, &ctx->task);
	__u32 place = ctx->task % N_WATCHED;
	struct stats *s = stats();

	if (!t || !s) {
		return;
	}
	s->submissions += ctx->count;
	s->bursts += ctx->bursts;
	s->busy_ns += ctx->busy;
	t->submissions += ctx->count;
	t->bursts += ctx->bursts;
	t->last = ctx->timestamp;
	bpf_map_update_elem(&watched, &place, &ctx->task, BPF_ANY);
	if (t->is_silent) {
		t->is_silent = 0;
		s->n_silent--;
		tell(ctx->task, ctx->pid, BACK);
	}
}

/* Not static and not inlined, so that the verifier looks at it once and not at each call. The loop
 * below is unrolled: with CAP_BPF alone, Linux 6.1 follows loops beyond their end. */
__noinline int look_at(__u32 place, __u64 now)
{
	__u64 *task = bpf_map_lookup_elem(&watched, &place);
	struct stats *s = stats();
	struct task *t;

	if (!task || !s) {
		return 0;
	}
	t = bpf_map_lookup_elem(&tasks, task);
	if (t && !t->is_silent && now - t->last > silence_s * SECOND) {
		t->is_silent = 1;
		s->n_silent++;
		tell(*task, t->pid, SILENT);
		gpu_sched_log("task %llu of pid %u: no work for %llu s", *task, t->pid,
			(now - t->last) / SECOND);
	}
	return 0;
}

GPU_SCHED_HOOK(tick, ctx)
{
#pragma clang loop unroll(full)
	for (__u32 place = 0; place < N_WATCHED; place++) {
		look_at(place, ctx->timestamp);
	}
}

GPU_SCHED_HOOK(task_destroy, ctx)
{
	struct task *t = bpf_map_lookup_elem(&tasks, &ctx->task);
	struct stats *s = stats();

	if (!t || !s) {
		return;
	}
	s->gone++;
	s->runtime_ns += ctx->total_runtime;
	s->n_silent -= t->is_silent != 0;
	gpu_sched_log("task %llu of pid %u is gone: %llu submissions, %llu bursts", ctx->task,
		ctx->pid, t->submissions, t->bursts);
	tell(ctx->task, ctx->pid, GONE);
	bpf_map_delete_elem(&tasks, &ctx->task);
}

GPU_SCHED_OPS_DEFINE(lifecycle);
char LICENSE[] SEC("license") = "GPL";
