/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes on a device without slices. Such a device runs everything side by side, in equal parts,
 * so a class has an effect only if lower ones are kept off. The figures are those of AMD queues: a
 * poll of 2 ms, and half a millisecond for a suspend or a resume.
 */
#include "check.h"
#include "sched/class.h"
#include "test_sched_sim.h"

#define MIN_SHARE 0.02

static void init(struct sim *sim, const char *policy)
{
	struct rbt_sched_config config = {.policy = rbt_sched_policy_find(policy)};

	sim_init(sim, &config);
	sim_tell_syncs(sim);
	sim->off_ns = sim->on_ns = 500 * SIM_US;
	sim->poll_ns = 2 * SIM_MS;
}

static struct sim_prog *add_to(
	struct sim *sim, unsigned priority, uint32_t weight, uint32_t gpu, const struct sim_work *w)
{
	struct rbt_sched_params params = {
		.priority = priority, .weight = weight, .is_known = true, .may_reserve = true};

	params.tasks[gpu] = (struct rbt_sched_tasks){.n_compute = 1, .no_slices = true};
	return sim_add_params(sim, &params, w);
}

static struct sim_prog *add(struct sim *sim, unsigned priority, const struct sim_work *work)
{
	return add_to(sim, priority, 1, 0, work);
}

static void renice(struct sim_prog *p, unsigned priority)
{
	p->params.priority = priority;
	sim_change(p);
}

/* Its part of the GPU's time, and of the time that it was off. */
static double part_of(const struct sim_prog *p, uint64_t of_ns)
{
	return p->done_ns / (double)of_ns;
}

static double off_part(const struct sim_prog *p, uint64_t of_ns)
{
	return p->off_ns / (double)of_ns;
}

/* Two that are always busy: the lower one is on for its min_share at least, beside the upper one,
 * and does not get twice as much. The upper one keeps its place long after max_reserve_ms. */
