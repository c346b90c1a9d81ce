/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/core.h"

#include "sched/class.h"

static bool is_short(const struct rbt_claim *c)
{
	return c->wanted_us != RBT_TIMESLICE_OWN && c->wanted_us < c->own_us;
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

static enum rbt_denial judge(const struct rbt_claim *c, uint32_t n_short, bool locked, bool marked)
{
	if (!is_short(c)) {
		return RBT_DENIED_NOTHING;
	}
	if (c->suspended) {
		return RBT_DENIED_SUSPENDED;
	}
	if (n_short > 1) {
		return RBT_DENIED_COMPANY;
	}
	if (!locked) {
		return RBT_DENIED_LOCK;
	}
	return marked ? RBT_DENIED_RIVAL : RBT_DENIED_NOTHING;
}

void rbt_sched_plan(struct rbt_claim *claims, size_t n, const struct rbt_sched_gpus *gpus,
	uint32_t *ret_locks_wanted)
{
	uint32_t locks_wanted = 0;

	for (size_t i = 0; i < n; i++) {
		struct rbt_claim *c = &claims[i];
		uint32_t bit = UINT32_C(1) << (c->gpu % 32);

		c->denial = judge(c, count_short_tasks(claims, n, c->gpu),
			(gpus->locked & bit) != 0, (gpus->marked & bit) != 0);
		c->granted_us = c->denial == RBT_DENIED_NOTHING ? c->wanted_us : RBT_TIMESLICE_OWN;
		/* The lock is kept while the wish stands, also in company: it tells other
		 * schedulers to keep out. */
		if (is_short(c)) {
			locks_wanted |= bit;
		}
	}
	*ret_locks_wanted = locks_wanted;
}
