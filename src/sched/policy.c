/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/policy.h"

#include <string.h>

#include "sched/impl.h"

static enum rbt_role role_by_class(void *ctx, unsigned priority)
{
	static const enum rbt_role roles[] = {
		[RBT_CLASS_BEST_EFFORT] = RBT_ROLE_TURN,
		[RBT_CLASS_NORMAL] = RBT_ROLE_FREE,
		[RBT_CLASS_LATENCY] = RBT_ROLE_RESERVE,
	};

	return roles[rbt_class_of(priority)];
}

static enum rbt_role reserve_from_normal(void *ctx, unsigned priority)
{
	return rbt_class_of(priority) == RBT_CLASS_BEST_EFFORT ? RBT_ROLE_TURN : RBT_ROLE_RESERVE;
}

static enum rbt_role turns_for_all(void *ctx, unsigned priority)
{
	return RBT_ROLE_TURN;
}

static uint64_t order_key(void *ctx, const struct rbt_sched_unit *u, uint32_t g)
{
	return u->order;
}

static uint64_t one_turn(void *ctx, const struct rbt_sched_config *config)
{
	return rbt_ms(config->turn_ms);
}

/* First come, first served: a unit stays until it idles, or until this limit. */
static uint64_t one_stay(void *ctx, const struct rbt_sched_config *config)
{
	return rbt_ms(config->max_reserve_ms);
}

static const struct rbt_sched_policy policies[] = {
	{
		.name = "turns",
		.summary = "best-effort programs take turns; latency programs reserve the GPU",
		.is_strict = true,
		.orders_by_use = true,
		.role = role_by_class,
		.key = rbt_fair_key,
		.turn_ns = one_turn,
	},
	{
		.name = "priority",
		.summary =
			"as turns; normal programs of those who may have class latency reserve too",
		.is_strict = true,
		.orders_by_use = true,
		.role = reserve_from_normal,
		.key = rbt_fair_key,
		.turn_ns = one_turn,
	},
	{
		.name = "fair",
		.summary = "all programs take turns by weight, whatever their priority",
		.orders_by_use = true,
		.role = turns_for_all,
		.key = rbt_fair_key,
		.turn_ns = one_turn,
	},
	{
		.name = "fifo",
		.summary = "first come, first served: each until it idles or max_reserve_ms",
		.role = turns_for_all,
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

static void take(uint32_t *value, uint32_t said, uint32_t least, uint32_t most)
{
	if (said != RBT_POLICY_KEEP) {
		*value = said < least ? least : said > most ? most : said;
	}
}

bool rbt_policy_output_take(struct rbt_policy_output *o, const struct rbt_policy_output *said)
{
	struct rbt_policy_output before = *o;

	if (said->timeslice_us != 0) {
		take(&o->timeslice_us, said->timeslice_us, 1, RBT_TIMESLICE_MAX_US);
	}
	take(&o->interleave, said->interleave, 0, RBT_INTERLEAVE_MAX);
	take(&o->priority, said->priority, 0, RBT_PRIORITY_MAX);
	take(&o->weight, said->weight, 1, RBT_WEIGHT_MAX);
	return memcmp(&before, o, sizeof(before)) != 0;
}

void rbt_policy_output_apply(const struct rbt_policy_output *o, struct rbt_sched_params *params)
{
	if (o->timeslice_us != RBT_POLICY_KEEP) {
		params->timeslice_us = o->timeslice_us;
	}
	if (o->priority != RBT_POLICY_KEEP) {
		params->priority = o->priority;
	}
	if (o->weight != RBT_POLICY_KEEP) {
		params->weight = o->weight;
	}
}
