/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule that prevents collapse, by itself. decide.c applies it to all programs, and without a
 * daemon the shim applies it to its own (shim/apply.c). Pure.
 *
 * Two tasks with short slices that are runnable together on one runlist all but stop it (26.5 it/s
 * fell to 2.95 at 100 µs each, on an H200). So a slice shorter than the driver's own is granted
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
	RBT_DENIED_LOCK,      /* another scheduler holds the GPU's lock */
	RBT_DENIED_TASKS,     /* the program has several tasks: no two may be short and runnable */
	RBT_DENIED_COMPANY,   /* another program's short-slice task would be runnable beside it */
	RBT_DENIED_RIVAL,     /* another scheduler has such a task */
	RBT_DENIED_SUSPENDED, /* granted once the program is resumed */
	RBT_DENIED_ADMISSION, /* too many latency programs on the GPU: treated as normal */
	RBT_DENIED_POLICY,    /* a policy has refused to let it run */
	RBT_DENIED_IN_VAIN,   /* the same, but it runs because it cannot be suspended */
};

/* Facts about the GPUs, one bit each. */
struct rbt_sched_gpus {
	uint32_t locked; /* we hold the lock */
	uint32_t marked; /* another scheduler waits for the lock: its programs are company too */
};

/* Whether wanted_us is a short slice, which the rule must grant. */
bool rbt_rule_is_short(uint64_t wanted_us, uint64_t own_us);

/* Whether the GPU's lock and marks allow a short slice there. */
enum rbt_denial rbt_rule_judge_gpu(const struct rbt_sched_gpus *gpus, uint32_t gpu);

/* Whether a program's compute tasks on a GPU, n_own of them, may have a short slice if n_short
 * compute tasks are then runnable there with one, those n_own included. */
enum rbt_denial rbt_rule_judge(
	const struct rbt_sched_gpus *gpus, uint32_t gpu, uint32_t n_own, uint32_t n_short);

/* Runlists of a GPU are sets of 64 bits: a task on a runlist beyond has an unknown one. */
#define RBT_RULE_RUNLISTS 64

/* The number of tasks on one GPU that wish for a short slice, by runlist. Zeroed at first. */
struct rbt_rule_tally {
	uint32_t n[RBT_RULE_RUNLISTS];
	uint32_t n_unknown; /* tasks on an unknown runlist, which may be any */
};

/* Adds one task on each of these runlists, or removes it; an empty set is one task on an unknown
 * runlist. */
void rbt_rule_count(struct rbt_rule_tally *tally, uint64_t runlists, bool begins);

/* Whether the counted tasks, one on each of these runlists, are the only ones there. */
bool rbt_rule_is_alone(const struct rbt_rule_tally *tally, uint64_t runlists);

#endif
