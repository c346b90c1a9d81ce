/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of a stream, or of a graph's node: one command each if the device can do it alone.
 * A copy from or to memory that the device cannot access is made by the host, when the stream has
 * reached that point.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/cuda/front.h"
#include "softgpu/cuda/graph.h"

static uint64_t extent(const struct front_copy *c, uint64_t pitch, uint64_t slice)
{
	uint64_t rows, slices, size;

	if (c->width == 0 || c->height == 0 || c->depth == 0) {
		return 0;
	}
	if (__builtin_mul_overflow(c->height - 1, pitch, &rows) ||
		__builtin_mul_overflow(c->depth - 1, slice, &slices) ||
		__builtin_add_overflow(rows, slices, &size) ||
		__builtin_add_overflow(size, c->width, &size)) {
		return UINT64_MAX;
	}
	return size;
}

struct sides {
	struct front_context *to_context, *from_context;
	struct front_place to, from;
};

static CUresult find_sides(struct front_context *ctx, const struct front_copy *c, struct sides *ret)
{
	struct sides sides = {
		.to_context = c->to_context != NULL ? c->to_context : ctx,
		.from_context = c->from_context != NULL ? c->from_context : ctx,
	};
	CUresult r = front_check_context(sides.to_context);

	if (r == CUDA_SUCCESS) {
		r = front_check_context(sides.from_context);
	}
	if (r == CUDA_SUCCESS) {
		r = front_place_find(
			sides.to_context, c->to, extent(c, c->to_pitch, c->to_slice), &sides.to);
	}
	if (r == CUDA_SUCCESS) {
		r = front_place_find(sides.from_context, c->from,
			extent(c, c->from_pitch, c->from_slice), &sides.from);
	}
	if (r == CUDA_SUCCESS && ((c->to_device && sides.to.kind == FRONT_PAGEABLE) ||
					 (c->from_device && sides.from.kind == FRONT_PAGEABLE))) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret = sides;
	}
	return r;
}

CUresult front_copy_check(struct front_context *ctx, const struct front_copy *copy)
{
	struct sides sides;

	if (extent(copy, 0, 0) == 0) {
		return CUDA_SUCCESS;
	}
	if ((copy->height > 1 &&
		    (copy->to_pitch < copy->width || copy->from_pitch < copy->width)) ||
		(copy->depth > 1 && (copy->to_slice < copy->to_pitch * copy->height ||
					    copy->from_slice < copy->from_pitch * copy->height))) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	return find_sides(ctx, copy, &sides);
}

CUresult front_copy_now(struct front_context *ctx, const struct front_copy *copy)
{
	struct sides sides;

	if (extent(copy, 0, 0) == 0) {
		return CUDA_SUCCESS;
	}
	CUresult r = find_sides(ctx, copy, &sides);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	uint8_t *to = front_place_host(sides.to_context->dev, &sides.to);
	const uint8_t *from = front_place_host(sides.from_context->dev, &sides.from);

	for (uint64_t z = 0; z < copy->depth; z++) {
		for (uint64_t y = 0; y < copy->height; y++) {
			memmove(to + z * copy->to_slice + y * copy->to_pitch,
				from + z * copy->from_slice + y * copy->from_pitch, copy->width);
		}
	}
	return CUDA_SUCCESS;
}

static bool device_reaches(const struct front_context *ctx, const struct front_place *place)
{
	return place->kind != FRONT_PAGEABLE && place->owner == ctx;
}

static CUresult submit_copy(struct front_stream *s, const struct front_copy *copy)
{
	struct gpu_copy command = {.h = {.command = GPU_CMD_COPY, .slots = 1},
		.width = copy->width,
		.height = copy->height,
		.to_pitch = copy->to_pitch,
		.from_pitch = copy->from_pitch};
	CUresult r = CUDA_SUCCESS;

	for (uint64_t z = 0; z < copy->depth && r == CUDA_SUCCESS; z++) {
		command.to = copy->to + z * copy->to_slice;
		command.from = copy->from + z * copy->from_slice;
		r = front_submit(s, &command, NULL, 0, NULL);
	}
	return r;
}

