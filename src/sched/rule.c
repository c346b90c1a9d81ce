/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/rule.h"

#include "sched/class.h"

bool rbt_rule_is_short(uint64_t wanted_us, uint64_t own_us)
{
	return wanted_us != RBT_TIMESLICE_OWN && wanted_us < own_us;
}

enum rbt_denial rbt_rule_judge_gpu(const struct rbt_sched_gpus *gpus, uint32_t gpu)
{
	uint32_t bit = UINT32_C(1) << (gpu % 32);

	if ((gpus->locked & bit) == 0) {
		return RBT_DENIED_LOCK;
	}
	return (gpus->marked & bit) != 0 ? RBT_DENIED_RIVAL : RBT_DENIED_NOTHING;
}

static bool is_short(const struct rbt_claim *c)
{
	return rbt_rule_is_short(c->wanted_us, c->own_us);
}

/* Tasks on `gpu` that would be runnable with a short slice if every wish were granted. */
static uint32_t count_short_tasks(const struct rbt_claim *claims, size_t n, uint32_t gpu)
{
	uint32_t count = 0;

	for (size_t i = 0; i < n; i++) {
		if (claims[i].gpu == gpu && !claims[i].suspended && is_short(&claims[i])) {
			count += claims[i].n_compute;
		}
	}
	return count;
}

static enum rbt_denial judge(
	const struct rbt_claim *c, uint32_t n_short, const struct rbt_sched_gpus *gpus)
{
	if (!is_short(c)) {
		return RBT_DENIED_NOTHING;
	}
	if (c->suspended) {
		return RBT_DENIED_SUSPENDED;
	}
	return n_short > 1 ? RBT_DENIED_COMPANY : rbt_rule_judge_gpu(gpus, c->gpu);
}

void rbt_sched_plan(struct rbt_claim *claims, size_t n, const struct rbt_sched_gpus *gpus,
	uint32_t *ret_locks_wanted)
{
	uint32_t locks_wanted = 0;

	for (size_t i = 0; i < n; i++) {
		struct rbt_claim *c = &claims[i];

		c->denial = judge(c, count_short_tasks(claims, n, c->gpu), gpus);
		c->granted_us = c->denial == RBT_DENIED_NOTHING ? c->wanted_us : RBT_TIMESLICE_OWN;
		/* The lock is kept while the wish stands, also in company: it tells other
		 * schedulers to keep out. */
		if (is_short(c)) {
			locks_wanted |= UINT32_C(1) << (c->gpu % 32);
		}
	}
	*ret_locks_wanted = locks_wanted;
}
