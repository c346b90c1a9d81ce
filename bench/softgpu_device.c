/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/unit/test_device_world.h"

#define ROUNDS  7u
#define SIDE    256u
#define TURNS   20000u
#define EMPTY   20000u
#define URGENT  40u
#define GRID    64u
#define THREADS 64u

static uint32_t bits_of(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

/* What is in the ring, to its end. */
static void run_ring(struct device_program *p)
{
	device_publish(p, 0);
	while (device_done(p, 0) < p->commands[0]) {
		(void)rbt_device_step(p->world->dev, 1000000);
	}
}

/* The same, in seconds; or the best so far. */
static double time_round(struct device_program *p, double best)
{
	uint64_t start_ns = cpu_now_ns();

	run_ring(p);
	return fmin(best, (double)(cpu_now_ns() - start_ns) / 1e9);
}

static double fma_rate(const char *directory, uint32_t blocks)
{
	struct device_world world;
	struct device_program p;
	double best = INFINITY;
	uint64_t out, instructions = 0;

	device_world_init(&world, &(struct rbt_device_config){.n_sms = 4});
	device_program_init(&p, &world, 1, 1);
	device_program_load_file(&p, directory, "bench");
	out = device_program_alloc(&p, 4096);
	for (unsigned round = 0; round < ROUNDS; round++) {
		instructions = device_stats(&p).instructions;
		device_launch(&p, 0,
			&(struct device_kernel){.name = "fma_loop",
				.grid = blocks,
				.block = 32,
				.params = {out, TURNS, bits_of(0.999f), bits_of(0.001f)}});
		best = time_round(&p, best);
	}
	instructions = device_stats(&p).instructions - instructions;
	device_program_finish(&p);
	device_world_finish(&world);
	return (double)instructions / best / 1e6;
}

static double matmul_s(const char *directory)
{
	struct device_world world;
	struct device_program p;
	struct gpu_launch c = {.h = {GPU_CMD_LAUNCH, 2, 0},
		.grid = {SIDE / 16, SIDE / 16, 1},
		.block = {16, 16, 1}};
	uint64_t params[4];
	double best = INFINITY;

	device_world_init(&world, &(struct rbt_device_config){.n_sms = 4});
	device_program_init(&p, &world, 1, 1);
	device_program_load_file(&p, directory, "classic");
	for (unsigned k = 0; k < 3; k++) {
		params[k] = device_program_alloc(&p, sizeof(float) * SIDE * SIDE);
	}
	params[3] = SIDE;
	c.module = p.module;
	c.function = (uint32_t)(rbt_ptx_find_entry(p.ptx, "matmul_tiled") - p.ptx->functions);
	c.param_size = p.ptx->functions[c.function].param_size;
	for (unsigned round = 0; round < ROUNDS; round++) {
		device_put(&p, 0, &c, params, c.param_size);
		best = time_round(&p, best);
	}
	device_program_finish(&p);
	device_world_finish(&world);
	return best;
}

/* One at a time, each seen done before the next; and a ring full of them. Microseconds each. */
static void empty_us(double *ret_single, double *ret_batch)
{
	const struct device_kernel empty = {.name = "empty", .grid = 1, .block = 32};
	struct device_world world;
	struct device_program p;
	double single = INFINITY, batch = INFINITY;

	device_world_init(&world, &(struct rbt_device_config){.n_sms = 4});
	device_program_init(&p, &world, 8, 1);
	device_program_load(&p, device_ptx);
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t start_ns = cpu_now_ns();

		for (unsigned k = 0; k < EMPTY; k++) {
			device_launch(&p, 0, &empty);
			run_ring(&p);
		}
		single = fmin(single, (double)(cpu_now_ns() - start_ns) / 1e3 / EMPTY);
		for (unsigned k = 0; k < GPU_RING_SLOTS; k++) {
			device_launch(&p, 0, &empty);
		}
		batch = fmin(batch, time_round(&p, INFINITY) * 1e6 / GPU_RING_SLOTS);
	}
	device_program_finish(&p);
	device_world_finish(&world);
	*ret_single = single;
	*ret_batch = batch;
}

/* Resident memory of this process that a device with one idle context adds, in KiB. */
static long resident_kib(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (file) {
		if (fscanf(file, "%*d %ld", &pages) != 1) {
			pages = 0;
		}
		fclose(file);
	}
	return pages * 4;
}

