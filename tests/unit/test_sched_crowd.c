/* SPDX-License-Identifier: Apache-2.0 */
/* Crowds: whatever happens in whatever order, the core keeps what it promises; nobody is forgotten;
 * and an event costs less than a microsecond. RUBATO_TEST_LONG=1 makes it longer. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "sched/impl.h"
#include "test_sched_verify.h"

#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED true
#elif defined(__has_feature)
#define IS_SANITIZED __has_feature(address_sanitizer)
#else
#define IS_SANITIZED false
#endif
#define MAX_PROGS 1000
#define MS        UINT64_C(1000000)
#define S         UINT64_C(1000000000)

struct one {
	struct rbt_sched_prog *handle;
	struct rbt_sched_params params;
	bool is_busy;
	uint64_t on_ns;
};

struct crowd {
	struct rbt_sched *s;
	uint64_t now_ns, seed;
	unsigned n_gpus;
	bool is_calm;  /* what boards say is true, and always busy */
	unsigned mood; /* of the policy: it refuses one turn in so many; 0: none */
	struct rbt_sched_policy policies[2]; /* one of them in force, which must not change */
	unsigned next;
	struct one *progs[MAX_PROGS];
	unsigned n;
};

static uint64_t pick(struct crowd *c, uint64_t below)
{
	c->seed = c->seed * 6364136223846793005u + 1442695040888963407u;
	return (c->seed >> 24) % below;
}

static bool look(void *ctx, void *owner, struct rbt_activity *ret)
{
	struct crowd *c = ctx;

	*ret = (struct rbt_activity){
		.last_ns = c->now_ns - pick(c, 20 * MS), .waiting = c->is_calm || pick(c, 4) == 0};
	return c->is_calm || pick(c, 8) > 0;
}

static bool doze(void *ctx, void *owner)
{
	return pick(ctx, 10) > 0;
}

static bool progress(void *ctx, void *owner, uint64_t *ret)
{
	struct crowd *c = ctx;

	*ret = c->now_ns / 1000 + (c->seed >> 24 & 4095);
	return true;
}

static bool admit(void *ctx, void *owner)
{
	struct crowd *c = ctx;
	struct rbt_sched_load load;

	rbt_sched_load(c->s, (uint32_t)pick(c, c->n_gpus), &load);
	CHECK(load.permille <= 1000);
	return pick(c, c->mood) > 0;
}

static const struct rbt_sched_ops ops = {
	.poll = look, .doze = doze, .progress = progress, .admit = admit};

static enum rbt_role any_role(void *ctx, unsigned priority)
{
	return RBT_ROLE_TURN + (enum rbt_role)pick(ctx, 3);
}

static uint64_t any_turn(void *ctx, const struct rbt_sched_config *config)
{
	return 1 + pick(ctx, 200 * MS);
}

/* A policy like this one, that refuses one turn in `mood`; 0: none. */
static struct rbt_sched_policy *make_policy(
	struct crowd *c, const struct rbt_sched_policy *base, uint64_t mood)
{
	struct rbt_sched_policy *policy = &c->policies[c->next++ % 2];

	*policy = *base;
	policy->ctx = c;
	policy->asks = mood > 0;
	c->mood = (unsigned)mood;
	return policy;
}

/* One that answers at random, on top of a built-in one. */
static const struct rbt_sched_policy *pick_policy(struct crowd *c)
{
	size_t n;
	const struct rbt_sched_policy *policies = rbt_sched_policies(&n);
	struct rbt_sched_policy *policy = make_policy(c, &policies[pick(c, n)], pick(c, 4));

	if (pick(c, 2) == 0) {
		policy->role = any_role;
		policy->turn_ns = any_turn;
	}
	return policy;
}

static void randomise(struct crowd *c, struct rbt_sched_params *params)
{
	static const uint64_t slices[] = {0, 0, 0, 1, 50, 2048, 100000};

	memset(params, 0, sizeof(*params));
	params->priority = (unsigned)pick(c, 16);
	params->weight = (uint32_t)pick(c, 5);
	params->group = pick(c, 3) == 0 ? (uint32_t)pick(c, 4) : 0;
	params->timeslice_us = slices[pick(c, 7)];
	params->suspended = pick(c, 10) == 0;
	params->is_known = pick(c, 3) > 0;
	params->cannot_suspend = pick(c, 20) == 0;
	/* Some devices have no slices. */
	bool has_none = pick(c, 10) == 0;
	for (unsigned i = 0; i <= pick(c, 2); i++) {
		params->tasks[pick(c, c->n_gpus)] =
			(struct rbt_sched_tasks){.n_compute = (uint32_t)pick(c, 10) / 4,
				.own_us = has_none ? RBT_TIMESLICE_OWN : 1024 << pick(c, 2),
				.compute_runlists = pick(c, 8) > 0,
				.copy_runlists = has_none ? 0 : pick(c, 16) << pick(c, 2),
				.copy_own_us = 1024 * pick(c, 3),
				.no_slices = has_none};
	}
}

