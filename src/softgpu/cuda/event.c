/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. An event is the number of a command; one with timing also has a stamp that the device
 * writes, of its virtual clock. An event that is recorded in a captured stream is a place in the
 * graph instead.
 */
#include <stdlib.h>

#include "softgpu/cuda/front.h"

/* Under the lock. */
static uint32_t take_slot(struct front_context *ctx)
{
	for (uint32_t i = 0; i < GPU_MAX_EVENTS / 64; i++) {
		if (ctx->slots_used[i] != UINT64_MAX) {
			uint32_t bit = (uint32_t)__builtin_ctzll(~ctx->slots_used[i]);

			ctx->slots_used[i] |= 1ull << bit;
			return i * 64 + bit;
		}
	}
	return FRONT_NO_SLOT;
}

/* Under the lock: the slot of a stamp that may still be written is not reused before that. */
static void leave_slot(struct front_context *ctx, struct front_event *event)
{
	struct front_deferred *d;

	if (event->slot == FRONT_NO_SLOT) {
		return;
	}
	if (!event->recorded || front_is_done(ctx, event->channel, event->number)) {
		ctx->slots_used[event->slot / 64] &= ~(1ull << event->slot % 64);
	} else if ((d = malloc(sizeof(*d))) != NULL) {
		*d = (struct front_deferred){
			.channel = event->channel, .number = event->number, .slot = event->slot};
		LIST_INSERT_HEAD(&ctx->deferred, d, next);
	} /* without memory, it is lost to this context */
	event->slot = FRONT_NO_SLOT;
}

static void forget_capture(struct front_event *event)
{
	free(event->nodes);
	event->nodes = NULL;
	event->n_nodes = 0;
	event->capture_id = 0;
}

static void destroy(struct front_event *event)
{
	struct front_context *ctx = event->ctx;

	pthread_mutex_lock(&ctx->lock);
	LIST_REMOVE(event, next);
	leave_slot(ctx, event);
	forget_capture(event);
	pthread_mutex_unlock(&ctx->lock);
	front_pool_give(event, sizeof(*event));
}

void front_events_destroy(struct front_context *ctx)
{
	while (!LIST_EMPTY(&ctx->events)) {
		destroy(LIST_FIRST(&ctx->events));
	}
}

/* A slot that no stamp under way writes to. */
static CUresult prepare_slot(struct front_context *ctx, struct front_event *event)
{
	CUresult r = CUDA_SUCCESS;

	front_defer_reap(ctx);
	pthread_mutex_lock(&ctx->lock);
	if (event->slot != FRONT_NO_SLOT && event->recorded &&
		!front_is_done(ctx, event->channel, event->number)) {
		leave_slot(ctx, event);
	}
	if (event->slot == FRONT_NO_SLOT) {
		event->slot = take_slot(ctx);
	}
	if (event->slot == FRONT_NO_SLOT) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&ctx->lock);
	return r;
}

CUresult front_event_record(struct front_stream *s, struct front_event *event)
{
	struct front_context *ctx = s->ctx;
	struct gpu_stamp stamp = {.h = {.command = GPU_CMD_STAMP, .slots = 1}};
	uint64_t number = 0;
	CUresult r;

	if ((event->flags & CU_EVENT_DISABLE_TIMING) == 0) {
		r = prepare_slot(ctx, event);
		if (r != CUDA_SUCCESS) {
			return r;
		}
		stamp.event = event->slot;
		r = front_submit(s, &stamp, NULL, 0, &number);
	} else {
		r = front_submit_order(s);
		/* If the stream has no command of its own, the event is the channel's last one. For
		 * a stream that takes part in the legacy stream's order, other streams' commands
		 * may come before it. */
		number = (s->flags & CU_STREAM_NON_BLOCKING) != 0
				 ? atomic_load(&s->last)
				 : atomic_load(&ctx->channels[s->channel].n_commands);
	}
	if (r == CUDA_SUCCESS) {
		pthread_mutex_lock(&ctx->lock);
		forget_capture(event);
		event->recorded = true;
		event->channel = s->channel;
		event->number = number;
		pthread_mutex_unlock(&ctx->lock);
	}
	return r;
}

/* The command that an event stands for. False: never recorded. */
static bool read_event(struct front_event *event, unsigned *ret_channel, uint64_t *ret_number)
{
	pthread_mutex_lock(&event->ctx->lock);
	bool recorded = event->recorded;

	*ret_channel = event->channel;
	*ret_number = event->number;
	pthread_mutex_unlock(&event->ctx->lock);
	return recorded;
}

CUresult front_event_wait(struct front_stream *s, struct front_event *event)
{
	unsigned channel;
	uint64_t number;

	if (!read_event(event, &channel, &number)) {
		return CUDA_SUCCESS;
	}
	/* A channel cannot wait for another context's: the caller waits. */
	return event->ctx == s->ctx ? front_submit_wait(s, channel, number)
				    : front_wait(event->ctx, channel, number);
}

