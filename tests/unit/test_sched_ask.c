/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that take no turns, and a policy that refuses them: they are kept off, are asked about
 * neither too often nor too seldom, and get their min_share. */
#include "check.h"
#include "sched/class.h"
#include "sched/impl.h"
#include "test_sched_sim.h"

#define BEST_EFFORT 2
#define LATENCY     13
#define MIN_SHARE   0.02

static struct rbt_sched_policy policy;

/* The questions about marked programs. */
static struct {
	uint64_t n;
	uint64_t last_ns, shortest_ns, longest_ns;
} asked;

static void init(struct sim *sim)
{
	size_t n;

	policy = *rbt_sched_policies(&n);
	policy.asks = true;
	asked.n = asked.last_ns = asked.longest_ns = 0;
	asked.shortest_ns = UINT64_MAX;
	sim_init(sim, &(struct rbt_sched_config){.policy = &policy});
}

static bool refuse_marked(struct sim_prog *p)
{
	uint64_t gap_ns = p->sim->now_ns - asked.last_ns;

	if (asked.last_ns != 0 && p->is_refused) {
		asked.shortest_ns = gap_ns < asked.shortest_ns ? gap_ns : asked.shortest_ns;
		asked.longest_ns = gap_ns > asked.longest_ns ? gap_ns : asked.longest_ns;
	}
	asked.n += p->is_refused;
	asked.last_ns = p->is_refused ? p->sim->now_ns : asked.last_ns;
	return !p->is_refused;
}

static bool refuse_all(struct sim_prog *p)
{
	return false;
}

static struct sim_prog *add_refused(
	struct sim *sim, unsigned priority, bool is_known, const struct sim_work *work)
{
	struct sim_prog *p;

	sim->admit = refuse_all; /* from the first question on */
	p = sim_add(sim, priority, is_known, work);
	sim->admit = refuse_marked;
	p->is_refused = true;
	return p;
}

static double share_of(const struct sim_prog *p, uint64_t for_ns)
{
	return p->done_ns / (double)for_ns;
}

static void test_refused(unsigned priority, bool is_known)
{
	struct sim sim;

	init(&sim);
	struct sim_prog *p = add_refused(&sim, priority, is_known, NULL);
	CHECK_INT(p->applied.off, RBT_OFF_FULL);
	CHECK_INT(p->applied.denial, RBT_DENIED_POLICY);
	sim_run(&sim, 5 * SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 60 * SIM_S);
	CHECK(share_of(p, 60 * SIM_S) > 0.9 * MIN_SHARE);
	CHECK(share_of(p, 60 * SIM_S) < 2.2 * MIN_SHARE);
	CHECK(asked.shortest_ns >= 10 * SIM_MS && asked.longest_ns <= 100 * SIM_MS);
	CHECK_INT(p->applied.denial, RBT_DENIED_POLICY);
	/* It is let on soon, and may be refused while it runs. */
	p->is_refused = false;
	sim_run(&sim, 100 * SIM_MS);
	CHECK_INT(p->applied.off, RBT_ON);
	CHECK_INT(p->applied.denial, RBT_DENIED_NOTHING);
	p->is_refused = true;
	sim_run(&sim, 100 * SIM_MS);
	CHECK_INT(p->applied.off, RBT_OFF_FULL);
	check_kept(&sim);
	sim_finish(&sim);
}

