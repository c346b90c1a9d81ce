/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of a channel: from the command to their last block; and again after a reset. */
#include <stdlib.h>
#include <string.h>

#include "softgpu/device/device_impl.h"

static struct dev_launch *take(struct rbt_device *dev)
{
	struct dev_launch *launch = dev->pool;

	if (!launch) {
		return malloc(sizeof(*launch));
	}
	dev->pool = launch->next;
	return launch;
}

static void drop_saved(struct dev_launch *launch)
{
	while (launch->saved) {
		struct dev_saved *saved = launch->saved;

		launch->saved = saved->next;
		free(saved);
	}
	launch->saved_end = &launch->saved;
	launch->n_saved = 0;
}

void dev_launch_save(struct dev_launch *launch, struct dev_saved *saved)
{
	saved->next = NULL;
	*launch->saved_end = saved;
	launch->saved_end = &saved->next;
	launch->n_saved++;
}

static void leave_running(struct dev_launch *launch)
{
	struct rbt_context *ctx = launch->ctx;
	uint32_t kept = 0;

	for (uint32_t k = 0; k < ctx->n_running; k++) {
		if (ctx->running[k] != launch) {
			ctx->running[kept++] = ctx->running[k];
		}
	}
	ctx->n_running = kept;
}

void dev_launch_drop(struct dev_launch *launch)
{
	struct rbt_context *ctx = launch->ctx;

	leave_running(launch);
	drop_saved(launch);
	dev_map_put(ctx, launch->map);
	dev_module_put(ctx, launch->module);
	launch->next = ctx->dev->pool;
	ctx->dev->pool = launch;
}

void dev_launch_rewind(struct dev_launch *launch)
{
	leave_running(launch);
	for (const struct dev_saved *saved = launch->saved; saved; saved = saved->next) {
		launch->ctx->stats.lost_instructions += saved->instructions;
	}
	drop_saved(launch);
	dev_map_put(launch->ctx, launch->map);
	launch->map = NULL;
	launch->placed = 0;
	launch->done = 0;
	launch->resident = 0;
	launch->draining = false;
	launch->left = false;
	launch->repeat_left += launch->executed;
	launch->executed = 0;
	launch->ctx->channels[launch->channel].active = false;
}

static bool grid_ok(const struct gpu_launch *c, const struct rbt_ptx_function *kernel)
{
	const uint32_t max_grid[3] = {GPU_MAX_GRID_X, GPU_MAX_GRID_YZ, GPU_MAX_GRID_YZ};
	uint64_t threads = 1, max_threads = 1;

	for (unsigned k = 0; k < 3; k++) {
		if (c->grid[k] == 0 || c->grid[k] > max_grid[k] || c->block[k] == 0 ||
			c->block[k] > GPU_MAX_BLOCK ||
			(kernel->req_ntid[k] && kernel->req_ntid[k] != c->block[k])) {
			return false;
		}
		threads *= c->block[k];
		max_threads *= kernel->max_ntid[k] ? kernel->max_ntid[k] : 1;
	}
	return threads <= GPU_MAX_BLOCK && (!kernel->max_ntid[0] || threads <= max_threads);
}

/* An estimate of the host's memory for one block. */
static uint64_t state_bytes(
	const struct rbt_ptx_function *fn, uint32_t threads, uint32_t shared, uint32_t stack)
{
	uint64_t lane = (uint64_t)(fn->nregs32 + fn->nconsts32) * 4 +
			(uint64_t)(fn->nregs64 + fn->nconsts64) * 8 + fn->frame_size +
			fn->local_size;

	/* Only kernels that call functions or have local memory get a stack. */
	if (fn->local_size > 0 || fn->ncalls > 0) {
		lane += stack;
	}
	return lane * threads + shared;
}

static void fill_exec(struct dev_launch *launch, const struct gpu_launch *c, struct dev_module *m,
	const struct rbt_ptx_function *kernel)
{
	launch->exec = (struct rbt_exec_launch){.module = m->ptx,
		.kernel = kernel,
		.dynamic_shared = c->shared,
		.params = launch->params,
		.variable_va = m->variable_va,
		.stack_size = c->stack ? c->stack : GPU_STACK,
		.print = dev_print,
		.complain = dev_complain,
		.user = launch->ctx};
	memcpy(launch->exec.grid, c->grid, sizeof(c->grid));
	memcpy(launch->exec.block, c->block, sizeof(c->block));
}

