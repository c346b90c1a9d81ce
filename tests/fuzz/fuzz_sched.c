/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever happens to whom, in whatever order and at whatever time: the decision core keeps what it
 * promises, and never wants to be called again at once. A policy that says anything about programs
 * when it is asked cannot change that: it is not asked without end, and a program that it always
 * refuses gets its share, until the policy ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/test_sched_verify.h"
#include "sched/class.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_PROGS 12
#define N_GPUS    3
#define MS        UINT64_C(1000000)
#define S         UINT64_C(1000000000)
/* What a program that is always refused gets at least of this time; its min_share is more, but the
 * guard serves one program at a time. */
#define TRIAL_NS (30 * S)
#define LEAST_NS (60 * MS)

struct input {
	const uint8_t *data;
	size_t left;
};

static struct rbt_sched *sched;
static struct rbt_sched_prog *progs[MAX_PROGS];
static struct input input;
static uint64_t now_ns;

/* As the daemon has it: what users say of a program, and what the policy says. */
static struct {
	struct rbt_sched_params params;
	struct rbt_policy_output output;
	bool is_dirty;
	uint64_t asked_ns; /* 0: not asked about since it was changed, or by this policy */
} told[MAX_PROGS];
/* At the end: boards say that all programs are busy, and the policy refuses all of them. */
static bool is_calm;

static uint8_t next_byte(void)
{
	if (input.left == 0) {
		return 0;
	}
	input.left--;
	return *input.data++;
}

/* From nothing to minutes, most often short. */
static uint64_t next_time(void)
{
	uint8_t byte = next_byte();

	return (uint64_t)(byte & 15) << (byte >> 4) * 2;
}

static bool look(void *ctx, void *owner, struct rbt_activity *ret)
{
	uint8_t byte = next_byte();

	if (is_calm) {
		*ret = (struct rbt_activity){.last_ns = now_ns, .waiting = true};
		return true;
	}
	*ret = (struct rbt_activity){
		.last_ns = now_ns + 100 - (uint64_t)byte * 1000, .waiting = (byte & 1) != 0};
	return (byte & 6) != 0;
}

static bool doze(void *ctx, void *owner)
{
	return (next_byte() & 7) != 0;
}

/* Few runlists, so that programs meet on them; now and then the kernels' own, or none known. */
static void read_runlists(struct rbt_sched_tasks *tasks)
{
	uint8_t byte = next_byte();

	tasks->compute_runlists = byte & 3;
	tasks->copy_runlists = byte >> 2 & 15;
	tasks->copy_own_us = (byte & 64) != 0 ? 1024 : (byte & 128) != 0 ? 50 : 0;
}

static bool progress(void *ctx, void *owner, uint64_t *ret)
{
	uint8_t byte = next_byte();

	*ret = now_ns / 1000 * (byte & 15);
	return (byte & 16) == 0;
}

/* What the policy says of a program; most often nothing. */
static struct rbt_policy_output next_output(uint8_t kind)
{
	struct rbt_policy_output said = RBT_POLICY_OUTPUT_INIT;

	if ((kind & 12) == 0) {
		uint8_t byte = next_byte();

		said.priority = (byte & 1) != 0 ? byte >> 4 : RBT_POLICY_KEEP;
		said.weight = (byte & 2) != 0 ? byte : RBT_POLICY_KEEP;
		said.timeslice_us = (byte & 4) != 0 ? UINT32_C(1) << (byte >> 3) : 0;
		said.interleave = (byte & 8) != 0 ? byte >> 5 : RBT_POLICY_KEEP;
	}
	return said;
}

/* The policy: its next answer, and what it makes of programs. */
static bool admit(void *ctx, void *owner)
{
	ptrdiff_t i = (struct rbt_sched_prog **)owner - progs;
	struct rbt_sched_load load;
	uint8_t byte = next_byte();
	struct rbt_policy_output said = next_output(byte);

	rbt_sched_load(sched, byte % N_GPUS, &load);
	if (load.permille > 1000) {
		abort();
	}
	if (told[i].asked_ns != 0 && now_ns < told[i].asked_ns + 10 * MS) {
		fprintf(stderr, "asked again after %llu ns\n",
			(unsigned long long)(now_ns - told[i].asked_ns));
		abort();
	}
	told[i].asked_ns = now_ns;
	if (rbt_policy_output_take(&told[i].output, &said)) {
		told[i].is_dirty = true;
	}
	return !is_calm && (byte & 64) == 0;
}

