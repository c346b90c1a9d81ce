/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which context has the SMs. Each context has a pass; the context with work and the lowest
 * pass is next, and each turn adds to its pass: 4, 2 or 1 by interleave level. Slices are in
 * virtual time.
 */
#include "softgpu/device/device_impl.h"

static uint64_t stride(const struct rbt_context *ctx)
{
	return 4u >> ctx->schedule.interleave;
}

void dev_context_poll(struct rbt_context *ctx)
{
	bool work = false;

	for (uint32_t k = 0; k < ctx->n_channels; k++) {
		if (dev_channel_enabled(ctx, k)) {
			dev_channel_fetch(ctx, k);
			work = dev_channel_ready(ctx, k) || work;
		}
	}
	work = work && ctx->error == 0;
	if (work && !ctx->has_work) {
		ctx->arrived = true;
		/* Idle time earns no advantage. */
		ctx->pass = dev_max(ctx->pass, ctx->dev->pass);
	}
	ctx->has_work = work;
}

void dev_poll_all(struct rbt_device *dev)
{
	dev->polled = dev->spent;
	for (struct rbt_context *ctx = dev->contexts; ctx; ctx = ctx->next) {
		dev_context_poll(ctx);
	}
}

bool dev_others_wait(const struct rbt_device *dev)
{
	for (const struct rbt_context *ctx = dev->contexts; ctx; ctx = ctx->next) {
		if (ctx->has_work && ctx != dev->current) {
			return true;
		}
	}
	return false;
}

/* Whether the context has just got work, and need not wait for the end of a lower one's slice. */
static bool is_urgent(const struct rbt_device *dev, const struct rbt_context *ctx)
{
	return dev->config.mechanism != RBT_MECHANISM_TIMESLICE && ctx->arrived && ctx->has_work;
}

static bool comes_before(
	const struct rbt_device *dev, const struct rbt_context *a, const struct rbt_context *b)
{
	uint32_t urgent_a = is_urgent(dev, a) ? a->schedule.interleave : 0;
	uint32_t urgent_b = is_urgent(dev, b) ? b->schedule.interleave : 0;

	if (urgent_a != urgent_b) {
		return urgent_a > urgent_b;
	}
	return a->pass != b->pass ? a->pass < b->pass : a->turn < b->turn;
}

/* The next context, which may be the current one; NULL: none has work. */
static struct rbt_context *choose(struct rbt_device *dev)
{
	struct rbt_context *best = NULL;

	for (struct rbt_context *ctx = dev->contexts; ctx; ctx = ctx->next) {
		if (ctx->has_work && (!best || comes_before(dev, ctx, best))) {
			best = ctx;
		}
	}
	return best;
}

static bool somebody_urgent(const struct rbt_device *dev)
{
	for (const struct rbt_context *ctx = dev->contexts; ctx; ctx = ctx->next) {
		if (ctx != dev->current && is_urgent(dev, ctx) &&
			ctx->schedule.interleave > dev->current->schedule.interleave) {
			return true;
		}
	}
	return false;
}

static void take_turn(struct rbt_device *dev, struct rbt_context *ctx)
{
	dev->pass = ctx->pass;
	ctx->pass += stride(ctx);
	ctx->turn = ++dev->turns;
	ctx->arrived = false;
}

void dev_switch_off(struct rbt_device *dev)
{
	struct rbt_context *ctx = dev->current;

	dev_clock_catch_up(dev);
	ctx->stats.busy_ns += dev->now_ns - ctx->since_ns;
	dev->current = NULL;
	dev->leaving = DEV_STAYS;
	ctx->arrived = false;
	dev_context_poll(ctx);
}

