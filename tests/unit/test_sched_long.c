/* SPDX-License-Identifier: Apache-2.0 */
/* A latency program's long slice beside short ones: what it saves, and what it may not cost. */
#include "test_sched_sim.h"

#define BEST_EFFORT 2
#define NORMAL      8
#define LATENCY     13

static const struct sim_work short_work = {
	.burst_ns = 1100 * SIM_US, .bursts = 1, .period_ns = 25 * SIM_MS, .is_poisson = true};

/* Beside short slices a latency program's is long, and bursts that end within it cost nobody
 * anything, however close they come; not so for two of them, nor for who keeps submitting. */
static void test_bursts_within_a_slice(bool is_eager, bool is_alone)
{
	const struct sim_work work = {.burst_ns = is_eager ? 20 * SIM_US : 4 * SIM_MS,
		.gap_ns = is_eager ? 30 * SIM_US : 0,
		.bursts = is_eager ? 80 : 1,
		.period_ns = 25 * SIM_MS,
		.is_eager = is_eager,
		.is_poisson = true};
	struct sim sim;
	unsigned reserves = 0;

	sim_init(&sim, NULL);
	struct sim_prog *trainer = sim_add(&sim, BEST_EFFORT, false, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &work);
	if (!is_alone) {
		sim_add(&sim, LATENCY, false, &short_work);
	}
	sim_run(&sim, 2 * SIM_S);
	CHECK_INT(p->applied.slice_us[0], is_alone ? 10000 : 0);
	CHECK_INT(trainer->applied.slice_us[0], 1);
	reserves = (unsigned)sim_stats(p).reserves;
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	reserves = (unsigned)sim_stats(p).reserves - reserves;
	if (is_eager || !is_alone) {
		CHECK(reserves > p->n_requests / 2);
	} else {
		CHECK(reserves < p->n_requests / 10);
		CHECK(trainer->done_ns > 0.995 * (20e9 - (double)(p->n_requests * 4 * SIM_MS)));
	}
	/* Without the company of short slices it has the driver's. */
	sim_remove(trainer);
	CHECK_INT(p->applied.slice_us[0], 0);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Of whom it is not known whether it idles does not: it may be at work all the time. */
static void test_unknown(void)
{
	struct sim sim;

	sim_init(&sim, NULL);
	sim_add(&sim, BEST_EFFORT, true, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, false, NULL);
	struct sim_prog *q = sim_add(&sim, NORMAL, true, NULL);
	sim_run(&sim, 5 * SIM_S);
	CHECK_INT(p->applied.slice_us[0], 0);
	CHECK(q->done_ns > 0.45 * 5e9);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Beside somebody at the driver's slice they are reserved for: it would be waited for otherwise. */
static void test_bursts_beside_a_normal_one(void)
{
	const struct sim_work work = {
		.burst_ns = 6 * SIM_MS, .bursts = 1, .period_ns = 25 * SIM_MS};
	struct sim sim;

	sim_init(&sim, NULL);
	sim_add(&sim, BEST_EFFORT, true, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &work);
	struct sim_prog *normal = sim_add(&sim, NORMAL, true, NULL);
	CHECK_INT(p->applied.slice_us[0], 10000);
	sim_run(&sim, 2 * SIM_S);
	sim_reset(&sim);
	sim_run(&sim, 10 * SIM_S);
	CHECK(sim_quantile(p, 0.9) <= 6 * SIM_MS + 10 * SIM_US);
	/* With that gone they are not. */
	sim_remove(normal);
	sim_run(&sim, SIM_S);
	uint64_t reserves = sim_stats(p).reserves;
	sim_run(&sim, 10 * SIM_S);
	CHECK(sim_stats(p).reserves - reserves <= 5);
	check_kept(&sim);
	sim_finish(&sim);
}

/* Nor do they when the end of one was seen the moment it came, which may be the end of it or not:
 * with the next they would be a long one. */
static void test_bursts_in_a_row(void)
{
	const struct sim_work work = {.burst_ns = 3 * SIM_MS, .bursts = 1, .period_ns = 6 * SIM_MS};
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *trainer = sim_add(&sim, BEST_EFFORT, true, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &work);
	sim_run(&sim, 2 * SIM_S);
	uint64_t reserves = sim_stats(p).reserves;
	sim_reset(&sim);
	sim_run(&sim, 10 * SIM_S);
	CHECK_INT(sim_stats(p).reserves - reserves, 0);
	CHECK(trainer->done_ns > 0.499 * 10e9);
	check_kept(&sim);
	sim_finish(&sim);
}

/* One that is suspended does not count, until it is back. */
static void test_beside_a_suspended_one(void)
{
	const struct sim_work work = {
		.burst_ns = 6 * SIM_MS, .bursts = 1, .period_ns = 25 * SIM_MS};
	struct sim sim;

	sim_init(&sim, NULL);
	sim_add(&sim, BEST_EFFORT, true, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &work);
	struct sim_prog *q = sim_add(&sim, LATENCY, true, &work);
	sim_run(&sim, SIM_S);
	CHECK(p->applied.slice_us[0] == 0 && q->applied.slice_us[0] == 0);
	q->params.suspended = true;
	sim_change(q);
	sim_run(&sim, SIM_S);
	CHECK(p->applied.slice_us[0] == 10000 && q->applied.slice_us[0] == 0);
	q->params.suspended = false;
	sim_change(q);
	sim_run(&sim, SIM_S);
	CHECK(p->applied.slice_us[0] == 0 && q->applied.slice_us[0] == 0);
	check_kept(&sim);
	sim_finish(&sim);
}

/* A unit that is owed time gets half of the GPU until it is paid, beside slices of any length. */
static void test_owed_beside_a_long_slice(void)
{
	const struct sim_work work = {.burst_ns = 500 * SIM_US,
		.gap_ns = 30 * SIM_US,
		.bursts = 3500,
		.period_ns = 2 * SIM_S,
		.is_hinted = true};
	struct sim sim;

	sim_init(&sim, NULL);
	struct sim_prog *trainer = sim_add(&sim, BEST_EFFORT, true, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, &work);
	sim_run(&sim, 4 * SIM_S);
	CHECK_INT(p->applied.slice_us[0], 10000);
	sim_reset(&sim);
	sim_run(&sim, 30 * SIM_S);
	CHECK(trainer->done_ns >= 0.9 * 0.02 * 30e9);
	CHECK_INT(p->applied.slice_us[0], 10000);
	check_kept(&sim);
	sim_finish(&sim);
}

int main(void)
{
	test_unknown();
	test_bursts_within_a_slice(false, true);
	test_bursts_within_a_slice(false, false);
	test_bursts_within_a_slice(true, true);
	test_bursts_beside_a_normal_one();
	test_bursts_in_a_row();
	test_beside_a_suspended_one();
	test_owed_beside_a_long_slice();
	return check_result();
}
