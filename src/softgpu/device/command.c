/* SPDX-License-Identifier: Apache-2.0 */
/* Starts commands. */
#include "softgpu/device/device_impl.h"

/* A kernel from the ring, or one that must run again. */
static void start_kernel(struct rbt_context *ctx, uint32_t index)
{
	struct dev_channel *ch = &ctx->channels[index];
	struct dev_launch *launch = NULL;
	uint32_t error = 0;

	if (ch->n_todo == 0) {
		error = dev_launch_create(ctx, index, &launch);
		if (!error) {
			ch->todo[ch->n_todo++] = launch;
			ch->state = DEV_KERNEL;
		}
	}
	error = error ? error : dev_launch_start(ctx, index);
	if (error) {
		dev_log(ctx->dev, "context %llu, channel %u: an invalid launch: error %u",
			(unsigned long long)ctx->id, index, error);
		dev_context_die(ctx, error);
	}
}

/* Not before the command that it waited for. */
static void end_wait(struct rbt_context *ctx, uint32_t index)
{
	struct dev_channel *ch = &ctx->channels[index];

	ch->time_ns = dev_max(ch->time_ns, ctx->channels[ch->wait.channel].time_ns);
	dev_channel_complete(ctx, index);
}

static void stamp(struct rbt_context *ctx, uint32_t index)
{
	struct dev_channel *ch = &ctx->channels[index];

	__atomic_store_n(&ctx->room->event_ns[ch->stamp.event], ch->time_ns, __ATOMIC_RELAXED);
	dev_channel_complete(ctx, index);
}

void dev_command_start(struct rbt_context *ctx, uint32_t index)
{
	struct dev_channel *ch = &ctx->channels[index];

	ctx->dev->spent += DEV_COMMAND_COST;
	ch->time_ns = dev_max(ch->time_ns, ctx->dev->now_ns) + DEV_COMMAND_NS;
	if (ch->n_todo > 0 || ch->head.command == GPU_CMD_LAUNCH) {
		start_kernel(ctx, index);
		return;
	}
	/* The program may see results of earlier kernels: they must not run again. */
	dev_channel_commit(ch);
	switch (ch->head.command) {
	case GPU_CMD_COPY:
	case GPU_CMD_FILL:
		dev_transfer_start(ctx, index);
		break;
	case GPU_CMD_STAMP:
		stamp(ctx, index);
		break;
	case GPU_CMD_WAIT:
		end_wait(ctx, index);
		break;
	default:
		dev_channel_complete(ctx, index);
		break;
	}
}
