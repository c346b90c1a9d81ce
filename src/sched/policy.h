/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies. A policy says which programs take turns and in which order, which get reserves, and
 * whether priorities count. The mechanics are the same for all policies, and no policy can reach
 * the collapse rule (rule.h), the starvation guard (guard.c), or the GPU locks.
 */
#ifndef RBT_SCHED_POLICY_H
#define RBT_SCHED_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rbt_sched_config;
struct rbt_sched_params;
struct rbt_sched_unit;

/* What a program is to the scheduler. */
enum rbt_role {
	RBT_ROLE_NONE, /* it has no compute task */
	RBT_ROLE_TURN, /* it takes turns, one program at a time per GPU */
	RBT_ROLE_FREE, /* it stays runnable and shares by slice, unless a reserve keeps it off */
	/* As FREE, and it gets a reserve while busy. Below class latency, only programs that have
	 * the rights for it do. */
	RBT_ROLE_RESERVE,
};

/* All operations are mandatory, get the policy's context, and must not block. They are called on
 * the thread that calls the core, often several times per event, and must not call the core. */
struct rbt_sched_policy {
	const char *name;
	const char *summary; /* one line for users */
	void *ctx;           /* for the operations; NULL for built-in policies */
	bool is_strict;      /* a higher priority goes first; otherwise priorities do not count */
	/* key() is the time that a unit has had. A unit that loses the rest of its turn then comes
	 * back sooner, so a short rest may be given to the next unit. */
	bool orders_by_use;
	bool asks; /* admit() of struct rbt_sched_ops is asked whether programs may run */
	/* The role of programs of this priority: TURN, FREE or RESERVE. A program that cannot be
	 * suspended is FREE instead of TURN. */
	enum rbt_role (*role)(void *ctx, unsigned priority);
	/* Orders units of the same priority on a GPU: the unit with the smallest key is first. */
	uint64_t (*key)(void *ctx, const struct rbt_sched_unit *u, uint32_t gpu);
	/* The longest turn. */
	uint64_t (*turn_ns)(void *ctx, const struct rbt_sched_config *config);
};

/* What a policy says about a program. It goes before what users say, and ends with the policy. */
struct rbt_policy_output {
	uint32_t timeslice_us; /* 1 to RBT_TIMESLICE_MAX_US; 0 is as RBT_POLICY_KEEP */
	uint32_t interleave;   /* 0 to RBT_INTERLEAVE_MAX; the core has no use for it */
	uint32_t priority;     /* 0 to RBT_PRIORITY_MAX */
	uint32_t weight;       /* 1 to RBT_WEIGHT_MAX */
};
#define RBT_POLICY_KEEP    UINT32_MAX /* changes nothing */
#define RBT_INTERLEAVE_MAX 2
#define RBT_POLICY_OUTPUT_INIT                                                                     \
	((struct rbt_policy_output){                                                               \
		RBT_POLICY_KEEP, RBT_POLICY_KEEP, RBT_POLICY_KEEP, RBT_POLICY_KEEP})

/* Takes over what `said` changes; values out of range become the nearest within. Returns whether
 * the output is another now. */
bool rbt_policy_output_take(struct rbt_policy_output *o, const struct rbt_policy_output *said);
/* Puts the output into a program's parameters. */
void rbt_policy_output_apply(const struct rbt_policy_output *o, struct rbt_sched_params *params);

/* The table of built-in policies; the first is the default. */
const struct rbt_sched_policy *rbt_sched_policies(size_t *ret_n);
/* NULL if there is no policy of this name. */
const struct rbt_sched_policy *rbt_sched_policy_find(const char *name);

#endif
