/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of one job, on simulated GPUs: together or not at all, and never in anybody's way. */
#include "check.h"
#include "sched/class.h"
#include "test_sched_sim.h"

#define BEST_EFFORT 2

static struct sim_prog *add_rank(struct sim *sim, uint32_t group, uint32_t gpu, uint32_t weight)
{
	struct rbt_sched_params params = {
		.priority = BEST_EFFORT, .weight = weight, .group = group};

	params.tasks[gpu] = (struct rbt_sched_tasks){.n_compute = 1, .own_us = SIM_OWN_US};
	return sim_add_params(sim, &params, NULL);
}

/* Ranks run together or not at all, get their share beside single programs, and leave no GPU
 * unused. (That they are on together is verified at every step.) */
static void test_ranks(void)
{
	struct sim sim;
	struct sim_prog *ranks[4], *singles[5];
	double used = 0;

	sim_init(&sim, NULL);
	for (uint32_t i = 0; i < 4; i++) {
		ranks[i] = add_rank(&sim, 7, i, 1);
	}
	for (uint32_t i = 0; i < 5; i++) {
		singles[i] = add_rank(&sim, 0, i % 4, 1); /* two on GPU 0 */
	}
	sim_run(&sim, 30 * SIM_S);
	for (unsigned i = 0; i < sim.n_progs; i++) {
		used += sim.progs[i]->done_ns;
	}
	CHECK(used > 0.99 * 4 * (double)sim.now_ns);
	CHECK(sim_jain(ranks, 4) > 0.9999);
	/* A third of the busiest GPU, and so of all. */
	CHECK(ranks[0]->done_ns > 0.30 * (double)sim.now_ns);
	CHECK(ranks[0]->done_ns < 0.36 * (double)sim.now_ns);
	CHECK(singles[0]->done_ns > 0.30 * (double)sim.now_ns);
	CHECK(singles[1]->done_ns > 0.60 * (double)sim.now_ns);
	/* When the crowd on GPU 0 has gone, the ranks have not saved up for it. */
	sim_remove(singles[4]);
	sim_remove(singles[0]);
	sim_reset(&sim);
	sim_run(&sim, 4 * SIM_S);
	CHECK(singles[1]->done_ns > 0.40 * 4e9);
	CHECK(ranks[0]->done_ns > 0.40 * 4e9);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Two groups that cross each other and single programs: nobody waits for ever. */
static void test_crossing_ranks(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	add_rank(&sim, 1, 0, 1);
	add_rank(&sim, 1, 1, 1);
	add_rank(&sim, 2, 1, 1);
	add_rank(&sim, 2, 2, 1);
	add_rank(&sim, 3, 2, 1);
	add_rank(&sim, 3, 0, 1);
	for (uint32_t i = 0; i < 3; i++) {
		add_rank(&sim, 0, i, 1);
	}
	sim_run(&sim, 30 * SIM_S);
	for (unsigned i = 0; i < sim.n_progs; i++) {
		CHECK(sim.progs[i]->done_ns > 0.2 * (double)sim.now_ns);
	}
	check_kept(&sim);
	sim_finish(&sim);
}

/* Turns that begin at different times on a group's GPUs neither starve it nor let it in before its
 * time. */
static void test_unaligned_ranks(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	for (uint32_t i = 0; i < 4; i++) {
		add_rank(&sim, 0, 0, 1);
	}
	sim_run(&sim, 33 * SIM_MS);
	for (uint32_t i = 0; i < 2; i++) {
		add_rank(&sim, 0, 1, 1);
	}
	sim_run(&sim, 21 * SIM_MS);
	struct sim_prog *ranks[2] = {add_rank(&sim, 1, 0, 1), add_rank(&sim, 1, 1, 1)};
	sim_reset(&sim);
	sim_run(&sim, 40 * SIM_S);
	CHECK(ranks[0]->done_ns > 0.9 * 40e9 / 5);
	CHECK(ranks[0]->done_ns < 1.1 * 40e9 / 5);
	CHECK(sim_jain(sim.progs, 4) >= 0.98);
	CHECK(sim_jain(sim.progs + 4, 2) >= 0.98);
	check_kept(&sim);
	sim_finish(&sim);
}

/* One rank suspended by command: its group's turns are not wasted on the others. */
static void test_suspended_rank(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *a = add_rank(&sim, 1, 0, 1), *b = add_rank(&sim, 1, 1, 1);
	struct sim_prog *single = add_rank(&sim, 0, 0, 1);
	sim_run(&sim, SIM_S);
	b->params.suspended = true;
	sim_change(b);
	CHECK_INT(b->applied.off, RBT_OFF_COMMAND);
	CHECK(a->applied.off != RBT_ON);
	sim_reset(&sim);
	sim_run(&sim, SIM_S);
	CHECK(single->done_ns > 0.999e9);
	b->params.suspended = false;
	sim_change(b);
	sim_reset(&sim);
	sim_run(&sim, 2 * SIM_S);
	CHECK(a->done_ns > 0.9e9 && b->done_ns > 0.9e9 && single->done_ns > 0.9e9);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A unit that a higher level keeps from one of its GPUs does not keep lower ones from the rest. */
static void test_behind_a_blocked_unit(void)
{
	static const struct {
		unsigned priority;
		uint32_t mask; /* of GPUs */
	} programs[] = {{5, 2}, {2, 7}, {1, 5}, {1, 1}};
	struct sim sim;

	sim_init(&sim, NULL);
	for (unsigned i = 0; i < 4; i++) {
		struct rbt_sched_params params = {.priority = programs[i].priority};

		for (uint32_t g = 0; g < 3; g++) {
			params.tasks[g].n_compute = programs[i].mask >> g & 1;
			params.tasks[g].own_us = SIM_OWN_US;
		}
		sim_add_params(&sim, &params, NULL);
	}
	sim_run(&sim, 30 * SIM_S);
	CHECK(sim.progs[0]->done_ns > 0.9 * (double)sim.now_ns);
	CHECK(sim.progs[1]->done_ns > 0.015 * (double)sim.now_ns); /* its min_share */
	CHECK(sim.progs[2]->done_ns > 0.3 * (double)sim.now_ns);
	CHECK(sim.progs[3]->done_ns > 0.3 * (double)sim.now_ns);
	check_kept(&sim);
	sim_finish(&sim);
}

int main(void)
{
	test_behind_a_blocked_unit();
	test_ranks();
	test_crossing_ranks();
	test_unaligned_ranks();
	test_suspended_rank();
	return check_result();
}
