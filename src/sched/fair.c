/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fairness among units of a level, by virtual time. A unit's virtual time advances while it has its
 * turn, more slowly the more weight it has, and the unit with the least goes first. So over any
 * time in which two units want the GPU, their turns are proportional to their weights, to within
 * one turn each.
 *
 * Each level of a GPU has a clock: the virtual time that its wanting units have reached. A unit
 * that was idle comes back half a turn before the clock's time, and so is the next. However long it
 * was idle, it has saved up no more than that. A unit on several GPUs has a virtual time on each,
 * because the clock of a crowded GPU goes more slowly.
 */
#include "sched/impl.h"

/* How many of its own turns a unit may be ahead of the units that it keeps waiting. On one GPU no
 * unit gets that far. But a unit on several GPUs is held up by the busiest one, and must not have
 * saved up turns on the others when that changes. */
#define MAX_LEAD 4

uint64_t rbt_fair_key(void *ctx, const struct rbt_sched_unit *u, uint32_t g)
{
	return u->vtime_ns[g];
}

static void charge(struct rbt_sched *s, struct rbt_sched_unit *u, uint32_t g, uint64_t dt_ns)
{
	struct rbt_sched_gpu *gpu = &s->gpus[g];
	const struct rbt_sched_unit *top = rbt_ready_top(gpu, g);
	uint64_t then_ns = u->vtime_ns[g] + dt_ns / u->weight;

	if (top != NULL && rbt_unit_is_ready(top) && !top->is_guarded && top->level == u->level) {
		uint64_t most_ns =
			top->vtime_ns[g] + MAX_LEAD * rbt_ms(s->config.turn_ms) / u->weight;
		most_ns = most_ns > u->vtime_ns[g] ? most_ns : u->vtime_ns[g];
		then_ns = then_ns < most_ns ? then_ns : most_ns;
	}
	u->vtime_ns[g] = then_ns;
	/* If no unit waits, the clock follows the running one. */
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
