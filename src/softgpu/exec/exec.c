/* SPDX-License-Identifier: Apache-2.0 */
/* Creation and destruction of SMs, launches and blocks. */
#include <errno.h>
#include <stdlib.h>

#include "softgpu/exec/impl.h"

struct rbt_exec_sm *rbt_exec_sm_create(uint32_t id, uint32_t count)
{
	struct rbt_exec_sm *sm = calloc(1, sizeof(*sm));

	if (sm) {
		sm->id = id;
		sm->count = count;
		sm->ops = exec_ops_best();
	}
	return sm;
}

void rbt_exec_sm_destroy(struct rbt_exec_sm *sm)
{
	free(sm);
}

const struct rbt_exec_counters *rbt_exec_sm_counters(const struct rbt_exec_sm *sm)
{
	return &sm->counters;
}

void rbt_exec_sm_set_time(struct rbt_exec_sm *sm, uint64_t now_ns)
{
	sm->timer_offset_ns = now_ns - sm->cycles;
}

static bool windows_ok(const struct rbt_exec_launch *launch)
{
	uint64_t end = 0;

	for (size_t k = 0; k < launch->nwindows; k++) {
		const struct rbt_exec_window *window = &launch->windows[k];

		if (window->va < end || window->va > RBT_EXEC_SHARED_VA ||
			window->size > RBT_EXEC_SHARED_VA - window->va) {
			return false;
		}
		end = window->va + window->size;
	}
	return true;
}

uint32_t rbt_exec_launch_shared(const struct rbt_exec_launch *launch)
{
	return launch->kernel->shared_size + launch->dynamic_shared;
}

int rbt_exec_launch_check(const struct rbt_exec_launch *launch)
{
	const struct rbt_ptx_function *kernel = launch->kernel;
	uint64_t threads = 1;

	if (!launch->module || !kernel || !kernel->is_entry || !kernel->has_body) {
		return -EINVAL;
	}
	for (unsigned k = 0; k < 3; k++) {
		if (launch->grid[k] == 0 || launch->block[k] == 0 || launch->block[k] > 1024) {
			return -EINVAL;
		}
		threads *= launch->block[k];
	}
	if (threads > (size_t)EXEC_MAX_WARPS * EXEC_LANES ||
		(kernel->param_size > 0 && !launch->params) ||
		kernel->shared_size > RBT_EXEC_SHARED_MAX ||
		launch->dynamic_shared > RBT_EXEC_SHARED_MAX - kernel->shared_size ||
		kernel->local_size > RBT_EXEC_LOCAL_MAX ||
		launch->stack_size > RBT_EXEC_LOCAL_MAX - kernel->local_size) {
		return -EINVAL;
	}
	return windows_ok(launch) ? 0 : -EINVAL;
}

static void init_warp(struct rbt_exec_block *block, uint32_t index)
{
	struct exec_warp *w = &block->warps[index];
	uint32_t left = block->threads - index * EXEC_LANES;

	w->block = block;
	w->index = index;
	w->lanes = left >= EXEC_LANES ? EXEC_ALL : (1u << left) - 1;
	w->live = w->lanes;
	w->ngroups = 1;
	w->groups[0] = (struct exec_group){.mask = w->lanes};
	w->turn_left = EXEC_TURN;
	w->choose = true;
}

int exec_block_alloc(struct rbt_exec_sm *sm, const struct rbt_exec_launch *launch,
	struct rbt_exec_block **ret_block)
{
	struct rbt_exec_block *block;
	int r = rbt_exec_launch_check(launch);

	if (r < 0) {
		return r;
	}
	block = calloc(1, sizeof(*block));
	if (!block) {
		return -ENOMEM;
	}
	block->sm = sm;
	block->launch = launch;
	block->threads = launch->block[0] * launch->block[1] * launch->block[2];
	block->live = block->threads;
	block->nwarps = (block->threads + EXEC_LANES - 1) / EXEC_LANES;
	block->warps = calloc(block->nwarps, sizeof(block->warps[0]));
	block->quantum_left = EXEC_QUANTUM;
	block->clock_offset = 0;
	block->shared_size = rbt_exec_launch_shared(launch);
	block->local_size = (launch->kernel->local_size + launch->stack_size + 15) & ~15u;
	/* Never of size 0, and aligned for the widest access. */
	block->shared = calloc(1, block->shared_size + 16);
	if (!block->warps || !block->shared) {
		rbt_exec_block_destroy(block);
		return -ENOMEM;
	}
	for (uint32_t k = 0; k < block->nwarps; k++) {
		init_warp(block, k);
	}
	*ret_block = block;
	return 0;
}

int rbt_exec_block_create(struct rbt_exec_sm *sm, const struct rbt_exec_launch *launch,
	const uint32_t index[3], struct rbt_exec_block **ret_block)
{
	struct rbt_exec_block *block;
	int r = exec_block_alloc(sm, launch, &block);

	if (r < 0) {
		return r;
	}
	for (unsigned k = 0; k < 3; k++) {
		block->index[k] = index[k];
	}
	for (uint32_t k = 0; k < block->nwarps; k++) {
		if (exec_frame_enter(&block->warps[k])) {
			rbt_exec_block_destroy(block);
			return -ENOMEM;
		}
	}
	*ret_block = block;
	return 0;
}

void rbt_exec_block_destroy(struct rbt_exec_block *block)
{
	if (!block) {
		return;
	}
	for (uint32_t k = 0; block->warps && k < block->nwarps; k++) {
		struct exec_warp *w = &block->warps[k];

		for (uint32_t f = 0; f < w->nframes; f++) {
			exec_frame_destroy(w, w->frames[f]);
		}
		free(w->frames);
		free(w->local);
	}
	free(block->warps);
	free(block->shared);
	free(block);
}

uint64_t rbt_exec_block_instructions(const struct rbt_exec_block *block)
{
	return block->instructions;
}

const struct rbt_exec_fault *rbt_exec_block_fault(const struct rbt_exec_block *block)
{
	return &block->fault;
}
