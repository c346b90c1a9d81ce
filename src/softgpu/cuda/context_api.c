/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of a context, and primary contexts. */
#include <string.h>

#include "softgpu/cuda/front.h"

#define MIN_STACK 256u

/* The current context, whatever its state. */
static CUresult current(struct front_context **ret)
{
	CUresult r = front_check_init();

	return r != CUDA_SUCCESS ? r : front_current_get(ret);
}

/* The named context, or the current one if none is named. */
static CUresult named(CUcontext handle, struct front_context **ret)
{
	if (handle == NULL) {
		return current(ret);
	}
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && !front_is(handle, FRONT_CONTEXT)) {
		r = CUDA_ERROR_INVALID_CONTEXT;
	}
	if (r == CUDA_SUCCESS) {
		*ret = handle;
	}
	return r;
}

CUresult cuCtxGetDevice_v2(CUdevice *ret_device, CUcontext handle)
{
	struct front_context *ctx;
	CUresult r = named(handle, &ctx);

	if (r == CUDA_SUCCESS && ret_device == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_device = ctx->dev->ordinal;
	}
	return r;
}

CUresult cuCtxGetDevice(CUdevice *ret_device)
{
	return cuCtxGetDevice_v2(ret_device, NULL);
}

CUresult cuCtxGetFlags(unsigned *ret_flags)
{
	struct front_context *ctx;
	CUresult r = current(&ctx);

	if (r == CUDA_SUCCESS && ret_flags == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_flags = ctx->flags;
	}
	return r;
}

CUresult cuCtxSetFlags(unsigned flags)
{
	struct front_context *ctx;
	CUresult r = current(&ctx);

	if (r == CUDA_SUCCESS && (flags & ~CU_CTX_FLAGS_MASK) != 0) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		ctx->flags = flags;
	}
	return r;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *ret_id)
{
	struct front_context *ctx;
	CUresult r = named(handle, &ctx);

	if (r == CUDA_SUCCESS && ret_id == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS && !ctx->alive) {
		r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	if (r == CUDA_SUCCESS) {
		*ret_id = ctx->id;
	}
	return r;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned *ret_version)
{
	struct front_context *ctx;
	CUresult r = named(handle, &ctx);

	if (r == CUDA_SUCCESS && ret_version == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_version = 3020; /* of the context interface, not of CUDA */
	}
	return r;
}

CUresult cuCtxSynchronize_v2(CUcontext handle)
{
	struct front_context *ctx;
	CUresult r = named(handle, &ctx);

	if (r == CUDA_SUCCESS) {
		r = front_check_context(ctx);
	}
	if (r == CUDA_SUCCESS) {
		r = front_capture_refuse_thread();
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	r = front_wait_context(ctx);
	front_print_drain(ctx);
	front_defer_reap(ctx);
	return r;
}

CUresult cuCtxSynchronize(void)
{
	return cuCtxSynchronize_v2(NULL);
}

CUresult cuCtxGetLimit(size_t *ret_value, int limit)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_value == NULL || limit < 0 || limit >= CU_LIMIT_MAX) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_value = ctx->limits[limit];
	return CUDA_SUCCESS;
}

/* The stack's size is clamped, as CUDA may do, and applies to launches from now on. Other limits
 * are only stored. */
CUresult cuCtxSetLimit(int limit, size_t value)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (limit < 0 || limit >= CU_LIMIT_MAX) {
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	}
	if (limit == CU_LIMIT_STACK_SIZE) {
		value = value < MIN_STACK ? MIN_STACK : value;
		value = value > GPU_MAX_STACK ? GPU_MAX_STACK : (value + 15) & ~(size_t)15;
	}
	ctx->limits[limit] = value;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(int *ret_config)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && ret_config == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_config = ctx->cache_config;
	}
	return r;
}

CUresult cuCtxSetCacheConfig(int config)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && (config < 0 || config > 3)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		ctx->cache_config = config;
	}
	return r;
}

CUresult cuCtxGetSharedMemConfig(int *ret_config)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && ret_config == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_config = 1; /* banks of four bytes */
	}
	return r;
}

CUresult cuCtxSetSharedMemConfig(int config)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && (config < 0 || config > 2)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r;
}

CUresult cuCtxGetStreamPriorityRange(int *ret_least, int *ret_greatest)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_least != NULL) {
		*ret_least = FRONT_PRIORITY_LEAST;
	}
	if (ret_greatest != NULL) {
		*ret_greatest = FRONT_PRIORITY_GREATEST;
	}
	return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
	struct front_context *ctx;

	return front_enter(&ctx);
}

/* Held while a primary context is made or ended: two threads that come first get the same one. */
static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret_ctx, CUdevice device)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_ctx == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_lock(&primary_lock);
	if (dev->primary == NULL) {
		dev->primary = front_pool_take(FRONT_CONTEXT, sizeof(*dev->primary));
		if (dev->primary != NULL) {
			dev->primary->is_primary = true;
			dev->primary->dev = dev;
		}
	}
	if (dev->primary == NULL) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else if (!dev->primary->alive) {
		r = front_context_create(dev, dev->primary_flags, dev->primary);
	}
	if (r == CUDA_SUCCESS) {
		dev->primary_refs++;
		*ret_ctx = dev->primary;
	}
	pthread_mutex_unlock(&primary_lock);
	return r;
}

/* Under the lock. The flags end with the context; its references do not. */
static void end_primary(struct front_device *dev)
{
	if (dev->primary != NULL && dev->primary->alive) {
		front_context_destroy(dev->primary);
	}
	dev->primary_flags = 0;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	pthread_mutex_lock(&primary_lock);
	end_primary(dev);
	pthread_mutex_unlock(&primary_lock);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	pthread_mutex_lock(&primary_lock);
	if (dev->primary_refs == 0) {
		r = CUDA_ERROR_INVALID_CONTEXT;
	} else if (--dev->primary_refs == 0) {
		end_primary(dev);
	}
	pthread_mutex_unlock(&primary_lock);
	return r;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r == CUDA_SUCCESS && (flags & ~CU_CTX_FLAGS_MASK) != 0) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		dev->primary_flags = flags;
		if (dev->primary != NULL) {
			dev->primary->flags = flags;
		}
	}
	return r;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *ret_flags, int *ret_active)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r == CUDA_SUCCESS && (ret_flags == NULL || ret_active == NULL)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_flags = dev->primary_flags;
		*ret_active = dev->primary != NULL && dev->primary->alive;
	}
	return r;
}

/* The forms before CUDA 11 refuse flags on a context that is active, and accept one release too
 * many. The later forms do the opposite. */
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r == CUDA_SUCCESS && dev->primary != NULL && dev->primary->alive) {
		r = CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
	}
	return r != CUDA_SUCCESS ? r : cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	CUresult r = cuDevicePrimaryCtxRelease_v2(device);

	return r == CUDA_ERROR_INVALID_CONTEXT ? CUDA_SUCCESS : r;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	return cuDevicePrimaryCtxReset_v2(device);
}
