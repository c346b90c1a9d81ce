/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: creation, destruction, and the current one of a thread. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "softgpu/cuda/front.h"

#define MAX_STACK 64

/* A thread's stack of contexts; the last is current. A context may be destroyed while it is on a
 * stack, and its memory may be reused: the number tells. */
static __thread struct {
	struct front_context *ctx;
	uint64_t id;
} stack[MAX_STACK];
static __thread unsigned n_stack;

struct front_context *front_current(void)
{
	return n_stack > 0 ? stack[n_stack - 1].ctx : NULL;
}

CUresult front_current_get(struct front_context **ret)
{
	if (n_stack == 0) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	struct front_context *ctx = stack[n_stack - 1].ctx;

	/* A primary context keeps its handle for good, and gets another number each time. */
	if (!front_is(ctx, FRONT_CONTEXT) ||
		(!ctx->is_primary && ctx->id != stack[n_stack - 1].id)) {
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	*ret = ctx;
	return CUDA_SUCCESS;
}

CUresult front_push(struct front_context *ctx)
{
	if (n_stack == MAX_STACK) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	stack[n_stack].ctx = ctx;
	stack[n_stack++].id = ctx->id;
	return CUDA_SUCCESS;
}

void front_forget_current(struct front_context *ctx)
{
	if (n_stack > 0 && stack[n_stack - 1].ctx == ctx) {
		n_stack--;
	}
}

static void init_channels(struct front_context *ctx)
{
	for (unsigned i = 0; i < GPU_MAX_CHANNELS; i++) {
		struct front_channel *ch = &ctx->channels[i];

		*ch = (struct front_channel){.ring = &ctx->room->channels[i]};
		pthread_mutex_init(&ch->lock, NULL);
		pthread_mutex_init(&ch->host_lock, NULL);
		pthread_cond_init(&ch->changed, NULL);
		ch->last = &ch->first;
	}
}

static void init_state(struct front_context *ctx)
{
	pthread_mutex_init(&ctx->lock, NULL);
	pthread_mutex_init(&ctx->print_lock, NULL);
	init_channels(ctx);
	LIST_INIT(&ctx->streams);
	LIST_INIT(&ctx->events);
	LIST_INIT(&ctx->modules);
	LIST_INIT(&ctx->deferred);
	memset(ctx->slots_used, 0, sizeof(ctx->slots_used));
	ctx->memory_bytes = 0;
	ctx->cache_config = ctx->shared_config = 0;
	memset(ctx->limits, 0, sizeof(ctx->limits));
	ctx->limits[CU_LIMIT_STACK_SIZE] = GPU_STACK;
	ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = GPU_PRINT_BYTES;
	ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8u << 20;
	ctx->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
	front_stream_init(ctx, &ctx->legacy, 0);
	ctx->legacy.is_legacy = true;
	ctx->legacy.id = 1;
	ctx->id = atomic_fetch_add(&front.next_id, 1) + 1;
}

/* `ctx` has its kind; a primary context may have lived before. */
CUresult front_context_create(struct front_device *dev, unsigned flags, struct front_context *ctx)
{
	if (front_link_is_lost(dev)) {
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	ctx->dev = dev;
	ctx->flags = flags;
	int r = front_rm_context_make(&front.rm, dev->ordinal, &ctx->rm);
	if (r < 0) {
		return front_from_errno(r);
	}
	r = front_link_context(ctx, &ctx->rm);
	if (r < 0) {
		front_rm_context_free(&front.rm, &ctx->rm);
		return front_from_errno(r);
	}
	init_state(ctx);
	pthread_mutex_lock(&front.lock);
	ctx->next = front.contexts;
	front.contexts = ctx;
	pthread_mutex_unlock(&front.lock);
	atomic_store(&ctx->alive, true);
	return CUDA_SUCCESS;
}

static void unlink_context(struct front_context *ctx)
{
	pthread_mutex_lock(&front.lock);
	struct front_context **at = &front.contexts;

	while (*at != NULL && *at != ctx) {
		at = &(*at)->next;
	}
	if (*at != NULL) {
		*at = ctx->next;
	}
	pthread_mutex_unlock(&front.lock);
}

/* Handles that the program still holds become invalid. Work under way is waited for, as in the real
 * driver; a context that failed, or lost its device, has none. */
void front_context_destroy(struct front_context *ctx)
{
	struct front_deferred *d;

	(void)front_wait_context(ctx);
	atomic_store(&ctx->alive, false);
	front_host_stop(ctx);
	front_print_drain(ctx);
	unlink_context(ctx);
	while (!LIST_EMPTY(&ctx->modules)) {
		front_module_unload(LIST_FIRST(&ctx->modules));
	}
	front_streams_destroy(ctx);
	front_events_destroy(ctx);
	while ((d = LIST_FIRST(&ctx->deferred)) != NULL) {
		LIST_REMOVE(d, next);
		free(d);
	}
	front_memory_destroy(ctx);
	(void)front_link_context_end(ctx);
	front_rm_context_free(&front.rm, &ctx->rm);
	munmap(ctx->room, sizeof(*ctx->room));
	ctx->room = NULL;
	for (unsigned i = 0; i < GPU_MAX_CHANNELS; i++) {
		pthread_mutex_destroy(&ctx->channels[i].lock);
		pthread_mutex_destroy(&ctx->channels[i].host_lock);
		pthread_cond_destroy(&ctx->channels[i].changed);
	}
	pthread_mutex_destroy(&ctx->lock);
	pthread_mutex_destroy(&ctx->print_lock);
}

CUresult cuCtxCreate_v2(CUcontext *ret_ctx, unsigned flags, CUdevice device)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_ctx == NULL || (flags & ~CU_CTX_FLAGS_MASK) != 0) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	struct front_context *ctx = front_pool_take(FRONT_CONTEXT, sizeof(*ctx));

	if (ctx == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = front_context_create(dev, flags, ctx);
	if (r == CUDA_SUCCESS) {
		r = front_push(ctx);
		if (r != CUDA_SUCCESS) {
			front_context_destroy(ctx);
		}
	}
	if (r != CUDA_SUCCESS) {
		front_pool_give(ctx, sizeof(*ctx));
		return r;
	}
	*ret_ctx = ctx;
	return CUDA_SUCCESS;
}

/* Affinity to a share of the SMs is not supported. */
CUresult cuCtxCreate_v3(
	CUcontext *ret_ctx, void *affinity, int n_affinity, unsigned flags, CUdevice device)
{
	if (affinity != NULL || n_affinity != 0) {
		CUresult r = front_check_init();

		return r != CUDA_SUCCESS ? r : CUDA_ERROR_NOT_SUPPORTED;
	}
	return cuCtxCreate_v2(ret_ctx, flags, device);
}

CUresult cuCtxCreate_v4(
	CUcontext *ret_ctx, struct CUctxCreateParams *params, unsigned flags, CUdevice device)
{
	if (params != NULL && (params->numExecAffinityParams != 0 || params->cigParams != NULL)) {
		CUresult r = front_check_init();

		return r != CUDA_SUCCESS ? r : CUDA_ERROR_NOT_SUPPORTED;
	}
	return cuCtxCreate_v2(ret_ctx, flags, device);
}

/* The handle must be alive; a primary context's handle outlives the context. */
static CUresult check_handle(CUcontext ctx)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && !front_is(ctx, FRONT_CONTEXT)) {
		r = CUDA_ERROR_INVALID_CONTEXT;
	}
	return r;
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	CUresult r = front_check_init();

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ctx == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!front_is(ctx, FRONT_CONTEXT) || ctx->is_primary) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	bool lost = front_link_check_now(ctx->dev);

	front_context_destroy(ctx);
	front_forget_current(ctx);
	front_pool_give(ctx, sizeof(*ctx));
	return lost ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && ctx == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = check_handle(ctx);
	}
	return r != CUDA_SUCCESS ? r : front_push(ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *ret_ctx)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && n_stack == 0) {
		r = CUDA_ERROR_INVALID_CONTEXT;
	}
	if (r == CUDA_SUCCESS) {
		struct front_context *ctx = stack[--n_stack].ctx;

		if (ret_ctx != NULL) {
			*ret_ctx = ctx;
		}
	}
	return r;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	CUresult r = ctx == NULL ? front_check_init() : check_handle(ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (n_stack > 0) {
		n_stack--;
	}
	return ctx == NULL ? CUDA_SUCCESS : front_push(ctx);
}

CUresult cuCtxGetCurrent(CUcontext *ret_ctx)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && ret_ctx == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_ctx = front_current();
	}
	return r;
}
