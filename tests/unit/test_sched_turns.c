/* SPDX-License-Identifier: Apache-2.0 */
/* Turns, on simulated GPUs: fairness, weights, priorities, idleness. */
#include "check.h"
#include "sched/class.h"
#include "test_sched_sim.h"

#define BEST_EFFORT 2

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
	/* 200 turns; with boards also a look at whoever has the turn every 5 ms. */
	CHECK(sim.n_ticks <= (is_known ? 4100 : 210));
	CHECK(sim.n_changes <= 2 * 210 + 2 * n);
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

/* A program that comes late has neither an advantage nor a disadvantage. */
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

/* A program that was idle gets the next turn, however many wait; but no larger share. */
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
	struct rbt_sched_ops ops = {.poll = look_at_flyer, .doze = rest_flyer};
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

int main(void)
{
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
	test_probe();
	return check_result();
}