static long idle_kib(void)
{
	struct device_world world;
	struct device_program p;
	long before = resident_kib(), after;

	device_world_init(&world, &(struct rbt_device_config){.n_sms = 64});
	device_program_init(&p, &world, 8, 1);
	device_program_load(&p, device_ptx);
	(void)rbt_device_step(world.dev, 1000);
	after = resident_kib();
	device_program_finish(&p);
	device_world_finish(&world);
	return after - before;
}

int bench_device(const char *directory)
{
	double one = fma_rate(directory, 1), many = fma_rate(directory, 32), s, single, batch;
	long kib = idle_kib();

	s = matmul_s(directory);
	empty_us(&single, &batch);
	printf("| through a ring: FMA loop, one warp | %.0f M warp instructions/s | >= 100 | |\n",
		one);
	printf("| the same, 32 blocks on 4 SMs | %.0f M warp instructions/s | >= 100 | |\n", many);
	printf("| tiled matmul, %u^3 | %.0f ms | <= 150 ms | |\n", SIDE, s * 1e3);
	printf("| an empty launch, seen done | %.2f us | | |\n", single);
	printf("| the same, one of %u in the ring | %.2f us | | |\n", GPU_RING_SLOTS, batch);
	printf("| an idle device of 64 SMs with a context | %ld KiB | <= 32 MiB | |\n", kib);
	return one >= 100 && many >= 100 && s <= 0.150 && kib <= 32 << 10 ? 0 : 1;
}

struct contest {
	struct device_world world;
	struct device_program urgent, other;
	double wall_us, wait_us;
};

/* The other one's kernels fill the SMs; the urgent one's empty kernel comes in their midst. */
static void urgent_launch(struct contest *c, unsigned round)
{
	uint64_t start_ns, arrived_ns;

	for (unsigned k = 0; k < 3 + round % 5; k++) {
		(void)rbt_device_step(c->world.dev, 30000 + round * 1237);
	}
	device_launch(
		&c->urgent, 0, &(struct device_kernel){.name = "empty", .grid = 1, .block = 32});
	device_stamp(&c->urgent, 0, 0);
	arrived_ns = rbt_device_now_ns(c->world.dev);
	start_ns = cpu_now_ns();
	device_publish(&c->urgent, 0);
	while (device_done(&c->urgent, 0) < c->urgent.commands[0]) {
		(void)rbt_device_step(c->world.dev, 1);
	}
	c->wall_us += (double)(cpu_now_ns() - start_ns) / 1e3;
	c->wait_us += (double)(c->urgent.room->event_ns[0] - arrived_ns) / 1e3;
}

static void bench_mechanism(enum rbt_mechanism mechanism)
{
	struct contest c = {.wall_us = 0};
	struct rbt_context_stats s;
	uint64_t out;

	device_world_init(&c.world, &(struct rbt_device_config){.n_sms = 4,
					    .mechanism = mechanism,
					    .switch_ns = RBT_DEVICE_SWITCH_NS,
					    .save_ns_per_kib = RBT_DEVICE_SAVE_NS_PER_KIB});
	device_program_init(&c.urgent, &c.world, 1, 1);
	device_program_init(&c.other, &c.world, 1, 2);
	device_program_load(&c.urgent, device_ptx);
	device_program_load(&c.other, device_ptx);
	device_schedule(&c.urgent, 2048000, 2);
	out = device_program_alloc(&c.other, 4ull * GRID * THREADS);
	for (unsigned k = 0; k < 200; k++) {
		device_launch(&c.other, 0,
			&(struct device_kernel){.name = "polite",
				.grid = GRID,
				.block = THREADS,
				.params = {out, 1000}});
	}
	device_publish(&c.other, 0);
	for (unsigned round = 0; round < URGENT; round++) {
		urgent_launch(&c, round);
	}
	s = device_stats(&c.other);
	printf("| %s | %.0f us | %.0f us | %.0f KiB | %.0f | %.0f |\n",
		rbt_mechanism_name(mechanism), c.wall_us / URGENT, c.wait_us / URGENT,
		(double)s.saved_bytes / 1024 / URGENT, (double)s.lost_instructions / URGENT,
		(double)s.repeated_instructions / URGENT);
	device_program_finish(&c.urgent);
	device_program_finish(&c.other);
	device_world_finish(&c.world);
}

void bench_mechanisms(void)
{
	printf("\nAn empty kernel comes while another context's fill 4 SMs (%u blocks of %u threads); "
	       "for each:\n\n",
		GRID, THREADS);
	printf("| mechanism | on this core | on the virtual clock | saved | instructions lost | repeated |\n"
	       "|---|---|---|---|---|---|\n");
	for (unsigned k = 0; k < RBT_N_MECHANISMS; k++) {
		bench_mechanism((enum rbt_mechanism)k);
	}
}
