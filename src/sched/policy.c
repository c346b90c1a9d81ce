/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/policy.h"

#include <string.h>

#include "sched/impl.h"

static uint64_t order_key(const struct rbt_sched_unit *u, uint32_t g)
{
	return u->order;
}

static uint64_t one_turn(const struct rbt_sched_config *config)
{
	return rbt_ms(config->turn_ms);
}

/* First come, first served: a unit stays until it idles, or until this limit. */
static uint64_t one_stay(const struct rbt_sched_config *config)
{
	return rbt_ms(config->max_reserve_ms);
}

/* Priorities: best-effort is 0 to 5, normal 6 to 10, latency 11 to 15. */
static const struct rbt_sched_policy policies[] = {
	{
		.name = "turns",
		.summary = "best-effort programs take turns; latency programs reserve the GPU",
		.turns_up_to = 5,
		.reserve_from = 11,
		.is_strict = true,
		.key = rbt_fair_key,
		.turn_ns = one_turn,
	},
	{
		.name = "priority",
		.summary =
			"as turns; normal programs of those who may have class latency reserve too",
		.turns_up_to = 5,
		.reserve_from = 6,
		.is_strict = true,
		.key = rbt_fair_key,
		.turn_ns = one_turn,
	},
	{
		.name = "fair",
		.summary = "all programs take turns by weight, whatever their priority",
		.turns_up_to = RBT_PRIORITY_MAX,
		.reserve_from = RBT_PRIORITY_NOBODY,
		.is_strict = false,
		.key = rbt_fair_key,
		.turn_ns = one_turn,
	},
	{
		.name = "fifo",
		.summary = "first come, first served: each until it idles or max_reserve_ms",
		.turns_up_to = RBT_PRIORITY_MAX,
		.reserve_from = RBT_PRIORITY_NOBODY,
		.is_strict = false,
		.key = order_key,
		.turn_ns = one_stay,
	},
};

const struct rbt_sched_policy *rbt_sched_policies(size_t *ret_n)
{
	*ret_n = sizeof(policies) / sizeof(policies[0]);
	return policies;
}

const struct rbt_sched_policy *rbt_sched_policy_find(const char *name)
{
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		if (strcmp(name, policies[i].name) == 0) {
			return &policies[i];
		}
	}
	return NULL;
}
