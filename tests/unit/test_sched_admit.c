/* SPDX-License-Identifier: Apache-2.0 */
/* Policies that refuse turns, change weights and answer at random, on simulated GPUs. Whatever they
 * say, a program gets its min_share. */
#include "check.h"
#include "sched/class.h"
#include "test_sched_sim.h"

#define BEST_EFFORT 2
#define LATENCY     13
/* The configured min_share, in parts of the time. */
#define MIN_SHARE 0.02

static void init(struct sim *sim)
{
	static struct rbt_sched_policy policy;
	size_t n;

	policy = *rbt_sched_policies(&n);
	policy.asks = true;
	sim_init(sim, &(struct rbt_sched_config){.policy = &policy});
}

static bool refuse_marked(struct sim_prog *p)
{
	return !p->is_refused;
}

static bool refuse_all(struct sim_prog *p)
{
	return false;
}

static double share_of(const struct sim_prog *p, uint64_t for_ns)
{
	return p->done_ns / (double)for_ns;
}

/* The others share what the refused program leaves, and it gets its min_share. */
static void test_one_refused(unsigned n)
{
	struct sim sim;

	init(&sim);
	sim.admit = refuse_marked;
	for (unsigned i = 0; i < n; i++) {
		sim_add(&sim, BEST_EFFORT, true, NULL)->is_refused = i == 0;
	}
	sim_run(&sim, 60 * SIM_S);
	CHECK(share_of(sim.progs[0], sim.now_ns) > 0.9 * MIN_SHARE);
	CHECK(share_of(sim.progs[0], sim.now_ns) < 2.2 * MIN_SHARE);
	CHECK(sim_jain(sim.progs + 1, n - 1) >= 0.98);
	CHECK(sim.idle_ns < 1e-3 * (double)sim.now_ns);
	CHECK_INT(sim.progs[0]->applied.denial, RBT_DENIED_POLICY);
	CHECK_INT(sim.progs[1]->applied.denial, RBT_DENIED_NOTHING);
	/* Once it is admitted, it has saved up nothing. */
	sim.progs[0]->is_refused = false;
	sim_reset(&sim);
	sim_run(&sim, 10 * SIM_S);
	CHECK(share_of(sim.progs[0], 10 * SIM_S) > 0.8 / n);
	CHECK(share_of(sim.progs[0], 10 * SIM_S) < 1.2 / n);
	CHECK_INT(sim.progs[0]->applied.denial, RBT_DENIED_NOTHING);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A refusal leaves the GPU unused rather than being passed over, and ends when the policy says
 * so. */
static void test_refused_alone(void)
{
	struct sim sim;

	init(&sim);
	sim.admit = refuse_marked;
	struct sim_prog *p = sim_add(&sim, BEST_EFFORT, true, NULL);
	p->is_refused = true;
	sim_run(&sim, 10 * SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	CHECK(share_of(p, 20 * SIM_S) > 0.9 * MIN_SHARE &&
		share_of(p, 20 * SIM_S) < 2.2 * MIN_SHARE);
	/* Ten questions per second. */
	CHECK(sim.n_asked < 320);
	p->is_refused = false;
	sim_run(&sim, 200 * SIM_MS);
	CHECK_INT(p->applied.off, RBT_ON);
	CHECK_INT(p->applied.denial, RBT_DENIED_NOTHING);
	/* Nor is it admitted for ever. */
	p->is_refused = true;
	sim_run(&sim, SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	CHECK(share_of(p, 20 * SIM_S) < 2.2 * MIN_SHARE);
	check_kept(&sim);
	sim_finish(&sim);
}

/* What is above a program counts once, whether it is a priority or the policy. */
static void test_refused_below(unsigned priority, bool is_refused)
{
	struct sim sim;
	const struct sim_work work = {.burst_ns = 5 * SIM_MS,
		.gap_ns = 100 * SIM_US,
		.bursts = 4,
		.period_ns = 25 * SIM_MS};

	init(&sim);
	sim.admit = refuse_marked;
	struct sim_prog *p = sim_add(&sim, BEST_EFFORT, true, NULL);
	p->is_refused = is_refused;
	sim_add(&sim, priority, true, priority == LATENCY ? &work : NULL);
	sim_run(&sim, 60 * SIM_S);
	CHECK(share_of(p, sim.now_ns) > 0.8 * MIN_SHARE);
	CHECK(!is_refused || share_of(p, sim.now_ns) < 2.5 * MIN_SHARE);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A program without a min_share has asked for it. */
static void test_no_share(void)
{
	struct sim sim;

	init(&sim);
	sim.admit = refuse_all;
	struct sim_prog *p = sim_add(&sim, BEST_EFFORT, true, NULL);
	p->params.limits.min_share_permille = RBT_SHARE_NONE;
	sim_change(p);
	sim_run(&sim, 10 * SIM_S);
	CHECK(p->done_ns == 0);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A policy that refuses nobody changes nothing, and is asked once a turn; one that has not asked
 * for it, never. */
static void test_asked_once(void)
{
	struct sim sims[2];

	sim_init(&sims[0], NULL);
	init(&sims[1]);
	for (unsigned i = 0; i < 2; i++) {
		sims[i].admit = i == 0 ? refuse_all : refuse_marked;
		sim_add(&sims[i], BEST_EFFORT, true, NULL);
		sim_add(&sims[i], BEST_EFFORT, true, NULL);
		sim_run(&sims[i], 10 * SIM_S);
	}
	CHECK(sims[0].progs[0]->done_ns == sims[1].progs[0]->done_ns);
	CHECK_INT(sims[0].n_ticks, sims[1].n_ticks);
	CHECK_INT(sims[0].n_asked, 0);
	CHECK(sims[1].n_asked >= 99 && sims[1].n_asked <= 105);
	sim_finish(&sims[0]);
	sim_finish(&sims[1]);
}

/* Ranks are refused together: one that runs alone would spin for the others. */
static void test_ranks(void)
{
	struct sim sim;
	struct rbt_sched_params params = {.priority = BEST_EFFORT, .group = 7, .is_known = true};

	init(&sim);
	sim.admit = refuse_marked;
	for (unsigned i = 0; i < 2; i++) {
		params.tasks[0].n_compute = i == 0;
		params.tasks[1].n_compute = i == 1;
		params.tasks[i].own_us = SIM_OWN_US;
		sim_add_params(&sim, &params, NULL)->is_refused = i == 1;
	}
	struct sim_prog *other = sim_add(&sim, BEST_EFFORT, true, NULL);
	sim_run(&sim, 30 * SIM_S);
	for (unsigned i = 0; i < 2; i++) {
		CHECK(share_of(sim.progs[i], sim.now_ns) > 0.8 * MIN_SHARE);
		CHECK(share_of(sim.progs[i], sim.now_ns) < 2.5 * MIN_SHARE);
	}
	CHECK(share_of(other, sim.now_ns) > 0.9);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Making a task does not turn a guard turn into one that the policy has refused. */
static void test_change_is_no_way_around(void)
{
	struct sim sim;

	init(&sim);
	sim.admit = refuse_all;
	struct sim_prog *p = sim_add(&sim, BEST_EFFORT, true, NULL);
	for (unsigned i = 0; i < 4000; i++) {
		sim_run(&sim, 5 * SIM_MS);
		p->params.tasks[0].own_us ^= 1;
		sim_change(p);
	}
	CHECK(share_of(p, sim.now_ns) < 2.5 * MIN_SHARE);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A policy that changes weights: shares follow. */
static void test_weights(void)
{
	struct sim sim;

	init(&sim);
	for (unsigned i = 0; i < 2; i++) {
		sim_add(&sim, BEST_EFFORT, true, NULL);
	}
	for (unsigned i = 0; i < 4; i++) {
		sim.progs[0]->params.weight = i % 2 == 0 ? 3 : 1;
		sim.progs[1]->params.weight = i % 2 == 0 ? 1 : 3;
		sim_change(sim.progs[0]);
		sim_change(sim.progs[1]);
		sim_run(&sim, SIM_S);
		sim_reset(&sim);
		sim_run(&sim, 20 * SIM_S);
		double share = share_of(sim.progs[i % 2], 20 * SIM_S);
		CHECK(share > 0.72 && share < 0.78);
	}
	check_kept(&sim);
	sim_finish(&sim);
}

static bool answer_at_random(struct sim_prog *p)
{
	return sim_random(p->sim, 4) == 0;
}

/* A policy that answers at random, and says anything about weights and priorities. */
static void test_random(uint64_t seed)
{
	struct sim sim;
	const struct sim_work work = {
		.burst_ns = 2 * SIM_MS, .bursts = 3, .period_ns = 30 * SIM_MS, .is_poisson = true};
	unsigned n = 6;

	init(&sim);
	sim.seed = seed;
	sim.admit = answer_at_random;
	for (unsigned i = 0; i < n; i++) {
		sim_add(&sim, i == 0 ? LATENCY : BEST_EFFORT, true, i == 0 ? &work : NULL);
	}
	for (unsigned i = 0; i < 2000; i++) {
		struct sim_prog *p = sim.progs[1 + sim_random(&sim, n - 1)];

		p->params.weight = (uint32_t)sim_random(&sim, 20);
		p->params.priority = (unsigned)sim_random(&sim, 6);
		p->params.timeslice_us = sim_random(&sim, 2) * sim_random(&sim, 4000);
		sim_change(p);
		sim_run(&sim, sim_random(&sim, 60 * SIM_MS));
	}
	for (unsigned i = 1; i < n; i++) {
		CHECK(share_of(sim.progs[i], sim.now_ns) > 0.8 * MIN_SHARE);
	}
	check_kept(&sim);
	sim_finish(&sim);
}

static void test_load(void)
{
	struct sim sim;
	struct rbt_sched_load load;
	const struct sim_work work = {
		.burst_ns = 30 * SIM_MS, .bursts = 1, .period_ns = 100 * SIM_MS};

	init(&sim);
	rbt_sched_load(sim.s, 0, &load);
	CHECK(load.permille == 0 && load.n[RBT_CLASS_LATENCY] == 0);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &work);
	sim_run(&sim, 3 * SIM_S);
	rbt_sched_load(sim.s, 0, &load);
	CHECK(load.n[RBT_CLASS_LATENCY] == 1 && load.n[RBT_CLASS_BEST_EFFORT] == 0);
	CHECK(load.permille > 250 && load.permille < 400);
	struct sim_prog *q = sim_add(&sim, BEST_EFFORT, true, NULL);
	sim_add(&sim, RBT_PRIORITY_NORMAL, false, NULL);
	sim_run(&sim, 3 * SIM_S);
	rbt_sched_load(sim.s, 0, &load);
	CHECK(load.n[RBT_CLASS_NORMAL] == 1 && load.n[RBT_CLASS_BEST_EFFORT] == 1);
	CHECK(load.permille > 950 && load.permille <= 1000);
	rbt_sched_load(sim.s, 1, &load);
	CHECK(load.permille == 0 && load.n[RBT_CLASS_NORMAL] == 0);
	/* A suspended program does not count, and the load of the past is forgotten. */
	q->params.suspended = true;
	sim_change(q);
	sim_remove(p);
	sim_run(&sim, 2 * SIM_S);
	rbt_sched_tick(sim.s, sim.now_ns);
	rbt_sched_load(sim.s, 0, &load);
	CHECK(load.n[RBT_CLASS_BEST_EFFORT] == 0 && load.n[RBT_CLASS_LATENCY] == 0);
	CHECK_INT(load.permille, 0);
	check_kept(&sim);
	sim_finish(&sim);
}

int main(void)
{
	test_one_refused(2);
	test_one_refused(3);
	test_one_refused(8);
	test_refused_alone();
	test_refused_below(LATENCY, true);
	test_refused_below(LATENCY, false);
	test_refused_below(BEST_EFFORT + 2, true);
	test_refused_below(BEST_EFFORT + 2, false);
	test_no_share();
	test_asked_once();
	test_ranks();
	test_change_is_no_way_around();
	test_weights();
	for (uint64_t seed = 1; seed <= 10; seed++) {
		test_random(seed);
	}
	test_load();
	return check_result();
}
