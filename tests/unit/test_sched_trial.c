/* SPDX-License-Identifier: Apache-2.0 */
/* Reserves that are not worth it: they are given up, they come back when that changes, and finding
 * out does no harm to whom they are worth it for. On a simulated GPU that is slow to switch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "sched/class.h"
#include "sched/trial.h"
#include "test_sched_sim.h"

#define BEST_EFFORT 2
#define LATENCY     13

/* A launch every 85 us, of 22 us of work: 3.4 ms, 10 % of the time. */
static const struct sim_work eager = {.burst_ns = 22 * SIM_US,
	.gap_ns = 85 * SIM_US,
	.bursts = 40,
	.period_ns = 33 * SIM_MS,
	.is_poisson = true,
	.is_eager = true,
	.is_queued = true};
#define EAGER_NS (39 * 85 * SIM_US + 22 * SIM_US)

/* A launch-bound program: its device idles a third of the time, and it waits after each step. (Ten
 * kernels are one here: 20 launches of 40 us stand for 200 of 4 us.) */
static const struct sim_work tiny = {.burst_ns = 25 * SIM_US,
	.gap_ns = 40 * SIM_US,
	.bursts = 20,
	.period_ns = 1,
	.is_eager = true,
	.is_queued = true};

/* When it was let back, it has to fill its pipeline anew. How long that takes is such that it keeps
 * 70 to 80 % of its rate beside reserves, as it does on an H200. */
#define PIPELINE_NS (6 * SIM_MS)

/* What switching to and from a heavy program takes, so that a reserve is worth it beside it. */
#define HEAVY_NS SIM_MS

/* 16 tokens with a synchronisation after each. */
static const struct sim_work tokens = {.burst_ns = 400 * SIM_US,
	.gap_ns = 100 * SIM_US,
	.bursts = 16,
	.period_ns = 50 * SIM_MS,
	.is_poisson = true};

struct outcome {
	double kept; /* by the neighbour, of what the requests leave */
	uint64_t p50_ns, p99_ns;
};

/* How both fare once all is known. */
static struct outcome run_launch_bound(struct sim *sim, bool always_reserve)
{
	struct rbt_sched_config config = {.always_reserve = always_reserve};
	struct outcome ret;

	sim_init_slow(sim, &config);
	sim->on_ns = PIPELINE_NS;
	struct sim_prog *neighbour = sim_add(sim, BEST_EFFORT, true, &tiny);
	sim_run(sim, 2 * SIM_S);
	double own = (double)neighbour->n_requests / 2;
	struct sim_prog *p = sim_add(sim, LATENCY, true, &eager);
	sim_run(sim, 6 * SIM_S);
	sim_reset(sim);
	sim_run(sim, 120 * SIM_S);
	double left = 1 - (double)(p->n_requests * EAGER_NS) / 120e9;
	ret.kept = (double)neighbour->n_requests / 120 / own / left;
	ret.p50_ns = sim_quantile(p, 0.5);
	ret.p99_ns = sim_quantile(p, 0.99);
	check_kept(sim);
	return ret;
}

static void test_launch_bound(void)
{
	struct sim sim;
	struct outcome always = run_launch_bound(&sim, true);

	CHECK_INT(rbt_sched_unreserved(sim.s, sim.progs[1]->handle), RBT_UNRESERVED_NOT);
	CHECK_INT(sim_stats(sim.progs[1]).spared, 0);
	sim_finish(&sim);
	struct outcome tried = run_launch_bound(&sim, false);
	CHECK_INT(rbt_sched_unreserved(sim.s, sim.progs[1]->handle), RBT_UNRESERVED_WORTHLESS);
	/* It is tried now and then whether that has changed. */
	CHECK(sim_stats(sim.progs[1]).spared > sim_stats(sim.progs[1]).reserves * 5);
	sim_finish(&sim);
	fprintf(stderr,
		"launch-bound: keeps %.3f beside reserves, %.3f without; p50 %.2f, %.2f ms; "
		"p99 %.2f, %.2f ms\n",
		always.kept, tried.kept, (double)always.p50_ns / 1e6, (double)tried.p50_ns / 1e6,
		(double)always.p99_ns / 1e6, (double)tried.p99_ns / 1e6);
	CHECK(always.kept > 0.7 && always.kept < 0.85);
	CHECK(tried.kept >= 0.97);
	CHECK(tried.p50_ns < always.p50_ns + always.p50_ns / 20);
	CHECK(tried.p99_ns < always.p99_ns + always.p99_ns / 20);
}

