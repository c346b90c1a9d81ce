/* SPDX-License-Identifier: Apache-2.0 */
/* Reserve, on a simulated GPU: what a latency program keeps, what it costs the others, and what is
 * learnt to that end. */
#include "check.h"
#include "sched/class.h"
#include "sched/learn.h"
#include "test_sched_sim.h"

#define BEST_EFFORT 2
#define NORMAL      8
#define LATENCY     13

/* 16 tokens with a synchronisation after each, 20 requests/s: 7.9 ms alone. */
static const struct sim_work tokens = {
	.burst_ns = 400 * SIM_US, .gap_ns = 100 * SIM_US, .bursts = 16, .period_ns = 50 * SIM_MS};
#define TOKENS_NS (7900 * SIM_US)

static const struct sim_work single = {
	.burst_ns = 1100 * SIM_US, .bursts = 1, .period_ns = 25 * SIM_MS, .is_poisson = true};

/* Launches without waiting, slower than the device works: 4 ms. */
static const struct sim_work eager = {.burst_ns = 20 * SIM_US,
	.gap_ns = 30 * SIM_US,
	.bursts = 80,
	.period_ns = 25 * SIM_MS,
	.is_eager = true};

/* How much GPU time `p` loses to others between its submissions, and what that costs them. */
static void test_tokens(unsigned n_trainers, bool is_hinted, bool is_poisson)
{
	struct sim sim;
	struct sim_work work = tokens;
	double done = 0;

	work.is_hinted = is_hinted;
	work.is_poisson = is_poisson;
	sim_init(&sim, NULL);
	for (unsigned i = 0; i < n_trainers; i++) {
		sim_add(&sim, BEST_EFFORT, i % 2 == 0, NULL);
	}
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &work);
	sim.victim = p;
	sim_run(&sim, 2 * SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	/* Kept to the end: of the gaps' 1.5 ms a request nothing was lost. */
	CHECK(sim.stolen_ns < 1e-3 * (double)(p->n_requests * TOKENS_NS));
	CHECK(is_poisson || sim_quantile(p, 0.99) < TOKENS_NS + 20 * SIM_US);
	for (unsigned i = 0; i < n_trainers; i++) {
		done += sim.progs[i]->done_ns;
	}
	CHECK(done > 0.97 * (20e9 - (double)(p->n_requests * TOKENS_NS)));
	CHECK(sim_jain(sim.progs, n_trainers) >= 0.98);
	/* Ticks are rare: a few polls when a request is about to end, and one every 5 ms of a
	 * turn. */
	CHECK(sim.n_ticks <
		p->n_requests * (is_poisson ? 10 : 6) + (n_trainers > 1 ? 20 * 220 : 0));
	/* Turns change when a request ends, and cost no change of their own. */
	CHECK(sim.n_changes <= p->n_requests * 9 / 4);
	CHECK(sim_stats(p).window_ns >= 100 * SIM_US && sim_stats(p).window_ns <= 160 * SIM_US);
	check_kept(&sim);
	sim_finish(&sim);
}

/* The same without: so the test above can fail. */
static void test_tokens_not_held(void)
{
	const struct rbt_sched_config config = {.max_hold_us = RBT_SCHED_NEVER};
	struct sim sim;

	sim_init(&sim, &config);
	sim_add(&sim, BEST_EFFORT, false, NULL);
	sim.victim = sim_add(&sim, LATENCY, true, &tokens);
	sim_run(&sim, 4 * SIM_S);
	CHECK(sim.stolen_ns > 0.1 * (double)(sim.victim->n_requests * TOKENS_NS));
	check_kept(&sim);
	sim_finish(&sim);
}

/* Requests of single bursts hold nothing once that is known: nobody is taken off the GPU for them,
 * and no time is left unused. At random times some follow each other so closely that they are one
 * long burst: those few are looked at until they end. */
