/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: creation, scheduling, death and destruction. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softgpu/device/device_impl.h"

#define DEFAULT_SLICE_NS 2048000u

static void append(struct rbt_device *dev, struct rbt_context *ctx)
{
	struct rbt_context **at = &dev->contexts;

	while (*at) {
		at = &(*at)->next;
	}
	*at = ctx;
	dev->n_contexts++;
}

int rbt_context_create(
	struct rbt_device *dev, uint32_t n_channels, uint64_t id, struct rbt_context **ret)
{
	struct rbt_context *ctx;
	void *room = NULL;
	int r;

	if (n_channels == 0 || n_channels > GPU_MAX_CHANNELS) {
		return -EINVAL;
	}
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx) {
		return -ENOMEM;
	}
	r = dev_memfd("softgpu-room", sizeof(struct gpu_room), &ctx->room_fd, &room);
	if (r < 0) {
		free(ctx);
		return r;
	}
	ctx->dev = dev;
	ctx->id = id;
	ctx->room = room;
	ctx->n_channels = n_channels;
	ctx->room->version = GPU_ABI_VERSION;
	ctx->room->n_channels = n_channels;
	ctx->schedule = (struct rbt_context_schedule){.timeslice_ns = DEFAULT_SLICE_NS,
		.scheduled = true,
		.enabled = (1u << n_channels) - 1};
	for (uint32_t k = 0; k < n_channels; k++) {
		ctx->channels[k].shared = &ctx->room->channels[k];
	}
	append(dev, ctx);
	rbt_device_wake(dev);
	*ret = ctx;
	return 0;
}

/* Drops all of its work. */
static void stop(struct rbt_context *ctx)
{
	dev_preempt_drop(ctx);
	for (uint32_t k = 0; k < ctx->n_channels; k++) {
		struct dev_channel *ch = &ctx->channels[k];

		while (ch->n_todo > 0) {
			dev_launch_drop(ch->todo[--ch->n_todo]);
		}
		while (ch->n_history > 0) {
			dev_launch_drop(ch->history[--ch->n_history]);
		}
		dev_transfer_drop(ctx, ch);
		ch->active = false;
		ch->state = DEV_EMPTY;
	}
	if (ctx->dev->current == ctx) {
		dev_switch_off(ctx->dev);
	}
	ctx->has_work = false;
}

void dev_context_die(struct rbt_context *ctx, uint32_t error)
{
	if (ctx->error) {
		return;
	}
	ctx->error = error;
	stop(ctx);
	dev_trace(ctx->dev, ctx->dev->now_ns, RBT_DEVICE_FAULT, ctx, error, 0);
	__atomic_store_n(&ctx->room->error, error, __ATOMIC_SEQ_CST);
	for (uint32_t k = 0; k < ctx->n_channels; k++) {
		dev_channel_wake(ctx->channels[k].shared);
	}
}

void rbt_context_kill(struct rbt_context *ctx, uint32_t error)
{
	dev_context_die(ctx, error ? error : GPU_ERROR_LAUNCH_FAILED);
}

void rbt_context_destroy(struct rbt_context *ctx)
{
	struct rbt_context **at;
	struct rbt_device *dev;

	if (!ctx) {
		return;
	}
	dev = ctx->dev;
	dev_watch_forget(dev, ctx);
	dev_replay_forget(dev, ctx);
	/* So that no further command of it starts. */
	ctx->error = ctx->error ? ctx->error : GPU_ERROR_UNAVAILABLE;
	stop(ctx);
	dev->last = dev->last == ctx ? NULL : dev->last;
	for (at = &dev->contexts; *at != ctx; at = &(*at)->next) {
	}
	*at = ctx->next;
	dev->n_contexts--;
	dev_module_finish(ctx);
	dev_memory_finish(ctx);
	/* The context's own reference; all others are gone by now. */
	dev_map_put(ctx, ctx->map);
	munmap(ctx->room, sizeof(struct gpu_room));
	close(ctx->room_fd);
	free(ctx);
}

int rbt_context_room_fd(const struct rbt_context *ctx)
{
	return ctx->room_fd;
}

void rbt_context_set_schedule(struct rbt_context *ctx, const struct rbt_context_schedule *s)
{
	ctx->schedule = *s;
	ctx->schedule.timeslice_ns = dev_max(1, dev_min(s->timeslice_ns, DEV_MAX_NS));
	ctx->schedule.interleave = s->interleave > 2 ? 2 : s->interleave;
	dev_context_poll(ctx);
	rbt_device_wake(ctx->dev);
}

void rbt_context_preempt(struct rbt_context *ctx)
{
	struct rbt_device *dev = ctx->dev;
	uint64_t end = dev->spent + DEV_DRAIN_MAX;

	if (dev->current != ctx) {
		return;
	}
	if (!dev->leaving) {
		dev_preempt(dev, true);
	}
	while (dev_preempt_waits(dev)) {
		if (dev->spent >= end) {
			dev_preempt_force(dev);
			return;
		}
		dev_advance(dev);
	}
	if (dev->current == ctx) {
		dev_switch_off(dev);
	}
}

void rbt_context_get_stats(const struct rbt_context *ctx, struct rbt_context_stats *ret)
{
	const struct rbt_device *dev = ctx->dev;

	*ret = ctx->stats;
	ret->id = ctx->id;
	ret->memory_bytes = ctx->memory_bytes;
	ret->error = ctx->error;
	ret->has_work = ctx->has_work;
	ret->running = dev->current == ctx && ctx->has_work;
	if (dev->current == ctx) {
		ret->busy_ns += dev->now_ns - ctx->since_ns;
	}
}