/* A graph's copy is made when its turn comes, not now. */
static CUresult queue_copy(struct front_stream *s, const struct front_copy *copy)
{
	struct front_host_part *part = calloc(1, sizeof(*part));
	struct front_copy *own = malloc(sizeof(*own));

	if (part == NULL || own == NULL) {
		free(part);
		free(own);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*own = *copy;
	part->copy = own;
	part->stream = s;
	return front_submit_host(s, part);
}

static CUresult wait_owner(const struct front_stream *s, const struct front_place *place)
{
	return place->kind != FRONT_PAGEABLE && place->owner != s->ctx
		       ? front_wait_context(place->owner)
		       : CUDA_SUCCESS;
}

static CUresult run_copy(struct front_stream *s, const struct front_copy *copy, bool is_node)
{
	struct sides sides;

	if (extent(copy, 0, 0) == 0) {
		return CUDA_SUCCESS;
	}
	CUresult r = find_sides(s->ctx, copy, &sides);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (device_reaches(s->ctx, &sides.to) && device_reaches(s->ctx, &sides.from)) {
		return submit_copy(s, copy);
	}
	if (is_node) {
		return queue_copy(s, copy);
	}
	r = front_wait_stream(s);
	if (r == CUDA_SUCCESS) {
		r = wait_owner(s, &sides.to);
	}
	if (r == CUDA_SUCCESS) {
		r = wait_owner(s, &sides.from);
	}
	if (r == CUDA_SUCCESS) {
		front_touch_begin(s->ctx);
		r = front_copy_now(s->ctx, copy);
		front_touch_end(s->ctx);
	}
	return r;
}

CUresult front_fill_check(struct front_context *ctx, const struct front_fill *fill)
{
	struct front_place place;
	uint64_t row, size;

	if ((fill->element != 1 && fill->element != 2 && fill->element != 4) ||
		fill->to % fill->element != 0 ||
		__builtin_mul_overflow(fill->width, fill->element, &row)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (row == 0 || fill->height == 0) {
		return CUDA_SUCCESS;
	}
	if (fill->height > 1 && (fill->pitch < row || fill->pitch % fill->element != 0)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (__builtin_mul_overflow(fill->height - 1, fill->pitch, &size) ||
		__builtin_add_overflow(size, row, &size)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	CUresult r = front_place_find(ctx, fill->to, size, &place);

	if (r == CUDA_SUCCESS && !device_reaches(ctx, &place)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r;
}

static CUresult run_fill(struct front_stream *s, const struct front_fill *fill)
{
	struct gpu_fill command = {.h = {.command = GPU_CMD_FILL, .slots = 1},
		.to = fill->to,
		.width = fill->width,
		.height = fill->height,
		.pitch = fill->pitch,
		.value = fill->value,
		.element = fill->element};

	if (fill->width == 0 || fill->height == 0) {
		return CUDA_SUCCESS;
	}
	return front_submit(s, &command, NULL, 0, NULL);
}

bool front_launch_is_good(const struct front_launch *launch)
{
	const struct front_function *f = launch->function;

	return front_is(f, FRONT_FUNCTION) && f->ptx->param_size == launch->param_size;
}

static CUresult run_launch(struct front_stream *s, const struct front_launch *launch)
{
	const struct front_function *f = launch->function;
	uint32_t size = launch->param_size;

	/* In a graph, the module may have been unloaded since. */
	if (!front_launch_is_good(launch) || f->module->ctx != s->ctx) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	struct gpu_launch command = {
		.h = {.command = GPU_CMD_LAUNCH,
			.slots = (uint16_t)(1 + (size + GPU_SLOT_BYTES - 1) / GPU_SLOT_BYTES)},
		.module = f->module->number,
		.function = f->index,
		.shared = launch->shared,
		.param_size = size,
		.flags = launch->flags,
		.stack = (uint32_t)s->ctx->limits[CU_LIMIT_STACK_SIZE]};

	memcpy(command.grid, launch->grid, sizeof(command.grid));
	memcpy(command.block, launch->block, sizeof(command.block));
	return front_submit(s, &command, launch->params, size, NULL);
}

static CUresult run_host(struct front_stream *s, const struct front_op *op)
{
	struct front_host_part *part = calloc(1, sizeof(*part));

	if (part == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	part->stream = s->is_legacy ? NULL : s;
	part->fn = op->host.fn;
	part->callback = op->host.callback;
	part->user = op->host.user;
	return front_submit_host(s, part);
}

CUresult front_op_run(struct front_stream *s, const struct front_op *op, bool is_node)
{
	switch (op->kind) {
	case FRONT_OP_KERNEL:
		return run_launch(s, &op->launch);
	case FRONT_OP_COPY:
		return run_copy(s, &op->copy, is_node);
	case FRONT_OP_FILL:
		return run_fill(s, &op->fill);
	case FRONT_OP_HOST:
		return run_host(s, op);
	case FRONT_OP_RECORD:
		return front_is(op->event, FRONT_EVENT) ? front_event_record(s, op->event)
							: CUDA_ERROR_INVALID_HANDLE;
	case FRONT_OP_WAIT:
		return front_is(op->event, FRONT_EVENT) ? front_event_wait(s, op->event)
							: CUDA_ERROR_INVALID_HANDLE;
	case FRONT_OP_EMPTY:
	case FRONT_OP_GRAPH: /* an executable graph has its children's nodes */
		break;
	}
	return CUDA_SUCCESS;
}

static CUresult do_op(struct front_stream *s, const struct front_op *op, bool is_node)
{
	bool captured = false;
	CUresult r = front_capture_op(s, op, &captured);

	return captured || r != CUDA_SUCCESS ? r : front_op_run(s, op, is_node);
}

CUresult front_do(struct front_stream *s, const struct front_op *op)
{
	return do_op(s, op, false);
}

CUresult front_do_node(struct front_stream *s, const struct front_op *op)
{
	return do_op(s, op, true);
}