static uint32_t init(struct dev_launch *launch, const struct gpu_launch *c,
	const struct rbt_ptx_function *kernel)
{
	uint32_t threads = c->block[0] * c->block[1] * c->block[2];

	launch->blocks = (uint64_t)c->grid[0] * c->grid[1] * c->grid[2];
	launch->threads = (threads + 31) / 32 * 32;
	launch->shared = kernel->shared_size + c->shared;
	launch->state =
		state_bytes(kernel, launch->threads, launch->shared, launch->exec.stack_size);
	launch->cooperative = c->flags & GPU_LAUNCH_COOPERATIVE;
	launch->saved = NULL;
	launch->saved_end = &launch->saved;
	launch->polls = launch->module->polls[kernel - launch->module->ptx->functions];
	if (launch->state > DEV_SM_STATE || rbt_exec_launch_check(&launch->exec) < 0) {
		return GPU_ERROR_OUT_OF_RESOURCES;
	}
	if (launch->cooperative && launch->blocks > (uint64_t)dev_sm_capacity(launch) *
							    launch->ctx->dev->config.n_sms) {
		return GPU_ERROR_COOPERATIVE_TOO_LARGE;
	}
	return 0;
}

uint32_t dev_launch_create(struct rbt_context *ctx, uint32_t index, struct dev_launch **ret)
{
	struct dev_channel *ch = &ctx->channels[index];
	const struct gpu_launch *c = &ch->launch;
	struct dev_module *module = dev_module_find(ctx, c->module);
	const struct rbt_ptx_function *kernel;
	struct dev_launch *launch;
	uint32_t error;

	if (!module || c->function >= module->ptx->nfunctions ||
		c->flags & ~GPU_LAUNCH_COOPERATIVE) {
		return GPU_ERROR_INVALID;
	}
	kernel = &module->ptx->functions[c->function];
	if (!kernel->is_entry || c->stack > GPU_MAX_STACK || c->param_size != kernel->param_size ||
		!grid_ok(c, kernel) || kernel->shared_size > GPU_BLOCK_SHARED ||
		c->shared > GPU_BLOCK_SHARED - kernel->shared_size) {
		return GPU_ERROR_INVALID;
	}
	launch = take(ctx->dev);
	if (!launch) {
		return GPU_ERROR_NO_MEMORY;
	}
	memset(launch, 0, offsetof(struct dev_launch, params));
	memcpy(launch->params, ch->params, c->param_size);
	launch->ctx = ctx;
	launch->channel = index;
	launch->module = module;
	module->refs++;
	fill_exec(launch, c, module, kernel);
	error = init(launch, c, kernel);
	if (error) {
		dev_launch_drop(launch);
		return error;
	}
	launch->index = ch->kernels++;
	launch->command = ch->command;
	*ret = launch;
	return 0;
}

uint32_t dev_launch_start(struct rbt_context *ctx, uint32_t index)
{
	struct dev_channel *ch = &ctx->channels[index];
	struct dev_launch *launch = ch->todo[0];

	launch->map = dev_map_get(ctx);
	if (!launch->map) {
		return GPU_ERROR_NO_MEMORY;
	}
	launch->exec.windows = launch->map->windows;
	launch->exec.nwindows = launch->map->n;
	launch->order = launch->exec.grid_id = ++ctx->dev->order;
	launch->start_ns = launch->end_ns = ch->time_ns;
	ch->active = true;
	ctx->running[ctx->n_running++] = launch;
	dev_trace(ctx->dev, ch->time_ns, RBT_DEVICE_KERNEL, ctx, index, launch->command);
	dev_dispatch(ctx);
	return 0;
}

/* Kept for as long as a reset might go back to it: the last two. */
static void keep(struct dev_channel *ch, struct dev_launch *launch)
{
	if (ch->n_history == 2) {
		dev_launch_drop(ch->history[0]);
		ch->history[0] = ch->history[1];
		ch->n_history = 1;
	}
	ch->history[ch->n_history++] = launch;
}

void dev_launch_end(struct dev_launch *launch)
{
	struct rbt_context *ctx = launch->ctx;
	struct dev_channel *ch = &ctx->channels[launch->channel];
	bool published = launch->published;

	leave_running(launch);
	dev_map_put(ctx, launch->map);
	launch->map = NULL;
	launch->published = true;
	ch->time_ns = dev_max(ch->time_ns, launch->end_ns);
	ch->active = false;
	ch->n_todo--;
	memmove(&ch->todo[0], &ch->todo[1], ch->n_todo * sizeof(ch->todo[0]));
	if (ctx->dev->config.mechanism == RBT_MECHANISM_RESET) {
		keep(ch, launch);
	} else {
		dev_launch_drop(launch);
	}
	if (!published) {
		ctx->stats.launches++;
		dev_channel_complete(ctx, (uint32_t)(ch - ctx->channels));
	}
}

void dev_channel_commit(struct dev_channel *ch)
{
	uint32_t kept = 0;

	while (ch->n_history > 0) {
		dev_launch_drop(ch->history[--ch->n_history]);
	}
	/* Kernels that are under way or have never ended must still run. */
	for (uint32_t k = 0; k < ch->n_todo; k++) {
		if (ch->todo[k]->published && !(k == 0 && ch->active)) {
			dev_launch_drop(ch->todo[k]);
		} else {
			ch->todo[kept++] = ch->todo[k];
		}
	}
	ch->n_todo = kept;
	ch->kernel_offset = ch->kernels - kept;
}
