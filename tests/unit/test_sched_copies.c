/* SPDX-License-Identifier: Apache-2.0 */
/* Slices of copy tasks: the rule that prevents collapse, by runlist. */
#include "check.h"
#include "sched/impl.h"
#include "test_sched_sim.h"

#define BEST_EFFORT 2
#define NORMAL      8
#define LATENCY     13
#define KERNELS     UINT64_C(1)     /* the runlist of compute tasks */
#define COPIES      UINT64_C(0x700) /* of a context's three copy tasks */

static struct rbt_sched_params params_of(unsigned priority)
{
	struct rbt_sched_params params = {.priority = priority, .weight = 1};

	params.tasks[0] = (struct rbt_sched_tasks){.n_compute = 1,
		.own_us = SIM_OWN_US,
		.compute_runlists = KERNELS,
		.copy_runlists = COPIES,
		.copy_own_us = 1024};
	return params;
}

static struct sim_prog *add(struct sim *sim, unsigned priority)
{
	struct rbt_sched_params params = params_of(priority);

	return sim_add_params(sim, &params, NULL);
}

static uint32_t short_copies(const struct sim_prog *p)
{
	return p->applied.short_copies;
}

static void test_tally(void)
{
	struct rbt_rule_tally tally = {0};

	rbt_rule_count(&tally, 1, true);
	rbt_rule_count(&tally, UINT64_C(1) << 63 | 6, true);
	CHECK(rbt_rule_is_alone(&tally, 1) && rbt_rule_is_alone(&tally, UINT64_C(1) << 63 | 6));
	rbt_rule_count(&tally, 4, true);
	CHECK(!rbt_rule_is_alone(&tally, 6) && rbt_rule_is_alone(&tally, 2));
	rbt_rule_count(&tally, 4, false);
	CHECK(rbt_rule_is_alone(&tally, 6));
	/* One on an unknown runlist may be anywhere. */
	rbt_rule_count(&tally, 0, true);
	CHECK(!rbt_rule_is_alone(&tally, 6));
	rbt_rule_count(&tally, 0, false);
	CHECK(rbt_rule_is_alone(&tally, 6));
}

