/* SPDX-License-Identifier: Apache-2.0 */
/* Puts blocks onto SMs, and runs a quantum of one of them at a time. */
#include <stdlib.h>
#include <string.h>

#include "softgpu/device/device_impl.h"

bool dev_has_blocks(const struct rbt_device *dev)
{
	for (uint32_t k = 0; k < dev->config.n_sms; k++) {
		if (dev->sms[k].n > 0) {
			return true;
		}
	}
	return false;
}

/* How many more blocks of the launch fit on the SM. */
static uint32_t room_on(const struct dev_sm *sm, const struct dev_launch *launch)
{
	uint64_t room = GPU_SM_BLOCKS - sm->n;

	room = dev_min(room, (GPU_SM_THREADS - sm->threads) / launch->threads);
	if (launch->shared > 0) {
		room = dev_min(room, (GPU_SM_SHARED - sm->shared) / launch->shared);
	}
	if (launch->state > 0) {
		room = dev_min(room, (DEV_SM_STATE - sm->state) / launch->state);
	}
	return (uint32_t)room;
}

uint32_t dev_sm_capacity(const struct dev_launch *launch)
{
	static const struct dev_sm empty;

	return room_on(&empty, launch);
}

/* The SM for a new block: the emptiest, and of these the earliest. */
static struct dev_sm *choose_sm(struct rbt_device *dev, const struct dev_launch *launch)
{
	struct dev_sm *best = NULL;

	for (uint32_t k = 0; k < dev->config.n_sms; k++) {
		struct dev_sm *sm = &dev->sms[k];

		if (room_on(sm, launch) == 0) {
			continue;
		}
		if (!best || sm->n < best->n || (sm->n == best->n && sm->time_ns < best->time_ns)) {
			best = sm;
		}
	}
	return best;
}

static void add(struct rbt_device *dev, struct dev_sm *sm, struct dev_launch *launch,
	struct rbt_exec_block *block, uint64_t number)
{
	/* An SM that was idle, or behind, cannot start before the kernel does. */
	if (sm->n == 0) {
		sm->time_ns = dev_max(sm->time_ns, dev->now_ns);
	}
	sm->time_ns = dev_max(sm->time_ns, launch->start_ns);
	sm->blocks[sm->n++] = (struct dev_resident){block, launch, number};
	sm->threads += launch->threads;
	sm->shared += launch->shared;
	sm->state += launch->state;
	launch->resident++;
	dev_trace(
		dev, sm->time_ns, RBT_DEVICE_BLOCK, launch->ctx, (uint64_t)(sm - dev->sms), number);
}

void dev_sm_remove(struct rbt_device *dev, struct dev_sm *sm, uint32_t slot)
{
	struct dev_launch *launch = sm->blocks[slot].launch;

	rbt_exec_block_destroy(sm->blocks[slot].block);
	sm->threads -= launch->threads;
	sm->shared -= launch->shared;
	sm->state -= launch->state;
	launch->resident--;
	sm->n--;
	memmove(&sm->blocks[slot], &sm->blocks[slot + 1], (sm->n - slot) * sizeof(sm->blocks[0]));
	if (sm->turn > slot) {
		sm->turn--;
	} else if (sm->turn == slot) {
		sm->turn_used = 0;
	}
	if (sm->turn >= sm->n) {
		sm->turn = 0;
	}
}

static void no_memory(struct dev_launch *launch)
{
	dev_log(launch->ctx->dev, "context %llu: no memory for a block of %s",
		(unsigned long long)launch->ctx->id, launch->exec.kernel->name);
	dev_context_die(launch->ctx, GPU_ERROR_OUT_OF_RESOURCES);
}

/* -1: the context has died. */
static int make_block(struct rbt_device *dev, struct dev_sm *sm, struct dev_launch *launch)
{
	const uint32_t *grid = launch->exec.grid;
	uint64_t number = launch->placed;
	const uint32_t index[3] = {(uint32_t)(number % grid[0]),
		(uint32_t)(number / grid[0] % grid[1]), (uint32_t)(number / grid[0] / grid[1])};
	struct rbt_exec_block *block;

	if (rbt_exec_block_create(sm->exec, &launch->exec, index, &block) < 0) {
		no_memory(launch);
		return -1;
	}
	dev->spent += DEV_BLOCK_COST;
	launch->placed++;
	add(dev, sm, launch, block, number);
	return 0;
}

