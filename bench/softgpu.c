/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the software GPU does on one core, beside native loops that compute the same in the same
 * run. Its executor alone: a loop of fused multiply-adds, a tiled matrix product, and what it costs
 * to take a block off an SM and put it on another. Then the device, through rings: the same, an
 * empty launch, and what preemption costs by each mechanism. The best of several rounds counts, as
 * the least disturbed one; time is the processor's.
 * usage: softgpu DIRECTORY_OF_KERNELS
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/kernels/world.h"
#include "softgpu_device.h"

#define ROUNDS 7
#define SIDE   256u
#define TURNS  20000
#define CHAINS 8
#define LANES  32

/* One kernel with its buffers; the first four of kase->buffers are filled as the case says. */
struct bench {
	struct world world;
	void *buffers[KCASE_BUFFERS];
};

static void no_reference(const struct kcase *kase, struct kcase_data *data)
{
}

static int bench_init(struct bench *b, const char *directory, struct kcase *kase)
{
	struct kcase_data data;

	kase->reference = no_reference;
	if (world_load(&b->world, directory, kase->module) < 0 || !kcase_prepare(kase, &data)) {
		return -1;
	}
	for (unsigned k = 0; k < KCASE_BUFFERS; k++) {
		b->buffers[k] = data.bytes[k];
		free(data.expected[k]);
	}
	return world_prepare(&b->world, kase, b->buffers);
}

static void bench_finish(struct bench *b)
{
	for (unsigned k = 0; k < KCASE_BUFFERS; k++) {
		free(b->buffers[k]);
	}
	world_finish(&b->world);
}

/* Seconds of the best round of a grid; and how many warp instructions it has. */
static double time_grid(struct bench *b, uint64_t *ret_instructions)
{
	double best = INFINITY;

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct world_result result;
		uint64_t start_ns = cpu_now_ns();

		if (world_run(&b->world, WORLD_PLAIN, &result) < 0 ||
			result.status != RBT_EXEC_DONE) {
			fprintf(stderr, "softgpu: a kernel did not end\n");
			exit(1);
		}
		best = fmin(best, (double)(cpu_now_ns() - start_ns) / 1e9);
		*ret_instructions = result.instructions;
	}
	return best;
}

/* The same chains, for the 32 lanes of a warp. */
static double native_fma(float a, float b)
{
	static float r[CHAINS][LANES];
	double best = INFINITY;

	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t start_ns = cpu_now_ns();

		for (unsigned turn = 0; turn < TURNS; turn++) {
			for (unsigned k = 0; k < CHAINS; k++) {
				for (unsigned l = 0; l < LANES; l++) {
					r[k][l] = r[k][l] * a + b;
				}
			}
			/* What is computed is wanted each turn. */
			__asm__ volatile("" ::: "memory");
		}
		best = fmin(best, (double)(cpu_now_ns() - start_ns) / 1e9);
	}
	return best;
}

static double native_matmul(const float *a, const float *b)
{
	static float c[SIDE * SIDE];
	double best = INFINITY;

	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t start_ns = cpu_now_ns();

		memset(c, 0, sizeof(c));
		for (unsigned row = 0; row < SIDE; row++) {
			for (unsigned k = 0; k < SIDE; k++) {
				for (unsigned column = 0; column < SIDE; column++) {
					c[row * SIDE + column] +=
						a[row * SIDE + k] * b[k * SIDE + column];
				}
			}
		}
		__asm__ volatile("" ::"r"(c) : "memory");
		best = fmin(best, (double)(cpu_now_ns() - start_ns) / 1e9);
	}
	return best;
}