static enum rbt_role any_role(void *ctx, unsigned priority)
{
	return RBT_ROLE_TURN + (enum rbt_role)(next_byte() % 3);
}

static void read_params(struct rbt_sched_params *params)
{
	static const uint64_t slices[] = {
		0, 0, 1, 100, 2048, 50000, RBT_TIMESLICE_MAX_US, UINT64_MAX};
	uint8_t flags = next_byte(), more = next_byte(), tasks = next_byte();

	memset(params, 0, sizeof(*params));
	params->priority = flags & 31;
	params->suspended = (flags & 32) != 0;
	params->is_known = (flags & 64) != 0;
	params->may_reserve = (more & 16) != 0;
	params->cannot_suspend = (flags & 128) != 0 && (more & 1) != 0;
	params->weight = more & 3;
	params->group = more >> 2 & 3;
	params->timeslice_us = slices[more >> 5];
	params->limits.max_reserve_ms = (tasks >> 6) * 100u;
	for (uint32_t g = 0; g < N_GPUS; g++) {
		/* Some devices have no slices. */
		params->tasks[g] = (struct rbt_sched_tasks){.n_compute = tasks >> 2 * g & 3,
			.own_us = g == N_GPUS - 1 ? RBT_TIMESLICE_OWN : 2048};
		read_runlists(&params->tasks[g]);
	}
}

/* Before another policy comes. */
static void forget_questions(void)
{
	for (unsigned i = 0; i < MAX_PROGS; i++) {
		told[i].asked_ns = 0;
	}
}

static void read_config(void)
{
	size_t n;
	const struct rbt_sched_policy *policies = rbt_sched_policies(&n);
	/* The one in force must not change. */
	static struct rbt_sched_policy pair[2];
	static unsigned at;
	struct rbt_sched_policy *policy = &pair[at];
	uint8_t byte = next_byte();
	struct rbt_sched_config config = {
		.policy = policy,
		.max_hold_us = (byte & 4) != 0 ? RBT_SCHED_NEVER : next_byte() * 100u,
		.min_share_permille = (byte & 8) != 0 ? RBT_SCHED_NEVER : byte >> 4,
		.turn_ms = (byte & 16) != 0 ? next_byte() : 0,
		.max_latency = byte >> 6,
		.latency_slice_us = (byte & 32) != 0 ? next_byte() * 100u : 0,
	};

	if (config.latency_slice_us > 25000) {
		config.latency_slice_us = RBT_SCHED_NEVER;
	}

	*policy = policies[byte % n];
	byte = next_byte();
	policy->asks = (byte & 2) != 0;
	if ((byte & 1) != 0) {
		policy->role = any_role;
	}
	forget_questions();
	at ^= rbt_sched_configure(sched, now_ns, &config) == 0;
}

/* As the daemon's reconcile(): each round may lead to questions, and these to another round. But
 * there is only one question about each program at a time. */
static void reconcile(void)
{
	bool is_dirty = true;

	for (unsigned round = 0; is_dirty; round++) {
		is_dirty = false;
		for (unsigned i = 0; i < MAX_PROGS; i++) {
			struct rbt_sched_params params = told[i].params;

			if (!told[i].is_dirty) {
				continue;
			}
			told[i].is_dirty = false;
			if (progs[i] != NULL) {
				rbt_policy_output_apply(&told[i].output, &params);
				rbt_sched_change(sched, now_ns, progs[i], &params);
				is_dirty = true;
			}
		}
		if (round > MAX_PROGS + 1) {
			abort();
		}
	}
}

static void put(struct rbt_sched_prog **p)
{
	struct rbt_sched_params params;
	ptrdiff_t i = p - progs;
	int r;

	read_params(&params);
	told[i].asked_ns = 0;
	if (*p != NULL) {
		r = rbt_sched_change(sched, now_ns, *p, &params);
	} else {
		told[i].output = RBT_POLICY_OUTPUT_INIT;
		r = rbt_sched_add(sched, now_ns, &params, p, p);
	}
	if (r == 0) {
		told[i].params = params;
	}
}

static void restructure(uint8_t op, struct rbt_sched_prog **p)
{
	if (op == 0 && *p != NULL) {
		rbt_sched_remove(sched, now_ns, *p);
		*p = NULL;
	} else if (op == 1) {
		read_config();
	} else if (op == 2) {
		rbt_sched_set_gpus(sched, now_ns,
			&(struct rbt_sched_gpus){.locked = next_byte(), .marked = next_byte()});
	} else {
		put(p);
	}
}

