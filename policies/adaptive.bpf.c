/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adaptive: finds the class of a program by watching it for windows of one second. Nobody has to
 * name classes.
 *
 *     rubato policy load adaptive.bpf.o                    # by=rate: submissions per second
 *     rubato policy load adaptive.bpf.o --set by=bursts    # requests per second
 *     rubato policy load adaptive.bpf.o --set by=duty      # how much of the time it has work
 *
 * by=rate takes programs with many submissions for latency programs. A trainer that launches small
 * kernels submits often, too, and is taken for one. by=duty is harder to fool: a request server
 * has no work for a part of the time, a trainer always has. A trainer that waits for its data
 * through half of each second still looks like a server.
 *
 * Nobody flaps: between the two thresholds a program stays what it is, `agree` windows in a row
 * must say the same, and a program is not judged in its first warmup_s seconds of work.
 */
#include <rubato/policy.bpf.h>

#define SECOND 1000000000ull

enum by { rate, bursts, duty };
const volatile enum by by = rate;

const volatile __u64 latency_rate = 1000;    /* submissions per second: over this, class latency */
const volatile __u64 best_effort_rate = 100; /* under this, best-effort */
const volatile __u64 latency_bursts = 20;
const volatile __u64 best_effort_bursts = 5;
const volatile __u64 latency_duty = 700; /* thousandths of the window: under this, latency */
const volatile __u64 best_effort_duty = 950;
const volatile __u32 agree = 2;
const volatile __u64 warmup_s = 3;

enum kind { unknown, latency, best_effort };

struct program {
	__u64 first;                         /* when its first work was seen */
	__u64 interval, busy, count, bursts; /* of this window */
	enum kind class, candidate;
	__u32 n_agree;
	__u32 pid; /* for people who dump the map */
};

/* By the task that submits. An LRU map: no program is left out, even if there are thousands. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* task */
	__type(value, struct program);
} programs SEC(".maps");

static __always_inline enum kind compare(__u64 n, __u64 low, __u64 high)
{
	return n > high ? latency : n < low ? best_effort : unknown;
}

static __always_inline enum kind judge(const struct program *p)
{
	__u64 ms = p->interval / 1000000; /* at least 1000 */
	__u64 permille = p->busy / 1000 / ms;

	switch (by) {
	case duty:
		return permille < latency_duty       ? latency
		       : permille > best_effort_duty ? best_effort
						     : unknown;
	case bursts:
		return compare(p->bursts * 1000 / ms, best_effort_bursts, latency_bursts);
	default:
		return compare(p->count * 1000 / ms, best_effort_rate, latency_rate);
	}
}

static __always_inline void end_window(struct program *p)
{
	enum kind now = judge(p);

	p->n_agree = now == p->candidate ? p->n_agree + 1 : 1;
	p->candidate = now;
	if (now != unknown && now != p->class && p->n_agree >= agree) {
		p->class = now;
		if (now == latency) {
			gpu_sched_log("pid %u is a latency program", p->pid);
		} else {
			gpu_sched_log("pid %u is a best-effort program", p->pid);
		}
	}
	p->interval = p->busy = p->count = p->bursts = 0;
}

GPU_SCHED_HOOK(work_submit, ctx)
{
	struct program new = {.first = ctx->timestamp, .pid = ctx->pid};
	struct program *p = bpf_map_lookup_elem(&programs, &ctx->task);
	__u32 needed = by == duty ? GPU_SCHED_HAS_BUSY : GPU_SCHED_HAS_WORK;

	if (!p) {
		bpf_map_update_elem(&programs, &ctx->task, &new, BPF_ANY);
		return;
	}
	if (!(ctx->valid & needed) || ctx->timestamp - p->first < warmup_s * SECOND) {
		return;
	}
	p->interval += ctx->interval;
	p->busy += ctx->busy;
	p->count += ctx->count;
	p->bursts += ctx->bursts;
	if (p->interval >= SECOND) {
		end_window(p);
	}
	if (p->class != unknown) {
		ctx->priority = p->class == latency ? 13 : 2;
	}
}

GPU_SCHED_HOOK(task_destroy, ctx)
{
	bpf_map_delete_elem(&programs, &ctx->task);
}

GPU_SCHED_OPS_DEFINE(adaptive, .base = "turns");
char LICENSE[] SEC("license") = "GPL";
