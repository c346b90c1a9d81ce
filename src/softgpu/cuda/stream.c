/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams. Each submits to one of its context's channels: the legacy default stream to the first,
 * the others to the one with the fewest streams. Streams that share a channel run one after the
 * other, which CUDA allows.
 */
#include <stdlib.h>
#include <unistd.h>

#include "softgpu/cuda/front.h"

/* A thread's default stream in the context that it used last. */
static __thread struct {
	uint64_t context_id;
	struct front_stream *stream;
} mine;

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

void front_stream_init(struct front_context *ctx, struct front_stream *s, unsigned channel)
{
	*s = (struct front_stream){.kind = FRONT_STREAM, .ctx = ctx, .channel = channel};
	s->id = atomic_fetch_add(&front.next_id, 1) + 16; /* above the default streams' */
}

/* Under the context's lock. */
static unsigned choose_channel(const struct front_context *ctx)
{
	unsigned best = 1;

	/* The first channel last: work that waits there delays the legacy stream. */
	for (unsigned i = 2; i <= GPU_MAX_CHANNELS; i++) {
		unsigned c = i % GPU_MAX_CHANNELS;

		if (ctx->channels[c].n_streams < ctx->channels[best].n_streams) {
			best = c;
		}
	}
	return best;
}

static struct front_stream *create(struct front_context *ctx, unsigned flags, int priority)
{
	struct front_stream *s = front_pool_take(FRONT_STREAM, sizeof(*s));

	if (s == NULL) {
		return NULL;
	}
	pthread_mutex_lock(&ctx->lock);
	front_stream_init(ctx, s, choose_channel(ctx));
	s->flags = flags;
	s->priority = priority;
	ctx->channels[s->channel].n_streams++;
	LIST_INSERT_HEAD(&ctx->streams, s, next);
	pthread_mutex_unlock(&ctx->lock);
	return s;
}

static void destroy(struct front_stream *s)
{
	struct front_context *ctx = s->ctx;

	front_capture_drop(s);
	pthread_mutex_lock(&ctx->lock);
	LIST_REMOVE(s, next);
	ctx->channels[s->channel].n_streams--;
	pthread_mutex_unlock(&ctx->lock);
	front_pool_give(s, sizeof(*s));
}

void front_streams_destroy(struct front_context *ctx)
{
	while (!LIST_EMPTY(&ctx->streams)) {
		destroy(LIST_FIRST(&ctx->streams));
	}
	front_capture_drop(&ctx->legacy);
	ctx->legacy.kind = FRONT_NONE;
}

/* A thread has ended: its default streams may be reused by others. */
static void thread_ended(void *tid)
{
	if (front_check_init() != CUDA_SUCCESS) {
		return;
	}
	pthread_mutex_lock(&front.lock);
	for (struct front_context *ctx = front.contexts; ctx != NULL; ctx = ctx->next) {
		struct front_stream *s;

		pthread_mutex_lock(&ctx->lock);
		LIST_FOREACH (s, &ctx->streams, next) {
			if (atomic_load(&s->owner) == (int)(intptr_t)tid) {
				atomic_store(&s->owner, -1);
			}
		}
		pthread_mutex_unlock(&ctx->lock);
	}
	pthread_mutex_unlock(&front.lock);
}

static void make_exit_key(void)
{
	(void)pthread_key_create(&exit_key, thread_ended);
}

static struct front_stream *find_owned(struct front_context *ctx, int owner)
{
	struct front_stream *s;

	LIST_FOREACH (s, &ctx->streams, next) {
		if (atomic_load(&s->owner) == owner) {
			return s;
		}
	}
	return NULL;
}

/* The calling thread's default stream: an earlier one of its own, one that an ended thread left, or
 * a new one. */
static struct front_stream *own_stream(struct front_context *ctx)
{
	int tid = gettid();

	if (mine.context_id == ctx->id) {
		return mine.stream;
	}
	pthread_once(&exit_once, make_exit_key);
	(void)pthread_setspecific(exit_key, (void *)(intptr_t)tid);
	pthread_mutex_lock(&ctx->lock);
	struct front_stream *s = find_owned(ctx, tid);

	if (s == NULL) {
		s = find_owned(ctx, -1);
	}
	if (s != NULL) {
		atomic_store(&s->owner, tid);
	}
	pthread_mutex_unlock(&ctx->lock);
	if (s == NULL) {
		s = create(ctx, 0, 0);
		if (s == NULL) {
			return NULL;
		}
		s->id = 2;
		atomic_store(&s->owner, tid);
	}
	mine.context_id = ctx->id;
	mine.stream = s;
	return s;
}