/* Requests with gaps: a few are late at first, and then next to none, over 12,000 of them. */
static void test_gaps(bool is_uneven)
{
	struct rbt_sched_config config = {.always_reserve = true};
	struct sim_work work = tokens;
	uint64_t p99_ns[2], n_first = 0;
	struct sim sim;

	work.is_uneven = is_uneven;
	for (unsigned i = 0; i < 2; i++) {
		config.always_reserve = i == 0;
		sim_init_slow(&sim, &config);
		sim_add(&sim, BEST_EFFORT, true, NULL);
		struct sim_prog *p = sim_add(&sim, LATENCY, true, &work);
		sim_run(&sim, 15 * SIM_S);
		n_first = sim_stats(p).spared;
		sim_reset(&sim);
		sim_run(&sim, 600 * SIM_S);
		p99_ns[i] = sim_quantile(p, 0.99);
		uint64_t n = sim_stats(p).spared - n_first;
		CHECK(p->n_requests > 10000);
		CHECK(n * 1000 <= p->n_requests * 3);
		CHECK(i == 0 ? n == 0 : is_uneven || n > 0);
		CHECK_INT(rbt_sched_unreserved(sim.s, p->handle), RBT_UNRESERVED_NOT);
		check_kept(&sim);
		sim_finish(&sim);
	}
	fprintf(stderr, "gaps: %u tried at first, p99 %.2f, %.2f ms\n", (unsigned)n_first,
		(double)p99_ns[0] / 1e6, (double)p99_ns[1] / 1e6);
	CHECK(n_first >= 3 && n_first <= (is_uneven ? 64 : 4));
	CHECK(p99_ns[1] <= p99_ns[0] + p99_ns[0] / 50);
}

static uint64_t n_spared(struct sim_prog *p, uint64_t for_ns)
{
	uint64_t before = sim_stats(p).spared;

	sim_run(p->sim, for_ns);
	return sim_stats(p).spared - before;
}

/* Beside one neighbour it is not worth it, beside another it is. Each company is judged anew when
 * it is first met, with a reserve from its first request on, and known when met again: because
 * one comes or goes, is suspended, changes its class, or begins to work. */
static void test_company(void)
{
	struct sim sim;

	sim_init_slow(&sim, NULL);
	sim.on_ns = PIPELINE_NS;
	struct sim_prog *neighbour = sim_add(&sim, BEST_EFFORT, true, &tiny);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &eager);
	sim_run(&sim, 6 * SIM_S);
	CHECK_INT(rbt_sched_unreserved(sim.s, p->handle), RBT_UNRESERVED_WORTHLESS);
	struct sim_prog *heavy = sim_add(&sim, BEST_EFFORT, true, NULL);
	heavy->switch_ns = HEAVY_NS;
	CHECK(n_spared(p, SIM_S / 5) <= 1); /* one may have been under way */
	CHECK(n_spared(p, 4 * SIM_S) >= 3);
	CHECK(n_spared(p, 4 * SIM_S) <= 1);
	CHECK_INT(rbt_sched_unreserved(sim.s, p->handle), RBT_UNRESERVED_NOT);
	heavy->params.suspended = true;
	sim_change(heavy);
	CHECK(n_spared(p, SIM_S) > 15);
	CHECK_INT(rbt_sched_unreserved(sim.s, p->handle), RBT_UNRESERVED_WORTHLESS);
	heavy->params.suspended = false;
	sim_change(heavy);
	CHECK(n_spared(p, 2 * SIM_S) <= 1);
	/* As a normal program, it is another company, and worth it too. */
	neighbour->params.priority = 8;
	sim_change(neighbour);
	CHECK(n_spared(p, SIM_S / 5) <= 1);
	neighbour->params.priority = BEST_EFFORT;
	sim_change(neighbour);
	sim_remove(heavy);
	CHECK(n_spared(p, SIM_S) > 15);
	check_kept(&sim);
	sim_finish(&sim);
}

