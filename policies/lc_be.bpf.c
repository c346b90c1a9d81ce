/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lc_be: two classes by name. Latency-critical programs get long timeslices and a priority with
 * which they reserve the GPU; best-effort programs get short timeslices and take turns. Programs
 * without an entry in task_type_map are left as they are.
 *
 *     rubato policy load lc_be.bpf.o
 *     rubato policy map set task_type_map inference latency    # key: the program's name
 *     rubato policy map set task_type_map training best_effort
 *
 * The name is what `ps -o comm` prints: at most 15 characters, and "python3" for many programs
 * (prctl(PR_SET_NAME) changes it; `rubato renice` is for single processes). A changed entry is used
 * when the program next makes a task or submits work. Deleting an entry leaves programs as they
 * are: set it to `normal` instead.
 */
#define GPU_SCHED_NO_LOG
#include <rubato/policy.bpf.h>

enum task_type { normal, latency, best_effort };

/* In microseconds. Rubato limits a timeslice to one second; 10 s means "the longest". */
const volatile __u64 latency_us = 10000000;
const volatile __u64 normal_us = 2048; /* libcuda's own */
const volatile __u64 best_effort_us = 200;

struct name {
	char comm[GPU_SCHED_COMM_SIZE];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, char[GPU_SCHED_COMM_SIZE]);
	__type(value, enum task_type);
} task_type_map SEC(".maps");

/* work_submit does not say the name of a task's program. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* task */
	__type(value, struct name);
} names SEC(".maps");

/* The hooks have contexts of different types with the same outputs. */
#define TREAT(ctx, comm)                                                                           \
	do {                                                                                       \
		enum task_type *type = bpf_map_lookup_elem(&task_type_map, comm);                  \
                                                                                                   \
		if (type) {                                                                        \
			(ctx)->timeslice = *type == latency       ? latency_us                     \
					   : *type == best_effort ? best_effort_us                 \
								  : normal_us;                     \
			(ctx)->priority = *type == latency ? 13 : *type == best_effort ? 2 : 8;    \
		}                                                                                  \
	} while (0)

GPU_SCHED_HOOK(task_init, ctx)
{
	if (ctx->valid & GPU_SCHED_HAS_COMM) {
		bpf_map_update_elem(&names, &ctx->task, ctx->comm, BPF_ANY);
		TREAT(ctx, ctx->comm);
	}
}

GPU_SCHED_HOOK(work_submit, ctx)
{
	struct name *name = bpf_map_lookup_elem(&names, &ctx->task);

	if (name) {
		TREAT(ctx, name);
	}
}

GPU_SCHED_HOOK(task_destroy, ctx)
{
	bpf_map_delete_elem(&names, &ctx->task);
}

GPU_SCHED_OPS_DEFINE(lc_be, .base = "turns");
char LICENSE[] SEC("license") = "GPL";
