/* SPDX-License-Identifier: Apache-2.0 */
/* The end of requests, where the return of a synchronisation is told. */
#include "check.h"
#include "sched/class.h"
#include "test_sched_sim.h"

#define BEST_EFFORT 2
#define LATENCY     13

/* 16 tokens with a synchronisation after each, 20 requests/s: 7.9 ms alone. */
static const struct sim_work tokens = {
	.burst_ns = 400 * SIM_US, .gap_ns = 100 * SIM_US, .bursts = 16, .period_ns = 50 * SIM_MS};

/* Launches without waiting, slower than the device works: 4 ms. */
static const struct sim_work eager = {.burst_ns = 20 * SIM_US,
	.gap_ns = 30 * SIM_US,
	.bursts = 80,
	.period_ns = 25 * SIM_MS,
	.is_eager = true};

/* How long it was held for after requests had ended, each; and how often somebody was woken. */
static uint64_t overrun(const struct sim_work *work, bool tells_syncs, uint64_t *ret_ticks)
{
	struct sim sim;
	uint64_t took_ns = 0;

	sim_init(&sim, NULL);
	if (tells_syncs) {
		sim_tell_syncs(&sim);
	}
	sim_add(&sim, BEST_EFFORT, false, NULL);
	struct sim_prog *p = sim_add(&sim, LATENCY, true, work);
	sim_run(&sim, 2 * SIM_S);
	uint64_t before = sim_stats(p).reserved_ns;
	sim_reset(&sim);
	sim_run(&sim, 20 * SIM_S);
	for (uint64_t i = 0; i < p->n_requests; i++) {
		took_ns += p->took_ns[i];
	}
	uint64_t reserved_ns = sim_stats(p).reserved_ns - before;
	check_kept(&sim);
	CHECK(reserved_ns > took_ns * 9 / 10);
	*ret_ticks = sim.n_ticks / p->n_requests;
	uint64_t over_ns = reserved_ns > took_ns ? (reserved_ns - took_ns) / p->n_requests : 0;
	sim_finish(&sim);
	return over_ns;
}

/* Where the return of a synchronisation is told, the end of a request is found at once, and by
 * fewer looks. */
static void test_told(void)
{
	struct sim_work uneven_eager = eager, uneven_tokens = tokens;
	uint64_t n_told, n_looked;

	uneven_eager.is_uneven = uneven_tokens.is_uneven = true;
	uint64_t told_ns = overrun(&uneven_eager, true, &n_told);
	uint64_t looked_ns = overrun(&uneven_eager, false, &n_looked);
	CHECK(told_ns < 60 * SIM_US && told_ns < looked_ns / 2);
	CHECK(n_told <= n_looked);
	/* Of tokens the last is known by what does not follow it: 100 us, learnt. */
	told_ns = overrun(&uneven_tokens, true, &n_told);
	looked_ns = overrun(&uneven_tokens, false, &n_looked);
	CHECK(told_ns < 200 * SIM_US && told_ns < looked_ns);
	CHECK(n_told < n_looked + 4);
	/* A program that synchronises all the time does not wake the daemon each time. */
	uneven_tokens.bursts = 200;
	uneven_tokens.burst_ns = 30 * SIM_US;
	uneven_tokens.gap_ns = 20 * SIM_US;
	overrun(&uneven_tokens, true, &n_told);
	overrun(&uneven_tokens, false, &n_looked);
	CHECK(n_told < n_looked + 8);
	/* And who never does is not waited for in vain. */
	uneven_eager.is_polling = true;
	told_ns = overrun(&uneven_eager, true, &n_told);
	looked_ns = overrun(&uneven_eager, false, &n_looked);
	CHECK(told_ns < looked_ns * 5 / 4);
}

/* A program whose synchronisations are told, as the daemon does: who waits for something else does
 * not wait for them any more. */
struct told {
	struct rbt_activity activity;
	bool is_awaited, is_active; /* it submits whenever it is about to be taken for idle */
	bool is_quick;              /* and synchronises before that can be waited for */
};

static bool look_at_told(void *ctx, void *owner, struct rbt_activity *ret)
{
	const struct told *t = owner;

	*ret = t->activity;
	return true;
}

static bool rest_told(void *ctx, void *owner)
{
	struct told *t = owner;

	t->is_awaited = false;
	return !t->is_active;
}

static bool await_told(void *ctx, void *owner)
{
	struct told *t = owner;

	t->is_awaited = !t->is_quick;
	return t->is_awaited;
}

static struct rbt_sched *add_told(struct told *t, uint64_t now_ns, struct rbt_sched_prog **ret)
{
	struct rbt_sched_ops ops = {.poll = look_at_told, .doze = rest_told, .await = await_told};
	struct rbt_sched_params params = {.priority = LATENCY, .is_known = true};
	struct rbt_sched *s;

	CHECK_INT(rbt_sched_create(&(struct rbt_sched_config){0}, &ops, NULL, &s), 0);
	params.tasks[0] = (struct rbt_sched_tasks){.n_compute = 1, .own_us = SIM_OWN_US};
	CHECK_INT(rbt_sched_add(s, now_ns, &params, t, ret), 0);
	rbt_sched_busy(s, now_ns, *ret);
	return s;
}

/* Whatever else it was that ended a wait for its synchronisation, that is asked for again. */
static void test_told_anew(void)
{
	struct told t = {.activity.in_flight = true, .is_active = true};
	uint64_t now_ns = SIM_S;
	struct rbt_sched_prog *p;
	struct rbt_sched *s = add_told(&t, now_ns, &p);

	t.activity.last_ns = now_ns += 2 * SIM_MS;
	rbt_sched_tick(s, now_ns);
	CHECK(t.is_awaited);
	/* It has submitted when it was about to be taken for idle. */
	now_ns += 10 * SIM_MS;
	t.is_awaited = false;
	rbt_sched_tick(s, now_ns);
	CHECK(t.is_awaited);
	/* It has told a request, and works on when that has ended. */
	t.is_awaited = false;
	rbt_sched_request_begin(s, now_ns, p, 0);
	CHECK(!t.is_awaited);
	rbt_sched_request_end(s, now_ns += SIM_MS, p);
	CHECK(t.is_awaited);
	/* It has another board. */
	t.is_awaited = false;
	rbt_sched_busy(s, now_ns += SIM_MS, p);
	t.activity.last_ns = now_ns += 5 * SIM_MS;
	rbt_sched_tick(s, now_ns);
	CHECK(t.is_awaited);
	rbt_sched_destroy(s);
}

/* One that has returned since the look is looked at again at once; not for ever. */
static void test_told_late(void)
{
	struct told t = {.activity.waiting = true, .is_quick = true};
	uint64_t now_ns = SIM_S;
	struct rbt_sched_prog *p;
	struct rbt_sched *s = add_told(&t, now_ns, &p);

	t.activity.last_ns = now_ns += 10 * SIM_MS;
	rbt_sched_tick(s, now_ns);
	CHECK(rbt_sched_next_tick(s) == now_ns + 50 * SIM_US);
	for (unsigned i = 0; i < 8; i++) {
		t.activity.last_ns = now_ns = rbt_sched_next_tick(s);
		rbt_sched_tick(s, now_ns);
	}
	CHECK(rbt_sched_next_tick(s) >= now_ns + 200 * SIM_US);
	rbt_sched_destroy(s);
}

int main(void)
{
	test_told();
	test_told_anew();
	test_told_late();
	return check_result();
}
