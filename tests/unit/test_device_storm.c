/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 10,000 preemptions at random over 8 contexts that come, work, are killed and go, at random times
 * and with random slices. Survivors' results are right, and the memory of the dead is free again.
 * usage: test_device_storm [PREEMPTIONS [SEED]]
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "test_device_world.h"

#define PROGRAMS 8u
#define N        512u

struct client {
	struct device_program p;
	uint64_t sums, mixes; /* memory */
	uint32_t bumped;      /* what each word of sums must be when all is done */
	uint32_t turns;       /* of the last mix */
	bool alive;
};

static struct device_world world;
static struct client clients[PROGRAMS];
static uint64_t random_state = 88172645463325252ull;
static unsigned finished, killed;

static uint32_t below(uint32_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)((random_state >> 16) % limit);
}

static void arrive(struct client *c, uint64_t id)
{
	device_program_init(&c->p, &world, 2, id);
	device_program_load(&c->p, device_ptx);
	c->sums = device_program_alloc(&c->p, N * 4);
	c->mixes = device_program_alloc(&c->p, N * 4);
	memset(device_at(&world, c->sums), 0, N * 4);
	device_schedule(&c->p, 200 + below(200000), below(3));
	c->bumped = 0;
	c->alive = true;
}

/* A few kernels, sums in channel 0 and mixes in channel 1. */
static void submit(struct client *c)
{
	uint32_t turns = 1 + below(200);

	for (unsigned k = 0; k <= below(4); k++) {
		device_launch(&c->p, 0,
			&(struct device_kernel){.name = "bump",
				.grid = 8,
				.block = 64,
				.params = {c->sums, turns}});
		c->bumped += turns;
	}
	c->turns = 1 + below(400);
	device_launch(&c->p, 1,
		&(struct device_kernel){
			.name = "mix", .grid = 16, .block = 32, .params = {c->mixes, c->turns}});
	device_publish(&c->p, 0);
	device_publish(&c->p, 1);
}

static bool is_done(const struct client *c)
{
	return device_done(&c->p, 0) == c->p.commands[0] &&
	       device_done(&c->p, 1) == c->p.commands[1];
}

static void check_results(const struct client *c)
{
	const uint32_t *sums = device_at(&world, c->sums), *mixes = device_at(&world, c->mixes);
	unsigned wrong = 0;

	for (uint32_t i = 0; i < N; i++) {
		wrong += sums[i] != c->bumped;
		wrong += mixes[i] != device_ptx_mixed(i, c->turns);
	}
	CHECK_INT(wrong, 0);
	CHECK_INT(c->p.room->error, 0);
	finished++;
}

static void leave(struct client *c)
{
	device_program_finish(&c->p);
	c->alive = false;
}

/* One client's next move. */
static void act(struct client *c, uint64_t id)
{
	if (!c->alive) {
		arrive(c, id);
		submit(c);
	} else if (is_done(c)) {
		check_results(c);
		if (below(3) == 0) {
			leave(c);
		} else {
			submit(c);
		}
	} else if (below(200) == 0) {
		/* In the midst of its work, with or without a word. */
		if (below(2) == 0) {
			rbt_context_kill(c->p.ctx, GPU_ERROR_LAUNCH_FAILED);
			CHECK_INT(c->p.room->error, GPU_ERROR_LAUNCH_FAILED);
			(void)rbt_device_step(world.dev, 100);
		}
		leave(c);
		killed++;
	} else if (below(20) == 0) {
		device_schedule(&c->p, 200 + below(200000), below(3));
	}
}

static uint64_t preempts_of_all(void)
{
	uint64_t sum = 0;

	for (unsigned k = 0; k < PROGRAMS; k++) {
		sum += clients[k].alive ? device_stats(&clients[k].p).preempts : 0;
	}
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000, done = 0, id = 0;
	uint64_t free_bytes, total;

	random_state = argc > 2 ? strtoull(argv[2], NULL, 10) : random_state;
	device_world_init(&world, &(struct rbt_device_config){.n_sms = 3,
					  .memory_bytes = 32u << 20,
					  .mechanism = RBT_MECHANISM_EXACT,
					  .switch_ns = 200,
					  .save_ns_per_kib = 1});
	while (done < wanted) {
		uint64_t before = preempts_of_all(), after;
		struct client *c = &clients[below(PROGRAMS)];

		(void)rbt_device_step(world.dev, 1 + below(3000));
		if (c->alive) {
			rbt_context_preempt(c->p.ctx);
		}
		after = preempts_of_all();
		done += after - before;
		act(&clients[below(PROGRAMS)], ++id);
	}
	for (unsigned k = 0; k < PROGRAMS; k++) {
		if (clients[k].alive) {
			CHECK(device_world_run(&world, 1000000000));
			CHECK(is_done(&clients[k]));
			check_results(&clients[k]);
			leave(&clients[k]);
		}
	}
	rbt_device_memory(world.dev, &free_bytes, &total);
	CHECK_INT(free_bytes, total - GPU_ALIGN);
	CHECK(finished > wanted / 200 && killed > wanted / 1000);
	fprintf(stderr, "%llu preemptions, %u results, %u killed\n", (unsigned long long)done,
		finished, killed);
	device_world_finish(&world);
	return check_result();
}
