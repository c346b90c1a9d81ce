/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/rule.h"

#include "sched/class.h"
#include "sched/count.h"

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

enum rbt_denial rbt_rule_judge(
	const struct rbt_sched_gpus *gpus, uint32_t gpu, uint32_t n_own, uint32_t n_short)
{
	if (n_short > 1) {
		return n_own > 1 ? RBT_DENIED_TASKS : RBT_DENIED_COMPANY;
	}
	return rbt_rule_judge_gpu(gpus, gpu);
}

void rbt_rule_count(struct rbt_rule_tally *tally, uint64_t runlists, bool begins)
{
	if (runlists == 0) {
		rbt_count(&tally->n_unknown, 1, begins);
	}
	for (uint64_t m = runlists; m != 0; m &= m - 1) {
		rbt_count(&tally->n[__builtin_ctzll(m)], 1, begins);
	}
}

bool rbt_rule_is_alone(const struct rbt_rule_tally *tally, uint64_t runlists)
{
	bool is_alone = tally->n_unknown == 0;

	for (uint64_t m = runlists; m != 0 && is_alone; m &= m - 1) {
		is_alone = tally->n[__builtin_ctzll(m)] == 1;
	}
	return is_alone;
}