/* Beside programs that keep the driver's slices, however many. */
static void test_alone(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *normal = add(&sim, NORMAL), *latency = add(&sim, LATENCY);
	struct sim_prog *a = add(&sim, BEST_EFFORT);
	CHECK_INT(a->applied.slice_us[0], 1);
	CHECK_INT(short_copies(a), 1);
	CHECK_INT(short_copies(normal) | short_copies(latency), 0);
	a->params.priority = NORMAL;
	sim_change(a);
	CHECK_INT(short_copies(a), 0);
	/* Slices of other lengths: shorter than the copies' own, or they are left alone. */
	a->params.timeslice_us = 1000;
	sim_change(a);
	CHECK_INT(short_copies(a), 1);
	a->params.timeslice_us = 1500;
	sim_change(a);
	CHECK_INT(a->applied.slice_us[0], 1500);
	CHECK_INT(short_copies(a), 0);
	a->params.timeslice_us = 100000;
	sim_change(a);
	CHECK_INT(short_copies(a), 0);
	a->params.timeslice_us = 1;
	a->params.suspended = true;
	sim_change(a);
	CHECK_INT(short_copies(a), 0);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Without the lock, or beside another scheduler's programs, everything is the driver's. */
static void test_lock(void)
{
	static const struct rbt_sched_gpus ways[] = {{0}, {.locked = 1, .marked = 1}};
	struct sim sim;

	for (unsigned i = 0; i < 2; i++) {
		sim_init(&sim, NULL);
		struct sim_prog *a = add(&sim, BEST_EFFORT);
		CHECK_INT(rbt_sched_decision(a->handle)->short_copies, 1);
		rbt_sched_set_gpus(sim.s, sim.now_ns, &ways[i]);
		CHECK_INT(rbt_sched_decision(a->handle)->short_copies, 0);
		check_kept(&sim);
		sim_finish(&sim);
	}
}

/* A copy task on an unknown runlist, or on one that it shares with another task of its program,
 * keeps its slice; so do the copy tasks that would run beside it. */
static void test_unknown(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *a = add(&sim, BEST_EFFORT);
	a->params.tasks[0].copy_runlists = 0;
	sim_change(a);
	CHECK_INT(a->applied.slice_us[0], 1);
	CHECK_INT(short_copies(a), 0);
	a->params.tasks[0].copy_runlists = COPIES;
	a->params.tasks[0].compute_runlists = 0;
	sim_change(a);
	CHECK_INT(a->applied.slice_us[0], 1);
	CHECK_INT(short_copies(a), 0);
	a->params.tasks[0].compute_runlists = KERNELS;
	a->params.tasks[0].copy_runlists = COPIES | KERNELS;
	sim_change(a);
	CHECK_INT(short_copies(a), 0);
	a->params.tasks[0].copy_runlists = COPIES;
	a->params.tasks[0].copy_own_us = RBT_TIMESLICE_OWN;
	sim_change(a);
	CHECK_INT(short_copies(a), 0);
	a->params.tasks[0].copy_own_us = 1024;
	sim_change(a);
	CHECK_INT(short_copies(a), 1);
	struct sim_prog *b = add(&sim, BEST_EFFORT);
	b->params.tasks[0].copy_runlists = 0;
	sim_change(b);
	CHECK_INT(short_copies(a), 1);
	b->params.tasks[0].compute_runlists = 0;
	sim_change(b);
	CHECK_INT(short_copies(a), 0);
	b->params.tasks[0].compute_runlists = COPIES; /* as with MIG, or worse */
	sim_change(b);
	CHECK_INT(short_copies(a), 0);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Copy tasks of who is kept off go on: in company, all have the driver's slices. */
static void test_company(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *a = add(&sim, BEST_EFFORT), *b = add(&sim, BEST_EFFORT);
	CHECK_INT(a->applied.slice_us[0], 1);
	CHECK_INT(b->applied.slice_us[0], 1);
	CHECK_INT(short_copies(a) | short_copies(b), 0);
	CHECK_INT(a->applied.denial, RBT_DENIED_NOTHING);
	sim_run(&sim, SIM_S);
	CHECK_INT(short_copies(a) | short_copies(b), 0);
	/* Suspended by command, it is no company. */
	b->params.suspended = true;
	sim_change(b);
	CHECK_INT(short_copies(a), 1);
	b->params.suspended = false;
	sim_change(b);
	CHECK_INT(short_copies(a), 0);
	/* On other runlists, neither is; where some are shared, all of it is. */
	b->params.tasks[0].copy_runlists = COPIES << 3;
	sim_change(b);
	CHECK_INT(short_copies(a) & short_copies(b), 1);
	b->params.tasks[0].copy_runlists = COPIES << 2;
	sim_change(b);
	CHECK_INT(short_copies(a) | short_copies(b), 0);
	sim_remove(b);
	CHECK_INT(short_copies(a), 1);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A group that waits because one of its ranks is suspended still copies. */
static void test_blocked_group(void)
{
	struct rbt_sched_params params = params_of(BEST_EFFORT);
	struct sim sim;

	sim_init(&sim, NULL);
	params.group = 7;
	struct sim_prog *a = sim_add_params(&sim, &params, NULL);
	params.tasks[1] = params.tasks[0];
	params.tasks[0] = (struct rbt_sched_tasks){0};
	struct sim_prog *rank = sim_add_params(&sim, &params, NULL);
	CHECK_INT(short_copies(a), 1);
	CHECK_INT(short_copies(rank), 2);
	rank->params.suspended = true;
	sim_change(rank);
	CHECK(a->applied.off != RBT_ON);
	CHECK_INT(short_copies(a), 1);
	struct sim_prog *b = add(&sim, BEST_EFFORT);
	CHECK_INT(short_copies(a) | short_copies(b), 0);
	sim_remove(b);
	CHECK_INT(short_copies(a), 1);
	check_kept(&sim);
	sim_finish(&sim);
}

int main(void)
{
	test_tally();
	test_alone();
	test_lock();
	test_unknown();
	test_company();
	test_blocked_group();
	return check_result();
}