/* The others get what it leaves. */
static void test_beside(unsigned priority, unsigned other)
{
	struct sim sim;

	init(&sim);
	struct sim_prog *p = add_refused(&sim, priority, true, NULL);
	struct sim_prog *q = sim_add(&sim, other, true, NULL);
	sim_run(&sim, 60 * SIM_S);
	CHECK(share_of(p, sim.now_ns) > 0.8 * MIN_SHARE);
	CHECK(share_of(p, sim.now_ns) < 2.5 * MIN_SHARE);
	CHECK(share_of(q, sim.now_ns) > 0.95);
	CHECK_INT(q->applied.denial, RBT_DENIED_NOTHING);
	/* A refused program has no reserve. */
	CHECK_INT(sim_stats(p).reserves, 0);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A latency program's reserve ends with the refusal, and is back with the admission. */
static void test_reserve(void)
{
	const struct sim_work work = {.burst_ns = 5 * SIM_MS,
		.gap_ns = 100 * SIM_US,
		.bursts = 4,
		.period_ns = 100 * SIM_MS};
	struct sim sim;

	init(&sim);
	sim.admit = refuse_marked;
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &work);
	struct sim_prog *q = sim_add(&sim, BEST_EFFORT, true, NULL);
	sim_run(&sim, 5 * SIM_S);
	uint64_t n = sim_stats(p).reserves;
	CHECK(n > 30);
	CHECK_INT(sim_stats(p).guard_turns, 0);
	p->is_refused = true;
	sim_run(&sim, SIM_S);
	n = sim_stats(p).reserves;
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	CHECK_INT(sim_stats(p).reserves, n);
	CHECK(share_of(q, 20 * SIM_S) > 0.95);
	p->is_refused = false;
	sim_run(&sim, 20 * SIM_S); /* it has requests to catch up with */
	n = sim_stats(p).reserves;
	/* Requests are as fast as before. */
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	CHECK(sim_stats(p).reserves > n + 150);
	CHECK(sim_quantile(p, 0.9) < 25 * SIM_MS);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A program that cannot be suspended runs on, and its denial says so. */
static void test_in_vain(void)
{
	struct rbt_sched_params params = {.priority = RBT_PRIORITY_NORMAL, .cannot_suspend = true};
	struct sim sim;

	init(&sim);
	sim.admit = refuse_all;
	params.tasks[0] = (struct rbt_sched_tasks){.n_compute = 1, .own_us = SIM_OWN_US};
	struct sim_prog *p = sim_add_params(&sim, &params, NULL);
	sim_run(&sim, 5 * SIM_S);
	CHECK_INT(p->applied.off, RBT_ON);
	CHECK_INT(p->applied.denial, RBT_DENIED_IN_VAIN);
	CHECK(p->done_ns > 4.9e9 && sim.n_asked > 40 && sim.n_asked < 70);
	sim.admit = NULL;
	sim_run(&sim, 100 * SIM_MS);
	CHECK_INT(p->applied.denial, RBT_DENIED_NOTHING);
	check_kept(&sim);
	sim_finish(&sim);
}

/* When another program goes, the answer may be another one: nobody waits for the next time. */
static void test_load_changes(unsigned priority)
{
	struct sim sim;

	init(&sim);
	struct sim_prog *q = sim_add(&sim, LATENCY, true, NULL);
	struct sim_prog *p = add_refused(&sim, priority, true, NULL);
	for (unsigned i = 0; i < 20; i++) {
		/* The times of questions are multiples of 90 ms. */
		sim_run(&sim, (i + 1) * 90 * SIM_MS - sim.now_ns + 12 * SIM_MS);
		uint64_t n = asked.n;
		q->params.suspended = !q->params.suspended;
		sim_change(q);
		sim_run(&sim, 10 * SIM_MS + 1);
		/* Or it has a guard turn, which is not asked about. */
		CHECK(asked.n > n || p->applied.off == RBT_ON);
	}
	CHECK(asked.shortest_ns >= 10 * SIM_MS);
	CHECK_INT(p->applied.denial, RBT_DENIED_POLICY);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Whatever the answer makes of the program, it leads to no other question at once. */
static void test_no_storm(unsigned priority)
{
	struct sim sim;

	init(&sim);
	struct sim_prog *p = add_refused(&sim, priority, true, NULL);
	sim_run(&sim, 30 * SIM_MS);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t n = sim.n_asked;
		sim_run(&sim, 100 * SIM_US);
		p->params.weight = 1 + i % 2;
		sim_change(p);
		CHECK(sim.n_asked <= n + 1);
		CHECK(p->applied.off != RBT_ON || sim_stats(p).guard_turns > 0);
	}
	CHECK(asked.shortest_ns >= 10 * SIM_MS);
	CHECK(share_of(p, sim.now_ns) < 4 * MIN_SHARE);
	check_kept(&sim);
	sim_finish(&sim);
}

/* An idle program is not asked about, and is not kept off. */
static void test_idle(void)
{
	const struct sim_work work = {
		.burst_ns = 20 * SIM_MS, .bursts = 1, .period_ns = SIM_S, .until_ns = 10 * SIM_S};
	struct sim sim;

	init(&sim);
	sim.admit = refuse_marked;
	struct sim_prog *p = sim_add(&sim, RBT_PRIORITY_NORMAL, true, &work);
	sim_run(&sim, 20 * SIM_S);
	CHECK_INT(p->n_requests, 10);
	/* At the beginning of each request, and perhaps once to see that it is over. */
	CHECK(sim.n_asked >= 10 && sim.n_asked <= 30);
	sim_run(&sim, 10 * SIM_S);
	uint64_t n = sim.n_asked;
	sim_run(&sim, 10 * SIM_S);
	CHECK_INT(sim.n_asked, n);
	CHECK_INT(sim.n_ticks > 0 ? rbt_sched_next_tick(sim.s) : 0, UINT64_MAX);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A program that is kept off in the midst of its work cannot show any activity: it is not idle. */
static void test_silence(void)
{
	const struct sim_work one = {.burst_ns = 100 * SIM_S,
		.bursts = 1,
		.period_ns = SIM_MS,
		.is_eager = true,
		.is_polling = true};
	const struct sim_work server = {
		.burst_ns = 2 * SIM_MS, .gap_ns = SIM_MS, .bursts = 3, .period_ns = 50 * SIM_MS};
	struct sim sim;

	init(&sim);
	struct sim_prog *p = add_refused(&sim, RBT_PRIORITY_NORMAL, true, &one);
	sim_add(&sim, LATENCY, true, &server);
	sim_run(&sim, 20 * SIM_S);
	CHECK(p->in_burst && share_of(p, sim.now_ns) > 0.8 * MIN_SHARE);
	CHECK(share_of(p, sim.now_ns) < 2.5 * MIN_SHARE);
	check_kept(&sim);
	sim_finish(&sim);
}

/* With many programs, the questions come together. */
static void test_many(void)
{
	struct sim sim;

	init(&sim);
	for (unsigned i = 0; i < 60; i++) {
		sim_add(&sim, RBT_PRIORITY_NORMAL, i % 2 == 0, NULL);
		sim_run(&sim, SIM_MS);
	}
	sim_reset(&sim);
	sim.n_asked = 0;
	sim_run(&sim, 9 * SIM_S);
	CHECK_INT(sim.n_asked, 60 * 100);
	CHECK(sim.n_ticks <= 102);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Nobody stays off when the policy ends, and the next policy's answers are its own. */
static void test_policy_ends(void)
{
	struct rbt_sched_config config = {.always_reserve = true};
	struct sim sim;
	size_t n;

	init(&sim);
	sim.admit = refuse_all;
	for (unsigned i = 0; i < 6; i++) {
		sim_add(&sim, i * 3, i % 2 == 0, NULL);
	}
	sim_run(&sim, SIM_S);
	config.policy = rbt_sched_policies(&n);
	CHECK_INT(rbt_sched_configure(sim.s, sim.now_ns, &config), 0);
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	for (unsigned i = 0; i < 6; i++) {
		CHECK_INT(sim.progs[i]->applied.denial == RBT_DENIED_POLICY, 0);
		CHECK(share_of(sim.progs[i], 20 * SIM_S) > 0.5 * MIN_SHARE);
	}
	config.policy = &policy;
	sim.admit = NULL;
	CHECK_INT(rbt_sched_configure(sim.s, sim.now_ns, &config), 0);
	sim.admit = refuse_all;
	CHECK_INT(rbt_sched_configure(sim.s, sim.now_ns, &config), 0);
	CHECK_INT(rbt_sched_decision(sim.progs[3]->handle)->denial, RBT_DENIED_POLICY);
	check_kept(&sim);
	sim_finish(&sim);
}

#define N_RANDOM 8

/* What a policy that answers at random says of each program; the daemon takes it up later. */
static struct {
	struct rbt_policy_output output;
	bool is_dirty;
	uint64_t asked_ns;
} random_says[N_RANDOM];

static bool answer_at_random(struct sim_prog *p)
{
	struct sim *sim = p->sim;
	struct rbt_policy_output said = {
		.timeslice_us = (uint32_t)(sim_random(sim, 3) * sim_random(sim, 100000)),
		.interleave = (uint32_t)sim_random(sim, 3),
		.priority = (uint32_t)sim_random(sim, 16),
		.weight = (uint32_t)sim_random(sim, 30),
	};
	unsigned i = 0;

	while (i < N_RANDOM - 1 && sim->progs[i] != p) {
		i++;
	}
	CHECK(random_says[i].asked_ns == 0 || sim->now_ns >= random_says[i].asked_ns + 10 * SIM_MS);
	random_says[i].asked_ns = sim->now_ns;
	if (sim_random(sim, 4) == 0) {
		random_says[i].is_dirty |= rbt_policy_output_take(&random_says[i].output, &said);
	}
	return sim_random(sim, 4) == 0;
}

static void take_outputs(struct sim *sim)
{
	for (unsigned i = 0; i < N_RANDOM; i++) {
		if (random_says[i].is_dirty) {
			random_says[i].is_dirty = false;
			rbt_policy_output_apply(&random_says[i].output, &sim->progs[i]->params);
			sim_change(sim->progs[i]);
		}
	}
}

static enum rbt_role odd_role(void *ctx, unsigned priority)
{
	return RBT_ROLE_TURN + (enum rbt_role)(priority % 3);
}

/* Refusals, priorities and so roles, weights and slices at random, for programs of all kinds. When
 * the policy ends, all of it ends. */
static void test_random(uint64_t seed)
{
	const struct sim_work work = {
		.burst_ns = 2 * SIM_MS, .bursts = 3, .period_ns = 30 * SIM_MS, .is_poisson = true};
	struct rbt_sched_config config = {.always_reserve = true};
	struct sim sim;
	size_t n;

	init(&sim);
	policy.role = seed % 2 == 0 ? odd_role : policy.role;
	sim.seed = seed;
	for (unsigned i = 0; i < N_RANDOM; i++) {
		random_says[i].output = RBT_POLICY_OUTPUT_INIT;
		random_says[i].asked_ns = 0;
		sim_add(&sim, i * 2, i % 3 > 0, i == 7 ? &work : NULL);
	}
	sim.admit = answer_at_random;
	while (sim.now_ns < 60 * SIM_S) {
		take_outputs(&sim);
		sim_run(&sim, sim_random(&sim, 60 * SIM_MS));
	}
	for (unsigned i = 0; i < N_RANDOM - 1; i++) {
		CHECK(share_of(sim.progs[i], sim.now_ns) > 0.5 * MIN_SHARE);
	}
	config.policy = rbt_sched_policies(&n);
	CHECK_INT(rbt_sched_configure(sim.s, sim.now_ns, &config), 0);
	for (unsigned i = 0; i < N_RANDOM; i++) {
		sim.progs[i]->params.priority = i * 2;
		sim.progs[i]->params.weight = 1;
		sim.progs[i]->params.timeslice_us = RBT_TIMESLICE_OWN;
		sim_change(sim.progs[i]);
	}
	sim_reset(&sim);
	sim_run(&sim, 30 * SIM_S);
	for (unsigned i = 0; i < N_RANDOM; i++) {
		CHECK(sim.progs[i]->applied.denial != RBT_DENIED_POLICY);
		CHECK(i == 7 || share_of(sim.progs[i], 30 * SIM_S) > 0.5 * MIN_SHARE);
	}
	check_kept(&sim);
	sim_finish(&sim);
}

int main(void)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		test_random(seed);
	}
	for (unsigned i = 0; i < 4; i++) {
		test_refused(i % 2 == 0 ? RBT_PRIORITY_NORMAL : LATENCY, i / 2 == 0);
	}
	test_beside(RBT_PRIORITY_NORMAL, RBT_PRIORITY_NORMAL);
	test_beside(RBT_PRIORITY_NORMAL, BEST_EFFORT);
	test_beside(LATENCY, BEST_EFFORT);
	test_beside(LATENCY, RBT_PRIORITY_NORMAL);
	test_reserve();
	test_in_vain();
	test_load_changes(RBT_PRIORITY_NORMAL);
	test_load_changes(BEST_EFFORT);
	test_no_storm(RBT_PRIORITY_NORMAL);
	test_no_storm(LATENCY);
	test_no_storm(BEST_EFFORT);
	test_idle();
	test_silence();
	test_many();
	test_policy_ends();
	return check_result();
}
