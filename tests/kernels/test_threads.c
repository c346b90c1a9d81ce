/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two SMs on two threads over the same memory: what kernels do by atomic operations, and what they
 * wait for from other blocks, is right between them, too. Every kernel of the suite, its blocks
 * dealt to the SMs by turns, and each SM takes turns between its blocks. Meant to be run by a
 * thread sanitizer as well (meson setup -Db_sanitize=thread).
 * usage: test_threads DIRECTORY [ENTRY]
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/check.h"
#include "world.h"

#define THREADS 2
#define TURN    200

/* One SM: every THREADS-th block of the grid, from `first` on. */
struct worker {
	struct world *world;
	pthread_barrier_t *start;
	unsigned first;
	uint64_t instructions;
	bool failed;
};

static void block_index(const struct rbt_exec_launch *launch, uint32_t n, uint32_t ret_index[3])
{
	ret_index[0] = n % launch->grid[0];
	ret_index[1] = n / launch->grid[0] % launch->grid[1];
	ret_index[2] = n / launch->grid[0] / launch->grid[1];
}

static uint32_t grid_size(const struct rbt_exec_launch *launch)
{
	return launch->grid[0] * launch->grid[1] * launch->grid[2];
}

/* One turn; the block is gone when it has ended. */
static void run_turn(struct worker *worker, struct rbt_exec_block **block)
{
	enum rbt_exec_status status = rbt_exec_run(*block, TURN);

	if (status == RBT_EXEC_BUDGET) {
		return;
	}
	worker->instructions += rbt_exec_block_instructions(*block);
	worker->failed |= status != RBT_EXEC_DONE;
	rbt_exec_block_destroy(*block);
	*block = NULL;
}

static void *run_blocks(void *user)
{
	struct worker *worker = user;
	const struct rbt_exec_launch *launch = &worker->world->launch;
	uint32_t count = grid_size(launch), left = 0, index[3];
	struct rbt_exec_block **blocks = calloc(count, sizeof(blocks[0]));

	for (uint32_t n = worker->first; blocks && n < count; n += THREADS, left++) {
		block_index(launch, n, index);
		if (rbt_exec_block_create(
			    worker->world->sms[worker->first], launch, index, &blocks[n]) < 0) {
			worker->failed = true;
		}
	}
	pthread_barrier_wait(worker->start);
	while (blocks && left > 0 && !worker->failed) {
		for (uint32_t n = worker->first; n < count; n += THREADS) {
			bool was = blocks[n] != NULL;

			if (was) {
				run_turn(worker, &blocks[n]);
			}
			left -= was && !blocks[n];
		}
	}
	for (uint32_t n = 0; blocks && n < count; n++) {
		rbt_exec_block_destroy(blocks[n]);
	}
	worker->failed |= !blocks;
	free(blocks);
	return NULL;
}

static void run_on_threads(struct world *world)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	pthread_barrier_t start;
	uint64_t instructions = 0;

	pthread_barrier_init(&start, NULL, THREADS);
	for (unsigned k = 0; k < THREADS; k++) {
		workers[k] = (struct worker){.world = world, .start = &start, .first = k};
		if (pthread_create(&threads[k], NULL, run_blocks, &workers[k]) != 0) {
			abort();
		}
	}
	for (unsigned k = 0; k < THREADS; k++) {
		pthread_join(threads[k], NULL);
		CHECK(!workers[k].failed);
		instructions += workers[k].instructions;
	}
	CHECK(instructions > 0);
	pthread_barrier_destroy(&start);
}

static void test_case(const char *directory, const struct kcase *kase)
{
	struct kcase_data data;
	struct world world;
	void *buffers[KCASE_BUFFERS] = {NULL};

	if (world_load(&world, directory, kase->module) < 0 || !kcase_prepare(kase, &data)) {
		CHECK(!"prepared");
		return;
	}
	for (unsigned k = 0; k < kcase_buffer_count(kase); k++) {
		buffers[k] = malloc(kase->buffers[k].size);
		if (!buffers[k]) {
			abort();
		}
		memcpy(buffers[k], data.bytes[k], kase->buffers[k].size);
	}
	CHECK_INT(world_prepare(&world, kase, buffers), 0);
	run_on_threads(&world);
	for (unsigned k = 0; k < kcase_buffer_count(kase); k++) {
		int64_t at = kcase_compare(kase, &data, k, buffers[k]);

		CHECK_INT(at, -1);
		if (at >= 0) {
			fprintf(stderr, "%s: buffer %u\n", kase->entry, k);
		}
		free(buffers[k]);
	}
	kcase_free(&data);
	world_finish(&world);
}

int main(int argc, char **argv)
{
	kcase_each(argc, argv, test_case);
	return check_result();
}
