/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kernel of the suite gives what its reference says: run plainly, and stopped and moved
 * between SMs after every instruction, after random counts, and among other blocks. Where a block
 * is stopped changes neither results nor the number of instructions.
 * usage: test_kernels DIRECTORY [ENTRY]
 */
#include <stdlib.h>
#include <string.h>

#include "../unit/check.h"
#include "world.h"

static const char *const mode_names[] = {
	"plain", "after every instruction", "after random counts", "interleaved"};

/* Copies of a case's buffers, for one run. */
static void **copy_buffers(const struct kcase *kase, const struct kcase_data *data)
{
	static void *buffers[KCASE_BUFFERS];

	for (unsigned k = 0; k < kcase_buffer_count(kase); k++) {
		buffers[k] = malloc(kase->buffers[k].size);
		if (!buffers[k]) {
			abort();
		}
		memcpy(buffers[k], data->bytes[k], kase->buffers[k].size);
	}
	return buffers;
}

static uint64_t run_case(struct world *world, const struct kcase *kase,
	const struct kcase_data *data, enum world_mode mode)
{
	void **buffers = copy_buffers(kase, data);
	struct world_result result = {.status = RBT_EXEC_DONE};
	int r = world_prepare(world, kase, buffers);

	r = r < 0 ? r : world_run(world, mode, &result);
	CHECK_INT(r, 0);
	CHECK_INT(result.status, RBT_EXEC_DONE);
	if (r < 0 || result.status != RBT_EXEC_DONE) {
		fprintf(stderr, "%s, %s: %s, line %u, lane %u, address %#llx\n", kase->entry,
			mode_names[mode], rbt_exec_fault_text(result.fault.kind), result.fault.line,
			result.fault.lane, (unsigned long long)result.fault.address);
	}
	for (unsigned k = 0; k < kcase_buffer_count(kase); k++) {
		int64_t at = kcase_compare(kase, data, k, buffers[k]);

		CHECK_INT(at, -1);
		if (at >= 0) {
			uint32_t expected, got;

			at &= ~3ll;
			memcpy(&expected, (char *)data->expected[k] + at, 4);
			memcpy(&got, (char *)buffers[k] + at, 4);
			fprintf(stderr, "%s, %s: buffer %u, byte %lld: %08x, not %08x\n",
				kase->entry, mode_names[mode], k, (long long)at, got, expected);
		}
		free(buffers[k]);
	}
	CHECK(mode == WORLD_PLAIN || mode == WORLD_INTERLEAVED || result.moves > 0);
	return result.instructions;
}

static void test_case(const char *directory, const struct kcase *kase)
{
	struct kcase_data data;
	struct world world;
	uint64_t plain, again;
	int r = world_load(&world, directory, kase->module);

	CHECK_INT(r, 0);
	if (r < 0 || !kcase_prepare(kase, &data)) {
		CHECK(!"prepared");
		return;
	}
	plain = run_case(&world, kase, &data, WORLD_PLAIN);
	CHECK(plain > 0);
	if (kase->small) {
		CHECK_INT(run_case(&world, kase, &data, WORLD_EVERY), plain);
	}
	CHECK_INT(run_case(&world, kase, &data, WORLD_RANDOM), plain);
	run_case(&world, kase, &data, WORLD_INTERLEAVED);
	again = run_case(&world, kase, &data, WORLD_PLAIN);
	CHECK_INT(again, plain);
	kcase_free(&data);
	world_finish(&world);
}

int main(int argc, char **argv)
{
	kcase_each(argc, argv, test_case);
	return check_result();
}