/* All SMs begin the slice together, after saved blocks are on them again. */
static void begin_slice(struct rbt_device *dev, struct rbt_context *ctx)
{
	for (uint32_t k = 0; k < dev->config.n_sms; k++) {
		dev->now_ns = dev_max(dev->now_ns, dev->sms[k].time_ns);
	}
	for (uint32_t k = 0; k < dev->config.n_sms; k++) {
		struct dev_sm *sm = &dev->sms[k];

		sm->time_ns = dev->now_ns;
		/* However short slices are, every block gets its turn. */
		sm->turn = sm->n ? (uint32_t)(ctx->stats.slices % sm->n) : 0;
		sm->turn_used = 0;
	}
	for (uint32_t k = 0; k < ctx->n_channels; k++) {
		struct dev_channel *ch = &ctx->channels[k];

		if (ch->state == DEV_COPYING) {
			ch->time_ns = dev_max(ch->time_ns, dev->now_ns);
		}
	}
	ctx->since_ns = dev->now_ns;
	dev->slice_end_ns = dev->now_ns + ctx->schedule.timeslice_ns;
	dev_trace(dev, dev->now_ns, RBT_DEVICE_GO, ctx, 0, 0);
}

static void switch_to(struct rbt_device *dev, struct rbt_context *ctx)
{
	dev->spent += DEV_COMMAND_COST;
	if (dev->last && dev->last != ctx) {
		dev->now_ns += dev->config.switch_ns;
	}
	dev->current = dev->last = ctx;
	ctx->stats.slices++;
	take_turn(dev, ctx);
	if (ctx->flagged) {
		dev_flags_set(ctx, 0);
	}
	ctx->since_ns = dev->now_ns;
	dev_trace(dev, dev->now_ns, RBT_DEVICE_SWITCH, ctx, 0, 0);
	dev_dispatch(ctx);
	if (dev->current == ctx) {
		begin_slice(dev, ctx);
	}
}

/* Whether blocks on SMs belong to a channel that may not go on. */
static bool holds_disabled(const struct rbt_context *ctx)
{
	for (uint32_t k = 0; k < ctx->n_running; k++) {
		if (ctx->running[k]->resident > 0 &&
			!dev_channel_enabled(ctx, ctx->running[k]->channel)) {
			return true;
		}
	}
	return false;
}

/* Whether the current context goes on: it may, or no other has work. */
static bool goes_on(struct rbt_device *dev)
{
	struct rbt_context *ctx = dev->current, *next;
	uint32_t where;
	uint64_t time_ns = dev_earliest(dev, &where);

	if (somebody_urgent(dev)) {
		return false;
	}
	if (time_ns < dev->slice_end_ns) {
		return true;
	}
	dev_context_poll(ctx);
	if (dev->current != ctx || time_ns == DEV_NEVER || holds_disabled(ctx)) {
		return false;
	}
	next = choose(dev);
	if (next != ctx) {
		return false;
	}
	dev->slice_end_ns = time_ns + ctx->schedule.timeslice_ns;
	if (dev_others_wait(dev)) {
		take_turn(dev, ctx);
	}
	return true;
}

/* Takes the SMs from the current context; true: it will leave, but has not yet. */
static bool take_away(struct rbt_device *dev)
{
	struct rbt_context *ctx = dev->current;

	if (!dev->leaving) {
		dev_preempt(dev, somebody_urgent(dev));
	}
	if (dev_preempt_waits(dev)) {
		return true;
	}
	if (dev->current == ctx) {
		dev_switch_off(dev);
	}
	return false;
}

bool dev_schedule(struct rbt_device *dev)
{
	struct rbt_context *next;

	if (dev->current && !dev->leaving && goes_on(dev)) {
		return true;
	}
	if (dev->current) {
		uint32_t where;

		/* Idle, and no other context has work: it keeps the SMs, and needs no switch. */
		if (!dev->leaving && dev_earliest(dev, &where) == DEV_NEVER && !choose(dev)) {
			return false;
		}
		if (take_away(dev)) {
			return true;
		}
	}
	do {
		next = choose(dev);
		if (!next) {
			return false;
		}
		switch_to(dev, next);
	} while (!dev->current);
	return true;
}
