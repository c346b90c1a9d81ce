/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel must not do ends its block with a fault that says who, where and what; and what it
 * prints comes out. usage: test_faults DIRECTORY
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/check.h"
#include "world.h"

#define THREADS 64

static const char *directory;

/* One block of 64 on buffers that start as 0, 1, 2…; runs until it ends. */
static struct world_result run(
	struct world *world, const char *module, const struct kcase *kase, uint32_t *const *words)
{
	struct world_result result = {.status = RBT_EXEC_BUDGET};
	void *buffers[KCASE_BUFFERS] = {NULL};
	int r = world_load(world, directory, module);

	CHECK_INT(r, 0);
	for (unsigned k = 0; k < kcase_buffer_count(kase); k++) {
		for (unsigned i = 0; i < kase->buffers[k].size / 4; i++) {
			words[k][i] = i;
		}
		buffers[k] = words[k];
	}
	if (r == 0) {
		CHECK_INT(world_prepare(world, kase, buffers), 0);
		CHECK_INT(world_run(world, WORLD_RANDOM, &result), 0);
	}
	return result;
}

#define BUFFER                                                                                     \
	{                                                                                          \
		4 * THREADS, KFILL_ZERO, KEQUAL_BYTES                                              \
	}

static void check_fault(const struct world_result *result, enum rbt_exec_fault_kind kind,
	uint32_t warp, uint32_t lane)
{
	CHECK_INT(result->status, RBT_EXEC_FAULT);
	CHECK_INT(result->fault.kind, kind);
	CHECK_INT(result->fault.warp, warp);
	CHECK_INT(result->fault.lane, lane);
	CHECK_INT(result->fault.thread[0], 32 * warp + lane);
	CHECK(result->fault.line > 0);
	CHECK(strlen(rbt_exec_fault_text(result->fault.kind)) > 0);
}

/* fault_store: all threads write one word, but thread 5 writes `offset` bytes further. */
static void test_store(uint64_t offset, enum rbt_exec_fault_kind kind)
{
	uint32_t words[THREADS];
	struct kcase kase = {.entry = "fault_store",
		.grid = {1, 1, 1},
		.block = {THREADS, 1, 1},
		.buffers = {BUFFER},
		.args = {KARG64(offset)}};
	struct world world;
	struct world_result result = run(&world, "faults", &kase, (uint32_t *[]){words});

	check_fault(&result, kind, 0, 5);
	CHECK_INT(result.fault.address, world.buffer_va[0] + offset);
	CHECK(strcmp(result.fault.function, "fault_store") == 0);
	/* No lane of the faulting store wrote. */
	CHECK_INT(words[0], 1);
	world_finish(&world);
}

static void test_load(uint64_t offset, enum rbt_exec_fault_kind kind)
{
	uint32_t in[THREADS], out[THREADS];
	struct kcase kase = {.entry = "fault_load",
		.grid = {1, 1, 1},
		.block = {THREADS, 1, 1},
		.buffers = {BUFFER, BUFFER},
		.args = {KARG64(offset)}};
	struct world world;
	struct world_result result = run(&world, "faults", &kase, (uint32_t *[]){in, out});

	check_fault(&result, kind, 0, 0);
	CHECK_INT(result.fault.address, world.buffer_va[0] + offset);
	world_finish(&world);
}

static void test_shared(uint32_t at, bool faults)
{
	uint32_t out[THREADS];
	struct kcase kase = {.entry = "fault_shared",
		.grid = {1, 1, 1},
		.block = {32, 1, 1},
		.buffers = {BUFFER},
		.args = {KARG32(at)}};
	struct world world;
	struct world_result result = run(&world, "faults", &kase, (uint32_t *[]){out});

	if (faults) {
		check_fault(&result, RBT_EXEC_FAULT_ILLEGAL_ADDRESS, 0, 32 - at);
		CHECK_INT(result.fault.address, RBT_EXEC_SHARED_VA + 128);
	} else {
		CHECK_INT(result.status, RBT_EXEC_DONE);
		CHECK_INT(out[31], 3);
	}
	world_finish(&world);
}

/* Thread 40 alone meets the trap, or the assertion. */
static void test_stops(const char *entry, enum rbt_exec_fault_kind kind, const char *printed)
{
	uint32_t in[THREADS], out[THREADS];
	struct kcase kase = {.entry = entry,
		.grid = {1, 1, 1},
		.block = {THREADS, 1, 1},
		.buffers = {BUFFER, BUFFER},
		.args = {KARG32(40)}};
	struct world world;
	struct world_result result = run(&world, "faults", &kase, (uint32_t *[]){in, out});

	check_fault(&result, kind, 1, 8);
	CHECK_INT(world.printed_size, strlen(printed));
	CHECK(memcmp(world.printed, printed, world.printed_size) == 0);
	world_finish(&world);
}

