/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in policies. A policy says who takes turns and in which order, who reserves, and
 * whether priorities count; the mechanics are the same for all.
 */
#ifndef RBT_SCHED_POLICY_H
#define RBT_SCHED_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rbt_sched_config;
struct rbt_sched_unit;

/* No program has this priority: nobody. */
#define RBT_PRIORITY_NOBODY 16

struct rbt_sched_policy {
	const char *name;
	const char *summary; /* one line for users */
	/* Programs up to this priority take turns, one at a time on a GPU; those above it stay
	 * runnable and share by slice. */
	unsigned turns_up_to;
	/* Programs from this priority on that do not take turns reserve the GPU while busy; below
	 * class latency, only those that have the rights for it. */
	unsigned reserve_from;
	bool is_strict; /* between priorities; otherwise they do not count */
	/* Who is first on a GPU among those of a priority: the unit with the smallest. */
	uint64_t (*key)(const struct rbt_sched_unit *u, uint32_t gpu);
	/* How long a turn lasts at most. */
	uint64_t (*turn_ns)(const struct rbt_sched_config *config);
};

/* The table; the first is the default. */
const struct rbt_sched_policy *rbt_sched_policies(size_t *ret_n);
/* NULL when there is none of this name. */
const struct rbt_sched_policy *rbt_sched_policy_find(const char *name);

#endif
