/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a policy in eBPF and Rubato share: the contexts of the hooks, and the records of the log.
 * This is the only place where their layout is written down. Policies include policy.bpf.h, which
 * includes this file; programs of the host include this file alone.
 *
 * All fields have fixed sizes and there is no padding. A change of any layout here is a new
 * GPU_SCHED_ABI, and an object of another ABI is refused.
 */
#ifndef RUBATO_POLICY_ABI_H
#define RUBATO_POLICY_ABI_H

#ifndef __bpf__
#include <linux/types.h>
#endif

#define GPU_SCHED_ABI 1

/* As an output: change nothing. A timeslice of 0 means the same. */
#define GPU_SCHED_KEEP 0xffffffffu

/* Bits of `valid`: the field is known. The value of an unknown field is 0. */
#define GPU_SCHED_HAS_RUNLIST       (1u << 0)  /* runlist_id */
#define GPU_SCHED_HAS_TSG           (1u << 1)  /* tsg_id */
#define GPU_SCHED_HAS_USER_PRIORITY (1u << 2)  /* user_priority: a user has chosen it */
#define GPU_SCHED_HAS_ENGINE        (1u << 3)  /* engine_type */
#define GPU_SCHED_HAS_UID           (1u << 4)  /* uid */
#define GPU_SCHED_HAS_CGROUP        (1u << 5)  /* cgroup_id */
#define GPU_SCHED_HAS_COMM          (1u << 6)  /* comm */
#define GPU_SCHED_HAS_DEFAULTS      (1u << 7)  /* default_timeslice, default_interleave */
#define GPU_SCHED_HAS_CHANNELS      (1u << 8)  /* channel_count */
#define GPU_SCHED_HAS_LOAD          (1u << 9)  /* load */
#define GPU_SCHED_HAS_CHANNEL       (1u << 10) /* channel_id, token */
#define GPU_SCHED_HAS_BUSY          (1u << 11) /* busy */
#define GPU_SCHED_HAS_WORK          (1u << 12) /* count, and its parts */
#define GPU_SCHED_HAS_RUNTIME       (1u << 13) /* total_runtime */

/* Values of engine_type. */
#define GPU_SCHED_ENGINE_COMPUTE 0
#define GPU_SCHED_ENGINE_COPY    1
#define GPU_SCHED_ENGINE_OTHER   2

#define GPU_SCHED_COMM_SIZE 16

/*
 * The first fields of every context of a task.
 * task: the key for maps. It is never used twice; a tsg_id is, and all tasks of a program can have
 *     tsg_id 0, one per runlist.
 * user_priority: 0 to 15, 15 is the highest.
 */
#define GPU_SCHED_TASK_FIELDS                                                                      \
	__u64 task;                                                                                \
	__u32 valid;                                                                               \
	__u32 gpu;                                                                                 \
	__u32 runlist_id;                                                                          \
	__u32 tsg_id;                                                                              \
	__u32 pid;                                                                                 \
	__u32 user_priority

/*
 * Outputs. All are GPU_SCHED_KEEP when the hook is called. Rubato limits them to what is allowed.
 * timeslice: microseconds. interleave_level: 0 to 2. priority: 0 to 15. weight: share of turns.
 */
#define GPU_SCHED_OUTPUT_FIELDS                                                                    \
	__u64 timeslice;                                                                           \
	__u32 interleave_level;                                                                    \
	__u32 priority;                                                                            \
	__u32 weight;                                                                              \
	__u32 reserved_out

/* task_init: a task has been made. */
struct bpf_gpu_task_ctx {
	GPU_SCHED_TASK_FIELDS;
	__u32 engine_type;
	__u32 uid;
	__u64 cgroup_id;
	char comm[GPU_SCHED_COMM_SIZE];
	__u64 default_timeslice; /* microseconds */
	__u32 default_interleave;
	__u32 reserved;
	GPU_SCHED_OUTPUT_FIELDS;
};

/* schedule: a task is about to run for the first time, or to get a turn. */
struct bpf_gpu_schedule_ctx {
	GPU_SCHED_TASK_FIELDS;
	__u32 channel_count;
	__u32 load;      /* how busy the GPU was in the last second, in thousandths */
	__u32 n_latency; /* programs of each class on this GPU */
	__u32 n_normal;
	__u32 n_best_effort;
	__u32 allow_schedule; /* output; 1 at first; 0: not now */
	GPU_SCHED_OUTPUT_FIELDS;
};

/* work_submit: a task has submitted work. One call covers an interval, not one submission. */
struct bpf_gpu_work_ctx {
	GPU_SCHED_TASK_FIELDS;
	__u32 channel_id;
	__u32 token;
	__u64 timestamp; /* CLOCK_MONOTONIC, in nanoseconds, as of bpf_ktime_get_ns() */
	__u64 interval;  /* nanoseconds since the last call for this task */
	__u64 busy;      /* nanoseconds of the interval in which the task had work */
	__u64 count;     /* submissions in the interval: the sum of the next four */
	__u64 launches;
	__u64 graphs;
	__u64 copies;
	__u64 memsets;
	__u64 syncs;
	__u64 bursts; /* how often the task became busy */
	GPU_SCHED_OUTPUT_FIELDS;
};

/* task_destroy: a task is gone. */
struct bpf_gpu_task_destroy_ctx {
	GPU_SCHED_TASK_FIELDS;
	__u64 created;       /* CLOCK_MONOTONIC, in nanoseconds */
	__u64 total_runtime; /* nanoseconds */
};

/* init, exit and tick: the policy has been loaded, will be unloaded, time has passed. */
struct bpf_gpu_policy_ctx {
	__u64 timestamp; /* CLOCK_MONOTONIC, in nanoseconds */
	__u32 n_gpus;
	__u32 reserved;
};

/* GPU_SCHED_OPS_DEFINE() makes one. */
#define GPU_SCHED_NAME_SIZE 16
struct gpu_sched_ops {
	__u32 timeout_ms; /* how long a task may be kept off; 0: Rubato's default */
	__u32 reserved;
	char name[GPU_SCHED_NAME_SIZE];
	char base[GPU_SCHED_NAME_SIZE]; /* the built-in policy underneath; empty: the default */
};

/* One record of gpu_sched_log(). Rubato formats it. */
#define GPU_SCHED_LOG_ARGS 4
#define GPU_SCHED_LOG_TEXT 64
struct gpu_sched_log_record {
	__u64 timestamp;
	__u64 args[GPU_SCHED_LOG_ARGS];
	char format[GPU_SCHED_LOG_TEXT]; /* ends with NUL */
};

_Static_assert(sizeof(struct bpf_gpu_task_ctx) == 104, "bpf_gpu_task_ctx");
_Static_assert(sizeof(struct bpf_gpu_schedule_ctx) == 80, "bpf_gpu_schedule_ctx");
_Static_assert(sizeof(struct bpf_gpu_work_ctx) == 144, "bpf_gpu_work_ctx");
_Static_assert(sizeof(struct bpf_gpu_task_destroy_ctx) == 48, "bpf_gpu_task_destroy_ctx");
_Static_assert(sizeof(struct bpf_gpu_policy_ctx) == 16, "bpf_gpu_policy_ctx");
_Static_assert(sizeof(struct gpu_sched_ops) == 40, "gpu_sched_ops");
_Static_assert(sizeof(struct gpu_sched_log_record) == 104, "gpu_sched_log_record");

#endif