/* One that was there, and begins to work again after a while. */
static void test_company_at_work(void)
{
	struct sim sim;

	sim_init_slow(&sim, NULL);
	sim.on_ns = PIPELINE_NS;
	sim_add(&sim, BEST_EFFORT, true, &tiny);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &eager);
	struct sim_work work = {.burst_ns = SIM_US, .bursts = 1, .period_ns = 1000 * SIM_S};
	struct sim_prog *heavy = sim_add(&sim, BEST_EFFORT, true, &work);
	heavy->switch_ns = HEAVY_NS;
	heavy->due_ns = sim.now_ns + SIM_MS;
	sim_run(&sim, 16 * SIM_S);
	CHECK_INT(rbt_sched_unreserved(sim.s, p->handle), RBT_UNRESERVED_WORTHLESS);
	heavy->work = (struct sim_work){.burst_ns = 10 * SIM_MS, .bursts = 1, .period_ns = 1};
	heavy->due_ns = sim.now_ns;
	sim_run(&sim, SIM_S / 2);
	CHECK_INT(rbt_sched_unreserved(sim.s, p->handle), RBT_UNRESERVED_NOT);
	sim_run(&sim, 8 * SIM_S);
	CHECK_INT(rbt_sched_unreserved(sim.s, p->handle), RBT_UNRESERVED_NOT);
	check_kept(&sim);
	sim_finish(&sim);
}

/* The company is the same, but not what it does: that is noticed by the requests. */
static void test_alarm(void)
{
	struct sim sim;

	sim_init_slow(&sim, NULL);
	sim.on_ns = PIPELINE_NS;
	struct sim_prog *neighbour = sim_add(&sim, BEST_EFFORT, true, &tiny);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &eager);
	sim_run(&sim, 8 * SIM_S);
	CHECK_INT(rbt_sched_unreserved(sim.s, p->handle), RBT_UNRESERVED_WORTHLESS);
	neighbour->switch_ns = HEAVY_NS;
	uint64_t before = p->n_requests;
	while (rbt_sched_unreserved(sim.s, p->handle) == RBT_UNRESERVED_WORTHLESS &&
		p->n_requests < before + 1000) {
		sim_run(&sim, SIM_MS);
	}
	CHECK(p->n_requests - before <= 100);
	/* And back, if not so soon. */
	neighbour->switch_ns = 0;
	sim_run(&sim, 200 * SIM_S);
	CHECK_INT(rbt_sched_unreserved(sim.s, p->handle), RBT_UNRESERVED_WORTHLESS);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Each gap costs two switches here, and more requests come than can be served without a reserve.
 * The one that is tried gets its reserve in the end, and none waits behind it for long. */