static void add(struct crowd *c)
{
	struct one *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		abort();
	}
	randomise(c, &p->params);
	CHECK_INT(rbt_sched_add(c->s, c->now_ns, &p->params, p, &p->handle), 0);
	c->progs[c->n++] = p;
}

static void drop(struct crowd *c)
{
	unsigned i = (unsigned)pick(c, c->n);

	rbt_sched_remove(c->s, c->now_ns, c->progs[i]->handle);
	free(c->progs[i]);
	c->progs[i] = c->progs[--c->n];
}

static void reconfigure(struct crowd *c)
{
	struct rbt_sched_config config = {
		.policy = pick_policy(c),
		.turn_ms = 60 + (uint32_t)pick(c, 41),
		.max_hold_us = pick(c, 2) == 0 ? RBT_SCHED_NEVER : (uint32_t)pick(c, 5000),
		.latency_slice_us = pick(c, 4) == 0 ? RBT_SCHED_NEVER : (uint32_t)pick(c, 4) * 1500,
		.max_reserve_ms = (uint32_t)pick(c, 300),
		.min_share_permille = pick(c, 4) == 0 ? RBT_SCHED_NEVER : (uint32_t)pick(c, 100),
		.max_latency = (uint32_t)pick(c, 4),
		.always_reserve = pick(c, 4) == 0,
	};

	CHECK_INT(rbt_sched_configure(c->s, c->now_ns, &config), 0);
}

/* Changes who is there and what they want. */
static void restructure(struct crowd *c, unsigned most)
{
	switch (pick(c, 8)) {
	case 0:
	case 1:
		if (c->n < most) {
			add(c);
		}
		break;
	case 2:
		if (c->n > most / 2) {
			drop(c);
		}
		break;
	case 3:
		rbt_sched_set_gpus(c->s, c->now_ns,
			&(struct rbt_sched_gpus){.locked = (uint32_t)(pick(c, 256) | pick(c, 256)),
				.marked = (uint32_t)(pick(c, 256) & pick(c, 256) & pick(c, 256))});
		break;
	case 4:
		if (pick(c, 20) == 0) {
			reconfigure(c);
		}
		break;
	default:
		if (c->n > 0) {
			struct one *p = c->progs[pick(c, c->n)];
			randomise(c, &p->params);
			CHECK_INT(rbt_sched_change(c->s, c->now_ns, p->handle, &p->params), 0);
		}
		break;
	}
}

static void happen(struct crowd *c, struct one *p)
{
	switch (pick(c, 10)) {
	case 0:
	case 1:
		rbt_sched_synced(c->s, c->now_ns, p->handle);
		break;
	case 2:
		rbt_sched_gap(p->handle, pick(c, 40 * MS), (uint32_t)pick(c, 9));
		break;
	case 3:
		rbt_sched_request_begin(c->s, c->now_ns, p->handle,
			pick(c, 2) == 0 ? 0 : c->now_ns + pick(c, 50 * MS));
		break;
	case 4:
		rbt_sched_request_end(c->s, c->now_ns, p->handle);
		break;
	default:
		rbt_sched_busy(c->s, c->now_ns, p->handle);
		break;
	}
}

static void tick(struct crowd *c)
{
	rbt_sched_tick(c->s, c->now_ns);
	CHECK(rbt_sched_next_tick(c->s) > c->now_ns);
}

static void check_promises(struct crowd *c, unsigned step)
{
	const char *broken = sched_verify(c->s);

	CHECK(broken == NULL);
	if (broken != NULL) {
		fprintf(stderr, "step %u, %" PRIu64 " ns: %s\n", step, c->now_ns, broken);
	}
}

/* Every decision that changes is handed out, once. */
static void drain(struct crowd *c)
{
	const struct rbt_decision *d;
	unsigned n = 0;

	for (struct one *p; (p = rbt_sched_next_change(c->s, &d)) != NULL; n++) {
		CHECK(d == rbt_sched_decision(p->handle));
	}
	CHECK(n <= c->n);
}

/* All are left as they are, for long: whoever wants the GPU and may have it gets some of it, also
 * if the policy refuses most of their turns, or all. */