CUresult cuEventCreate(CUevent *ret_event, unsigned flags)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_event == NULL || (flags & ~7u) != 0) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if ((flags & CU_EVENT_INTERPROCESS) != 0) {
		return (flags & CU_EVENT_DISABLE_TIMING) == 0 ? CUDA_ERROR_INVALID_VALUE
							      : CUDA_ERROR_NOT_SUPPORTED;
	}
	struct front_event *event = front_pool_take(FRONT_EVENT, sizeof(*event));

	if (event == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	event->flags = flags;
	event->ctx = ctx;
	event->slot = FRONT_NO_SLOT;
	pthread_mutex_lock(&ctx->lock);
	LIST_INSERT_HEAD(&ctx->events, event, next);
	pthread_mutex_unlock(&ctx->lock);
	*ret_event = event;
	return CUDA_SUCCESS;
}

/* Checks an event's handle, and that its context works. */
static CUresult enter_event(CUevent event)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && !front_is(event, FRONT_EVENT)) {
		r = CUDA_ERROR_INVALID_HANDLE;
	}
	return r != CUDA_SUCCESS ? r : front_check_context(event->ctx);
}

CUresult cuEventDestroy_v2(CUevent event)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && !front_is(event, FRONT_EVENT)) {
		r = CUDA_ERROR_INVALID_HANDLE;
	}
	if (r == CUDA_SUCCESS) {
		destroy(event);
	}
	return r;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned flags)
{
	struct front_op op = {.kind = FRONT_OP_RECORD, .event = event};
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS && (flags & ~CU_EVENT_RECORD_EXTERNAL) != 0) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS && (!front_is(event, FRONT_EVENT) || event->ctx != s->ctx)) {
		r = CUDA_ERROR_INVALID_HANDLE;
	}
	return r != CUDA_SUCCESS ? r : front_do(s, &op);
}

CUresult cuEventRecord(CUevent event, CUstream handle)
{
	return cuEventRecordWithFlags(event, handle, 0);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags)
{
	struct front_op op = {.kind = FRONT_OP_WAIT, .event = event};
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS && (flags & ~CU_EVENT_WAIT_EXTERNAL) != 0) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS && !front_is(event, FRONT_EVENT)) {
		r = CUDA_ERROR_INVALID_HANDLE;
	}
	return r != CUDA_SUCCESS ? r : front_do(s, &op);
}

CUresult cuEventQuery(CUevent event)
{
	unsigned channel;
	uint64_t number;
	CUresult r = enter_event(event);

	if (r == CUDA_SUCCESS) {
		r = front_capture_refuse_event(event);
	}
	if (r == CUDA_SUCCESS && read_event(event, &channel, &number) &&
		!front_is_done(event->ctx, channel, number)) {
		r = CUDA_ERROR_NOT_READY;
	}
	return r;
}

CUresult cuEventSynchronize(CUevent event)
{
	unsigned channel;
	uint64_t number;
	CUresult r = enter_event(event);

	if (r == CUDA_SUCCESS) {
		r = front_capture_refuse_event(event);
	}
	if (r == CUDA_SUCCESS && read_event(event, &channel, &number)) {
		r = front_wait(event->ctx, channel, number);
		front_print_drain(event->ctx);
	}
	return r;
}

/* The stamp of an event that has one and is done. */
static CUresult read_stamp(struct front_event *event, uint64_t *ret_ns)
{
	struct front_context *ctx = event->ctx;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&ctx->lock);
	if (!event->recorded || event->slot == FRONT_NO_SLOT) {
		r = CUDA_ERROR_INVALID_HANDLE;
	} else if (!front_is_done(ctx, event->channel, event->number)) {
		r = CUDA_ERROR_NOT_READY;
	} else {
		*ret_ns = __atomic_load_n(&ctx->room->event_ns[event->slot], __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&ctx->lock);
	return r;
}

CUresult cuEventElapsedTime(float *ret_ms, CUevent start, CUevent end)
{
	uint64_t start_ns, end_ns;
	CUresult r = enter_event(start);

	if (r == CUDA_SUCCESS) {
		r = enter_event(end);
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	/* NVIDIA's driver calls a missing result an invalid handle, too. */
	if (ret_ms == NULL || start->ctx != end->ctx) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	r = read_stamp(start, &start_ns);
	if (r == CUDA_SUCCESS) {
		r = read_stamp(end, &end_ns);
	}
	if (r == CUDA_SUCCESS) {
		*ret_ms = (float)((double)(int64_t)(end_ns - start_ns) / 1e6);
	}
	return r;
}

CUresult cuEventElapsedTime_v2(float *ret_ms, CUevent start, CUevent end)
{
	return cuEventElapsedTime(ret_ms, start, end);
}
