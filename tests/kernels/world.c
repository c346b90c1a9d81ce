/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLES_VA 0x10000000ull
#define BUFFERS_VA   0x20000000ull
#define BUFFER_STEP  0x01000000ull /* far from each other: an access past an end is in nothing */

static char *read_text(const char *directory, const char *module, size_t *ret_size)
{
	char path[4096], *text = NULL;
	long size;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s.ptx", directory, module);
	file = fopen(path, "r");
	if (!file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return NULL;
	}
	if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 &&
		fseek(file, 0, SEEK_SET) == 0) {
		text = malloc((size_t)size + 1);
		*ret_size = text ? fread(text, 1, (size_t)size, file) : 0;
	}
	fclose(file);
	return text;
}

/* Gives each variable an address; returns how many bytes they take. */
static uint64_t place_variables(struct world *world)
{
	uint64_t at = 0;

	for (uint32_t k = 0; k < world->module->nvariables; k++) {
		const struct rbt_ptx_variable *v = &world->module->variables[k];
		uint64_t align = v->align ? v->align : 1;

		at = (at + align - 1) / align * align;
		world->variable_va[k] = VARIABLES_VA + at;
		at += v->size;
	}
	return at;
}

static void init_variable(struct world *world, uint32_t index)
{
	const struct rbt_ptx_variable *v = &world->module->variables[index];
	uint8_t *at = world->variables + (world->variable_va[index] - VARIABLES_VA);

	memset(at, 0, v->size);
	if (v->init) {
		memcpy(at, v->init, v->init_size);
	}
	for (uint32_t k = 0; k < v->nrelocs; k++) {
		const struct rbt_ptx_reloc *r = &v->relocs[k];
		uint64_t value = r->is_function ? RBT_PTX_FUNC_ADDRESS(r->index)
						: world->variable_va[r->index];

		value += (uint64_t)r->addend;
		memcpy(at + r->offset, &value, r->size);
	}
}

static void print(void *user, const char *text, size_t size)
{
	struct world *world = user;
	size_t room = sizeof(world->printed) - world->printed_size;

	size = size < room ? size : room;
	memcpy(world->printed + world->printed_size, text, size);
	world->printed_size += size;
}

int world_load(struct world *world, const char *directory, const char *module)
{
	struct rbt_ptx_error error = {0, ""};
	size_t size = 0;
	char *text = read_text(directory, module, &size);
	int r;

	*world = (struct world){.random = 88172645463325252ull};
	if (!text) {
		return -ENOENT;
	}
	r = rbt_ptx_parse(text, size, &world->module, &error);
	free(text);
	if (r < 0) {
		fprintf(stderr, "%s.ptx: %s\n", module, error.text);
		return r;
	}
	world->variable_va = calloc(world->module->nvariables + 1, sizeof(uint64_t));
	world->variables = world->variable_va ? calloc(1, place_variables(world) + 16) : NULL;
	for (unsigned k = 0; k < WORLD_SMS; k++) {
		world->sms[k] = rbt_exec_sm_create(k, WORLD_SMS);
		if (!world->sms[k]) {
			return -ENOMEM;
		}
	}
	/* Any level computes the same, so SMs may differ: 0 has the host's best. */
	rbt_exec_sm_set_level(world->sms[1], RBT_EXEC_LEVEL_BASE);
	rbt_exec_sm_set_level(world->sms[2], RBT_EXEC_LEVEL_V3);
	return world->variables ? 0 : -ENOMEM;
}

void world_finish(struct world *world)
{
	for (unsigned k = 0; k < WORLD_SMS; k++) {
		rbt_exec_sm_destroy(world->sms[k]);
	}
	rbt_ptx_module_destroy(world->module);
	free(world->variable_va);
	free(world->variables);
}

int world_prepare(struct world *world, const struct kcase *kase, void *const *buffers)
{
	struct rbt_exec_launch *launch = &world->launch;
	uint64_t size = place_variables(world);
	size_t n = 0;

	for (uint32_t k = 0; k < world->module->nvariables; k++) {
		init_variable(world, k);
	}
	if (size > 0) {
		world->windows[n++] =
			(struct rbt_exec_window){VARIABLES_VA, size, world->variables, false};
	}
	for (unsigned k = 0; k < kcase_buffer_count(kase); k++) {
		world->buffer_va[k] = BUFFERS_VA + k * BUFFER_STEP;
		world->windows[n++] = (struct rbt_exec_window){
			world->buffer_va[k], kase->buffers[k].size, buffers[k], false};
	}
	memset(world->params, 0, sizeof(world->params));
	kcase_pack(kase, world->buffer_va, world->params, sizeof(world->params));
	world->printed_size = 0;
	*launch = (struct rbt_exec_launch){.module = world->module,
		.kernel = rbt_ptx_find_entry(world->module, kase->entry),
		.dynamic_shared = kase->dynamic_shared,
		.params = world->params,
		.windows = world->windows,
		.nwindows = n,
		.variable_va = world->variable_va,
		.stack_size = 1024,
		.print = print,
		.complain = print,
		.user = world};
	memcpy(launch->grid, kase->grid, sizeof(launch->grid));
	memcpy(launch->block, kase->block, sizeof(launch->block));
	return launch->kernel ? 0 : -ENOENT;
}