/* -1: the context has died. */
static int restore_block(struct rbt_device *dev, struct dev_sm *sm, struct dev_launch *launch)
{
	struct dev_saved *saved = launch->saved;
	uint64_t kib = (saved->size + 1023) / 1024;
	struct rbt_exec_block *block;

	if (rbt_exec_block_restore(sm->exec, &launch->exec, saved->bytes, saved->size, &block) <
		0) {
		no_memory(launch);
		return -1;
	}
	dev->spent += kib * DEV_KIB_COST;
	launch->ctx->stats.restored_bytes += saved->size;
	add(dev, sm, launch, block, saved->number);
	sm->time_ns += kib * dev->config.save_ns_per_kib;
	launch->saved = saved->next;
	launch->n_saved--;
	if (!launch->saved) {
		launch->saved_end = &launch->saved;
	}
	free(saved);
	return 0;
}

/*
 * Each saved block of a context goes to the SM after its earlier one. Blocks that were on an SM
 * together fit again, whatever their sizes.
 */
static int restore_blocks(struct rbt_device *dev, struct dev_launch *launch)
{
	while (launch->saved) {
		struct dev_sm *sm = &dev->sms[(launch->saved->sm + 1) % dev->config.n_sms];

		if (room_on(sm, launch) == 0) {
			sm = choose_sm(dev, launch);
		}
		if (!sm) {
			return 0;
		}
		if (restore_block(dev, sm, launch) < 0) {
			return -1;
		}
	}
	return 0;
}

/* The rest of a cooperative launch must be placed on SMs together. */
static bool may_place(const struct rbt_device *dev, const struct dev_launch *launch)
{
	uint64_t wanted = launch->n_saved + launch->blocks - launch->placed, room = 0;

	if (!launch->cooperative) {
		return true;
	}
	for (uint32_t k = 0; k < dev->config.n_sms; k++) {
		room += room_on(&dev->sms[k], launch);
	}
	return room >= wanted;
}

/* Whether the kernel was asked to leave by the flag, and polls it. */
static bool is_leaving(const struct rbt_device *dev, const struct dev_launch *launch)
{
	return dev->leaving == DEV_FLAGGED && launch->polls;
}

static bool may_go_on(const struct dev_launch *launch)
{
	return launch->draining || dev_channel_enabled(launch->ctx, launch->channel);
}

/*
 * Saved blocks first. Then new ones of the kernel that started first; later kernels get the
 * remaining room. So a large block never starves behind small ones.
 */
void dev_dispatch(struct rbt_context *ctx)
{
	struct rbt_device *dev = ctx->dev;

	for (uint32_t k = 0; k < ctx->n_running; k++) {
		struct dev_launch *launch = ctx->running[k];

		if (launch->saved && may_go_on(launch) && may_place(dev, launch) &&
			restore_blocks(dev, launch) < 0) {
			return;
		}
	}
	for (uint32_t k = 0; k < ctx->n_running; k++) {
		struct dev_launch *launch = ctx->running[k];

		if (!may_go_on(launch) || is_leaving(dev, launch)) {
			continue;
		}
		while (may_place(dev, launch) && launch->placed < launch->blocks) {
			struct dev_sm *sm = choose_sm(dev, launch);

			if (!sm) {
				return;
			}
			if (make_block(dev, sm, launch) < 0) {
				return;
			}
		}
		if (launch->placed < launch->blocks) {
			return;
		}
	}
}

static uint32_t error_of(enum rbt_exec_fault_kind kind)
{
	switch (kind) {
	case RBT_EXEC_FAULT_ILLEGAL_ADDRESS:
		return GPU_ERROR_ILLEGAL_ADDRESS;
	case RBT_EXEC_FAULT_MISALIGNED_ADDRESS:
		return GPU_ERROR_MISALIGNED;
	case RBT_EXEC_FAULT_ASSERT:
		return GPU_ERROR_ASSERT;
	case RBT_EXEC_FAULT_STACK_OVERFLOW:
		return GPU_ERROR_STACK;
	case RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION:
		return GPU_ERROR_ILLEGAL_INSTRUCTION;
	case RBT_EXEC_FAULT_NO_MEMORY:
		return GPU_ERROR_OUT_OF_RESOURCES;
	default:
		return GPU_ERROR_LAUNCH_FAILED;
	}
}