static void check_two(const char *policy, unsigned high, unsigned low)
{
	struct sim sim;

	init(&sim, policy);
	struct sim_prog *lower = add(&sim, low, NULL), *upper = add(&sim, high, NULL);
	sim_run(&sim, 5 * SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	CHECK(part_of(lower, 20 * SIM_S) >= MIN_SHARE / 2 * 0.9);
	CHECK(part_of(lower, 20 * SIM_S) <= MIN_SHARE * 2);
	CHECK(off_part(lower, 20 * SIM_S) >= 0.9);
	CHECK(part_of(upper, 20 * SIM_S) >= 0.93);
	CHECK_INT(rbt_sched_unreserved(sim.s, upper->handle), RBT_UNRESERVED_NOT);
	CHECK_INT(sim_stats(upper).guard_turns, 0);
	check_kept(&sim);
	sim_finish(&sim);
}

/* The same, whichever of the two is reniced first, while both are busy. */
static void check_order(const char *policy, unsigned high, unsigned low, bool low_first)
{
	struct sim sim;

	init(&sim, policy);
	struct sim_prog *a = add(&sim, 8, NULL), *b = add(&sim, 8, NULL);
	sim_run(&sim, 3 * SIM_S);
	renice(low_first ? a : b, low_first ? low : high);
	sim_run(&sim, 3 * SIM_S);
	renice(low_first ? b : a, low_first ? high : low);
	sim_run(&sim, SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	CHECK(off_part(a, 20 * SIM_S) >= 0.9);
	CHECK(off_part(b, 20 * SIM_S) <= 0.05);
	check_kept(&sim);
	sim_finish(&sim);
}

static void test_classes(void)
{
	check_two("turns", 8, 5);
	check_two("turns", 6, 0);
	check_two("turns", 13, 8);
	check_two("turns", 11, 2);
	check_two("turns", 15, 11);
	for (unsigned i = 0; i < 2; i++) {
		check_order("turns", 8, 5, i);
		check_order("turns", 15, 11, i);
		check_order("priority", 10, 6, i);
	}
}

static void test_priority_is_strict(void)
{
	for (unsigned high = 1; high <= RBT_PRIORITY_MAX; high++) {
		check_two("priority", high, high - 1);
	}
}

/* Of the same class, normal programs run side by side, whatever their priority. */
static void test_normal_programs_share(void)
{
	struct sim sim;

	init(&sim, "turns");
	struct sim_prog *a = add(&sim, 10, NULL), *b = add(&sim, 6, NULL);
	sim_run(&sim, 10 * SIM_S);
	CHECK(a->off_ns == 0 && b->off_ns == 0);
	CHECK(sim_jain(sim.progs, 2) >= 0.99);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Policies that know no priorities know no classes either. */
static void test_other_policies(void)
{
	static const char *const names[] = {"fair", "fifo"};

	for (unsigned i = 0; i < 2; i++) {
		struct sim sim;

		init(&sim, names[i]);
		add(&sim, 13, NULL);
		add(&sim, 8, NULL);
		add(&sim, 2, NULL);
		sim_run(&sim, 60 * SIM_S);
		CHECK(sim_jain(sim.progs, 3) >= 0.98);
		/* Nor for a program that cannot take turns, and so is always on. */
		sim.progs[1]->params.cannot_suspend = true;
		sim_change(sim.progs[1]);
		sim_reset(&sim);
		sim_run(&sim, 60 * SIM_S);
		CHECK(off_part(sim.progs[0], 60 * SIM_S) <= 0.55);
		CHECK(off_part(sim.progs[2], 60 * SIM_S) <= 0.55);
		check_kept(&sim);
		sim_finish(&sim);
	}
}

/* Rights are for keeping one's own class off, not for keeping lower classes off. */
static void test_rights(void)
{
	struct sim sim;

	init(&sim, "priority");
	struct sim_prog *upper = add(&sim, 10, NULL), *lower = add(&sim, 6, NULL);
	struct sim_prog *best_effort = add(&sim, 5, NULL);
	upper->params.may_reserve = false;
	sim_change(upper);
	sim_run(&sim, SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 10 * SIM_S);
	CHECK(lower->off_ns == 0);
	CHECK(off_part(best_effort, 10 * SIM_S) >= 0.9);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Best-effort programs of one priority take turns by weight, and the higher priority has all but
 * their min_share. */
static void test_best_effort(void)
{
	struct sim sim;

	init(&sim, "turns");
	struct sim_prog *a = add_to(&sim, 2, 1, 0, NULL), *b = add_to(&sim, 2, 3, 0, NULL);
	sim_run(&sim, 40 * SIM_S);
	CHECK(sim_jain(sim.progs, 2) >= 0.98);
	CHECK(part_of(a, 40 * SIM_S) + part_of(b, 40 * SIM_S) >= 0.97);
	struct sim_prog *c = add(&sim, 3, NULL);
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	CHECK(part_of(c, 20 * SIM_S) >= 0.9);
	CHECK(part_of(a, 20 * SIM_S) <= 2 * MIN_SHARE && part_of(b, 20 * SIM_S) <= 2 * MIN_SHARE);
	check_kept(&sim);
	sim_finish(&sim);
}

static const struct sim_work requests = {
	.burst_ns = 10 * SIM_MS, .bursts = 1, .period_ns = 100 * SIM_MS, .is_poisson = true};

/* Requests of the one beside others that are always busy: as alone, but for the poll and for taking
 * the others off. The others have what is left. */
static void check_requests(unsigned priority, const unsigned *others, unsigned n)
{
	struct sim sim;
	double sum_ns = 0;

	init(&sim, "turns");
	struct sim_prog *p = add(&sim, priority, &requests);
	sim_run(&sim, 60 * SIM_S);
	uint64_t alone_ns = sim_quantile(p, 0.9);
	for (unsigned i = 0; i < n; i++) {
		add(&sim, others[i], NULL);
	}
	sim_run(&sim, 2 * SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 60 * SIM_S);
	CHECK(p->n_requests > 500);
	CHECK(sim_quantile(p, 0.9) <= alone_ns + 5 * SIM_MS);
	for (unsigned i = 0; i < n; i++) {
		sum_ns += sim.progs[1 + i]->done_ns;
	}
	CHECK(sum_ns >= ((double)(60 * SIM_S) - p->done_ns) * 0.85);
	CHECK(sim_jain(sim.progs + 1, n) >= 0.98);
	check_kept(&sim);
	sim_finish(&sim);
}

static void test_requests(void)
{
	static const unsigned zeros[8] = {0}, normal[3] = {8, 8, 8};

	check_requests(5, zeros, 1);
	check_requests(5, zeros, 8);
	check_requests(8, zeros, 3);
	check_requests(13, zeros, 1);
	check_requests(13, zeros, 8);
	check_requests(13, normal, 3);
}

/* Packets of a higher priority end a lower one's turn within one poll. */
static void test_preempts_within_a_poll(void)
{
	const struct sim_work once = {
		.burst_ns = 50 * SIM_MS, .bursts = 1, .period_ns = 10000 * SIM_S};
	static const unsigned pairs[][2] = {{5, 4}, {1, 0}, {6, 5}, {8, 0}, {11, 10}, {15, 14}};

	for (unsigned i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct sim sim;

		init(&sim, "turns");
		struct sim_prog *lower = add(&sim, pairs[i][1], NULL);
		struct sim_prog *upper = add(&sim, pairs[i][0], &once);
		upper->due_ns = SIM_S + 3 * SIM_MS + 1;
		sim_run(&sim, SIM_S + 3 * SIM_MS);
		CHECK_INT(lower->applied.off, RBT_ON);
		sim_run(&sim, sim.poll_ns + sim.off_ns);
		CHECK(lower->applied.off != RBT_ON);
		sim_run(&sim, 100 * SIM_MS);
		CHECK_INT(upper->n_requests, 1);
		CHECK_INT(lower->applied.off, RBT_ON);
		check_kept(&sim);
		sim_finish(&sim);
	}
}

/* A program that idles stays on: its packets start at once, and only the others are taken off for
 * it. Nor does it get turns in which it shows whether it is idle. */
static void test_idle_stays_on(void)
{
	struct sim sim;

	init(&sim, "turns");
	struct sim_prog *p = add(&sim, 5, &requests), *busy = add(&sim, 0, NULL);
	struct sim_prog *idle = add(&sim, 5, &requests);
	idle->work.until_ns = SIM_S;
	sim_run(&sim, 20 * SIM_S);
	CHECK(p->n_requests > 150);
	CHECK(p->off_ns <= (double)SIM_S / 4); /* for the other one of its priority, at first */
	CHECK(busy->off_ns > (double)SIM_S);
	uint64_t n_turns = sim_stats(idle).turns;
	sim_run(&sim, 20 * SIM_S);
	CHECK_INT(idle->applied.off, RBT_ON);
	CHECK_INT(sim_stats(idle).turns, n_turns);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A program that is not known to have packets keeps nobody off. */
static void test_unknown(void)
{
	struct sim sim;

	init(&sim, "turns");
	struct sim_prog *a = add(&sim, 8, NULL), *b = add(&sim, 2, NULL);
	a->params.is_known = false;
	sim_change(a);
	sim_run(&sim, SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 5 * SIM_S);
	CHECK(a->off_ns == 0 && b->off_ns == 0);
	/* As soon as it is, it does. */
	a->params.is_known = true;
	sim_change(a);
	rbt_sched_busy(sim.s, sim.now_ns, a->handle);
	sim_run(&sim, SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 5 * SIM_S);
	CHECK(off_part(b, 5 * SIM_S) >= 0.9);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A timeslice is the length of a turn, from 5 ms on; normal programs that have one take turns, too,
 * whatever their priorities, and still go before best-effort programs. */
static void check_timed(unsigned a_priority, unsigned b_priority, uint64_t us, double turns_a_s)
{
	struct sim sim;

	init(&sim, "turns");
	struct sim_prog *a = add(&sim, a_priority, NULL), *b = add(&sim, b_priority, NULL);
	struct sim_prog *c = add(&sim, 0, NULL);
	a->params.timeslice_us = b->params.timeslice_us = us;
	sim_change(a);
	sim_change(b);
	sim_run(&sim, SIM_S);
	sim_reset(&sim);
	uint64_t before = sim_stats(a).turns;
	sim_run(&sim, 20 * SIM_S);
	double n = (double)(sim_stats(a).turns - before) / 20;
	CHECK(n > turns_a_s * 0.9 && n < turns_a_s * 1.1);
	CHECK(sim_jain(sim.progs, 2) >= 0.98);
	CHECK(off_part(c, 20 * SIM_S) >= 0.9);
	check_kept(&sim);
	sim_finish(&sim);
}

static void test_timed_turns(void)
{
	check_timed(2, 2, 0, 5);
	check_timed(2, 2, 4999, 5);
	check_timed(2, 2, 20000, 25);
	check_timed(2, 2, 5000, 100);
	check_timed(8, 8, 20000, 25);
	check_timed(10, 6, 50000, 10);
}

/* What a user without rights may ask for. */
static void test_fair_slice(void)
{
	struct rbt_sched_tasks tasks = {.n_compute = 1, .own_us = SIM_OWN_US};

	CHECK_INT(rbt_sched_fair_slice_us(&tasks), SIM_OWN_US);
	tasks = (struct rbt_sched_tasks){.n_compute = 1, .no_slices = true};
	CHECK_INT(rbt_sched_fair_slice_us(&tasks), 100000);
}

/* A program on two devices, one of which has slices: classes are kept off on the other alone. */
static void test_both_kinds(void)
{
	struct sim sim;

	init(&sim, "turns");
	struct sim_prog *sliced = sim_add(&sim, 2, true, NULL),
			*other = add_to(&sim, 2, 1, 1, NULL);
	struct rbt_sched_params params = {.priority = 8, .weight = 1, .is_known = true};
	params.tasks[0] = (struct rbt_sched_tasks){.n_compute = 1, .own_us = SIM_OWN_US};
	params.tasks[1] = (struct rbt_sched_tasks){.n_compute = 1, .no_slices = true};
	sim_add_params(&sim, &params, NULL);
	sim_run(&sim, 3 * SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 5 * SIM_S);
	CHECK(sliced->off_ns == 0);
	CHECK(off_part(other, 5 * SIM_S) >= 0.9);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A program on two GPUs waits for one of them and keeps its place on the other. A lower one there
 * gets its min_share. */
static void test_across(void)
{
	struct rbt_sched_params params = {
		.priority = 4, .weight = 1, .is_known = true, .may_reserve = true};
	struct sim sim;

	init(&sim, "turns");
	params.tasks[0] = params.tasks[1] =
		(struct rbt_sched_tasks){.n_compute = 1, .no_slices = true};
	sim_add_params(&sim, &params, NULL);
	add_to(&sim, 8, 1, 1, NULL);
	struct sim_prog *lower = add(&sim, 0, NULL);
	sim_run(&sim, 5 * SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	CHECK(part_of(lower, 20 * SIM_S) >= MIN_SHARE / 2);
	check_kept(&sim);
	sim_finish(&sim);
}

/* How many programs a busy one has taken off: those that ran, and only when it took its place. */
static void check_displaced(unsigned high, unsigned low)
{
	struct rbt_sched_config config = {.min_share_permille = RBT_SCHED_NEVER};
	struct rbt_sched *s;
	struct rbt_sched_prog *upper, *lower;
	struct rbt_sched_params params = {.weight = 1, .is_known = true, .may_reserve = true};
	struct rbt_sched_stats stats;
	uint64_t now_ns = SIM_S;

	params.tasks[0] = (struct rbt_sched_tasks){.n_compute = 1, .no_slices = true};
	CHECK_INT(rbt_sched_create(&config, NULL, NULL, &s), 0);
	params.priority = low;
	CHECK_INT(rbt_sched_add(s, now_ns, &params, &lower, &lower), 0);
	params.priority = high;
	CHECK_INT(rbt_sched_add(s, now_ns, &params, &upper, &upper), 0);
	/* Its neighbour idles. */
	rbt_sched_busy(s, now_ns += SIM_MS, upper);
	rbt_sched_stats(s, upper, &stats);
	CHECK(stats.displaced == 0 && stats.turns + stats.reserves == 1);
	/* The neighbour has to wait at once: that is no news about the upper one. */
	rbt_sched_busy(s, now_ns += SIM_MS, lower);
	CHECK_INT(rbt_sched_decision(lower)->off, RBT_OFF_FULL);
	rbt_sched_stats(s, upper, &stats);
	CHECK_INT(stats.displaced, 0);
	/* Without a poll to ask, silence is idleness. */
	for (int i = 0; i < 1000 && rbt_sched_decision(lower)->off != RBT_ON; i++) {
		rbt_sched_tick(s, now_ns += SIM_MS);
	}
	rbt_sched_busy(s, now_ns += SIM_MS, lower);
	rbt_sched_busy(s, now_ns += SIM_US, upper);
	CHECK_INT(rbt_sched_decision(lower)->off, RBT_OFF_FULL);
	rbt_sched_stats(s, upper, &stats);
	CHECK_INT(stats.displaced, 1);
	rbt_sched_stats(s, lower, &stats);
	CHECK_INT(stats.displaced, 0);
	rbt_sched_destroy(s);
}

static void test_displaced(void)
{
	check_displaced(13, 8);
	check_displaced(13, 2);
	check_displaced(8, 2);
	check_displaced(5, 0); /* by turns */
}

int main(void)
{
	test_classes();
	test_displaced();
	test_priority_is_strict();
	test_normal_programs_share();
	test_other_policies();
	test_rights();
	test_best_effort();
	test_requests();
	test_preempts_within_a_poll();
	test_idle_stays_on();
	test_unknown();
	test_both_kinds();
	test_across();
	test_timed_turns();
	test_fair_slice();
	return check_result();
}
