/* SPDX-License-Identifier: Apache-2.0 */
/* The five mechanisms that take the SMs away. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/device/device_impl.h"

static const char *const names[RBT_N_MECHANISMS] = {
	[RBT_MECHANISM_TIMESLICE] = "timeslice",
	[RBT_MECHANISM_EXACT] = "exact",
	[RBT_MECHANISM_RESET] = "reset",
	[RBT_MECHANISM_FLAG] = "flag",
	[RBT_MECHANISM_DRAIN] = "drain",
};

const char *rbt_mechanism_name(enum rbt_mechanism m)
{
	return (unsigned)m < RBT_N_MECHANISMS ? names[m] : "unknown";
}

int rbt_mechanism_parse(const char *name, enum rbt_mechanism *ret)
{
	for (unsigned k = 0; k < RBT_N_MECHANISMS; k++) {
		if (strcmp(name, names[k]) == 0) {
			*ret = (enum rbt_mechanism)k;
			return 0;
		}
	}
	return -EINVAL;
}

uint64_t rbt_reset_offset(uint64_t launch_offset, uint64_t pending, uint64_t kernel_offset)
{
	uint64_t started = launch_offset > pending ? launch_offset - pending : 0;

	return dev_max(started > 2 ? started - 2 : 0, kernel_offset);
}

/* Saves the block at `slot`; -1: there was no memory for it. */
static int save_block(struct rbt_device *dev, struct dev_sm *sm, uint32_t slot)
{
	struct dev_resident *r = &sm->blocks[slot];
	struct dev_launch *launch = r->launch;
	size_t size = rbt_exec_block_save_size(r->block);
	uint64_t kib = (size + 1023) / 1024;
	struct dev_saved *saved = malloc(sizeof(*saved) + size);

	if (!saved || rbt_exec_block_save(r->block, saved->bytes, size) < 0) {
		free(saved);
		return -1;
	}
	saved->number = r->number;
	saved->instructions = rbt_exec_block_instructions(r->block);
	saved->sm = (uint32_t)(sm - dev->sms);
	saved->size = size;
	dev_launch_save(launch, saved);
	dev->spent += kib * DEV_KIB_COST;
	sm->time_ns += kib * dev->config.save_ns_per_kib;
	launch->ctx->stats.saved_bytes += size;
	dev_trace(dev, sm->time_ns, RBT_DEVICE_BLOCK_OFF, launch->ctx, saved->sm, saved->number);
	dev_sm_remove(dev, sm, slot);
	return 0;
}

void dev_preempt_exact(struct rbt_device *dev)
{
	struct rbt_context *ctx = dev->current;
	bool any = false;

	for (uint32_t k = 0; k < dev->config.n_sms; k++) {
		struct dev_sm *sm = &dev->sms[k];

		while (sm->n > 0) {
			if (save_block(dev, sm, 0) < 0) {
				dev_log(dev, "context %llu: no memory to save its blocks",
					(unsigned long long)ctx->id);
				dev_context_die(ctx, GPU_ERROR_OUT_OF_RESOURCES);
				return;
			}
			any = true;
		}
	}
	ctx->stats.preempts += any;
}

static void kill_block(struct rbt_device *dev, struct dev_sm *sm, uint32_t slot)
{
	struct dev_resident *r = &sm->blocks[slot];

	r->launch->ctx->stats.lost_instructions += rbt_exec_block_instructions(r->block);
	dev_sm_remove(dev, sm, slot);
}

void dev_preempt_drop(struct rbt_context *ctx)
{
	struct rbt_device *dev = ctx->dev;

	for (uint32_t k = 0; dev->current == ctx && k < dev->config.n_sms; k++) {
		struct dev_sm *sm = &dev->sms[k];

		while (sm->n > 0) {
			kill_block(dev, sm, sm->n - 1);
		}
	}
}

/* Sets the kernels that the channel must run again: those from the offset on, as far as they are
 * known. */
static void reset_channel(struct rbt_context *ctx, uint32_t index)
{
	struct dev_channel *ch = &ctx->channels[index];
	uint64_t pending = dev_channel_pending(ctx, index);
	uint64_t n_launched = ch->kernels + pending;
	uint64_t offset =
		rbt_reset_offset(n_launched > 0 ? n_launched - 1 : 0, pending, ch->kernel_offset);
	struct dev_launch *todo[3];
	uint32_t n = 0;

	for (uint32_t k = 0; k < ch->n_history; k++) {
		if (ch->history[k]->index >= offset && n + ch->n_todo < 3) {
			dev_launch_rewind(ch->history[k]);
			todo[n++] = ch->history[k];
		} else {
			dev_launch_drop(ch->history[k]);
		}
	}
	for (uint32_t k = 0; k < ch->n_todo; k++) {
		dev_launch_rewind(ch->todo[k]);
		todo[n++] = ch->todo[k];
	}
	memcpy(ch->todo, todo, n * sizeof(todo[0]));
	ch->n_todo = n;
	ch->n_history = 0;
	ch->active = false;
	ch->kernel_offset = offset;
	ctx->stats.pending_cleared += pending;
}

