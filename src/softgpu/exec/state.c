/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a block to bytes and back. One walk over the state measures, writes and reads it, so
 * that written and read data cannot differ.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/exec/impl.h"

#define STATE_MAGIC 0x3154584554425552ull

struct cursor {
	uint8_t *at;         /* NULL: only measures */
	const uint8_t *from; /* reads, instead of writing */
	size_t used, room;
	bool failed;
};

static void pass(struct cursor *c, void *bytes, size_t size)
{
	if (c->failed || ((c->at || c->from) && size > c->room - c->used)) {
		c->failed = true;
		return;
	}
	if (c->from) {
		memcpy(bytes, c->from + c->used, size);
	} else if (c->at) {
		memcpy(c->at + c->used, bytes, size);
	}
	c->used += size;
}

#define PASS(c, field) pass(c, &(field), sizeof(field))

/* Registers without the constants behind them. */
static void pass_registers(struct cursor *c, struct exec_frame *frame)
{
	const struct rbt_ptx_function *fn = frame->fn;

	PASS(c, frame->parent);
	PASS(c, frame->return_pc);
	PASS(c, frame->call);
	PASS(c, frame->lanes);
	PASS(c, frame->depth);
	PASS(c, frame->stack_used);
	pass(c, frame->r32, (size_t)fn->nregs32 * sizeof(frame->r32[0]));
	pass(c, frame->r64, (size_t)fn->nregs64 * sizeof(frame->r64[0]));
	pass(c, frame->pred + 1, (size_t)(fn->npreds - 1) * sizeof(frame->pred[0]));
	pass(c, frame->params, (size_t)fn->frame_size * EXEC_LANES);
}

static void pass_frame(struct cursor *c, struct exec_warp *w, uint32_t index)
{
	const struct rbt_ptx_module *module = w->block->launch->module;
	struct exec_frame *frame = c->from ? NULL : w->frames[index];
	uint32_t function = frame ? (uint32_t)(frame->fn - module->functions) : RBT_PTX_NO_INDEX;
	uint32_t local_base = frame ? frame->local_base : 0;

	PASS(c, function);
	PASS(c, local_base);
	if (function == RBT_PTX_NO_INDEX || c->failed) {
		return;
	}
	if (c->from) {
		if (function >= module->nfunctions || !module->functions[function].has_body ||
			local_base > w->block->local_size ||
			module->functions[function].local_size >
				w->block->local_size - local_base) {
			c->failed = true;
			return;
		}
		frame = exec_frame_create(
			w->block->launch, &module->functions[function], local_base);
		if (!frame || exec_frame_attach(w, frame, index)) {
			free(frame);
			c->failed = true;
			return;
		}
	}
	pass_registers(c, frame);
}

/* Lane by lane, and only as far as any frame ever reached. */
static void pass_local(struct cursor *c, struct exec_warp *w)
{
	uint32_t high = w->local_high;

	PASS(c, high);
	if (c->failed || high == 0) {
		return;
	}
	if (c->from) {
		if (!w->local) {
			w->local = calloc(EXEC_LANES, w->block->local_size);
		}
		if (!w->local || high > w->block->local_size) {
			c->failed = true;
			return;
		}
		w->local_high = high;
	}
	for (unsigned l = 0; l < EXEC_LANES; l++) {
		pass(c, w->local + (size_t)l * w->block->local_size, high);
	}
}

static void pass_warp(struct cursor *c, struct exec_warp *w)
{
	uint32_t nframes = w->nframes;

	PASS(c, w->live);
	PASS(c, w->carry);
	PASS(c, w->current);
	PASS(c, w->turn_left);
	PASS(c, w->turn_forced);
	PASS(c, w->choose);
	PASS(c, w->turns);
	PASS(c, w->ngroups);
	if (w->ngroups > EXEC_LANES) {
		w->ngroups = 0;
		c->failed = true;
	}
	pass(c, w->groups, w->ngroups * sizeof(w->groups[0]));
	PASS(c, nframes);
	if (nframes > EXEC_MAX_FRAMES) {
		c->failed = true;
	}
	for (uint32_t k = 0; k < nframes && !c->failed; k++) {
		pass_frame(c, w, k);
	}
	pass_local(c, w);
}

static void pass_block(struct cursor *c, struct rbt_exec_block *block)
{
	uint64_t magic = STATE_MAGIC, clock = block->sm->cycles + block->clock_offset;
	uint32_t threads = block->threads, shared_size = block->shared_size;

	PASS(c, magic);
	PASS(c, threads);
	PASS(c, shared_size);
	PASS(c, block->index);
	PASS(c, block->live);
	PASS(c, block->warp);
	PASS(c, block->quantum_left);
	PASS(c, block->instructions);
	PASS(c, clock);
	PASS(c, block->barriers);
	if (magic != STATE_MAGIC || threads != block->threads ||
		shared_size != block->shared_size || block->warp >= block->nwarps) {
		c->failed = true;
	}
	if (c->from) {
		block->clock_offset = clock - block->sm->cycles;
	}
	pass(c, block->shared, block->shared_size);
	for (uint32_t k = 0; k < block->nwarps && !c->failed; k++) {
		pass_warp(c, &block->warps[k]);
	}
}

