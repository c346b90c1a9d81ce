/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates the addresses of a warp to the host's memory. Everything is checked before any access,
 * so a fault leaves memory unchanged. Loads and stores whose lanes are all in one window, which is
 * most of them, do not come here (lanes_memory.c).
 */
#include "softgpu/exec/impl.h"

/* Computed for inactive lanes too, because that is faster; these results are not used. */
static void addresses_of(struct exec_warp *w, const struct rbt_ptx_inst *i, uint64_t *va)
{
	uint64_t imm = (uint64_t)i->imm;

	if (i->a == RBT_PTX_NO_SLOT) {
		for (unsigned l = 0; l < EXEC_LANES; l++) {
			va[l] = imm;
		}
	} else if (i->flags & RBT_PTX_ADDR32) {
		const uint32_t *a = w->r32[i->a];
		for (unsigned l = 0; l < EXEC_LANES; l++) {
			va[l] = a[l] + imm;
		}
	} else {
		const uint64_t *a = w->r64[i->a];
		for (unsigned l = 0; l < EXEC_LANES; l++) {
			va[l] = a[l] + imm;
		}
	}
}

const struct rbt_exec_window *exec_window_at(struct rbt_exec_block *block, uint64_t va)
{
	const struct rbt_exec_launch *launch = block->launch;
	size_t low = 0, high = launch->nwindows;

	if (block->last_window < high) {
		const struct rbt_exec_window *last = &launch->windows[block->last_window];
		if (va - last->va < last->size) {
			return last;
		}
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct rbt_exec_window *window = &launch->windows[middle];

		if (va - window->va < window->size) {
			block->last_window = (uint32_t)middle;
			return window;
		}
		if (va < window->va) {
			high = middle;
		} else {
			low = middle + 1;
		}
	}
	return NULL;
}

/* The host's address of one lane's address, and the number of bytes from there on. */
static uint64_t room_at(
	struct exec_warp *w, uint32_t lane, uint64_t va, bool store, uintptr_t *ret_at)
{
	struct rbt_exec_block *block = w->block;
	const struct rbt_exec_window *window;

	if (va - RBT_EXEC_SHARED_VA < block->shared_size) {
		*ret_at = (uintptr_t)block->shared + (va - RBT_EXEC_SHARED_VA);
		return block->shared_size - (va - RBT_EXEC_SHARED_VA);
	}
	/* Local memory ends with the deepest frame so far; what is above it is not saved. */
	if (va - RBT_EXEC_LOCAL_VA < w->local_high) {
		*ret_at = (uintptr_t)w->local + (size_t)lane * block->local_size +
			  (va - RBT_EXEC_LOCAL_VA);
		return w->local_high - (va - RBT_EXEC_LOCAL_VA);
	}
	window = exec_window_at(block, va);
	if (!window || (store && window->read_only)) {
		return 0;
	}
	*ret_at = (uintptr_t)window->host + (va - window->va);
	return window->size - (va - window->va);
}

/* Lane by lane. As on hardware, an address that is both invalid and misaligned counts as
 * misaligned. */
static int resolve_generic(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask,
	uint32_t size, bool store, const uint64_t *va, struct exec_span *span)
{
	span->scattered = true;
	for (uint32_t left = mask; left; left &= left - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(left);

		if (va[lane] & (size - 1)) {
			return exec_fault(w, i, RBT_EXEC_FAULT_MISALIGNED_ADDRESS, lane, va[lane]);
		}
		if (room_at(w, lane, va[lane], store, &span->at[lane]) < size) {
			return exec_fault(w, i, RBT_EXEC_FAULT_ILLEGAL_ADDRESS, lane, va[lane]);
		}
	}
	return 0;
}

/* Offsets into `room` bytes at base, with `stride` bytes between lanes; faults are reported from
 * `va` on. */
static int resolve_offsets(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask,
	uint32_t size, uint64_t room, uint32_t stride, uint64_t va, const uint64_t *at,
	struct exec_span *span)
{
	span->scattered = false;
	for (uint32_t left = mask; left; left &= left - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(left);

		if (at[lane] & (size - 1)) {
			return exec_fault(
				w, i, RBT_EXEC_FAULT_MISALIGNED_ADDRESS, lane, va + at[lane]);
		}
		if (room < size || at[lane] > room - size) {
			return exec_fault(
				w, i, RBT_EXEC_FAULT_ILLEGAL_ADDRESS, lane, va + at[lane]);
		}
		span->offset[lane] = (uint32_t)at[lane] + lane * stride;
	}
	return 0;
}

/* The arguments of calls, by name: always within range. */
static int resolve_frame(struct exec_warp *w, const struct rbt_ptx_inst *i, struct exec_span *span)
{
	span->scattered = false;
	span->base = (uintptr_t)w->frame->params;
	for (uint32_t l = 0; l < EXEC_LANES; l++) {
		span->offset[l] = (uint32_t)i->imm + l * w->frame->fn->frame_size;
	}
	return 0;
}

int exec_resolve(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask, uint32_t size,
	bool store, struct exec_span *ret_span)
{
	struct rbt_exec_block *block = w->block;
	uint64_t at[EXEC_LANES];

	if (i->space == RBT_PTX_SPACE_FRAME && i->a == RBT_PTX_NO_SLOT) {
		return resolve_frame(w, i, ret_span);
	}
	addresses_of(w, i, at);
	switch (i->space) {
	case RBT_PTX_SPACE_SHARED:
		ret_span->base = (uintptr_t)block->shared;
		return resolve_offsets(
			w, i, mask, size, block->shared_size, 0, RBT_EXEC_SHARED_VA, at, ret_span);
	case RBT_PTX_SPACE_LOCAL:
		ret_span->base = (uintptr_t)w->local;
		return resolve_offsets(w, i, mask, size, w->local_high, block->local_size,
			RBT_EXEC_LOCAL_VA, at, ret_span);
	case RBT_PTX_SPACE_FRAME:
		ret_span->base = (uintptr_t)w->frame->params;
		return resolve_offsets(w, i, mask, size, w->frame->fn->frame_size,
			w->frame->fn->frame_size, 0, at, ret_span);
	case RBT_PTX_SPACE_PARAM:
		ret_span->base = (uintptr_t)block->launch->params;
		return resolve_offsets(
			w, i, mask, size, block->launch->kernel->param_size, 0, 0, at, ret_span);
	default:
		return resolve_generic(w, i, mask, size, store, at, ret_span);
	}
}

uint64_t exec_generic_room(struct exec_warp *w, uint32_t lane, uint64_t va, const void **ret_at)
{
	uintptr_t at = 0;
	uint64_t room = room_at(w, lane, va, false, &at);

	*ret_at = (const void *)at;
	return room;
}
