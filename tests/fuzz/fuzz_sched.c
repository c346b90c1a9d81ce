/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever happens to whom, in whatever order and at whatever time: the decision core keeps what it
 * promises, and never wants to be called again at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/test_sched_verify.h"
#include "sched/class.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_PROGS 12
#define N_GPUS    3

struct input {
	const uint8_t *data;
	size_t left;
};

static struct rbt_sched *sched;
static struct rbt_sched_prog *progs[MAX_PROGS];
static struct input input;
static uint64_t now_ns;

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

/* The policy: its next answer, and what it makes of programs. */
static bool admit(void *ctx, void *owner)
{
	struct rbt_sched_load load;
	uint8_t byte = next_byte();

	rbt_sched_load(sched, byte % N_GPUS, &load);
	if (load.permille > 1000) {
		abort();
	}
	return (byte & 64) == 0;
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
	at ^= rbt_sched_configure(sched, now_ns, &config) == 0;
}

static void restructure(uint8_t op, struct rbt_sched_prog **p)
{
	struct rbt_sched_params params;

	if (op == 0 && *p != NULL) {
		rbt_sched_remove(sched, now_ns, *p);
		*p = NULL;
	} else if (op == 1) {
		read_config();
	} else if (op == 2) {
		rbt_sched_set_gpus(sched, now_ns,
			&(struct rbt_sched_gpus){.locked = next_byte(), .marked = next_byte()});
	} else {
		read_params(&params);
		if (*p != NULL) {
			rbt_sched_change(sched, now_ns, *p, &params);
		} else {
			rbt_sched_add(sched, now_ns, &params, p, p);
		}
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
	verify();
	byte = next_byte();
	if (byte < 128) {
		now_ns += (uint64_t)byte * 10000;
	} else if (rbt_sched_next_tick(sched) != UINT64_MAX) {
		uint64_t next_ns = rbt_sched_next_tick(sched);
		now_ns = next_ns > now_ns ? next_ns : now_ns;
		tick();
		verify();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rbt_sched_ops ops = {
		.poll = look, .doze = doze, .progress = progress, .admit = admit};

	input = (struct input){.data = data, .left = size};
	now_ns = 0;
	memset(progs, 0, sizeof(progs));
	if (rbt_sched_create(&(struct rbt_sched_config){0}, &ops, NULL, &sched) < 0) {
		abort();
	}
	while (input.left > 0) {
		step();
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