static uint64_t random_below(struct world *world, uint64_t limit)
{
	world->random ^= world->random << 13;
	world->random ^= world->random >> 7;
	world->random ^= world->random << 17;
	return world->random % limit;
}

/* Takes a block off its SM and puts it on another, as bytes; the old one is gone. */
static int move_block(struct world *world, struct rbt_exec_block **block, unsigned sm,
	struct world_result *result)
{
	size_t size = rbt_exec_block_save_size(*block);
	struct rbt_exec_block *moved = NULL;
	void *state = malloc(size);
	int r = state ? rbt_exec_block_save(*block, state, size) : -ENOMEM;

	if (r == 0) {
		rbt_exec_block_destroy(*block);
		*block = NULL;
		r = rbt_exec_block_restore(world->sms[sm], &world->launch, state, size, &moved);
		*block = moved;
	}
	result->moves++;
	result->state_max = size > result->state_max ? size : result->state_max;
	free(state);
	return r;
}

static void note_end(struct world_result *result, const struct rbt_exec_block *block,
	enum rbt_exec_status status)
{
	result->instructions += rbt_exec_block_instructions(block);
	result->status = status;
	if (status == RBT_EXEC_FAULT) {
		result->fault = *rbt_exec_block_fault(block);
	}
}

static int run_one(struct world *world, enum world_mode mode, const uint32_t index[3],
	struct world_result *result)
{
	struct rbt_exec_block *block = NULL;
	enum rbt_exec_status status = RBT_EXEC_BUDGET;
	unsigned sm = 0;
	int r = rbt_exec_block_create(world->sms[0], &world->launch, index, &block);

	while (r == 0 && status == RBT_EXEC_BUDGET) {
		uint64_t budget = mode == WORLD_EVERY    ? 1
				  : mode == WORLD_RANDOM ? 1 + random_below(world, 40)
							 : 100000000;

		status = rbt_exec_run(block, budget);
		if (status == RBT_EXEC_BUDGET && mode != WORLD_PLAIN) {
			sm = (sm + 1) % WORLD_SMS;
			r = move_block(world, &block, sm, result);
		} else if (status == RBT_EXEC_BUDGET) {
			r = -ETIMEDOUT;
		}
	}
	if (r == 0) {
		note_end(result, block, status);
	}
	rbt_exec_block_destroy(block);
	return r;
}

static void block_index(const struct rbt_exec_launch *launch, uint32_t n, uint32_t ret_index[3])
{
	ret_index[0] = n % launch->grid[0];
	ret_index[1] = n / launch->grid[0] % launch->grid[1];
	ret_index[2] = n / launch->grid[0] / launch->grid[1];
}

/* One turn of one block among many; *left falls when it has ended. */
static int run_turn(struct world *world, struct rbt_exec_block **block, uint32_t *left,
	struct world_result *result)
{
	enum rbt_exec_status status = rbt_exec_run(*block, 1 + random_below(world, 60));

	if (status != RBT_EXEC_BUDGET) {
		note_end(result, *block, status);
		rbt_exec_block_destroy(*block);
		*block = NULL;
		(*left)--;
		return 0;
	}
	if (random_below(world, 3) == 0) {
		return move_block(world, block, (unsigned)random_below(world, WORLD_SMS), result);
	}
	return 0;
}

static int run_interleaved(struct world *world, uint32_t count, struct world_result *result)
{
	struct rbt_exec_block **blocks = calloc(count, sizeof(blocks[0]));
	uint32_t left = count, index[3];
	int r = blocks ? 0 : -ENOMEM;

	for (uint32_t n = 0; n < count && r == 0; n++) {
		block_index(&world->launch, n, index);
		r = rbt_exec_block_create(
			world->sms[n % WORLD_SMS], &world->launch, index, &blocks[n]);
	}
	while (r == 0 && left > 0 && result->status != RBT_EXEC_FAULT) {
		for (uint32_t n = 0; n < count && r == 0; n++) {
			r = blocks[n] ? run_turn(world, &blocks[n], &left, result) : 0;
		}
	}
	for (uint32_t n = 0; blocks && n < count; n++) {
		rbt_exec_block_destroy(blocks[n]);
	}
	free(blocks);
	return r;
}

int world_run(struct world *world, enum world_mode mode, struct world_result *ret_result)
{
	uint32_t count = world->launch.grid[0] * world->launch.grid[1] * world->launch.grid[2],
		 index[3];
	struct world_result result = {.status = RBT_EXEC_DONE};
	int r = 0;

	if (mode == WORLD_INTERLEAVED) {
		r = run_interleaved(world, count, &result);
	}
	for (uint32_t n = 0; mode != WORLD_INTERLEAVED && n < count && r == 0; n++) {
		if (result.status == RBT_EXEC_DONE) {
			block_index(&world->launch, n, index);
			r = run_one(world, mode, index, &result);
		}
	}
	*ret_result = result;
	return r;
}
