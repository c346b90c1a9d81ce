/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills: rows, one piece at a time, so that other work does not wait long for a large
 * one. */
#include <string.h>

#include "softgpu/device/device_impl.h"

/* The distance from the first byte to the last of `rows` rows; 0: too large for any memory. */
static uint64_t extent(uint64_t width, uint64_t rows, uint64_t pitch)
{
	uint64_t bytes;

	if (rows > 1 && pitch < width) {
		return 0;
	}
	if (__builtin_mul_overflow(rows - 1, pitch, &bytes) ||
		__builtin_add_overflow(bytes, width, &bytes)) {
		return 0;
	}
	return bytes;
}

static uint32_t prepare_copy(const struct dev_channel *ch, struct dev_transfer *t)
{
	const struct gpu_copy *c = &ch->copy;
	uint64_t to_bytes, from_bytes;

	if (c->width == 0 || c->height == 0) {
		return 0;
	}
	to_bytes = extent(c->width, c->height, c->to_pitch);
	from_bytes = extent(c->width, c->height, c->from_pitch);
	if (to_bytes == 0 || from_bytes == 0) {
		return GPU_ERROR_INVALID;
	}
	t->to = dev_map_at(t->map, c->to, to_bytes);
	t->from = dev_map_at(t->map, c->from, from_bytes);
	if (!t->to || !t->from) {
		return GPU_ERROR_ILLEGAL_ADDRESS;
	}
	t->width = c->width;
	t->rows = c->height;
	t->to_pitch = c->to_pitch;
	t->from_pitch = c->from_pitch;
	return 0;
}

static uint32_t prepare_fill(const struct dev_channel *ch, struct dev_transfer *t)
{
	const struct gpu_fill *f = &ch->fill;
	uint64_t width, bytes;

	if ((f->element != 1 && f->element != 2 && f->element != 4) || f->to % f->element != 0 ||
		(f->height > 1 && f->pitch % f->element != 0)) {
		return GPU_ERROR_INVALID;
	}
	if (f->width == 0 || f->height == 0) {
		return 0;
	}
	if (__builtin_mul_overflow(f->width, f->element, &width)) {
		return GPU_ERROR_INVALID;
	}
	bytes = extent(width, f->height, f->pitch);
	if (bytes == 0) {
		return GPU_ERROR_INVALID;
	}
	t->to = dev_map_at(t->map, f->to, bytes);
	if (!t->to) {
		return GPU_ERROR_ILLEGAL_ADDRESS;
	}
	t->width = width;
	t->rows = f->height;
	t->to_pitch = f->pitch;
	t->value = f->value;
	t->element = f->element;
	return 0;
}

void dev_transfer_drop(struct rbt_context *ctx, struct dev_channel *ch)
{
	dev_map_put(ctx, ch->transfer.map);
	ch->transfer = (struct dev_transfer){.map = NULL};
}

void dev_transfer_start(struct rbt_context *ctx, uint32_t index)
{
	struct dev_channel *ch = &ctx->channels[index];
	uint32_t error;

	ch->transfer = (struct dev_transfer){.map = dev_map_get(ctx)};
	if (!ch->transfer.map) {
		dev_context_die(ctx, GPU_ERROR_NO_MEMORY);
		return;
	}
	ch->state = DEV_COPYING;
	error = ch->head.command == GPU_CMD_COPY ? prepare_copy(ch, &ch->transfer)
						 : prepare_fill(ch, &ch->transfer);
	if (error) {
		dev_log(ctx->dev, "context %llu, channel %u: a %s %s", (unsigned long long)ctx->id,
			index, ch->head.command == GPU_CMD_COPY ? "copy" : "fill",
			error == GPU_ERROR_INVALID ? "that makes no sense" : "outside its memory");
		dev_context_die(ctx, error);
	}
}

static void fill(uint8_t *to, uint64_t bytes, uint32_t value, uint32_t element)
{
	if (element == 1) {
		memset(to, (int)(value & 0xff), bytes);
	} else if (element == 2) {
		uint16_t *at = (uint16_t *)(void *)to;
		for (uint64_t k = 0; k < bytes / 2; k++) {
			at[k] = (uint16_t)value;
		}
	} else {
		uint32_t *at = (uint32_t *)(void *)to;
		for (uint64_t k = 0; k < bytes / 4; k++) {
			at[k] = value;
		}
	}
}

/* One row, or the rest of the piece; returns its cost. */
static uint64_t move_row(struct dev_transfer *t, uint64_t room)
{
	uint64_t bytes = dev_min(t->width - t->column, room / 8 * 8);
	uint8_t *to = t->to + t->row * t->to_pitch + t->column;

	if (t->from) {
		memmove(to, t->from + t->row * t->from_pitch + t->column, bytes);
	} else {
		fill(to, bytes, t->value, t->element);
	}
	t->column += bytes;
	if (t->column == t->width) {
		t->column = 0;
		t->row++;
	}
	return dev_max(bytes, DEV_ROW_BYTES);
}

void dev_transfer_go_on(struct rbt_context *ctx, uint32_t index)
{
	struct dev_channel *ch = &ctx->channels[index];
	struct dev_transfer *t = &ch->transfer;
	uint64_t moved = 0, ns;

	for (unsigned k = 0; k < DEV_PIECE_ROWS && t->row < t->rows; k++) {
		if (DEV_PIECE_BYTES - moved < 8) {
			break;
		}
		moved += move_row(t, DEV_PIECE_BYTES - moved);
		if (moved > DEV_PIECE_BYTES) {
			break;
		}
	}
	ns = moved * ctx->dev->config.copy_ns_per_kib / 1024;
	ch->time_ns += ns;
	ctx->dev->spent += 1 + moved * DEV_KIB_COST / 1024;
	if (t->row >= t->rows) {
		dev_transfer_drop(ctx, ch);
		dev_channel_complete(ctx, index);
	}
}
