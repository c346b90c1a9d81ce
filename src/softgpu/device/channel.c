/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings. A program may write anything to them at any moment. So a command is copied once, with
 * plain loads of words that the compiler cannot repeat, and only the copy is used.
 */
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "softgpu/device/device_impl.h"

static void copy_slot(const struct gpu_channel *shared, uint64_t number, void *ret_slot)
{
	const uint64_t *from =
		(const uint64_t *)(const void *)shared->ring[number % GPU_RING_SLOTS].bytes;
	uint64_t words[GPU_SLOT_BYTES / 8];

	for (unsigned k = 0; k < GPU_SLOT_BYTES / 8; k++) {
		words[k] = __atomic_load_n(&from[k], __ATOMIC_RELAXED);
	}
	memcpy(ret_slot, words, sizeof(words));
}

static bool all_zero(const uint32_t *words, size_t n)
{
	uint32_t any = 0;

	for (size_t k = 0; k < n; k++) {
		any |= words[k];
	}
	return any == 0;
}

/* Whether the command in the slot is part of the ABI, and how many slots it must have. */
static bool check_command(const struct dev_channel *ch, uint32_t *ret_slots)
{
	*ret_slots = 1;
	switch (ch->head.command) {
	case GPU_CMD_NOTHING:
		return true;
	case GPU_CMD_LAUNCH:
		*ret_slots += (ch->launch.param_size + GPU_SLOT_BYTES - 1) / GPU_SLOT_BYTES;
		return ch->launch.param_size <= GPU_MAX_PARAMS && all_zero(ch->launch.zero, 2);
	case GPU_CMD_COPY:
		return ch->copy.zero == 0;
	case GPU_CMD_FILL:
		return ch->fill.zero[0] == 0 && ch->fill.zero[1] == 0;
	case GPU_CMD_STAMP:
		return ch->stamp.event < GPU_MAX_EVENTS && all_zero(ch->stamp.zero, 13);
	case GPU_CMD_WAIT:
		return ch->wait.channel < GPU_MAX_CHANNELS && all_zero(ch->wait.zero, 11);
	case GPU_CMD_HOST:
		return all_zero(ch->host.zero, 12);
	default:
		return false;
	}
}

static void malformed(struct rbt_context *ctx, uint32_t index, const char *what)
{
	dev_log(ctx->dev, "context %llu, channel %u: %s", (unsigned long long)ctx->id, index, what);
	dev_context_die(ctx, GPU_ERROR_INVALID);
}

/* How far the ring has been written; in a recording, the recording says so. */
static void poll_ring(struct rbt_context *ctx, struct dev_channel *ch)
{
	if (!dev_replaying(ctx->dev)) {
		ch->wptr = __atomic_load_n(&ch->shared->wptr, __ATOMIC_ACQUIRE);
	}
}

void dev_channel_fetch(struct rbt_context *ctx, uint32_t index)
{
	struct dev_channel *ch = &ctx->channels[index];
	uint64_t left;
	uint32_t slots;

	if (ch->state != DEV_EMPTY) {
		return;
	}
	poll_ring(ctx, ch);
	left = ch->wptr - ch->rptr;
	if (left == 0) {
		/* The program may have seen results of its kernels: they must not run again. */
		dev_channel_commit(ch);
		return;
	}
	if (left > GPU_RING_SLOTS) {
		malformed(ctx, index, "more slots written than the ring has");
		return;
	}
	copy_slot(ch->shared, ch->rptr, &ch->slot);
	if (ch->head.zero != 0 || !check_command(ch, &slots) || ch->head.slots != slots ||
		slots > left) {
		malformed(ctx, index, "an invalid command");
		return;
	}
	for (uint32_t k = 1; k < slots; k++) {
		copy_slot(ch->shared, ch->rptr + k, ch->params + (size_t)(k - 1) * GPU_SLOT_BYTES);
	}
	ch->rptr += slots;
	ch->command++;
	ch->state = DEV_FETCHED;
	/* These slots are not read any more: the program may use them again. */
	__atomic_store_n(&ch->shared->rptr, ch->rptr, __ATOMIC_RELEASE);
}

