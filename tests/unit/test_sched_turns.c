/* SPDX-License-Identifier: Apache-2.0 */
/* Turns, on simulated GPUs: fairness, weights, priorities, idleness, ranks, policies. */
#include "check.h"
#include "sched/class.h"
#include "test_sched_sim.h"

#define BEST_EFFORT 2

static void check_kept(struct sim *sim)
{
	CHECK(sim->broken == NULL);
	if (sim->broken != NULL) {
		fprintf(stderr, "broken at %" PRIu64 " ns: %s\n", sim->broken_ns, sim->broken);
	}
}

/* Equal trainers get equal shares of all there is, and it does not cost a tick more than their
 * turns do. */
static void test_equal(unsigned n, bool is_known)
{
	struct sim sim;

	sim_init(&sim, NULL);
	for (unsigned i = 0; i < n; i++) {
		sim_add(&sim, BEST_EFFORT, is_known, NULL);
	}
	sim_run(&sim, 20 * SIM_S);
	CHECK(sim_jain(sim.progs, n) >= 0.98);
	CHECK(sim.idle_ns < 1e-3 * (double)sim.now_ns);
	/* 250 turns; with boards also a look at whoever has the turn every 5 ms. */
	CHECK(sim.n_ticks <= (is_known ? 4300 : 260));
	CHECK(sim.n_changes <= 2 * 260 + 2 * n);
	check_kept(&sim);
	sim_finish(&sim);
}

static void test_weights(void)
{
	struct sim sim;
	double sum = 0;

	sim_init(&sim, NULL);
	for (unsigned i = 0; i < 3; i++) {
		struct sim_prog *p = sim_add(&sim, BEST_EFFORT, false, NULL);
		p->params.weight = 1u << i;
		sim_change(p);
	}
	sim_run(&sim, 20 * SIM_S);
	for (unsigned i = 0; i < 3; i++) {
		sum += sim.progs[i]->done_ns;
	}
	for (unsigned i = 0; i < 3; i++) {
		double ideal = sum * (double)(1u << i) / 7;
		CHECK(sim.progs[i]->done_ns > 0.95 * ideal);
		CHECK(sim.progs[i]->done_ns < 1.05 * ideal);
	}
	check_kept(&sim);
	sim_finish(&sim);
}

/* Making and freeing a task on another GPU, again and again, gains nothing on this one. */
static void test_toggled_task(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *honest = sim_add(&sim, BEST_EFFORT, false, NULL);
	struct sim_prog *other = sim_add(&sim, BEST_EFFORT, false, NULL);
	for (unsigned i = 0; i < 500; i++) {
		other->params.tasks[31] = (struct rbt_sched_tasks){i % 2, SIM_OWN_US};
		sim_change(other);
		sim_run(&sim, 40 * SIM_MS);
	}
	struct rbt_sched_stats a, b;
	rbt_sched_stats(sim.s, honest->handle, &a);
	rbt_sched_stats(sim.s, other->handle, &b);
	CHECK(a.on_ns > 9 * SIM_S);
	CHECK(b.on_ns < 11 * SIM_S);
	sim_finish(&sim);
}

/* Who comes late has not saved anything up, and is not made to pay for it either. */
static void test_late(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	sim_add(&sim, BEST_EFFORT, false, NULL);
	sim_run(&sim, 10 * SIM_S);
	CHECK_INT(sim.n_ticks, 0); /* alone: nothing to do */
	sim_add(&sim, BEST_EFFORT, false, NULL);
	sim_reset(&sim);
	sim_run(&sim, 4 * SIM_S);
	CHECK(sim_jain(sim.progs, 2) >= 0.98);
	sim_remove(sim.progs[0]);
	sim_reset(&sim);
	sim_run(&sim, SIM_S);
	CHECK_INT(sim.n_ticks, 0);
	CHECK(sim.progs[0]->done_ns > 0.999 * (double)SIM_S);
	check_kept(&sim);
	sim_finish(&sim);
}

/* An idle program is passed over, and its turn goes on when it idles: nothing is lost, and who is
 * idle most of the time waits no longer than for one turn. */