static void test_no_pile(void)
{
	const struct sim_work work = {.burst_ns = 20 * SIM_US,
		.gap_ns = 30 * SIM_US,
		.bursts = 80,
		.period_ns = 25 * SIM_MS,
		.is_eager = true};
	struct sim sim;

	sim_init_slow(&sim, NULL);
	sim_add(&sim, BEST_EFFORT, true, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &work);
	sim_run(&sim, 10 * SIM_S);
	CHECK(sim_stats(p).spared >= 3);
	CHECK(sim_quantile(p, 0.98) < 6 * SIM_MS);
	CHECK(sim_quantile(p, 1) < 20 * SIM_MS);
	CHECK(p->n_requests > 395);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Always reserved for: announced requests, devices without slices, neighbours without a board, and
 * a configuration that says so. */
static void test_always(bool is_hinted, uint64_t own_us, bool is_known, bool always_reserve)
{
	struct rbt_sched_config config = {.always_reserve = always_reserve};
	struct rbt_sched_params params = {.priority = LATENCY, .weight = 1, .is_known = true};
	struct sim_work work = eager;
	struct sim sim;

	work.is_hinted = is_hinted;
	params.tasks[0] = (struct rbt_sched_tasks){.n_compute = 1, .own_us = own_us};
	sim_init_slow(&sim, &config);
	sim.on_ns = PIPELINE_NS;
	sim_add(&sim, BEST_EFFORT, is_known, &tiny);
	struct sim_prog *p = sim_add_params(&sim, &params, &work);
	sim_run(&sim, 10 * SIM_S);
	CHECK_INT(sim_stats(p).spared, 0);
	CHECK(sim_stats(p).reserves >= p->n_requests / 5 * 4);
	CHECK_INT(rbt_sched_unreserved(sim.s, p->handle), RBT_UNRESERVED_NOT);
	check_kept(&sim);
	sim_finish(&sim);
}

/* The other reasons for which there may be none. */
static void test_reasons(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *unseen = sim_add(&sim, LATENCY, false, NULL);
	struct sim_prog *normal = sim_add(&sim, 8, false, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, NULL);
	CHECK_INT(rbt_sched_unreserved(sim.s, unseen->handle), RBT_UNRESERVED_UNSEEN);
	CHECK_INT(rbt_sched_unreserved(sim.s, normal->handle), RBT_UNRESERVED_NOT);
	sim_run(&sim, SIM_S);
	CHECK_INT(rbt_sched_unreserved(sim.s, p->handle), RBT_UNRESERVED_NOT);
	sim_run(&sim, 2 * SIM_S);
	CHECK_INT(rbt_sched_unreserved(sim.s, p->handle), RBT_UNRESERVED_OVERSTAYED);
	sim_finish(&sim);
}

static double uniform(void)
{
	return ((double)rand() + 1) / ((double)RAND_MAX + 2);
}

enum lengths { LENGTHS_NORMAL, LENGTHS_WILD, LENGTHS_TWO, LENGTHS_FOURTH, N_LENGTHS };

/* Of the n-th request, around 1. */
static double length(enum lengths lengths, unsigned n)
{
	double normal = sqrt(-2 * log(uniform())) * cos(6.2831853 * uniform());

	switch (lengths) {
	case LENGTHS_WILD:
		return exp(0.5 * normal); /* a tenth are less than half, a tenth more than twice */
	case LENGTHS_TWO:
		return (uniform() < 0.5 ? 0.5 : 1.5) * exp(0.1 * normal);
	case LENGTHS_FOURTH:
		return (n % 4 == 3 ? 3 : 1) * exp(0.1 * normal);
	default:
		return exp(0.15 * normal);
	}
}

/* What the neighbours submit from one request to the next, beside a reserve; 1000 without. */
static unsigned beside_reserve = 800;
static unsigned n_tried; /* requests without a reserve */

/* The verdict on requests of some 4 ms that take `longer` without a reserve, or of which a part
 * takes twice as long. */
static enum rbt_verdict try(enum lengths lengths, double longer, double part)
{
	struct rbt_trials trials = {0};
	struct rbt_trial *t = rbt_trial_meet(&trials, 1);
	unsigned n = 0;

	while (t->phase != RBT_TRIAL_PAUSES && n < 2000) {
		bool is_reserved = rbt_trial_choose(&trials, t);
		double took_ns = 4e6 * length(lengths, n++);

		took_ns *= is_reserved ? 1 : (1 + longer) * (uniform() < part ? 2 : 1);
		double pace = (is_reserved ? beside_reserve : 1000) * (0.9 + 0.2 * uniform());
		rbt_trial_add(t, is_reserved, (uint64_t)took_ns);
		rbt_trial_pace(t, is_reserved, (uint64_t)pace, 30 * SIM_MS);
	}
	CHECK_INT(t->phase, RBT_TRIAL_PAUSES);
	n_tried += t->took[0].n;
	return t->verdict;
}

/* How many of 200 are found worthless, in percent. */
static unsigned n_worthless(enum lengths lengths, double longer, double part)
{
	unsigned n = 0;

	for (unsigned i = 0; i < 200; i++) {
		n += try(lengths, longer, part) == RBT_VERDICT_WORTHLESS;
	}
	return n / 2;
}

static void test_lengths(void)
{
	for (enum lengths lengths = 0; lengths < N_LENGTHS; lengths++) {
		CHECK(n_worthless(lengths, 0, 0) >= 60);
		CHECK(n_worthless(lengths, -0.2, 0) >= 90);
		CHECK(n_worthless(lengths, 0.35, 0) <= 5);
		CHECK(n_worthless(lengths, 1, 0) == 0);
	}
	CHECK(n_worthless(LENGTHS_NORMAL, 0, 0) >= 95);
	CHECK(n_worthless(LENGTHS_NORMAL, 0.15, 0) <= 4);
	/* What counts is not the middle alone. */
	CHECK(n_worthless(LENGTHS_NORMAL, 0, 0.4) <= 5);
	CHECK(n_worthless(LENGTHS_NORMAL, -0.25, 0.4) <= 40);
}

/* A reserve that costs nobody anything is kept, though it gives little, unless the requests are
 * better off without it. What neighbours say of themselves is not believed beyond a limit. */
static void test_cost(void)
{
	beside_reserve = 1000;
	CHECK(n_worthless(LENGTHS_NORMAL, 0, 0) <= 10);
	CHECK(n_worthless(LENGTHS_NORMAL, 0.05, 0) <= 5);
	CHECK(n_worthless(LENGTHS_NORMAL, -0.2, 0) >= 90);
	beside_reserve = 1100; /* they are better off with it */
	CHECK(n_worthless(LENGTHS_NORMAL, 0, 0) <= 10);
	beside_reserve = 0;
	CHECK(n_worthless(LENGTHS_NORMAL, 0, 0) >= 95);
	CHECK(n_worthless(LENGTHS_NORMAL, 0.15, 0) <= 4);
	beside_reserve = 800;
}

/* Where a reserve costs nobody anything, few requests do without it to find that out: as of
 * requests with gaps beside a trainer that makes 29.0 steps a second beside reserves, and 26.3
 * without them. */
static void test_few(void)
{
	beside_reserve = 1100;
	n_tried = 0;
	CHECK(n_worthless(LENGTHS_WILD, 0.15, 0) <= 5);
	CHECK(n_tried <= 200 * 10);
	beside_reserve = 800;
}

struct asked {
	uint64_t pace;    /* submissions of the neighbours from one request to the next */
	uint64_t more;    /* the same without a reserve, in thousandths of that */
	uint64_t late_ns; /* by how much requests without a reserve are late */
};

/* n requests of about 4 ms. Returns how many had no reserve. */
static unsigned ask(struct rbt_trials *trials, unsigned n, struct asked a)
{
	unsigned n_spared = 0;

	for (unsigned i = 0; i < n; i++) {
		struct rbt_trial *t = rbt_trial_meet(trials, 1);
		bool is_reserved = rbt_trial_choose(trials, t);
		uint64_t jitter = (uint64_t)rand() % (a.pace / 8 + 1);
		n_spared += !is_reserved;
		rbt_trial_add(t, is_reserved,
			4 * SIM_MS + (uint64_t)rand() % SIM_MS + (is_reserved ? 0 : a.late_ns));
		rbt_trial_pace(t, is_reserved,
			(a.pace + jitter) * (is_reserved ? 1000 : a.more) / 1000, 30 * SIM_MS);
	}
	return n_spared;
}

/* What was learnt while a neighbour started up, and submitted next to nothing, does not hold for
 * its real work. A pace that merely varies is no such change. */
static void test_pace(void)
{
	struct rbt_trials trials = {0};
	const struct rbt_trial *t = rbt_trial_meet(&trials, 1);

	ask(&trials, 120, (struct asked){40, 1000, 0});
	CHECK(t->phase == RBT_TRIAL_PAUSES && t->verdict == RBT_VERDICT_WORTH_IT);
	ask(&trials, 400, (struct asked){3000, 1250, 0});
	CHECK_INT(t->verdict, RBT_VERDICT_WORTHLESS);
	/* And back: reserves cost nothing any more, so they come back. */
	ask(&trials, 400, (struct asked){40, 1000, 0});
	CHECK_INT(t->verdict, RBT_VERDICT_WORTH_IT);
	CHECK_INT(ask(&trials, 400, (struct asked){60, 1000, 0}), 0);
	CHECK_INT(ask(&trials, 400, (struct asked){30, 1000, 0}), 0);
	/* Few submissions say little. */
	trials = (struct rbt_trials){0};
	ask(&trials, 400, (struct asked){1, 1000, 0});
	CHECK_INT(t->phase, RBT_TRIAL_PAUSES);
	CHECK(ask(&trials, 400, (struct asked){0, 1000, 0}) == 0);
	/* A neighbour that changes its pace all the time does not get all reserves. */
	trials = (struct rbt_trials){0};
	unsigned n = 0;
	for (unsigned i = 0; i < 1000; i++) {
		n += ask(&trials, 100, (struct asked){i % 2 == 0 ? 40 : 4000, 1000, 4 * SIM_MS});
	}
	CHECK(n <= 96 + 100000 / 128);
	/* Nor does it keep all of them if its pace is never steady. */
	trials = (struct rbt_trials){0};
	n = 0;
	for (unsigned i = 0; i < 25; i++) {
		n += ask(&trials, 16, (struct asked){i % 2 == 0 ? 40 : 4000, 1250, 0});
	}
	CHECK(n > 0);
}

/* Companies without end, each new: that is no excuse for trying all the time. */
static void test_limit(void)
{
	struct rbt_trials trials = {0};
	unsigned n = 0;

	for (unsigned i = 0; i < 100000; i++) {
		struct rbt_trial *t = rbt_trial_meet(&trials, 1 + i / 60);
		bool is_reserved = rbt_trial_choose(&trials, t);
		n += !is_reserved;
		rbt_trial_add(t, is_reserved, (is_reserved ? 4 : 8) * SIM_MS);
		rbt_trial_pace(t, is_reserved, is_reserved ? 800 : 1000, 30 * SIM_MS);
	}
	CHECK(n >= 96 && n <= 96 + 100000 / 128);
}

/* Companies that come back are remembered, and of those that do not the oldest is forgotten. */
static void test_memory(void)
{
	struct rbt_trials trials = {0};

	for (unsigned i = 1; i <= RBT_TRIAL_COMPANIES; i++) {
		rbt_trial_meet(&trials, i)->verdict = RBT_VERDICT_WORTHLESS;
	}
	CHECK_INT(rbt_trial_meet(&trials, 1)->verdict, RBT_VERDICT_WORTHLESS);
	CHECK_INT(rbt_trial_meet(&trials, 100)->verdict, RBT_VERDICT_NONE);
	CHECK_INT(rbt_trial_meet(&trials, 1)->verdict, RBT_VERDICT_WORTHLESS);
	CHECK_INT(rbt_trial_meet(&trials, 3)->verdict, RBT_VERDICT_WORTHLESS);
	CHECK_INT(rbt_trial_meet(&trials, 2)->verdict, RBT_VERDICT_NONE);
}

/* Whatever it is told. */
static void test_extremes(void)
{
	static const uint64_t lengths_ns[] = {0, 1, 1000, SIM_S, UINT64_MAX / 2, UINT64_MAX};
	struct rbt_trials trials = {0};

	for (unsigned i = 0; i < 200000; i++) {
		struct rbt_trial *t = rbt_trial_meet(&trials, 1 + (unsigned)rand() % 5);
		bool is_reserved = rbt_trial_choose(&trials, t);
		rbt_trial_add(t, is_reserved, lengths_ns[rand() % 6]);
		rbt_trial_pace(t, is_reserved, lengths_ns[rand() % 6], lengths_ns[rand() % 6]);
		CHECK(t->n_seen <= 20000 && t->pause <= 16384);
	}
}

int main(void)
{
	srand(1);
	test_launch_bound();
	test_gaps(false);
	test_gaps(true);
	test_company();
	test_company_at_work();
	test_alarm();
	test_no_pile();
	test_always(true, SIM_OWN_US, true, false);
	test_always(false, RBT_TIMESLICE_OWN, true, false);
	test_always(false, SIM_OWN_US, false, false);
	test_always(false, SIM_OWN_US, true, true);
	test_reasons();
	test_lengths();
	test_cost();
	test_few();
	test_pace();
	test_limit();
	test_memory();
	test_extremes();
	return check_result();
}
