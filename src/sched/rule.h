/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule that prevents collapse, by itself. decide.c applies it to all programs, and without a
 * daemon the shim applies it to its own (shim/apply.c). Pure.
 *
 * Two tasks with short slices that are runnable together on one runlist all but stop it (26.5 it/s
 * fell to 2.95 at 100 µs each, on an H200), so a slice shorter than the driver's own is granted
 * only by the holder of the GPU's lock, and only to a task that has no such company on its runlist.
 *
 * Compute tasks of a GPU count as if they shared one runlist. Copy tasks are on runlists of their
 * own, one per copy engine: they are counted by runlist.
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

/* Whether a program's compute tasks on a GPU, n_own of them, may have a short slice if n_short
 * compute tasks are then runnable there with one, those n_own included. */
enum rbt_denial rbt_rule_judge(
	const struct rbt_sched_gpus *gpus, uint32_t gpu, uint32_t n_own, uint32_t n_short);

/* Runlists of a GPU are sets of 64 bits: a task on a runlist beyond has an unknown one. */
#define RBT_RULE_RUNLISTS 64

/* How many tasks of one GPU wish for a short slice, by runlist. Zeroed at first. */
struct rbt_rule_tally {
	uint32_t n[RBT_RULE_RUNLISTS];
	uint32_t n_unknown; /* their runlist is not known: it may be any */
};

/* Adds a task on each of these runlists; an empty set is a task on an unknown one. Or takes them
 * out again. */
void rbt_rule_count(struct rbt_rule_tally *tally, uint64_t runlists, bool begins);

/* Whether tasks that were counted, one on each of these runlists, are the only ones there. */
bool rbt_rule_is_alone(const struct rbt_rule_tally *tally, uint64_t runlists);

#endif
