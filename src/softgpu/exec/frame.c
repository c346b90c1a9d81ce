/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: the registers of a call, and the values that a call and a return copy between them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/exec/impl.h"
#include "softgpu/ptx/ptx.h"

/* The cost of every call in addition to its local memory and parameters, like a return address. */
#define CALL_BYTES 16

static uint64_t const_value(
	const struct rbt_exec_launch *launch, const struct rbt_ptx_const *c, uint32_t local_base)
{
	switch (c->kind) {
	case RBT_PTX_CONST_VARIABLE:
		return launch->variable_va[c->index] + c->value;
	case RBT_PTX_CONST_LOCAL:
		return local_base + c->value;
	case RBT_PTX_CONST_DYN_SHARED:
		return launch->kernel->shared_size + c->value;
	default:
		return c->value;
	}
}

static void fill_constants(struct exec_frame *frame, const struct rbt_exec_launch *launch)
{
	const struct rbt_ptx_function *fn = frame->fn;

	for (uint32_t k = 0; k < fn->nconsts32; k++) {
		uint32_t value = (uint32_t)const_value(launch, &fn->consts32[k], frame->local_base);
		for (unsigned l = 0; l < EXEC_LANES; l++) {
			frame->r32[fn->nregs32 + k][l] = value;
		}
	}
	for (uint32_t k = 0; k < fn->nconsts64; k++) {
		uint64_t value = const_value(launch, &fn->consts64[k], frame->local_base);
		for (unsigned l = 0; l < EXEC_LANES; l++) {
			frame->r64[fn->nregs64 + k][l] = value;
		}
	}
	frame->pred[RBT_PTX_PRED_TRUE] = EXEC_ALL;
}

static size_t rounded(size_t size, size_t to)
{
	return (size + to - 1) / to * to;
}

struct exec_frame *exec_frame_create(const struct rbt_exec_launch *launch,
	const struct rbt_ptx_function *fn, uint32_t local_base)
{
	uint32_t align = fn->local_align > 1 ? fn->local_align : 1;
	size_t head = rounded(sizeof(struct exec_frame), 64);
	size_t size32 = (size_t)(fn->nregs32 + fn->nconsts32) * EXEC_LANES * 4;
	size_t size64 = (size_t)(fn->nregs64 + fn->nconsts64) * EXEC_LANES * 8;
	size_t preds = rounded((size_t)fn->npreds * 4, 64);
	size_t size =
		rounded(head + size32 + size64 + preds + (size_t)fn->frame_size * EXEC_LANES, 64);
	struct exec_frame *frame = aligned_alloc(64, size);
	uint8_t *at;

	if (!frame) {
		return NULL;
	}
	memset(frame, 0, size);
	at = (uint8_t *)frame + head;
	frame->fn = fn;
	frame->bytes = (uint32_t)size;
	frame->r32 = (void *)at;
	frame->r64 = (void *)(at + size32);
	frame->pred = (void *)(at + size32 + size64);
	frame->params = at + size32 + size64 + preds;
	frame->parent = EXEC_NO_FRAME;
	frame->local_base = (uint32_t)rounded(local_base, align);
	frame->local_end = frame->local_base + fn->local_size;
	fill_constants(frame, launch);
	return frame;
}

static int grow_frames(struct exec_warp *w)
{
	uint32_t room = w->frames_room ? w->frames_room * 2 : 4;
	struct exec_frame **frames = realloc(w->frames, room * sizeof(frames[0]));

	if (!frames) {
		return -ENOMEM;
	}
	w->frames = frames;
	w->frames_room = room;
	return 0;
}