bool dev_channel_enabled(const struct rbt_context *ctx, uint32_t index)
{
	return ctx->error == 0 && ctx->schedule.scheduled && ctx->schedule.enabled >> index & 1;
}

/* Whether the command is a wait that is over, or any other command. */
static bool can_start(const struct rbt_context *ctx, const struct dev_channel *ch)
{
	switch (ch->head.command) {
	case GPU_CMD_WAIT:
		return ch->wait.channel < ctx->n_channels &&
		       ctx->channels[ch->wait.channel].done >= ch->wait.done;
	case GPU_CMD_HOST:
		return __atomic_load_n(&ch->shared->host_done, __ATOMIC_ACQUIRE) >= ch->host.until;
	default:
		return true;
	}
}

bool dev_channel_ready(const struct rbt_context *ctx, uint32_t index)
{
	const struct dev_channel *ch = &ctx->channels[index];

	if (!dev_channel_enabled(ctx, index)) {
		return false;
	}
	if (ch->n_todo > 0) {
		return true;
	}
	if (ctx->schedule.copies_wait && ch->head.command == GPU_CMD_COPY) {
		return false;
	}
	return ch->state == DEV_COPYING || (ch->state == DEV_FETCHED && can_start(ctx, ch));
}

void dev_channel_wake(struct gpu_channel *shared)
{
	/* Either the sleeper reads `done` after our store, or we see that it waits. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&shared->waiting, __ATOMIC_RELAXED) != 0) {
		syscall(SYS_futex, &shared->done, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
}

void dev_channel_complete(struct rbt_context *ctx, uint32_t index)
{
	struct dev_channel *ch = &ctx->channels[index];

	ch->state = DEV_EMPTY;
	ch->done++;
	dev_trace(ctx->dev, ch->time_ns, RBT_DEVICE_COMMAND_DONE, ctx, index, ch->done);
	/* A reader that sees it sees all effects of the command. */
	__atomic_store_n(&ch->shared->done, ch->done, __ATOMIC_RELEASE);
	dev_channel_wake(ch->shared);
	dev_channel_fetch(ctx, index);
}

uint64_t dev_channel_pending(struct rbt_context *ctx, uint32_t index)
{
	struct dev_channel *ch = &ctx->channels[index];
	uint64_t at = ch->rptr, pending = 0;
	union {
		struct gpu_slot slot;
		struct gpu_head head;
	} u;

	if (ch->state == DEV_FETCHED && ch->head.command == GPU_CMD_LAUNCH) {
		pending++;
	}
	poll_ring(ctx, ch);
	while (at != ch->wptr && ch->wptr - at <= GPU_RING_SLOTS) {
		copy_slot(ch->shared, at, &u.slot);
		if (u.head.slots == 0 || u.head.slots > ch->wptr - at) {
			break;
		}
		pending += u.head.command == GPU_CMD_LAUNCH;
		at += u.head.slots;
	}
	return pending;
}

static void put_text(struct dev_text *own, struct gpu_text *shared, uint8_t *bytes, size_t room,
	const char *text, size_t size)
{
	uint64_t used = own->head - __atomic_load_n(&shared->tail, __ATOMIC_ACQUIRE);
	size_t at = own->head % room, first;

	if (used > room || size > room - used) {
		own->lost += size;
		__atomic_store_n(&shared->lost, own->lost, __ATOMIC_RELAXED);
		return;
	}
	first = size < room - at ? size : room - at;
	memcpy(bytes + at, text, first);
	memcpy(bytes, text + first, size - first);
	own->head += size;
	__atomic_store_n(&shared->head, own->head, __ATOMIC_RELEASE);
}

void dev_print(void *user, const char *text, size_t size)
{
	struct rbt_context *ctx = user;

	put_text(&ctx->print, &ctx->room->print, ctx->room->print_bytes, GPU_PRINT_BYTES, text,
		size);
}

void dev_complain(void *user, const char *text, size_t size)
{
	struct rbt_context *ctx = user;

	put_text(&ctx->complain, &ctx->room->complain, ctx->room->complain_bytes,
		GPU_COMPLAIN_BYTES, text, size);
}
