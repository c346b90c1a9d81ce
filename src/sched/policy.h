/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in policies. A policy says which programs take turns and in which order, which get
 * reserves, and whether priorities count; the mechanics are the same for all.
 */
#ifndef RBT_SCHED_POLICY_H
#define RBT_SCHED_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rbt_sched_config;
struct rbt_sched_unit;

/* No program has this priority: it means "none". */
#define RBT_PRIORITY_NOBODY 16

struct rbt_sched_policy {
	const char *name;
	const char *summary; /* one line for users */
	/* Programs up to this priority take turns, one at a time per GPU; those above it stay
	 * runnable and share by slice. */
	unsigned turns_up_to;
	/* Programs from this priority on that do not take turns get a reserve while busy. Below
	 * class latency, only programs that have the rights for it do. */
	unsigned reserve_from;
	bool is_strict; /* a higher priority goes first; otherwise priorities do not count */
	/* Orders units of the same priority on a GPU: the unit with the smallest key is first. */
	uint64_t (*key)(const struct rbt_sched_unit *u, uint32_t gpu);
	/* The longest turn. */
	uint64_t (*turn_ns)(const struct rbt_sched_config *config);
};

/* The table of policies; the first is the default. */
const struct rbt_sched_policy *rbt_sched_policies(size_t *ret_n);
/* NULL if there is no policy of this name. */
const struct rbt_sched_policy *rbt_sched_policy_find(const char *name);

#endif