static void test_single_bursts(bool is_known, bool is_poisson)
{
	struct sim_work work = single;
	struct sim sim;

	work.is_poisson = is_poisson;
	sim_init(&sim, NULL);
	struct sim_prog *trainer = sim_add(&sim, BEST_EFFORT, true, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, is_known, &work);
	sim_run(&sim, 2 * SIM_S);
	uint64_t reserves = sim_stats(p).reserves;
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	CHECK_INT(sim_stats(p).window_ns, 0);
	reserves = sim_stats(p).reserves - reserves;
	CHECK(reserves <= (is_poisson && is_known ? p->n_requests / 50 : 0));
	CHECK(sim.n_changes <= 2 * reserves + (is_poisson ? 2 : 0));
	CHECK(sim.idle_ns <= (double)(reserves * 200 * SIM_US + 1));
	/* One to see that it has ended, and those of the guard, 8 times a second at most. */
	CHECK(sim.n_ticks <= p->n_requests * (is_poisson ? 6 : 5) / 5 + 8 * 20 + 4 * reserves);
	CHECK(trainer->done_ns > 0.999 * (20e9 - (double)(p->n_requests * 1100 * SIM_US)));
	CHECK(p->n_requests > 700 && p->n_requests < 900);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A burst beyond the device's slice is reserved for until it ends, and not much longer. */
static void test_long_bursts(void)
{
	const struct sim_work work = {
		.burst_ns = 20 * SIM_MS, .bursts = 1, .period_ns = 100 * SIM_MS};
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *trainer = sim_add(&sim, BEST_EFFORT, false, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &work);
	sim_run(&sim, 2 * SIM_S);
	uint64_t before = sim_stats(p).reserved_ns;
	sim_reset(&sim);
	sim_run(&sim, 10 * SIM_S);
	uint64_t reserved = sim_stats(p).reserved_ns - before;
	CHECK(reserved > p->n_requests * 39 * SIM_MS / 2 && reserved < p->n_requests * 21 * SIM_MS);
	CHECK(trainer->done_ns > 0.98 * (10e9 - (double)(p->n_requests * 20 * SIM_MS)));
	check_kept(&sim);
	sim_finish(&sim);
}

/* A program that launches without waiting, slower than the device works: what is between its
 * submissions nobody counts, but that it was let go of too early is seen. */
static void test_eager(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *trainer = sim_add(&sim, BEST_EFFORT, false, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &eager);
	sim.victim = p;
	sim_run(&sim, 2 * SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	/* It is busy for 1.6 ms of each 4. */
	CHECK(sim.stolen_ns < 0.02 * (double)(p->n_requests * 2400 * SIM_US));
	CHECK(trainer->done_ns > 0.97 * (20e9 - (double)(p->n_requests * 4 * SIM_MS)));
	/* It is let go of when it has waited for the end, however long its pauses before. */
	CHECK(trainer->done_ns > 0.985 * (20e9 - (double)(p->n_requests * 4 * SIM_MS)));
	CHECK_INT(sim_stats(p).window_ns, 0);
	/* Nor is it looked at all the time that it submits. */
	CHECK(sim.n_ticks < p->n_requests * 5);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A board on which the last synchronisation has returned at *ctx. */
static bool look_at_end(void *ctx, void *owner, struct rbt_activity *ret)
{
	*ret = (struct rbt_activity){.last_ns = *(const uint64_t *)ctx};
	return true;
}

/* The same from nothing but reports of submissions, and the time at which the last one was done. */
static void test_edges_only(void)
{
	const struct rbt_sched_ops ops = {.poll = look_at_end};
	struct rbt_sched_params params = {.priority = LATENCY, .is_known = true};
	struct rbt_sched_stats stats;
	struct rbt_sched_prog *p = NULL;
	struct rbt_sched *s = NULL;
	uint64_t t_ns = 0, end_ns = 0;

	params.tasks[0] = (struct rbt_sched_tasks){.n_compute = 1, .own_us = SIM_OWN_US};
	CHECK_INT(rbt_sched_create(&(struct rbt_sched_config){0}, &ops, &end_ns, &s), 0);
	CHECK_INT(rbt_sched_add(s, 0, &params, NULL, &p), 0);
	for (unsigned i = 0; i < 20; i++) {
		t_ns += 24 * SIM_MS;
		rbt_sched_busy(s, t_ns, p);
		CHECK(rbt_sched_is_wanting(p));
		end_ns = t_ns += SIM_MS;
		rbt_sched_tick(s, t_ns);
		CHECK(rbt_sched_is_wanting(p));
		rbt_sched_tick(s, t_ns + SIM_MS);
		CHECK(!rbt_sched_is_wanting(p));
	}
	rbt_sched_stats(s, p, &stats);
	CHECK_INT(stats.window_ns, 0);
	CHECK(stats.reserves <= 5);
	for (unsigned i = 0; i < 100; i++) {
		t_ns += i % 10 == 0 ? 24 * SIM_MS : 200 * SIM_US;
		rbt_sched_tick(s, t_ns);
		rbt_sched_busy(s, t_ns, p);
		end_ns = t_ns += SIM_MS;
		rbt_sched_synced(s, t_ns, p);
	}
	rbt_sched_stats(s, p, &stats);
	CHECK(stats.window_ns >= 200 * SIM_US);
	rbt_sched_destroy(s);
}

/* That requests have no gaps any more is seen sooner than how long they were is forgotten. */
static void forget_gaps(struct sim *sim, struct sim_prog *p)
{
	p->work = single;
	sim_run(sim, 3 * SIM_S / 2);
	uint64_t reserves = sim_stats(p).reserves;
	sim_run(sim, SIM_S / 2);
	/* Two may follow each other as closely as if they were one. */
	CHECK(sim_stats(p).reserves <= reserves + 2);
}

/* One request in ten is short: its end is not found out only when the others' would be. */
static void test_two_lengths(void)
{
	const struct sim_work longer = {
		.burst_ns = 20 * SIM_MS, .bursts = 1, .period_ns = 40 * SIM_MS};
	const struct sim_work shorter = {
		.burst_ns = 2 * SIM_MS, .bursts = 1, .period_ns = 40 * SIM_MS};
	uint64_t alone_ns = 0, seen = 0;
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *trainer = sim_add(&sim, BEST_EFFORT, false, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &longer);
	while (sim.now_ns < 20 * SIM_S) {
		sim_run(&sim, 50 * SIM_US);
		if (p->n_requests != seen) {
			alone_ns += p->work.burst_ns;
			seen = p->n_requests;
			p->work = seen % 10 == 0 ? shorter : longer;
		}
	}
	CHECK(trainer->done_ns > 0.975 * (20e9 - (double)alone_ns));
	check_kept(&sim);
	sim_finish(&sim);
}

/* What a program does changes: so does what is done for it. */
static void test_relearns(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	sim_add(&sim, BEST_EFFORT, true, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &single);
	sim_run(&sim, 5 * SIM_S);
	CHECK_INT(sim_stats(p).window_ns, 0);
	p->work = tokens;
	sim_run(&sim, 3 * SIM_S);
	CHECK(sim_stats(p).window_ns >= 100 * SIM_US);
	forget_gaps(&sim, p);
	CHECK(sim_stats(p).window_ns > 0);
	sim_run(&sim, 30 * SIM_S);
	CHECK_INT(sim_stats(p).window_ns, 0);
	p->work = eager;
	uint64_t reserves = sim_stats(p).reserves;
	sim_run(&sim, 3 * SIM_S);
	CHECK(sim_stats(p).reserves > reserves + 100);
	forget_gaps(&sim, p);
	check_kept(&sim);
	sim_finish(&sim);
}

/* One that never idles has the GPU for max_reserve_ms, and shares it by slice from then on: others
 * get what is nobody's to deny. When it has idled, all is as before. */
static void test_max_reserve(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *trainer = sim_add(&sim, BEST_EFFORT, false, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, NULL);
	sim_run(&sim, 10 * SIM_MS);
	CHECK_INT(trainer->applied.off, RBT_OFF_SCHEDULING);
	sim_run(&sim, 1980 * SIM_MS);
	CHECK_INT(sim_stats(p).reserves, 1);
	CHECK(sim_stats(p).reserved_ns > 1900 * SIM_MS);
	sim_run(&sim, 20 * SIM_MS);
	CHECK(sim_stats(p).reserved_ns <= 2000 * SIM_MS);
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	CHECK_INT(trainer->applied.off, RBT_ON);
	CHECK(sim_stats(p).reserved_ns <= 2000 * SIM_MS);
	CHECK(trainer->done_ns > 0.019 * 20e9 && trainer->done_ns < 0.04 * 20e9);
	CHECK(sim.n_ticks < 20 * 230); /* and we do not spin */
	/* It ends, rests, and begins again. */
	p->work = (struct sim_work){.burst_ns = 100 * SIM_MS, .bursts = 1, .period_ns = SIM_S};
	p->due_ns = sim.now_ns + 100 * SIM_MS;
	p->last_ns = sim.now_ns;
	sim_run(&sim, 150 * SIM_MS);
	CHECK(trainer->applied.off != RBT_ON);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A limit that is raised counts for whoever has met the old one, and for no longer than it says. */
static void test_raised_limit(void)
{
	struct rbt_sched_config config = {
		.max_reserve_ms = 100, .min_share_permille = RBT_SCHED_NEVER};
	struct sim sim;

	sim_init(&sim, &config);
	sim_add(&sim, BEST_EFFORT, false, NULL);
	sim_run(&sim, SIM_S);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, NULL);
	sim_run(&sim, SIM_S);
	CHECK_INT(sim_stats(p).reserved_ns, 100 * SIM_MS);
	CHECK_INT(rbt_sched_configure(sim.s, sim.now_ns, &config), 0);
	sim_run(&sim, SIM_S);
	CHECK_INT(sim_stats(p).reserved_ns, 100 * SIM_MS);
	config.max_reserve_ms = 3000;
	CHECK_INT(rbt_sched_configure(sim.s, sim.now_ns, &config), 0);
	sim_run(&sim, 5 * SIM_S);
	CHECK_INT(sim_stats(p).reserved_ns, 100 * SIM_MS + SIM_S);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Programs may have a limit and a share of their own. */
static void test_own_limits(void)
{
	struct sim sim;

	sim_init(&sim, &(struct rbt_sched_config){.min_share_permille = RBT_SCHED_NEVER});
	struct sim_prog *owed = sim_add(&sim, BEST_EFFORT, false, NULL);
	struct sim_prog *other = sim_add(&sim, BEST_EFFORT - 1, false, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, NULL);
	p->params.limits.max_reserve_ms = 100;
	sim_change(p);
	owed->params.limits.min_share_permille = 50;
	sim_change(owed);
	sim_run(&sim, 3 * SIM_S);
	CHECK_INT(sim_stats(p).reserved_ns, 100 * SIM_MS);
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	CHECK(owed->done_ns > 0.045 * 20e9 && owed->done_ns < 0.07 * 20e9);
	CHECK(other->done_ns < 0.001 * 20e9);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Where normal programs reserve too, that takes the rights that class latency takes; and the limit
 * and the others' share hold for everybody. */
static void test_policy_priority(unsigned priority, bool may_reserve, uint32_t min_share_permille)
{
	const struct rbt_sched_config config = {.policy = rbt_sched_policy_find("priority"),
		.min_share_permille = min_share_permille};
	bool reserves = priority == LATENCY || may_reserve;
	struct rbt_sched_params params = {.priority = priority,
		.is_known = true,
		.may_reserve = may_reserve,
		.tasks[0] = {.n_compute = 1, .own_us = SIM_OWN_US}};
	struct sim sim;

	sim_init(&sim, &config);
	struct sim_prog *p = sim_add_params(&sim, &params, NULL);
	struct sim_prog *trainer = sim_add(&sim, BEST_EFFORT, false, NULL);
	sim_run(&sim, 100 * SIM_MS);
	CHECK_INT(trainer->applied.off != RBT_ON, reserves);
	sim_run(&sim, 5 * SIM_S);
	CHECK_INT(sim_stats(p).reserves, reserves);
	CHECK(sim_stats(p).reserved_ns <= 2000 * SIM_MS);
	sim_reset(&sim);
	sim_run(&sim, 30 * SIM_S);
	CHECK_INT(trainer->applied.off, RBT_ON);
	if (min_share_permille != RBT_SCHED_NEVER) {
		CHECK(trainer->done_ns >= 0.8 * 0.02 * 30e9);
	}
	check_kept(&sim);
	sim_finish(&sim);
}

/* Whatever the policy, who has no rights does not keep others off but for their share of it. */
static void test_nobody_starves(const struct rbt_sched_policy *policy, unsigned priority)
{
	const struct rbt_sched_config config = {.policy = policy};
	struct sim sim;

	sim_init(&sim, &config);
	sim_add(&sim, priority, true, NULL);
	for (unsigned i = 0; i < 3; i++) {
		sim_add(&sim, i == 0 ? NORMAL - 1 : BEST_EFFORT, i < 2, NULL);
	}
	sim_run(&sim, 10 * SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 30 * SIM_S);
	for (unsigned i = 1; i < 4; i++) {
		CHECK(sim.progs[i]->done_ns >= 0.8 * 0.02 * 30e9);
	}
	check_kept(&sim);
	sim_finish(&sim);
}

static void test_policies(void)
{
	size_t n;
	const struct rbt_sched_policy *policies = rbt_sched_policies(&n);

	for (size_t i = 0; i < n; i++) {
		test_nobody_starves(&policies[i], 5);
		test_nobody_starves(&policies[i], NORMAL + 2);
		test_nobody_starves(&policies[i], LATENCY);
	}
	test_policy_priority(NORMAL + 2, false, 0);
	test_policy_priority(NORMAL + 2, true, 0);
	test_policy_priority(NORMAL + 2, true, RBT_SCHED_NEVER);
	test_policy_priority(LATENCY, false, 0);
}

/* Beside a normal program that is known to be busy, a short slice is worth nothing. */
static void test_beside_normal(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *normal = sim_add(&sim, NORMAL, true, NULL);
	struct sim_prog *p = sim_add(&sim, BEST_EFFORT, false, NULL);
	sim_run(&sim, 3 * SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	CHECK(p->done_ns > 0.019 * 20e9 && p->done_ns < 0.025 * 20e9);
	CHECK(normal->done_ns > 0.97 * 20e9);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Strictly lower priorities are kept off, and the running slice is waited for only if it is
 * short. */
static void test_whom(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *best_effort = sim_add(&sim, BEST_EFFORT, false, NULL);
	struct sim_prog *normal = sim_add(&sim, NORMAL, false, NULL);
	struct sim_prog *idle = sim_add(&sim, NORMAL, true, &tokens);
	struct sim_prog *equal = sim_add(&sim, LATENCY, false, NULL);
	struct sim_prog *higher = sim_add(&sim, LATENCY + 1, false, NULL);
	struct sim_prog *was_busy = sim_add(&sim, NORMAL, true, &tokens);
	idle->due_ns = was_busy->due_ns = 1000 * SIM_S;
	rbt_sched_busy(sim.s, sim.now_ns, was_busy->handle); /* and nobody has looked since */
	sim_run(&sim, 50 * SIM_MS);
	sim_add(&sim, LATENCY, true, NULL);
	sim_run(&sim, SIM_MS);
	CHECK_INT(best_effort->applied.off, RBT_OFF_SCHEDULING);
	CHECK_INT(normal->applied.off, RBT_OFF_FULL);
	CHECK_INT(equal->applied.off, RBT_ON);
	CHECK_INT(higher->applied.off, RBT_ON);
	CHECK_INT(idle->applied.off, RBT_ON); /* nothing to keep off: it costs nothing either */
	CHECK_INT(was_busy->applied.off, RBT_ON);
	rbt_sched_busy(sim.s, sim.now_ns, idle->handle);
	CHECK_INT(rbt_sched_decision(idle->handle)->off, RBT_OFF_FULL);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A hinted request is held through any gap, and let go of at its end; past its deadline the hint
 * does not count. */
static void test_hints(void)
{
	struct sim_work work = {.burst_ns = SIM_MS,
		.gap_ns = 7 * SIM_MS,
		.bursts = 3,
		.period_ns = 100 * SIM_MS,
		.is_hinted = true};
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *trainer = sim_add(&sim, BEST_EFFORT, false, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &work);
	sim.victim = p;
	sim_run(&sim, 10 * SIM_S);
	CHECK(sim.stolen_ns < 1);
	CHECK_INT(sim_stats(p).requests, 100);
	CHECK(trainer->done_ns > 0.999 * (10e9 - (double)(p->n_requests * 17 * SIM_MS)));
	work.burst_ns = 0;
	struct sim_prog *hopeless = sim_add(&sim, LATENCY, false, &work);
	hopeless->due_ns = UINT64_MAX;
	p->work.until_ns = 1;
	sim_run(&sim, 200 * SIM_MS);
	rbt_sched_request_begin(sim.s, sim.now_ns, hopeless->handle, sim.now_ns + 30 * SIM_MS);
	CHECK(rbt_sched_decision(trainer->handle)->off != RBT_ON);
	sim_run(&sim, 29 * SIM_MS);
	CHECK(rbt_sched_decision(trainer->handle)->off != RBT_ON);
	sim_run(&sim, 2 * SIM_MS);
	CHECK(rbt_sched_decision(trainer->handle)->off == RBT_ON);
	/* Of two, the later deadline counts. */
	rbt_sched_request_begin(sim.s, sim.now_ns, hopeless->handle, sim.now_ns + 20 * SIM_MS);
	rbt_sched_request_begin(sim.s, sim.now_ns, hopeless->handle, sim.now_ns + 10 * SIM_MS);
	sim_run(&sim, 19 * SIM_MS);
	CHECK(rbt_sched_decision(trainer->handle)->off != RBT_ON);
	rbt_sched_request_end(sim.s, sim.now_ns, hopeless->handle);
	CHECK(rbt_sched_decision(trainer->handle)->off != RBT_ON);
	rbt_sched_request_end(sim.s, sim.now_ns, hopeless->handle);
	rbt_sched_request_end(sim.s, sim.now_ns, hopeless->handle);
	CHECK(rbt_sched_decision(trainer->handle)->off == RBT_ON);
	rbt_sched_request_end(sim.s, sim.now_ns, hopeless->handle); /* one too many */
	CHECK_INT(sim_stats(hopeless).requests, 3);
	check_kept(&sim);
	sim_finish(&sim);
}

static void add_gaps(struct rbt_learn *l, uint64_t gap_us, unsigned n)
{
	rbt_learn_gap(l, gap_us * SIM_US, n);
}

static uint64_t window_us(struct rbt_learn *l)
{
	return rbt_learn_window(l, SIM_MS, SIM_MS) / SIM_US;
}

static void test_learn(void)
{
	struct rbt_learn l = {0};

	CHECK_INT(window_us(&l), 1000); /* nothing is known */
	add_gaps(&l, 5, 100);           /* launches of a burst are no gaps */
	CHECK_INT(l.total, 0);
	add_gaps(&l, 25000, 10);
	CHECK_INT(window_us(&l), 0);
	add_gaps(&l, 100, 100);
	CHECK(window_us(&l) > 100 && window_us(&l) <= 160);
	add_gaps(&l, 600, 100); /* two kinds, both worth it */
	CHECK(window_us(&l) > 600 && window_us(&l) <= 1000);
	for (unsigned i = 0; i < 40; i++) {
		add_gaps(&l, 50000, 100);
	}
	CHECK_INT(window_us(&l), 0); /* forgotten */
	CHECK(l.total <= 512);
	add_gaps(&l, UINT64_MAX / SIM_US, UINT32_MAX);
	CHECK_INT(window_us(&l), 0);
	/* A gap longer than the bound is not held for, however common. */
	l = (struct rbt_learn){0};
	add_gaps(&l, 3000, 100);
	CHECK_INT(window_us(&l), 0);
}

/* A window is never shorter than the gaps it is for, nor more than two steps longer. */
static void test_learn_sizes(void)
{
	for (uint64_t gap_us = 8; gap_us < 700; gap_us++) {
		struct rbt_learn l = {0};
		add_gaps(&l, gap_us, 15);
		add_gaps(&l, 40000, 1);
		CHECK(window_us(&l) * 20 >= gap_us * 21);
		CHECK(window_us(&l) <= gap_us * 8 / 5 + 1);
	}
}

int main(void)
{
	test_learn();
	test_learn_sizes();
	test_tokens(1, false, false);
	test_tokens(3, false, true);
	test_tokens(8, true, false);
	test_tokens_not_held();
	test_single_bursts(true, false);
	test_single_bursts(true, true);
	test_single_bursts(false, true);
	test_long_bursts();
	test_eager();
	test_edges_only();
	test_two_lengths();
	test_relearns();
	test_max_reserve();
	test_raised_limit();
	test_own_limits();
	test_policies();
	test_beside_normal();
	test_whom();
	test_hints();
	return check_result();
}