static void reset(struct rbt_device *dev)
{
	struct rbt_context *ctx = dev->current;

	ctx->stats.preempts += dev_has_blocks(dev);
	dev_flags_set(ctx, 1);
	dev_preempt_drop(ctx);
	for (uint32_t k = 0; k < ctx->n_channels; k++) {
		reset_channel(ctx, k);
	}
}

/* Kernels that have left, partly or completely, start again, even if blocks of them are saved. */
static void rewind_pollers(struct rbt_context *ctx)
{
	uint32_t k = 0;

	while (k < ctx->n_running) {
		struct dev_launch *launch = ctx->running[k];

		if (launch->left && launch->resident == 0) {
			dev_launch_rewind(launch);
		} else {
			k++;
		}
	}
}

static bool pollers_run(const struct rbt_context *ctx)
{
	for (uint32_t k = 0; k < ctx->n_running; k++) {
		if (ctx->running[k]->polls && ctx->running[k]->resident > 0) {
			return true;
		}
	}
	return false;
}

/* Whether a context that is leaving may be taken off by another mechanism, because the device's was
 * changed. Kernels that were told to leave by the flag leave first. */
static bool may_change(const struct rbt_device *dev)
{
	if (dev->leaving == DEV_DRAINS) {
		return dev->config.mechanism != RBT_MECHANISM_DRAIN;
	}
	return dev->config.mechanism != RBT_MECHANISM_FLAG && !pollers_run(dev->current);
}

/* Kernels on SMs run to their end, even if their channel is disabled meanwhile. */
static void set_draining(struct rbt_context *ctx, bool draining)
{
	for (uint32_t k = 0; k < ctx->n_running; k++) {
		ctx->running[k]->draining = draining && ctx->running[k]->resident > 0;
	}
}

static void stop_leaving(struct rbt_device *dev)
{
	set_draining(dev->current, false);
	if (dev->leaving == DEV_FLAGGED) {
		rewind_pollers(dev->current);
	}
	dev->leaving = DEV_STAYS;
}

bool dev_preempt_waits(struct rbt_device *dev)
{
	struct rbt_context *ctx = dev->current;

	if (!ctx || !dev->leaving) {
		return false;
	}
	dev_dispatch(ctx);
	if (dev->current != ctx) {
		return false;
	}
	if (dev_has_blocks(dev) && may_change(dev)) {
		stop_leaving(dev);
		dev_preempt(dev, true);
	}
	if (dev->current != ctx || !dev->leaving) {
		return false;
	}
	if (dev_has_blocks(dev)) {
		return true;
	}
	stop_leaving(dev);
	return false;
}

void dev_preempt_force(struct rbt_device *dev)
{
	struct rbt_context *ctx = dev->current;

	/* A kernel is of no use if some of its blocks may have been killed unfinished. */
	for (uint32_t k = 0; dev->leaving == DEV_FLAGGED && k < dev->config.n_sms; k++) {
		struct dev_sm *sm = &dev->sms[k];

		for (uint32_t slot = sm->n; slot-- > 0;) {
			struct dev_launch *launch = sm->blocks[slot].launch;

			if (launch->polls) {
				launch->left = true;
				kill_block(dev, sm, slot);
			}
		}
	}
	stop_leaving(dev);
	dev_preempt_exact(dev);
	if (dev->current == ctx) {
		dev_switch_off(dev);
	}
}

void dev_preempt(struct rbt_device *dev, bool at_once)
{
	struct rbt_context *ctx = dev->current;
	enum rbt_mechanism m = dev->config.mechanism;
	uint32_t where;

	if (dev_has_blocks(dev)) {
		dev_trace(dev, dev_max(dev->now_ns, dev_earliest(dev, &where)), RBT_DEVICE_LEAVE,
			ctx, 0, 0);
	}
	/* Kernels longer than a slice would start again for ever. */
	if (!at_once && (m == RBT_MECHANISM_RESET || m == RBT_MECHANISM_FLAG)) {
		m = RBT_MECHANISM_EXACT;
	}
	if (m == RBT_MECHANISM_RESET) {
		reset(dev);
	} else if (m == RBT_MECHANISM_FLAG || m == RBT_MECHANISM_DRAIN) {
		if (ctx->n_running > 0) {
			ctx->stats.preempts++;
			set_draining(ctx, true);
			dev->leaving = m == RBT_MECHANISM_FLAG ? DEV_FLAGGED : DEV_DRAINS;
		}
		if (m == RBT_MECHANISM_FLAG) {
			dev_flags_set(ctx, 1);
		}
	} else {
		dev_preempt_exact(dev);
	}
}