static void test_print(void)
{
	uint32_t in[THREADS], out[THREADS];
	struct kcase kase = {.entry = "print_lines",
		.grid = {1, 1, 1},
		.block = {THREADS, 1, 1},
		.buffers = {BUFFER, BUFFER},
		.args = {KARG32(0)}};
	struct world world;
	struct world_result result = run(&world, "faults", &kase, (uint32_t *[]){in, out});
	char expected[8192];
	size_t size = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		size += (size_t)snprintf(expected + size, sizeof(expected) - size,
			"%u: %x %.1f %s\n", i, i, i * 0.5, i & 1 ? "odd" : "even");
		CHECK_INT(out[i], 4);
	}
	CHECK_INT(result.status, RBT_EXEC_DONE);
	CHECK_INT(world.printed_size, size);
	CHECK(memcmp(world.printed, expected, size) == 0);
	world_finish(&world);
}

static void test_stack(void)
{
	uint32_t out[THREADS];
	struct kcase kase = {.entry = "recurse_endless",
		.grid = {1, 1, 1},
		.block = {THREADS, 1, 1},
		.buffers = {BUFFER}};
	struct world world;
	struct world_result result = run(&world, "calls", &kase, (uint32_t *[]){out});

	check_fault(&result, RBT_EXEC_FAULT_STACK_OVERFLOW, 0, 0);
	CHECK(out[0] > 5 && out[0] < 1024 / 16);
	world_finish(&world);
}

/* A state is checked before it is believed: cut short or changed anywhere, it never crashes. */
static void test_bad_state(void)
{
	uint32_t words[2 * THREADS];
	struct kcase kase = {.entry = "recurse",
		.grid = {1, 1, 1},
		.block = {THREADS, 1, 1},
		.buffers = {BUFFER, BUFFER},
		.args = {KARG32(THREADS)}};
	struct world world;
	struct world_result result =
		run(&world, "calls", &kase, (uint32_t *[]){words, words + THREADS});
	struct rbt_exec_block *block = NULL, *other = NULL;
	const uint32_t index[3] = {0, 0, 0};
	uint8_t *state;
	size_t size;

	CHECK_INT(result.status, RBT_EXEC_DONE);
	CHECK_INT(rbt_exec_block_create(world.sms[0], &world.launch, index, &block), 0);
	CHECK_INT(rbt_exec_run(block, 150), RBT_EXEC_BUDGET);
	size = rbt_exec_block_save_size(block);
	state = malloc(size);
	CHECK_INT(rbt_exec_block_save(block, state, size - 1), -ENOSPC);
	CHECK_INT(rbt_exec_block_save(block, state, size), 0);
	for (size_t cut = 0; cut < size; cut += 97) {
		CHECK_INT(rbt_exec_block_restore(world.sms[1], &world.launch, state, cut, &other),
			-EINVAL);
	}
	for (size_t at = 0; at < size && at < 20000; at++) {
		uint8_t was = state[at];

		state[at] = (uint8_t)(was + 1 + at % 200);
		if (rbt_exec_block_restore(world.sms[1], &world.launch, state, size, &other) == 0) {
			rbt_exec_run(other, 200);
			rbt_exec_block_destroy(other);
		}
		state[at] = was;
	}
	free(state);
	rbt_exec_block_destroy(block);
	world_finish(&world);
}

static void test_launch(void)
{
	uint32_t words[THREADS];
	struct kcase kase = {.entry = "recurse_endless",
		.grid = {1, 1, 1},
		.block = {THREADS, 1, 1},
		.buffers = {BUFFER}};
	struct world world;
	struct rbt_exec_launch *launch = &world.launch;

	CHECK_INT(world_load(&world, directory, "calls"), 0);
	CHECK_INT(world_prepare(&world, &kase, (void *[]){words}), 0);
	CHECK_INT(rbt_exec_launch_check(launch), 0);
	launch->block[1] = 17;
	CHECK_INT(rbt_exec_launch_check(launch), -EINVAL);
	launch->block[1] = 0;
	CHECK_INT(rbt_exec_launch_check(launch), -EINVAL);
	launch->block[1] = 1;
	launch->dynamic_shared = RBT_EXEC_SHARED_MAX + 1;
	CHECK_INT(rbt_exec_launch_check(launch), -EINVAL);
	launch->dynamic_shared = 0;
	world.windows[0].va = RBT_EXEC_SHARED_VA;
	CHECK_INT(rbt_exec_launch_check(launch), -EINVAL);
	world_finish(&world);
}

int main(int argc, char **argv)
{
	directory = argc > 1 ? argv[1] : ".";
	test_store(4 * THREADS, RBT_EXEC_FAULT_ILLEGAL_ADDRESS);
	test_store(1ull << 40, RBT_EXEC_FAULT_ILLEGAL_ADDRESS);
	test_store(2, RBT_EXEC_FAULT_MISALIGNED_ADDRESS);
	test_load((uint64_t)-0x20000000ll, RBT_EXEC_FAULT_ILLEGAL_ADDRESS);
	test_load(4 * THREADS - 2, RBT_EXEC_FAULT_MISALIGNED_ADDRESS);
	test_shared(0, false);
	test_shared(3, true);
	test_stops("fault_trap", RBT_EXEC_FAULT_TRAP, "");
	test_stops("fault_assert", RBT_EXEC_FAULT_ASSERT,
		"faults.cu:46: fault_assert: block: [0,0,0], thread: [40,0,0] Assertion `in[i] != n` failed.\n");
	test_print();
	test_stack();
	test_bad_state();
	test_launch();
	return check_result();
}