static void test_work_conserving(void)
{
	const struct sim_work bursts = {
		.burst_ns = 20 * SIM_MS, .bursts = 1, .period_ns = 500 * SIM_MS};
	struct sim sim;
	struct sim_prog *trainer, *other;

	sim_init(&sim, NULL);
	trainer = sim_add(&sim, BEST_EFFORT, true, NULL);
	other = sim_add(&sim, BEST_EFFORT, true, &bursts);
	sim_run(&sim, 20 * SIM_S);
	/* 40 requests; each time it idles, that is seen after 5 ms. */
	CHECK(sim.idle_ns < 45 * 6e6);
	CHECK(trainer->done_ns > 0.94 * (double)sim.now_ns);
	CHECK(other->n_requests >= 39);
	CHECK(sim_quantile(other, 1) < 110 * SIM_MS);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Who has idled is the next to have a turn, however many wait; and gains no share by it. */
static void test_next_after_idling(void)
{
	const struct sim_work seldom = {
		.burst_ns = 20 * SIM_MS, .bursts = 1, .period_ns = 1234 * SIM_MS};
	const struct sim_work often = {
		.burst_ns = 20 * SIM_MS, .bursts = 1, .period_ns = 30 * SIM_MS};
	struct sim sim;

	sim_init(&sim, NULL);
	for (unsigned i = 0; i < 5; i++) {
		sim_add(&sim, BEST_EFFORT, true, NULL);
	}
	struct sim_prog *p = sim_add(&sim, BEST_EFFORT, true, &seldom);
	struct sim_prog *q = sim_add(&sim, BEST_EFFORT, true, &often);
	sim_run(&sim, 30 * SIM_S);
	CHECK(p->n_requests > 20);
	CHECK(sim_quantile(p, 1) < 130 * SIM_MS);
	CHECK(q->done_ns < 1.05 * (double)sim.now_ns / 6);
	CHECK(sim_jain(sim.progs, 5) >= 0.98);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Without a board a program is taken for busy: its turns are wasted, but only its own. */
static void test_unknown_idle(void)
{
	const struct sim_work nothing = {
		.burst_ns = SIM_MS, .bursts = 1, .period_ns = 1000 * SIM_S};
	struct sim sim;
	struct sim_prog *trainer;

	sim_init(&sim, NULL);
	trainer = sim_add(&sim, BEST_EFFORT, false, NULL);
	sim_add(&sim, BEST_EFFORT, false, &nothing);
	sim_run(&sim, 8 * SIM_S);
	CHECK(trainer->done_ns > 0.48 * (double)sim.now_ns);
	CHECK(trainer->done_ns < 0.52 * (double)sim.now_ns);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Strict between priorities, but for the share that nobody is denied; fair within. */
static void test_priorities(uint32_t min_share_permille)
{
	const struct rbt_sched_config config = {.min_share_permille = min_share_permille};
	double least = min_share_permille == RBT_SCHED_NEVER ? 0 : 0.02;
	struct sim sim;

	sim_init(&sim, &config);
	for (unsigned i = 0; i < 4; i++) {
		sim_add(&sim, i < 2 ? 5 : i == 2 ? 3 : 0, false, NULL);
	}
	sim_run(&sim, 4 * SIM_S); /* what is owed is paid with a delay */
	sim_reset(&sim);
	sim_run(&sim, 30 * SIM_S);
	CHECK(sim_jain(sim.progs, 2) >= 0.98);
	for (unsigned i = 2; i < 4; i++) {
		CHECK(sim.progs[i]->done_ns >= 0.95 * least * 30e9);
		CHECK(sim.progs[i]->done_ns <= 1.15 * least * 30e9);
	}
	check_kept(&sim);
	sim_finish(&sim);
}

/* However many are kept waiting, the guard leaves the better part to higher priorities, and each of
 * them gets something. */
static void test_guarded_crowd(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *high = sim_add(&sim, 5, false, NULL);
	for (unsigned i = 0; i < 40; i++) {
		sim_add(&sim, BEST_EFFORT, false, NULL);
	}
	sim_run(&sim, 60 * SIM_S);
	CHECK(high->done_ns > 0.6 * (double)sim.now_ns);
	for (unsigned i = 1; i < sim.n_progs; i++) {
		CHECK(sim.progs[i]->done_ns > 0.002 * (double)sim.now_ns);
	}
	check_kept(&sim);
	sim_finish(&sim);
}

/* More equals than min_share has room for take turns as others do. */
static void test_large_crowd(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	for (unsigned i = 0; i < 60; i++) {
		sim_add(&sim, BEST_EFFORT, false, NULL);
	}
	sim_run(&sim, 96 * SIM_S); /* 20 turns each */
	CHECK(sim_jain(sim.progs, 60) >= 0.98);
	CHECK(sim.n_ticks <= 1210);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A higher priority does not wait for the end of a turn. */
static void test_overtakes(void)
{
	const struct sim_work bursts = {
		.burst_ns = 5 * SIM_MS, .bursts = 1, .period_ns = 203 * SIM_MS};
	struct sim sim;

	sim_init(&sim, NULL);
	sim_add(&sim, BEST_EFFORT, false, NULL);
	sim_add(&sim, BEST_EFFORT, false, NULL);
	struct sim_prog *p = sim_add(&sim, 4, true, &bursts);
	sim_run(&sim, 10 * SIM_S);
	CHECK(sim_quantile(p, 1) < 6 * SIM_MS);
	check_kept(&sim);
	sim_finish(&sim);
}

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

/* Guessed to be idle and kept off: a program that has something to do after all, and shows no sign
 * of it, is not left so for ever. */
static void test_probe(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *silent = sim_add(&sim, BEST_EFFORT, true, NULL);
	silent->work = (struct sim_work){.burst_ns = 0, .bursts = 1, .period_ns = 1000 * SIM_S};
	silent->due_ns = 1000 * SIM_S; /* its board says nothing any more */
	struct sim_prog *trainer = sim_add(&sim, BEST_EFFORT, true, NULL);
	sim_run(&sim, SIM_S / 2);
	CHECK(silent->applied.off != RBT_ON);
	struct rbt_sched_stats stats;
	uint64_t turns = 0;
	for (int i = 0; i < 30; i++) {
		sim_run(&sim, SIM_S);
	}
	rbt_sched_stats(sim.s, silent->handle, &stats);
	turns = stats.turns;
	CHECK(turns >= 5 && turns <= 8); /* after 1, 2, 4, 8, 8, 8 s */
	CHECK(trainer->done_ns > 0.995 * (double)sim.now_ns);
	/* After a sign of life it is given the benefit of the doubt as before. */
	rbt_sched_busy(sim.s, sim.now_ns, silent->handle);
	sim_run(&sim, 3 * SIM_S);
	rbt_sched_stats(sim.s, silent->handle, &stats);
	CHECK(stats.turns >= turns + 2);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A program that never waits: it launches a kernel that takes `work_ns` of the GPU, and the next
 * `pause_ns` after the end of that. */
struct flyer {
	uint64_t work_ns, pause_ns;
	uint64_t left_ns, next_ns; /* of the kernel that is running; when the next one comes */
	uint64_t last_ns, on_ns;
	bool is_resting;
};

static bool look_at_flyer(void *ctx, void *owner, struct rbt_activity *ret)
{
	const struct flyer *f = owner;

	*ret = (struct rbt_activity){.last_ns = f->last_ns, .in_flight = true};
	return true;
}

static bool rest_flyer(void *ctx, void *owner)
{
	struct flyer *f = owner;

	f->is_resting = true;
	return true;
}

static void fly(struct rbt_sched *s, struct rbt_sched_prog *p, struct flyer *f, uint64_t now_ns)
{
	if (f->left_ns > 0 && rbt_sched_decision(p)->off == RBT_ON) {
		f->on_ns += SIM_MS;
		f->left_ns -= f->left_ns < SIM_MS ? f->left_ns : SIM_MS;
		f->next_ns = now_ns + f->pause_ns;
	}
	if (f->left_ns == 0 && now_ns >= f->next_ns) {
		f->left_ns = f->work_ns;
		f->last_ns = now_ns;
		if (f->is_resting) {
			f->is_resting = false;
			rbt_sched_busy(s, now_ns, p);
		}
	}
}

/* What each of the two has had in 20 s, in ms. */
static void fly_together(struct flyer *flyers)
{
	struct rbt_sched_config config = {0};
	struct rbt_sched_ops ops = {.look = look_at_flyer, .rest = rest_flyer};
	struct rbt_sched_params params = {.priority = BEST_EFFORT, .is_known = true};
	struct rbt_sched_prog *progs[2];
	const struct rbt_decision *ignored;
	struct rbt_sched *s;

	CHECK_INT(rbt_sched_create(&config, &ops, NULL, &s), 0);
	rbt_sched_set_gpus(s, 0, &(struct rbt_sched_gpus){.locked = 1});
	params.tasks[0] = (struct rbt_sched_tasks){.n_compute = 1, .own_us = SIM_OWN_US};
	for (unsigned i = 0; i < 2; i++) {
		CHECK_INT(rbt_sched_add(s, SIM_S, &params, &flyers[i], &progs[i]), 0);
		rbt_sched_busy(s, SIM_S, progs[i]);
	}
	for (uint64_t now_ns = SIM_S; now_ns < 21 * SIM_S; now_ns += SIM_MS) {
		rbt_sched_tick(s, now_ns);
		while (rbt_sched_next_change(s, &ignored) != NULL) {
		}
		fly(s, progs[0], &flyers[0], now_ns);
		fly(s, progs[1], &flyers[1], now_ns);
	}
	rbt_sched_destroy(s);
}

static void test_in_flight(void)
{
	/* Kernels of 30 ms, in the midst of which nothing is heard: its half all the same. */
	struct flyer slow[2] = {{.work_ns = 30 * SIM_MS}, {.work_ns = SIM_MS}};
	/* A millisecond now and then: the other has nearly all of the rest. */
	struct flyer idle[2] = {{.work_ns = SIM_MS, .pause_ns = 200 * SIM_MS}, {.work_ns = SIM_MS}};

	fly_together(slow);
	CHECK(slow[0].on_ns >= 9 * SIM_S && slow[1].on_ns >= 9 * SIM_S);
	fly_together(idle);
	CHECK(idle[0].on_ns >= SIM_S / 20 && idle[1].on_ns >= 17 * SIM_S);
}

static void test_policy_fair(void)
{
	struct rbt_sched_config config = {.policy = rbt_sched_policy_find("fair")};
	struct sim sim;

	sim_init(&sim, &config);
	sim_add(&sim, 13, false, NULL);
	sim_add(&sim, 8, false, NULL);
	sim_add(&sim, 0, false, NULL);
	sim_run(&sim, 20 * SIM_S);
	CHECK(sim_jain(sim.progs, 3) >= 0.98);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Who only changes does not lose its place. */
static void test_fifo_place(void)
{
	struct rbt_sched_config config = {.policy = rbt_sched_policy_find("fifo")};
	struct sim sim;

	sim_init(&sim, &config);
	struct sim_prog *a = sim_add(&sim, 8, true, NULL), *b = sim_add(&sim, 8, true, NULL);
	struct sim_prog *c = sim_add(&sim, 8, true, NULL);
	sim_run(&sim, SIM_MS);
	b->params.weight = 7;
	sim_change(b);
	CHECK_INT(a->applied.off, RBT_ON);
	sim_remove(a);
	CHECK_INT(b->applied.off, RBT_ON);
	CHECK_INT(c->applied.off, RBT_OFF_FULL);
	check_kept(&sim);
	sim_finish(&sim);
}

static void test_policy_fifo(void)
{
	struct rbt_sched_config config = {
		.policy = rbt_sched_policy_find("fifo"), .max_reserve_ms = 1000};
	const struct sim_work once = {.burst_ns = 300 * SIM_MS,
		.bursts = 1,
		.period_ns = 10 * SIM_MS,
		.until_ns = SIM_S / 4};
	struct sim sim;

	sim_init(&sim, &config);
	struct sim_prog *a = sim_add(&sim, 8, true, &once), *b = sim_add(&sim, 8, true, &once);
	a->due_ns = 20 * SIM_MS;
	a->work.period_ns = b->work.period_ns = 10000 * SIM_S; /* one request each */
	sim_run(&sim, 2 * SIM_S);
	CHECK_INT(b->n_requests, 1);
	CHECK_INT(a->n_requests, 1);
	CHECK(b->took_ns[0] < 301 * SIM_MS); /* came first, was not interrupted */
	CHECK(a->took_ns[0] > 580 * SIM_MS && a->took_ns[0] < 610 * SIM_MS);
	sim_add(&sim, 2, false, NULL);
	sim_add(&sim, 2, false, NULL);
	sim_reset(&sim);
	sim_run(&sim, 10 * SIM_S);
	CHECK(sim.n_ticks >= 9 && sim.n_ticks <= 24); /* some to see whether they idle */
	CHECK(sim_jain(sim.progs + 2, 2) >= 0.98);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Whoever ticks us is late, and something else happens first: the turn is over all the same. */
static void test_late_ticks(const char *policy)
{
	const struct rbt_sched_config config = {.policy = rbt_sched_policy_find(policy)};
	struct rbt_sched_params params = {.priority = BEST_EFFORT, .weight = 1};
	struct rbt_sched_prog *trainers[3], *p;
	struct rbt_sched_stats stats[3];
	const struct rbt_decision *ignored;
	struct rbt_sched *s;
	uint64_t now_ns = SIM_S;

	CHECK_INT(rbt_sched_create(&config, NULL, NULL, &s), 0);
	rbt_sched_set_gpus(s, now_ns, &(struct rbt_sched_gpus){.locked = 1});
	params.tasks[0] = (struct rbt_sched_tasks){.n_compute = 1, .own_us = SIM_OWN_US};
	for (unsigned i = 0; i < 3; i++) {
		CHECK_INT(rbt_sched_add(s, now_ns, &params, NULL, &trainers[i]), 0);
	}
	params.priority = 13;
	params.is_known = true;
	CHECK_INT(rbt_sched_add(s, now_ns, &params, NULL, &p), 0);
	/* A request now and then, each when a turn should have ended a moment ago. */
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t next_ns = rbt_sched_next_tick(s);
		now_ns = next_ns != UINT64_MAX && next_ns > now_ns ? next_ns : now_ns;
		now_ns += 100 * SIM_US;
		rbt_sched_busy(s, now_ns, p);
		rbt_sched_idle(s, now_ns + 500 * SIM_US, p);
		while (rbt_sched_next_change(s, &ignored) != NULL) {
		}
		now_ns += 20 * SIM_MS;
		rbt_sched_tick(s, now_ns);
	}
	for (unsigned i = 0; i < 3; i++) {
		rbt_sched_stats(s, trainers[i], &stats[i]);
		CHECK(stats[i].on_ns >= (now_ns - SIM_S) / 4);
	}
	rbt_sched_destroy(s);
}

int main(void)
{
	test_late_ticks("turns");
	test_late_ticks("fifo");
	test_equal(3, false);
	test_equal(8, false);
	test_equal(3, true);
	test_equal(8, true);
	test_weights();
	test_toggled_task();
	test_late();
	test_work_conserving();
	test_next_after_idling();
	test_unknown_idle();
	test_in_flight();
	test_priorities(0);
	test_priorities(RBT_SCHED_NEVER);
	test_guarded_crowd();
	test_large_crowd();
	test_overtakes();
	test_ranks();
	test_crossing_ranks();
	test_unaligned_ranks();
	test_suspended_rank();
	test_probe();
	test_policy_fair();
	test_policy_fifo();
	test_fifo_place();
	return check_result();
}