CUresult front_stream_get(struct front_context *ctx, CUstream handle, struct front_stream **ret)
{
	struct front_stream *s = handle;

	if (handle == NULL || handle == CU_STREAM_LEGACY) {
		s = &ctx->legacy;
	} else if (handle == CU_STREAM_PER_THREAD) {
		s = own_stream(ctx);
		if (s == NULL) {
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	} else if (!front_is(handle, FRONT_STREAM)) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	*ret = s;
	return CUDA_SUCCESS;
}

CUresult front_enter_stream(CUstream handle, struct front_stream **ret)
{
	struct front_context *ctx;
	struct front_stream *s;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS) {
		r = front_stream_get(ctx, handle, &s);
	}
	if (r == CUDA_SUCCESS && s->ctx != ctx) {
		r = front_check_context(s->ctx);
	}
	if (r == CUDA_SUCCESS) {
		*ret = s;
	}
	return r;
}

CUresult front_stream_create(struct front_context *ctx, unsigned flags, int priority, CUstream *ret)
{
	if (priority > FRONT_PRIORITY_LEAST) {
		priority = FRONT_PRIORITY_LEAST;
	} else if (priority < FRONT_PRIORITY_GREATEST) {
		priority = FRONT_PRIORITY_GREATEST;
	}
	struct front_stream *s = create(ctx, flags, priority);

	if (s == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = s;
	return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *ret_stream, unsigned flags, int priority)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && (ret_stream == NULL || (flags & ~CU_STREAM_NON_BLOCKING) != 0)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r == CUDA_SUCCESS ? front_stream_create(ctx, flags, priority, ret_stream) : r;
}

CUresult cuStreamCreate(CUstream *ret_stream, unsigned flags)
{
	return cuStreamCreateWithPriority(ret_stream, flags, 0);
}

/* Submitted work goes on; only the handle ends. */
CUresult cuStreamDestroy_v2(CUstream handle)
{
	struct front_stream *s;
	CUresult r = front_check_init();

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD ||
		!front_is(handle, FRONT_STREAM)) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	s = handle;
	if (s->is_legacy || atomic_load(&s->owner) != 0) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	destroy(s);
	return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream handle)
{
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS) {
		r = front_capture_refuse(s);
	}
	if (r == CUDA_SUCCESS && !front_stream_is_idle(s)) {
		r = CUDA_ERROR_NOT_READY;
	}
	return r;
}

CUresult cuStreamSynchronize(CUstream handle)
{
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS) {
		r = front_capture_refuse(s);
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	r = front_wait_stream(s);
	front_print_drain(s->ctx);
	front_defer_reap(s->ctx);
	return r;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned *ret_flags)
{
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS && ret_flags == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_flags = s->flags;
	}
	return r;
}

CUresult cuStreamGetPriority(CUstream handle, int *ret_priority)
{
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS && ret_priority == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_priority = s->priority;
	}
	return r;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *ret_ctx)
{
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS && ret_ctx == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_ctx = s->ctx;
	}
	return r;
}

/* Green contexts are not supported, so the stream belongs to none. */
CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *ret_ctx, void **ret_green)
{
	CUresult r = cuStreamGetCtx(handle, ret_ctx);

	if (r == CUDA_SUCCESS && ret_green != NULL) {
		*ret_green = NULL;
	}
	return r;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice *ret_device)
{
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS && ret_device == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_device = s->ctx->dev->ordinal;
	}
	return r;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *ret_id)
{
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS && ret_id == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_id = s->id;
	}
	return r;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *user)
{
	struct front_op op = {.kind = FRONT_OP_HOST, .host = {.fn = fn, .user = user}};
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS && fn == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r != CUDA_SUCCESS ? r : front_do(s, &op);
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void *user, unsigned flags)
{
	struct front_op op = {.kind = FRONT_OP_HOST, .host = {.callback = callback, .user = user}};
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS && (callback == NULL || flags != 0)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS && s->capture != NULL) {
		r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return r != CUDA_SUCCESS ? r : front_do(s, &op);
}

/* Managed memory is always accessible to both sides. */
CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t size, unsigned flags)
{
	struct front_stream *s;
	struct front_entry entry;
	CUresult r = front_enter_stream(handle, &s);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if ((flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
		    flags != CU_MEM_ATTACH_SINGLE) ||
		!front_entry_find(s->ctx, address, &entry) || entry.kind != FRONT_ENTRY_MANAGED ||
		(size != 0 && size != entry.size)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}