static void happen(uint8_t op, struct rbt_sched_prog *p)
{
	switch (op) {
	case 0:
		rbt_sched_synced(sched, now_ns, p);
		break;
	case 2:
		rbt_sched_gap(p, next_time(), next_byte());
		break;
	case 3:
		rbt_sched_request_begin(sched, now_ns, p, next_time());
		break;
	case 4:
		rbt_sched_request_end(sched, now_ns, p);
		break;
	default:
		rbt_sched_busy(sched, now_ns, p);
		break;
	}
}

static void verify(void)
{
	const char *broken = sched_verify(sched);
	const struct rbt_decision *d;

	if (broken != NULL) {
		fprintf(stderr, "at %llu ns: %s\n", (unsigned long long)now_ns, broken);
		abort();
	}
	for (unsigned i = 0; rbt_sched_next_change(sched, &d) != NULL; i++) {
		if (i > MAX_PROGS) {
			abort();
		}
	}
}

static void tick(void)
{
	rbt_sched_tick(sched, now_ns);
	if (rbt_sched_next_tick(sched) <= now_ns) {
		abort();
	}
}

static void step(void)
{
	uint8_t byte = next_byte();
	struct rbt_sched_prog **p = &progs[(byte & 15) % MAX_PROGS];

	if ((byte & 128) == 0) {
		restructure(byte >> 4 & 3, p);
	} else if (*p != NULL) {
		happen(byte >> 4 & 7, *p);
	}
	reconcile();
	verify();
	byte = next_byte();
	if (byte < 128) {
		now_ns += (uint64_t)byte * 10000;
	} else if (rbt_sched_next_tick(sched) != UINT64_MAX) {
		uint64_t next_ns = rbt_sched_next_tick(sched);
		now_ns = next_ns > now_ns ? next_ns : now_ns;
		tick();
		reconcile();
		verify();
	}
}

/* Everybody who wants the GPU and may have it gets some of it. */
static void check_shares(bool asks)
{
	struct rbt_sched_stats stats[MAX_PROGS], after;
	static struct rbt_sched_policy policy;
	uint64_t end_ns = now_ns + TRIAL_NS;
	size_t n;

	policy = *rbt_sched_policies(&n);
	policy.asks = asks;
	is_calm = true;
	forget_questions();
	rbt_sched_configure(sched, now_ns, &(struct rbt_sched_config){.policy = &policy});
	for (unsigned i = 0; i < MAX_PROGS; i++) {
		if (progs[i] != NULL) {
			rbt_sched_busy(sched, now_ns, progs[i]);
			rbt_sched_stats(sched, progs[i], &stats[i]);
		}
	}
	for (unsigned i = 0; rbt_sched_next_tick(sched) < end_ns; i++) {
		uint64_t next_ns = rbt_sched_next_tick(sched);

		now_ns = next_ns > now_ns ? next_ns : now_ns;
		tick();
		reconcile();
		if (i % 16 == 0) {
			verify();
		}
	}
	now_ns = end_ns;
	tick();
	for (unsigned i = 0; i < MAX_PROGS; i++) {
		if (progs[i] == NULL || !rbt_sched_is_wanting(progs[i])) {
			continue; /* suspended, perhaps as a rank, or without a task */
		}
		rbt_sched_stats(sched, progs[i], &after);
		if (after.on_ns - stats[i].on_ns < LEAST_NS) {
			fprintf(stderr, "program %u got %llu ns\n", i,
				(unsigned long long)(after.on_ns - stats[i].on_ns));
			abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rbt_sched_ops ops = {
		.poll = look, .doze = doze, .progress = progress, .admit = admit};

	input = (struct input){.data = data, .left = size};
	now_ns = 0;
	is_calm = false;
	memset(progs, 0, sizeof(progs));
	memset(told, 0, sizeof(told));
	if (rbt_sched_create(&(struct rbt_sched_config){0}, &ops, NULL, &sched) < 0) {
		abort();
	}
	while (input.left > 0) {
		step();
	}
	if (size % 32 == 0) { /* it takes long */
		check_shares(true);
		check_shares(false);
	}
	for (unsigned i = 0; i < MAX_PROGS; i++) {
		if (progs[i] != NULL) {
			rbt_sched_remove(sched, now_ns, progs[i]);
			verify();
		}
	}
	rbt_sched_destroy(sched);
	return 0;
}