static void test_calm(struct crowd *c)
{
	struct rbt_sched_stats stats;

	c->is_calm = true;
	struct rbt_sched_config config = {
		.policy = make_policy(c, rbt_sched_policy_find("turns"), pick(c, 3))};
	CHECK_INT(rbt_sched_configure(c->s, c->now_ns, &config), 0);
	for (unsigned i = 0; i < c->n; i++) {
		rbt_sched_busy(c->s, c->now_ns, c->progs[i]->handle);
		rbt_sched_stats(c->s, c->progs[i]->handle, &stats);
		c->progs[i]->on_ns = stats.on_ns;
	}
	for (uint64_t end_ns = c->now_ns + 100 * S; c->now_ns < end_ns;) {
		uint64_t next_ns = rbt_sched_next_tick(c->s);
		c->now_ns = next_ns < end_ns ? next_ns : end_ns;
		tick(c);
	}
	check_promises(c, 0);
	for (unsigned i = 0; i < c->n; i++) {
		struct one *p = c->progs[i];
		rbt_sched_stats(c->s, p->handle, &stats);
		bool may = p->handle->mask != 0 && !p->handle->unit->is_blocked;
		CHECK(!may || stats.on_ns > p->on_ns + 20 * MS);
	}
	c->is_calm = false;
}

static void test_random(uint64_t seed, unsigned most, unsigned n_gpus, unsigned steps)
{
	struct crowd c = {.seed = seed, .n_gpus = n_gpus};

	CHECK_INT(rbt_sched_create(&(struct rbt_sched_config){0}, &ops, &c, &c.s), 0);
	reconfigure(&c);
	for (unsigned i = 0; i < steps; i++) {
		c.now_ns += pick(&c, 3) == 0 ? pick(&c, 30 * MS) : pick(&c, MS);
		if (c.n == 0 || pick(&c, 12) == 0) {
			restructure(&c, most);
		} else {
			happen(&c, c.progs[pick(&c, c.n)]);
		}
		check_promises(&c, i);
		if (rbt_sched_next_tick(c.s) <= c.now_ns && pick(&c, 4) > 0) {
			tick(&c);
			check_promises(&c, i);
		}
		if (pick(&c, 5) == 0) {
			drain(&c);
		}
	}
	test_calm(&c);
	while (c.n > 0) {
		drop(&c);
	}
	CHECK(rbt_sched_next_tick(c.s) == UINT64_MAX ||
		(tick(&c), c.now_ns += S, tick(&c), rbt_sched_next_tick(c.s) == UINT64_MAX));
	rbt_sched_destroy(c.s);
}

static void toggle(struct crowd *c, struct one *p)
{
	c->now_ns += 20000;
	if (!p->is_busy || pick(c, 2) == 0) {
		rbt_sched_busy(c->s, c->now_ns, p->handle);
	} else {
		rbt_sched_synced(c->s, c->now_ns, p->handle);
	}
	p->is_busy = !p->is_busy;
}

/* 1,000 programs on 8 GPUs, busy and idle all the time. */
static void test_speed(unsigned n_events)
{
	struct crowd c = {.seed = 7, .n_gpus = 8};
	unsigned n_ticks = 0;

	CHECK_INT(rbt_sched_create(&(struct rbt_sched_config){0}, &ops, &c, &c.s), 0);
	rbt_sched_set_gpus(c.s, 0, &(struct rbt_sched_gpus){.locked = UINT32_MAX});
	for (unsigned i = 0; i < MAX_PROGS; i++) {
		add(&c);
		struct rbt_sched_params *params = &c.progs[i]->params;
		*params = (struct rbt_sched_params){.priority = i % 16,
			.group = i % 10 == 0 ? 1 + i / 20 : 0,
			.is_known = true};
		params->tasks[i % 8] = (struct rbt_sched_tasks){.n_compute = 1,
			.own_us = 2048,
			.compute_runlists = 1,
			.copy_runlists = 0x700,
			.copy_own_us = 1024};
		CHECK_INT(rbt_sched_change(c.s, 0, c.progs[i]->handle, params), 0);
	}
	clock_t start = clock();
	for (unsigned i = 0; i < n_events; i++) {
		toggle(&c, c.progs[pick(&c, c.n)]);
		if (rbt_sched_next_tick(c.s) <= c.now_ns) {
			rbt_sched_tick(c.s, c.now_ns);
			n_ticks++;
		}
	}
	double us = (double)(clock() - start) * 1e6 / CLOCKS_PER_SEC / n_events;
	fprintf(stderr, "%u programs, %u events, %u ticks: %.3f us an event\n", c.n, n_events,
		n_ticks, us);
	CHECK(us <= 1 || IS_SANITIZED);
	drain(&c);
	check_promises(&c, n_events);
	while (c.n > 0) {
		drop(&c);
	}
	rbt_sched_destroy(c.s);
}

int main(void)
{
	const char *env = getenv("RUBATO_TEST_LONG");
	bool is_long = env != NULL && strcmp(env, "1") == 0;

	for (uint64_t seed = 1; seed <= (is_long ? 100 : 10); seed++) {
		test_random(seed, 12, 2, 5000);
		test_random(seed, 40, 4, 3000);
		test_random(seed, 6, 1, 3000);
		test_random(seed, 3, 1, 3000);
	}
	test_speed(is_long ? 1000000 : 300000);
	return check_result();
}