static void fail(struct rbt_device *dev, const struct dev_resident *r, enum rbt_exec_status status)
{
	const struct rbt_exec_fault *f = rbt_exec_block_fault(r->block);
	struct rbt_context *ctx = r->launch->ctx;

	if (status == RBT_EXEC_BLOCKED) {
		dev_log(dev, "context %llu: %s, block %llu: every thread waits for another",
			(unsigned long long)ctx->id, r->launch->exec.kernel->name,
			(unsigned long long)r->number);
		dev_context_die(ctx, GPU_ERROR_LAUNCH_TIMEOUT);
		return;
	}
	dev_log(dev,
		"context %llu: %s: %s at address 0x%llx, block (%u,%u,%u), thread (%u,%u,%u), line %u of the PTX",
		(unsigned long long)ctx->id, f->function ? f->function : "?",
		rbt_exec_fault_text(f->kind), (unsigned long long)f->address, f->block[0],
		f->block[1], f->block[2], f->thread[0], f->thread[1], f->thread[2], f->line);
	dev_context_die(ctx, error_of(f->kind));
}

/* Up to the end of the slice if others wait, and not past the next arrival. */
static uint64_t quantum(const struct rbt_device *dev, const struct dev_sm *sm)
{
	const struct dev_launch *launch = sm->blocks[sm->turn].launch;
	uint64_t n = launch->cooperative ? DEV_QUANTUM_COOPERATIVE : DEV_QUANTUM, limit = DEV_NEVER;

	if (!dev->leaving && (dev_others_wait(dev) || !launch->ctx->has_work)) {
		limit = dev->slice_end_ns;
	}
	if (dev_replaying(dev)) {
		limit = dev_min(limit, dev->arrivals[dev->next_arrival].at_ns);
	}
	if (limit != DEV_NEVER) {
		uint64_t left = limit > sm->time_ns ? limit - sm->time_ns : 0;

		n = dev_min(n, (left + GPU_INSTRUCTION_NS - 1) / GPU_INSTRUCTION_NS);
	}
	return dev_max(n, 1);
}

static void count(struct rbt_device *dev, struct dev_launch *launch, uint64_t n)
{
	uint64_t again = dev_min(n, launch->repeat_left);

	dev->spent += n;
	launch->executed += n;
	launch->repeat_left -= again;
	launch->ctx->stats.instructions += n;
	launch->ctx->stats.repeated_instructions += again;
}

static void end_block(struct rbt_device *dev, struct dev_sm *sm, uint32_t slot)
{
	struct dev_launch *launch = sm->blocks[slot].launch;
	struct rbt_context *ctx = launch->ctx;

	dev_trace(dev, sm->time_ns, RBT_DEVICE_BLOCK_DONE, ctx, (uint64_t)(sm - dev->sms),
		sm->blocks[slot].number);
	dev_sm_remove(dev, sm, slot);
	launch->done++;
	launch->end_ns = dev_max(launch->end_ns, sm->time_ns);
	/* A kernel that was asked to leave may not have finished its work: it starts again. */
	launch->left = launch->left || is_leaving(dev, launch);
	if (launch->done == launch->blocks && !launch->left) {
		dev_launch_end(launch);
	}
	if (!ctx->error) {
		dev_dispatch(ctx);
	}
}

static void end_turn(struct dev_sm *sm, uint64_t n)
{
	sm->turn_used += n;
	if (sm->blocks[sm->turn].launch->cooperative || sm->turn_used >= DEV_TURN) {
		sm->turn = sm->turn + 1 < sm->n ? sm->turn + 1 : 0;
		sm->turn_used = 0;
	}
}

void dev_sm_run(struct rbt_device *dev, uint32_t index)
{
	struct dev_sm *sm = &dev->sms[index];
	uint32_t slot = sm->turn;
	struct dev_resident *r = &sm->blocks[slot];
	uint64_t before = rbt_exec_sm_counters(sm->exec)->instructions, n;
	enum rbt_exec_status status;

	rbt_exec_sm_set_time(sm->exec, sm->time_ns);
	status = rbt_exec_run(r->block, quantum(dev, sm));
	n = rbt_exec_sm_counters(sm->exec)->instructions - before;
	sm->time_ns += n * GPU_INSTRUCTION_NS;
	count(dev, r->launch, n);
	if (status == RBT_EXEC_BUDGET) {
		end_turn(sm, n);
	} else if (status == RBT_EXEC_DONE) {
		end_block(dev, sm, slot);
	} else {
		fail(dev, r, status);
	}
}
