/* SPDX-License-Identifier: Apache-2.0 */
/* The decision core's answers, case by case: slices, company, locks, admission, wrong use, and that
 * nothing is asked for when there is nothing to do. */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "sched/impl.h"
#include "test_sched_sim.h"

#define BEST_EFFORT 2
#define NORMAL      8
#define LATENCY     13

static struct rbt_sched_params params_of(unsigned priority)
{
	struct rbt_sched_params params = {.priority = priority, .weight = 1};

	params.tasks[0] = (struct rbt_sched_tasks){.n_compute = 1, .own_us = SIM_OWN_US};
	return params;
}

static uint32_t slice(const struct sim_prog *p)
{
	return (uint32_t)p->applied.slice_us[0];
}

static void set_locks(struct sim *sim, uint32_t locked, uint32_t marked)
{
	const struct rbt_decision *d;
	struct sim_prog *p;

	rbt_sched_set_gpus(
		sim->s, sim->now_ns, &(struct rbt_sched_gpus){.locked = locked, .marked = marked});
	while ((p = rbt_sched_next_change(sim->s, &d)) != NULL) {
		p->applied = *d;
	}
}

static void test_locks(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	CHECK_INT(rbt_sched_locks_wanted(sim.s), 0);
	struct sim_prog *a = sim_add(&sim, BEST_EFFORT, false, NULL);
	CHECK_INT(rbt_sched_locks_wanted(sim.s), 1);
	CHECK_INT(slice(a), 1);
	set_locks(&sim, 0, 0);
	CHECK_INT(slice(a), RBT_TIMESLICE_OWN);
	CHECK_INT(a->applied.denial, RBT_DENIED_LOCK);
	CHECK_INT(rbt_sched_locks_wanted(sim.s), 1);
	set_locks(&sim, 1, 1);
	CHECK_INT(slice(a), RBT_TIMESLICE_OWN);
	CHECK_INT(a->applied.denial, RBT_DENIED_RIVAL);
	set_locks(&sim, 1, 0);
	CHECK_INT(slice(a), 1);
	a->params.suspended = true;
	sim_change(a);
	CHECK_INT(a->applied.off, RBT_OFF_COMMAND);
	CHECK_INT(slice(a), RBT_TIMESLICE_OWN);
	CHECK_INT(a->applied.denial, RBT_DENIED_SUSPENDED);
	sim_remove(a);
	CHECK_INT(rbt_sched_locks_wanted(sim.s), 0);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Best-effort programs all have their short slice, and one of them is on; without the lock they
 * take turns with the driver's, and are preempted for it. */
static void test_turns_and_slices(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *a = sim_add(&sim, BEST_EFFORT, false, NULL);
	struct sim_prog *b = sim_add(&sim, 4, false, NULL);
	CHECK_INT(slice(a), 1);
	CHECK_INT(slice(b), 200);
	CHECK_INT(a->applied.off, RBT_OFF_SCHEDULING);
	CHECK_INT(b->applied.off, RBT_ON);
	/* The slice in force is the driver's when it comes. */
	struct sim_prog *c = sim_add(&sim, BEST_EFFORT, false, NULL);
	CHECK_INT(slice(c), 1);
	CHECK_INT(c->applied.off, RBT_OFF_FULL);
	sim_remove(c);
	/* A program that is off already is not taken off again. */
	set_locks(&sim, 0, 0);
	CHECK_INT(slice(a), RBT_TIMESLICE_OWN);
	CHECK_INT(a->applied.off, RBT_OFF_SCHEDULING);
	sim_remove(b);
	b = sim_add(&sim, BEST_EFFORT, false, NULL);
	CHECK_INT(b->applied.off, RBT_OFF_FULL);
	sim_run(&sim, 100 * SIM_MS);
	CHECK_INT(a->applied.off, RBT_OFF_FULL);
	CHECK_INT(b->applied.off, RBT_ON);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A short slice outside of turns is for one alone; nor may a program keep company to itself. */
static void test_company(void)
{
	struct rbt_sched_params params = params_of(NORMAL);
	struct sim sim;

	sim_init(&sim, NULL);
	params.timeslice_us = 100;
	struct sim_prog *a = sim_add_params(&sim, &params, NULL);
	CHECK_INT(slice(a), 100);
	struct sim_prog *b = sim_add_params(&sim, &params, NULL);
	CHECK_INT(slice(a), RBT_TIMESLICE_OWN);
	CHECK_INT(slice(b), RBT_TIMESLICE_OWN);
	CHECK_INT(a->applied.denial, RBT_DENIED_COMPANY);
	sim_remove(b);
	CHECK_INT(slice(a), 100);
	struct sim_prog *c = sim_add(&sim, BEST_EFFORT, false, NULL);
	CHECK_INT(slice(a), RBT_TIMESLICE_OWN);
	CHECK_INT(slice(c), 1);
	c->params.tasks[0].n_compute = 2;
	sim_change(c);
	CHECK_INT(slice(c), RBT_TIMESLICE_OWN);
	CHECK_INT(c->applied.denial, RBT_DENIED_TASKS);
	/* Longer ones are anybody's. */
	a->params.timeslice_us = 100000;
	sim_change(a);
	CHECK_INT(slice(a), 100000);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A program that cannot be suspended takes no turns, and gets no short slice in company. */
static void test_cannot_suspend(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *a = sim_add(&sim, BEST_EFFORT, false, NULL);
	struct sim_prog *b = sim_add(&sim, BEST_EFFORT, false, NULL);
	a->params.cannot_suspend = true;
	sim_change(a);
	CHECK_INT(a->applied.off, RBT_ON);
	CHECK_INT(slice(a), RBT_TIMESLICE_OWN);
	CHECK_INT(b->applied.off, RBT_ON);
	CHECK_INT(slice(b), 1);
	sim_add(&sim, LATENCY, true, NULL);
	sim_run(&sim, SIM_MS);
	CHECK_INT(a->applied.off, RBT_ON);
	CHECK_INT(b->applied.off, RBT_OFF_SCHEDULING);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Ranks of a group that share a GPU would be runnable together. */
static void test_ranks_on_one_gpu(void)
{
	struct rbt_sched_params params = params_of(BEST_EFFORT);
	struct sim sim;

	sim_init(&sim, NULL);
	params.group = 3;
	struct sim_prog *a = sim_add_params(&sim, &params, NULL);
	CHECK_INT(slice(a), 1);
	struct sim_prog *b = sim_add_params(&sim, &params, NULL);
	CHECK_INT(slice(a), RBT_TIMESLICE_OWN);
	CHECK_INT(slice(b), RBT_TIMESLICE_OWN);
	CHECK_INT(a->applied.off, RBT_ON);
	CHECK_INT(b->applied.off, RBT_ON);
	b->params.group = 4; /* leaves the group */
	sim_change(b);
	CHECK_INT(slice(a), 1);
	CHECK_INT(slice(b), 1);
	CHECK((a->applied.off == RBT_ON) != (b->applied.off == RBT_ON));
	check_kept(&sim);
	sim_finish(&sim);
}

/* Beyond the limit a latency program is a normal one, until a place is free on all its GPUs. */
static void test_admission(void)
{
	const struct rbt_sched_config config = {.max_latency = 2};
	struct rbt_sched_params both = params_of(LATENCY);
	struct sim_prog *p[4];
	struct sim sim;

	sim_init(&sim, &config);
	both.tasks[1] = both.tasks[0];
	both.is_known = true;
	p[0] = sim_add(&sim, LATENCY, true, NULL);
	p[1] = sim_add(&sim, LATENCY, true, NULL);
	p[2] = sim_add_params(&sim, &both, NULL);
	p[3] = sim_add(&sim, LATENCY, true, NULL);
	sim_run(&sim, SIM_MS);
	CHECK_INT(p[1]->applied.denial, RBT_DENIED_NOTHING);
	CHECK_INT(p[2]->applied.denial, RBT_DENIED_ADMISSION);
	CHECK_INT(p[3]->applied.denial, RBT_DENIED_ADMISSION);
	CHECK_INT(p[2]->applied.off, RBT_OFF_FULL); /* below those who reserve */
	p[0]->params.priority = NORMAL;
	sim_change(p[0]);
	CHECK_INT(p[2]->applied.denial, RBT_DENIED_NOTHING); /* came before p[3] */
	CHECK_INT(p[2]->applied.off, RBT_ON);
	CHECK_INT(p[3]->applied.denial, RBT_DENIED_ADMISSION);
	p[0]->params.priority = LATENCY; /* back of the line */
	sim_change(p[0]);
	sim_remove(p[1]);
	CHECK_INT(p[3]->applied.denial, RBT_DENIED_NOTHING);
	CHECK_INT(p[0]->applied.denial, RBT_DENIED_ADMISSION);
	check_kept(&sim);
	sim_finish(&sim);
}

static void test_no_limit(void)
{
	struct sim sim;

	sim_init(&sim, &(struct rbt_sched_config){.max_latency = RBT_SCHED_NEVER});
	for (unsigned i = 0; i < 20; i++) {
		CHECK_INT(sim_add(&sim, LATENCY, true, NULL)->applied.denial, RBT_DENIED_NOTHING);
	}
	check_kept(&sim);
	sim_finish(&sim);
}

/* Three groups on the same GPUs, a different one first on each: they do not wait in a circle. */
static void test_circle(void)
{
	struct sim_prog *high[3], *ranks[3][3];
	struct sim sim;

	sim_init(&sim, NULL);
	for (uint32_t g = 0; g < 3; g++) {
		struct rbt_sched_params params = {.priority = 5};
		params.tasks[g] = (struct rbt_sched_tasks){.n_compute = 1, .own_us = SIM_OWN_US};
		high[g] = sim_add_params(&sim, &params, NULL);
		params.priority = BEST_EFFORT;
		for (uint32_t i = 0; i < 3; i++) {
			params.group = i + 1;
			ranks[i][g] = sim_add_params(&sim, &params, NULL);
		}
	}
	for (uint32_t i = 0; i < 3; i++) {
		for (uint32_t g = 0; g < 3; g++) {
			ranks[i][0]->handle->unit->vtime_ns[g] = (i + g) % 3 * SIM_MS;
		}
		sim_change(ranks[i][0]); /* queues again */
	}
	for (uint32_t g = 0; g < 3; g++) {
		sim_remove(high[g]);
	}
	CHECK_INT((ranks[0][0]->applied.off == RBT_ON) + (ranks[1][0]->applied.off == RBT_ON) +
			  (ranks[2][0]->applied.off == RBT_ON),
		1);
	check_kept(&sim);
	sim_finish(&sim);
}

/* No tick is wanted while nothing can change by itself. */
static void test_no_ticks(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	CHECK(rbt_sched_next_tick(sim.s) == UINT64_MAX);
	struct sim_prog *a = sim_add(&sim, BEST_EFFORT, true, NULL);
	sim_add(&sim, NORMAL, false, NULL);
	sim_add(&sim, LATENCY, false, NULL);
	sim_add(&sim, LATENCY, true, &(struct sim_work){.burst_ns = 1, .period_ns = UINT64_MAX});
	CHECK(rbt_sched_next_tick(sim.s) == UINT64_MAX);
	/* One that has never done anything is no competition. */
	struct sim_prog *b = sim_add(&sim, BEST_EFFORT, true,
		&(struct sim_work){.burst_ns = 1, .period_ns = UINT64_MAX});
	CHECK(rbt_sched_next_tick(sim.s) == UINT64_MAX);
	CHECK(b->applied.off != RBT_ON);
	/* One that has done all it had to is probed every 8 s in the end, with three ticks each. */
	rbt_sched_busy(sim.s, sim.now_ns, b->handle);
	CHECK(rbt_sched_next_tick(sim.s) != UINT64_MAX);
	sim_run(&sim, 20 * SIM_S);
	CHECK(b->applied.off != RBT_ON);
	uint64_t n_ticks = sim.n_ticks;
	sim_run(&sim, 80 * SIM_S);
	CHECK(sim.n_ticks > n_ticks && sim.n_ticks <= n_ticks + 30);
	/* When the last one goes, who is left may run. */
	sim_remove(a);
	CHECK_INT(b->applied.off, RBT_ON);
	CHECK(rbt_sched_next_tick(sim.s) == UINT64_MAX);
	check_kept(&sim);
	sim_finish(&sim);
}

/* That a program is silent while it is kept off says nothing about what it has submitted. */
static void test_silent_while_off(void)
{
	struct sim_work work = {.burst_ns = 4 * SIM_MS,
		.bursts = 1,
		.period_ns = 1000 * SIM_S,
		.hides_waiting = true};
	struct sim sim;

	sim_init(&sim, NULL);
	sim_add(&sim, BEST_EFFORT, true, NULL);
	sim_add(&sim, BEST_EFFORT, true, NULL);
	struct sim_prog *p = sim_add(&sim, BEST_EFFORT, true, &work);
	p->due_ns = SIM_MS;
	sim_run(&sim, 300 * SIM_MS);
	CHECK_INT(p->n_requests, 1);
	CHECK(sim_quantile(p, 1) < 250 * SIM_MS);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A change that does not concern it costs a program neither its turn nor its place. */
static void test_change_keeps_turn(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *a = sim_add(&sim, BEST_EFFORT, false, NULL);
	struct sim_prog *b = sim_add(&sim, BEST_EFFORT, false, NULL);
	sim_run(&sim, 120 * SIM_MS);
	CHECK_INT(b->applied.off, RBT_ON);
	sim_reset(&sim);
	for (int i = 0; i < 10; i++) {
		sim_run(&sim, 5 * SIM_MS);
		b->params.tasks[0].own_us++;
		sim_change(b);
		a->params.tasks[0].own_us++;
		sim_change(a);
	}
	CHECK_INT(sim.n_changes, 0);
	CHECK(rbt_sched_next_tick(sim.s) == 200 * SIM_MS); /* nor has it gained any */
	check_kept(&sim);
	sim_finish(&sim);
}

static void test_configure(void)
{
	static const struct rbt_sched_config wrong[] = {{.turn_ms = 59}, {.turn_ms = 101},
		{.min_share_permille = 101}, {.share_window_ms = 99}, {.max_hold_us = 30001},
		{.probe_ms = 9}};
	struct sim sim;
	size_t n = 0;

	sim_init(&sim, NULL);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct rbt_sched *s = NULL;
		CHECK_INT(rbt_sched_create(&wrong[i], NULL, NULL, &s), -EINVAL);
		CHECK(s == NULL);
		CHECK_INT(rbt_sched_configure(sim.s, 0, &wrong[i]), -EINVAL);
	}
	CHECK(rbt_sched_policy_find("none") == NULL);
	for (unsigned i = 0; i < 16; i++) {
		sim_add(&sim, i, i % 3 == 0, NULL);
	}
	/* Every policy, at run time, there and back. */
	const struct rbt_sched_policy *policies = rbt_sched_policies(&n);
	CHECK_INT(n, 4);
	for (size_t i = 0; i < 2 * n; i++) {
		struct rbt_sched_config config = {.policy = &policies[i % n], .turn_ms = 60};
		CHECK(rbt_sched_policy_find(policies[i % n].name) == &policies[i % n]);
		CHECK_INT(rbt_sched_configure(sim.s, sim.now_ns, &config), 0);
		sim_run(&sim, 3 * SIM_S);
	}
	check_kept(&sim);
	sim_finish(&sim);
}

static void test_wrong_params(void)
{
	struct rbt_sched_params params = params_of(BEST_EFFORT);
	struct rbt_sched_prog *p = NULL;
	struct sim sim;

	sim_init(&sim, NULL);
	params.priority = 16;
	CHECK_INT(rbt_sched_add(sim.s, 0, &params, NULL, &p), -EINVAL);
	params.priority = 15;
	params.weight = RBT_WEIGHT_MAX + 1;
	CHECK_INT(rbt_sched_add(sim.s, 0, &params, NULL, &p), -EINVAL);
	params.weight = RBT_WEIGHT_MAX;
	params.timeslice_us = RBT_TIMESLICE_MAX_US + 1;
	CHECK_INT(rbt_sched_add(sim.s, 0, &params, NULL, &p), -EINVAL);
	CHECK(p == NULL);
	struct sim_prog *a = sim_add(&sim, BEST_EFFORT, false, NULL);
	CHECK_INT(rbt_sched_change(sim.s, 0, a->handle, &params), -EINVAL);
	CHECK_INT(slice(a), 1);
	/* Time that goes back stands still. */
	sim_run(&sim, SIM_S);
	rbt_sched_tick(sim.s, 0);
	sim_add(&sim, BEST_EFFORT, false, NULL);
	CHECK(rbt_sched_next_tick(sim.s) > SIM_S);
	rbt_sched_destroy(NULL);
	check_kept(&sim);
	sim_finish(&sim);
}

static void apply(struct rbt_sched *s)
{
	const struct rbt_decision *d;

	while (rbt_sched_next_change(s, &d) != NULL) {
	}
}

/* Devices without slices: turns and reserve by taking off alone, and from the first moment. */
static void test_without_slices(void)
{
	struct rbt_sched_params params = {.weight = 1, .is_known = true, .timeslice_us = 50};
	struct rbt_sched_prog *a, *b, *urgent;
	struct rbt_sched *s;
	uint64_t t_ns = SIM_S;

	params.tasks[31].n_compute = 2; /* more than one is no company here */
	CHECK_INT(rbt_sched_create(&(struct rbt_sched_config){0}, NULL, NULL, &s), 0);
	params.priority = BEST_EFFORT;
	CHECK_INT(rbt_sched_add(s, t_ns, &params, &a, &a), 0);
	CHECK_INT(rbt_sched_add(s, t_ns, &params, &b, &b), 0);
	params.priority = LATENCY;
	CHECK_INT(rbt_sched_add(s, t_ns, &params, &urgent, &urgent), 0);
	rbt_sched_busy(s, t_ns, a);
	rbt_sched_busy(s, t_ns, b);
	apply(s);
	CHECK_INT(rbt_sched_locks_wanted(s), 0);
	CHECK_INT(rbt_sched_decision(a)->off, RBT_ON);
	CHECK_INT(rbt_sched_decision(b)->off, RBT_OFF_FULL);
	for (const struct rbt_sched_prog *p = a; p != NULL; p = p == a ? b : NULL) {
		CHECK_INT(rbt_sched_decision(p)->denial, RBT_DENIED_NOTHING);
		CHECK_INT(rbt_sched_decision(p)->slice_us[31], RBT_TIMESLICE_OWN);
	}
	t_ns += SIM_MS;
	rbt_sched_busy(s, t_ns, urgent);
	CHECK_INT(rbt_sched_decision(a)->off, RBT_OFF_FULL);
	CHECK_INT(rbt_sched_decision(b)->off, RBT_OFF_FULL);
	CHECK_INT(rbt_sched_decision(urgent)->off, RBT_ON);
	t_ns += 10 * SIM_MS;
	rbt_sched_tick(s, t_ns);
	CHECK(!rbt_sched_is_wanting(urgent));
	CHECK((rbt_sched_decision(a)->off == RBT_ON) != (rbt_sched_decision(b)->off == RBT_ON));
	rbt_sched_destroy(s);
}

int main(void)
{
	test_locks();
	test_without_slices();
	test_turns_and_slices();
	test_company();
	test_cannot_suspend();
	test_ranks_on_one_gpu();
	test_admission();
	test_no_limit();
	test_circle();
	test_no_ticks();
	test_silent_while_off();
	test_change_keeps_turn();
	test_configure();
	test_wrong_params();
	return check_result();
}
