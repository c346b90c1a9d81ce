/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fairness among units of a level: virtual time. A unit's advances while it has its turn, slower
 * the more weight it has, and who has the least goes first. So over any time in which two of them
 * want the GPU, their turns are as their weights, to within one turn each.
 *
 * Each level of a GPU has a clock: the virtual time that those who want it have reached. Who has
 * idled comes back half a turn before the clock's time, and so is the next; but however long it has
 * idled, it has saved up no more than that. A unit on several GPUs has a time on each, because
 * their clocks go as fast as they are crowded.
 */
#include "sched/impl.h"

/* How many of its own turns a unit may be ahead of whom it keeps waiting. On one GPU nobody gets
 * that far; but a unit on several is held up by the busiest, and must not have saved up on the
 * others when that changes. */
#define MAX_LEAD 4

uint64_t rbt_fair_key(const struct rbt_sched_unit *u, uint32_t g)
{
	return u->vtime_ns[g];
}

static void charge(struct rbt_sched *s, struct rbt_sched_unit *u, uint32_t g, uint64_t dt_ns)
{
	struct rbt_sched_gpu *gpu = &s->gpus[g];
	const struct rbt_sched_unit *top = rbt_ready_top(gpu, g);
	uint64_t then_ns = u->vtime_ns[g] + dt_ns / u->weight;

	if (top != NULL && top->is_wanting && !top->is_guarded && top->level == u->level) {
		uint64_t most_ns =
			top->vtime_ns[g] + MAX_LEAD * rbt_ms(s->config.turn_ms) / u->weight;
		most_ns = most_ns > u->vtime_ns[g] ? most_ns : u->vtime_ns[g];
		then_ns = then_ns < most_ns ? then_ns : most_ns;
	}
	u->vtime_ns[g] = then_ns;
	/* With nobody waiting, the clock goes with who is running. */
	if (gpu->n_ready[u->level] == 0 && then_ns > gpu->clock_ns[u->level]) {
		gpu->clock_ns[u->level] = then_ns;
	}
}

void rbt_fair_charge(struct rbt_sched *s, struct rbt_sched_unit *u, uint64_t dt_ns)
{
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		charge(s, u, rbt_first_bit(m), dt_ns);
	}
}

void rbt_fair_join(struct rbt_sched *s, struct rbt_sched_unit *u, bool is_new)
{
	uint64_t bonus_ns = is_new ? 0 : rbt_ms(s->config.turn_ms) / 2 / u->weight;

	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		struct rbt_sched_gpu *gpu = rbt_first_gpu(s, m);
		uint64_t *vtime_ns = &u->vtime_ns[rbt_first_bit(m)];

		rbt_gpu_settle(s, gpu);
		if (*vtime_ns + bonus_ns < gpu->clock_ns[u->level]) {
			*vtime_ns = gpu->clock_ns[u->level] - bonus_ns;
		}
	}
}

void rbt_fair_start(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		struct rbt_sched_gpu *gpu = rbt_first_gpu(s, m);
		uint64_t vtime_ns = u->vtime_ns[rbt_first_bit(m)];

		if (vtime_ns > gpu->clock_ns[u->level] && !u->is_guarded) {
			gpu->clock_ns[u->level] = vtime_ns;
		}
	}
}
