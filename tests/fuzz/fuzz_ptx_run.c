/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels come from programs, too: whatever a module holds, running it stays inside its memory and
 * ends, faults or goes on; and where it is stopped, saved and restored changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "../unit/test_ptx_verify.h"
#include "softgpu/exec/exec.h"

#define MEMORY_VA   0x10000ull
#define MEMORY_SIZE 4096
#define VARIABLES   64 /* more, or larger ones, are not run */
#define REGISTERS   512
#define BUDGET      600

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	enum rbt_exec_status status;
	uint64_t instructions;
	uint8_t memory[MEMORY_SIZE];
};

static struct rbt_exec_sm *sms[2];

/* Which SM and when is part of what these give. */
static bool depends_on_sm(const struct rbt_ptx_module *module)
{
	for (uint32_t f = 0; f < module->nfunctions; f++) {
		for (uint32_t k = 0; k < module->functions[f].ninsts; k++) {
			const struct rbt_ptx_inst *i = &module->functions[f].insts[k];
			bool is_sreg = i->op == RBT_PTX_SREG_B32 || i->op == RBT_PTX_SREG_B64;

			if (is_sreg &&
				(i->a == RBT_PTX_SREG_SMID || i->a == RBT_PTX_SREG_GLOBALTIMER ||
					i->a == RBT_PTX_SREG_GLOBALTIMER_LO ||
					i->a == RBT_PTX_SREG_GLOBALTIMER_HI)) {
				return true;
			}
		}
	}
	return false;
}

/* What is large is slow, and no more interesting. */
static bool is_large(const struct rbt_ptx_module *module)
{
	for (uint32_t f = 0; f < module->nfunctions; f++) {
		const struct rbt_ptx_function *fn = &module->functions[f];

		if (fn->nregs32 + fn->nregs64 + fn->nconsts32 + fn->nconsts64 > REGISTERS ||
			fn->local_size > 4096 || fn->frame_size > 4096) {
			return true;
		}
	}
	return module->nvariables > VARIABLES;
}

static int move(struct rbt_exec_block **block, const struct rbt_exec_launch *launch, unsigned sm)
{
	size_t size = rbt_exec_block_save_size(*block);
	void *state = malloc(size);
	int r = state ? rbt_exec_block_save(*block, state, size) : -1;

	rbt_exec_block_destroy(*block);
	*block = NULL;
	if (r == 0 && rbt_exec_block_restore(sms[sm], launch, state, size, block) < 0) {
		/* Our own state of a block that was well is refused. */
		abort();
	}
	free(state);
	return r;
}

/* Stopped every `step` instructions. */
static bool run(const struct rbt_exec_launch *launch, uint8_t *memory, unsigned step,
	struct outcome *ret_outcome)
{
	struct rbt_exec_block *block = NULL;
	const uint32_t index[3] = {0, 0, 0};
	enum rbt_exec_status status = RBT_EXEC_BUDGET;
	bool ok;

	for (unsigned k = 0; k < MEMORY_SIZE; k++) {
		memory[k] = (uint8_t)(k * 7);
	}
	if (rbt_exec_block_create(sms[0], launch, index, &block) < 0) {
		return false;
	}
	for (unsigned used = 0; block && status == RBT_EXEC_BUDGET && used < BUDGET; used += step) {
		status = rbt_exec_run(block, step < BUDGET - used ? step : BUDGET - used);
		if (status == RBT_EXEC_BUDGET && used + step < BUDGET &&
			move(&block, launch, used / step % 2) < 0) {
			break;
		}
	}
	ok = block != NULL;
	if (ok) {
		ret_outcome->status = status;
		ret_outcome->instructions = rbt_exec_block_instructions(block);
		memcpy(ret_outcome->memory, memory, MEMORY_SIZE);
	}
	rbt_exec_block_destroy(block);
	return ok;
}

static void run_entry(const struct rbt_ptx_module *module, const struct rbt_ptx_function *kernel,
	unsigned seed, bool compare)
{
	static struct outcome plain, stopped;
	uint8_t *memory = aligned_alloc(16, MEMORY_SIZE), *params = calloc(1, 4096);
	uint64_t variable_va[VARIABLES];
	struct rbt_exec_window window = {MEMORY_VA, MEMORY_SIZE, memory, false};
	struct rbt_exec_launch launch = {.module = module,
		.kernel = kernel,
		.grid = {1, 1, 1},
		.block = {seed % 2 ? 40 : 70, 1, 1},
		.dynamic_shared = 64,
		.params = params,
		.windows = &window,
		.nwindows = 1,
		.variable_va = variable_va,
		.stack_size = 512};

	for (unsigned k = 0; k < VARIABLES; k++) {
		variable_va[k] = MEMORY_VA + 16 * k;
	}
	for (unsigned k = 0; params && k < 4096 / 8; k++) {
		uint64_t pointer = MEMORY_VA + 512 * (k % 8);
		memcpy(params + 8 * (size_t)k, &pointer, 8);
	}
	if (memory && params && kernel->shared_size < 4096 &&
		run(&launch, memory, BUDGET, &plain) &&
		run(&launch, memory, 1 + seed % 37, &stopped) && compare &&
		(plain.status != stopped.status || plain.instructions != stopped.instructions ||
			memcmp(plain.memory, stopped.memory, MEMORY_SIZE) != 0)) {
		fprintf(stderr, "stopped, it gives something else\n");
		abort();
	}
	free(memory);
	free(params);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rbt_ptx_module *module = NULL;
	bool compare;

	for (unsigned k = 0; k < 2; k++) {
		sms[k] = sms[k] ? sms[k] : rbt_exec_sm_create(k, 2);
	}
	if (!sms[0] || !sms[1] || rbt_ptx_parse((const char *)data, size, &module, NULL) < 0) {
		return 0;
	}
	if (ptx_verify(module) != NULL) {
		abort();
	}
	compare = !depends_on_sm(module);
	for (uint32_t f = 0; f < module->nfunctions && !is_large(module); f++) {
		if (module->functions[f].is_entry && module->functions[f].has_body) {
			run_entry(module, &module->functions[f], (unsigned)size, compare);
		}
	}
	rbt_ptx_module_destroy(module);
	return 0;
}