static int bench_fma(const char *directory)
{
	struct kcase kase = {.module = "bench",
		.entry = "fma_loop",
		.grid = {1, 1, 1},
		.block = {LANES, 1, 1},
		.buffers = {{sizeof(float) * LANES, KFILL_ZERO, KEQUAL_BYTES}},
		.args = {KARG32(TURNS), KARG32(kcase_f32(0.999f)), KARG32(kcase_f32(0.001f))}};
	struct bench b;
	uint64_t instructions = 0;
	double s, native_s, rate;

	if (bench_init(&b, directory, &kase) < 0) {
		return -1;
	}
	s = time_grid(&b, &instructions);
	native_s = native_fma(0.999f, 0.001f);
	rate = (double)instructions / s / 1e6;
	printf("| FMA loop, one warp | %.0f M warp instructions/s | >= 100 | %.1f x native |\n",
		rate, s / native_s);
	bench_finish(&b);
	return rate >= 100 ? 0 : 1;
}

/* What it takes, and how many bytes, to save a block in the midst of its work and restore it. */
static void bench_switch(struct bench *b)
{
	const uint32_t index[3] = {1, 1, 0};
	struct rbt_exec_block *block = NULL, *moved = NULL;
	double save_us = INFINITY, restore_us = INFINITY;
	size_t size;
	void *state;

	if (rbt_exec_block_create(b->world.sms[0], &b->world.launch, index, &block) < 0) {
		return;
	}
	rbt_exec_run(block, 3000);
	size = rbt_exec_block_save_size(block);
	state = malloc(size);
	for (unsigned round = 0; state && round < 50; round++) {
		uint64_t start_ns = cpu_now_ns(), middle_ns;

		rbt_exec_block_save(block, state, size);
		middle_ns = cpu_now_ns();
		if (rbt_exec_block_restore(b->world.sms[1], &b->world.launch, state, size, &moved) <
			0) {
			break;
		}
		save_us = fmin(save_us, (double)(middle_ns - start_ns) / 1e3);
		restore_us = fmin(restore_us, (double)(cpu_now_ns() - middle_ns) / 1e3);
		rbt_exec_block_destroy(moved);
	}
	printf("| a block of 8 warps saved | %.1f us, %zu KiB | | |\n", save_us, size / 1024);
	printf("| the same block restored | %.1f us | | |\n", restore_us);
	free(state);
	rbt_exec_block_destroy(block);
}

static int bench_matmul(const char *directory)
{
	const size_t size = sizeof(float) * SIDE * SIDE;
	struct kcase kase = {.module = "classic",
		.entry = "matmul_tiled",
		.grid = {SIDE / 16, SIDE / 16, 1},
		.block = {16, 16, 1},
		.buffers = {{size, KFILL_FLOATS, KEQUAL_F32}, {size, KFILL_FLOATS, KEQUAL_F32},
			{size, KFILL_ZERO, KEQUAL_F32}},
		.args = {KARG32(SIDE)}};
	struct bench b;
	uint64_t instructions = 0;
	double s, native_s;

	if (bench_init(&b, directory, &kase) < 0) {
		return -1;
	}
	s = time_grid(&b, &instructions);
	native_s = native_matmul(b.buffers[0], b.buffers[1]);
	printf("| tiled matmul, %u^3 | %.0f ms, %.0f M warp instructions/s | <= 150 ms | %.1f x native |\n",
		SIDE, s * 1e3, (double)instructions / s / 1e6, s / native_s);
	bench_switch(&b);
	bench_finish(&b);
	return s <= 0.150 ? 0 : 1;
}

int main(int argc, char **argv)
{
	int fma_result, matmul_result;

	if (argc != 2) {
		fprintf(stderr, "usage: softgpu DIRECTORY_OF_KERNELS\n");
		return 2;
	}
	printf("| what | measured | goal | beside the same loop in C |\n|---|---|---|---|\n");
	fma_result = bench_fma(argv[1]);
	matmul_result = bench_matmul(argv[1]);
	if (fma_result < 0 || matmul_result < 0) {
		fprintf(stderr, "softgpu: the kernels in %s could not be loaded\n", argv[1]);
		return 1;
	}
	(void)bench_device(argv[1]);
	bench_mechanisms();
	return 0;
}
