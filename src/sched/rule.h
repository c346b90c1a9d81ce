/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule that prevents collapse, by itself; decide.c applies it. Pure.
 *
 * Two tasks with short slices that are runnable together all but stop the device (26.5 it/s fell to
 * 2.95 at 100 µs each, on an H200), so a slice shorter than the driver's own is granted only by the
 * holder of the GPU's lock, and only to a task that has no such company.
 */
#ifndef RBT_SCHED_RULE_H
#define RBT_SCHED_RULE_H

#include <stdbool.h>
#include <stdint.h>

enum rbt_denial {
	RBT_DENIED_NOTHING,
	RBT_DENIED_LOCK,      /* somebody else schedules this GPU */
	RBT_DENIED_TASKS,     /* it has several, and no two of them may be short and runnable */
	RBT_DENIED_COMPANY,   /* another program's short-slice task would be runnable beside it */
	RBT_DENIED_RIVAL,     /* another scheduler has such a task */
	RBT_DENIED_SUSPENDED, /* granted once it runs again */
	RBT_DENIED_ADMISSION, /* too many latency programs on the GPU: treated as normal */
};

/* What is known of the GPUs, a bit each. */
struct rbt_sched_gpus {
	uint32_t locked; /* the lock is ours */
	uint32_t marked; /* another scheduler was refused the lock: its programs are company too */
};

/* Whether a slice of `wanted_us` is one that only the rule may grant. */
bool rbt_rule_is_short(uint64_t wanted_us, uint64_t own_us);

/* Whether the GPU's lock and marks allow a short slice there. */
enum rbt_denial rbt_rule_judge_gpu(const struct rbt_sched_gpus *gpus, uint32_t gpu);

#endif