size_t rbt_exec_block_save_size(const struct rbt_exec_block *block)
{
	struct cursor c = {NULL, NULL, 0, 0, false};

	/* Only measures: the block is not written to. */
	pass_block(&c, (struct rbt_exec_block *)block);
	return c.used;
}

int rbt_exec_block_save(const struct rbt_exec_block *block, void *buffer, size_t size)
{
	struct cursor c = {buffer, NULL, 0, size, false};

	pass_block(&c, (struct rbt_exec_block *)block);
	if (c.failed) {
		return -ENOSPC;
	}
	block->sm->counters.saves++;
	block->sm->counters.saved_bytes += c.used;
	return 0;
}

/*
 * A state is made by us, but may have been kept where others can write: every index is checked
 * before it is used.
 */
static bool frame_ok(const struct exec_warp *w, uint32_t index)
{
	const struct exec_frame *frame = w->frames[index], *parent;
	const struct rbt_ptx_call *call;

	if (frame->local_end > w->block->local_size) {
		return false;
	}
	if (frame->parent == EXEC_NO_FRAME) {
		return index == 0 && frame->depth == 0;
	}
	if (frame->parent >= w->nframes || !w->frames[frame->parent]) {
		return false;
	}
	/* One deeper than its parent, so the chain of parents ends. */
	parent = w->frames[frame->parent];
	if (frame->depth != parent->depth + 1 || frame->call >= parent->fn->ncalls ||
		frame->return_pc >= parent->fn->ninsts) {
		return false;
	}
	call = &parent->fn->calls[frame->call];
	return exec_call_agrees(call, frame->fn);
}

static bool waits_ok(const struct exec_group *g, const struct rbt_ptx_inst *i)
{
	switch (g->state) {
	case EXEC_READY:
		return true;
	case EXEC_AT_BARRIER:
		return i->op == RBT_PTX_BAR_SYNC || i->op == RBT_PTX_BAR_RED;
	case EXEC_AT_SYNC:
		return i->op == RBT_PTX_BAR_WARP_SYNC || i->op == RBT_PTX_SHFL ||
		       i->op == RBT_PTX_VOTE || i->op == RBT_PTX_MATCH || i->op == RBT_PTX_REDUX;
	default:
		return false;
	}
}

static bool groups_ok(const struct exec_warp *w)
{
	uint32_t seen = 0;

	for (uint32_t k = 0; k < w->ngroups; k++) {
		const struct exec_group *g = &w->groups[k];
		const struct rbt_ptx_function *fn;

		if (g->frame >= w->nframes || !w->frames[g->frame] || g->mask == 0 ||
			g->mask & seen || g->barrier >= EXEC_BARRIERS) {
			return false;
		}
		fn = w->frames[g->frame]->fn;
		if (g->pc >= fn->ninsts || !waits_ok(g, &fn->insts[g->pc])) {
			return false;
		}
		seen |= g->mask;
	}
	return seen == w->live && (w->choose || w->current < w->ngroups || w->ngroups == 0);
}

/* A frame ends with its last lane: so its lanes must be exactly those of its groups. */
static bool lanes_ok(const struct exec_warp *w)
{
	uint32_t *lanes = calloc(w->nframes + 1, sizeof(lanes[0]));
	bool ok = lanes != NULL;

	for (uint32_t k = 0; ok && k < w->ngroups; k++) {
		for (uint32_t f = w->groups[k].frame; f != EXEC_NO_FRAME;
			f = w->frames[f]->parent) {
			lanes[f] |= w->groups[k].mask;
		}
	}
	for (uint32_t f = 0; ok && f < w->nframes; f++) {
		ok = !w->frames[f] || (lanes[f] != 0 && lanes[f] == w->frames[f]->lanes);
	}
	free(lanes);
	return ok;
}

static bool warp_ok(const struct exec_warp *w)
{
	for (uint32_t f = 0; f < w->nframes; f++) {
		if (w->frames[f] && !frame_ok(w, f)) {
			return false;
		}
	}
	return !(w->live & ~w->lanes) && groups_ok(w) && lanes_ok(w);
}

static bool block_ok(struct rbt_exec_block *block)
{
	uint32_t live = 0;

	for (uint32_t k = 0; k < block->nwarps; k++) {
		struct exec_warp *w = &block->warps[k];

		if (!warp_ok(w)) {
			return false;
		}
		live += (uint32_t)__builtin_popcount(w->live);
		if (w->current < w->ngroups) {
			exec_warp_use(w, w->current);
		}
	}
	return live == block->live;
}

int rbt_exec_block_restore(struct rbt_exec_sm *sm, const struct rbt_exec_launch *launch,
	const void *buffer, size_t size, struct rbt_exec_block **ret_block)
{
	struct cursor c = {NULL, buffer, 0, size, false};
	struct rbt_exec_block *block;
	int r = exec_block_alloc(sm, launch, &block);

	if (r < 0) {
		return r;
	}
	pass_block(&c, block);
	if (c.failed || !block_ok(block)) {
		rbt_exec_block_destroy(block);
		return -EINVAL;
	}
	sm->counters.restores++;
	sm->counters.restored_bytes += c.used;
	*ret_block = block;
	return 0;
}
