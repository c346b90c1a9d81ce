/* SPDX-License-Identifier: Apache-2.0 */
/* The policies that are not the default, on simulated GPUs; and what holds for all of them. */
#include "check.h"
#include "sched/class.h"
#include "test_sched_sim.h"

#define BEST_EFFORT 2

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

/* A program that only changes does not lose its place. */
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
		rbt_sched_synced(s, now_ns + 500 * SIM_US, p);
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

/* What a policy says goes before what was there, within range, and all else stays. */
static void test_output(void)
{
	const struct rbt_policy_output keep = RBT_POLICY_OUTPUT_INIT;
	struct rbt_policy_output o = RBT_POLICY_OUTPUT_INIT, said = RBT_POLICY_OUTPUT_INIT;
	struct rbt_sched_params params = {.priority = 8, .weight = 5, .timeslice_us = 100};

	CHECK(!rbt_policy_output_take(&o, &keep));
	rbt_policy_output_apply(&o, &params);
	CHECK(params.priority == 8 && params.weight == 5 && params.timeslice_us == 100);
	said.priority = 2;
	CHECK(rbt_policy_output_take(&o, &said) && !rbt_policy_output_take(&o, &said));
	rbt_policy_output_apply(&o, &params);
	CHECK(params.priority == 2 && params.weight == 5 && params.timeslice_us == 100);
	/* The last word on the weight does not take back that on the priority. */
	said = keep;
	said.weight = 7;
	said.timeslice_us = 0;
	CHECK(rbt_policy_output_take(&o, &said));
	rbt_policy_output_apply(&o, &params);
	CHECK(params.priority == 2 && params.weight == 7 && params.timeslice_us == 100);
	said = (struct rbt_policy_output){UINT32_MAX - 1, 3, 16, 0};
	CHECK(rbt_policy_output_take(&o, &said));
	CHECK(o.timeslice_us == RBT_TIMESLICE_MAX_US && o.interleave == RBT_INTERLEAVE_MAX);
	CHECK(o.priority == RBT_PRIORITY_MAX && o.weight == 1);
	said.weight = RBT_WEIGHT_MAX + 1;
	CHECK(rbt_policy_output_take(&o, &said) && o.weight == RBT_WEIGHT_MAX);
}

int main(void)
{
	test_output();
	test_policy_fair();
	test_policy_fifo();
	test_fifo_place();
	test_late_ticks("turns");
	test_late_ticks("fifo");
	return check_result();
}