int exec_frame_attach(struct exec_warp *w, struct exec_frame *frame, uint32_t index)
{
	if (frame->local_end > frame->local_base) {
		if (!w->local) {
			w->local = calloc(EXEC_LANES, w->block->local_size);
		}
		if (!w->local) {
			return -ENOMEM;
		}
		w->local_high = frame->local_end > w->local_high ? frame->local_end : w->local_high;
	}
	while (index >= w->frames_room) {
		if (grow_frames(w)) {
			return -ENOMEM;
		}
	}
	while (w->nframes <= index) {
		w->frames[w->nframes++] = NULL;
	}
	w->frames[index] = frame;
	if (!frame->fn->is_entry) {
		w->call_bytes += frame->bytes;
		w->block->sm->call_bytes += frame->bytes;
	}
	return 0;
}

void exec_frame_destroy(struct exec_warp *w, struct exec_frame *frame)
{
	if (frame && !frame->fn->is_entry) {
		w->call_bytes -= frame->bytes;
		w->block->sm->call_bytes -= frame->bytes;
	}
	free(frame);
}

/* A frame starts with zeros: data of an earlier call would be different after a restore. */
static void clear_local(struct exec_warp *w, const struct exec_frame *frame)
{
	for (unsigned l = 0; frame->local_end > frame->local_base && l < EXEC_LANES; l++) {
		if (frame->lanes >> l & 1) {
			memset(w->local + (size_t)l * w->block->local_size + frame->local_base, 0,
				frame->local_end - frame->local_base);
		}
	}
}

static uint32_t free_index(const struct exec_warp *w)
{
	for (uint32_t k = 0; k < w->nframes; k++) {
		if (!w->frames[k]) {
			return k;
		}
	}
	return w->nframes;
}

int exec_frame_enter(struct exec_warp *w)
{
	struct exec_frame *frame = exec_frame_create(w->block->launch, w->block->launch->kernel, 0);

	if (!frame || exec_frame_attach(w, frame, 0)) {
		free(frame);
		return -ENOMEM;
	}
	frame->lanes = w->lanes;
	return 0;
}

void exec_warp_use(struct exec_warp *w, uint32_t group)
{
	struct exec_frame *frame = w->frames[w->groups[group].frame];

	w->current = group;
	w->frame = frame;
	w->r32 = frame->r32;
	w->r64 = frame->r64;
	w->pred = frame->pred;
}

/* Between the FRAME bytes of two calls, for some lanes. */
static void copy_bytes(const struct exec_frame *to, uint32_t to_offset,
	const struct exec_frame *from, uint32_t from_offset, uint32_t size, uint32_t lanes)
{
	for (uint32_t left = lanes; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		memcpy(to->params + (size_t)l * to->fn->frame_size + to_offset,
			from->params + (size_t)l * from->fn->frame_size + from_offset, size);
	}
}

/* Counts and sizes of an indirect call are given by the caller only, so they are checked. */
bool exec_call_agrees(const struct rbt_ptx_call *call, const struct rbt_ptx_function *fn)
{
	if (call->nargs != fn->nparams || call->nrets != fn->nrets) {
		return false;
	}
	for (uint32_t k = 0; k < call->nargs + call->nrets; k++) {
		if (call->args[k].size != fn->params[k].size) {
			return false;
		}
	}
	return true;
}

/* The function that the first lane calls; lanes that call another one stay where they are. */
static const struct rbt_ptx_function *called(
	struct exec_warp *w, struct exec_group *g, const struct rbt_ptx_inst *i)
{
	const struct rbt_ptx_module *module = w->block->launch->module;
	const struct rbt_ptx_call *call = &w->frame->fn->calls[i->index];
	const struct rbt_ptx_function *fn;
	uint32_t same = 0;
	uint64_t address;

	if (i->op == RBT_PTX_CALL) {
		return &module->functions[call->function];
	}
	address = w->r64[i->a][__builtin_ctz(g->mask)];
	for (unsigned l = 0; l < EXEC_LANES; l++) {
		same |= (uint32_t)(w->r64[i->a][l] == address) << l;
	}
	if (g->mask & ~same) {
		exec_group_split(w, g, g->mask & ~same);
	}
	fn = rbt_ptx_function_at(module, address);
	return fn && exec_call_agrees(call, fn) ? fn : NULL;
}

static bool fits(const struct exec_warp *w, const struct exec_frame *frame)
{
	return w->call_bytes + frame->bytes <= EXEC_MAX_CALL_BYTES &&
	       w->block->sm->call_bytes + frame->bytes <= EXEC_MAX_SM_CALL_BYTES;
}

static int push(struct exec_warp *w, struct exec_group *g, const struct rbt_ptx_inst *i,
	const struct rbt_ptx_function *fn)
{
	struct exec_frame *caller = w->frame, *frame;
	const struct rbt_ptx_call *call = &caller->fn->calls[i->index];
	uint32_t index = free_index(w), lane = (uint32_t)__builtin_ctz(g->mask);
	uint64_t used = (uint64_t)caller->stack_used + CALL_BYTES + fn->frame_size +
			fn->local_size + (fn->local_align > 1 ? fn->local_align : 0);

	if (used > w->block->launch->stack_size || index >= EXEC_MAX_FRAMES) {
		return exec_fault(w, i, RBT_EXEC_FAULT_STACK_OVERFLOW, lane, 0);
	}
	frame = exec_frame_create(w->block->launch, fn, caller->local_end);
	if (frame && !fits(w, frame)) {
		free(frame);
		return exec_fault(w, i, RBT_EXEC_FAULT_STACK_OVERFLOW, lane, 0);
	}
	if (!frame || exec_frame_attach(w, frame, index)) {
		free(frame);
		return exec_fault(w, i, RBT_EXEC_FAULT_NO_MEMORY, lane, 0);
	}
	frame->parent = g->frame;
	frame->return_pc = g->pc + 1;
	frame->call = i->index;
	frame->lanes = g->mask;
	frame->depth = caller->depth + 1;
	frame->stack_used = (uint32_t)used;
	clear_local(w, frame);
	for (uint32_t k = 0; k < call->nargs; k++) {
		copy_bytes(frame, fn->params[k].offset, caller, call->args[k].offset,
			call->args[k].size, g->mask);
	}
	g->frame = index;
	g->pc = 0;
	return 0;
}

int exec_call(struct exec_warp *w, struct exec_group *g, const struct rbt_ptx_inst *i)
{
	const struct rbt_ptx_call *call = &w->frame->fn->calls[i->index];
	const struct rbt_ptx_function *fn = called(w, g, i);

	if (fn && fn->builtin != RBT_PTX_BUILTIN_NONE) {
		return exec_builtin(w, g, i, call, fn);
	}
	if (!fn || !fn->has_body || fn->is_entry) {
		return exec_fault(w, i, RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION,
			(uint32_t)__builtin_ctz(g->mask), 0);
	}
	return push(w, g, i, fn);
}

void exec_frame_leave(struct exec_warp *w, uint32_t index, uint32_t lanes, bool up)
{
	while (index != EXEC_NO_FRAME) {
		struct exec_frame *frame = w->frames[index];
		uint32_t parent = frame->parent;

		frame->lanes &= ~lanes;
		if (frame->lanes == 0) {
			exec_frame_destroy(w, frame);
			w->frames[index] = NULL;
		}
		index = up ? parent : EXEC_NO_FRAME;
	}
}

void exec_ret(struct exec_warp *w, struct exec_group *g)
{
	struct exec_frame *frame = w->frames[g->frame], *caller = w->frames[frame->parent];
	const struct rbt_ptx_call *call = &caller->fn->calls[frame->call];
	uint32_t index = g->frame;

	for (uint32_t k = call->nargs; k < call->nargs + call->nrets; k++) {
		copy_bytes(caller, call->args[k].offset, frame, frame->fn->params[k].offset,
			call->args[k].size, g->mask);
	}
	g->frame = frame->parent;
	g->pc = frame->return_pc;
	exec_frame_leave(w, index, g->mask, false);
}
