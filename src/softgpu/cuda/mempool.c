/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools: handles with attributes. Memory is allocated from the device and returned to it
 * directly; a pool keeps none. */
#include "softgpu/cuda/front.h"

#define N_ATTRIBUTES 8 /* 1 to 8: reuse policies, threshold, and how much there is and was */

struct front_pool {
	uint32_t kind;
	struct front_device *dev;
	uint64_t values[N_ATTRIBUTES + 1];
};

static struct front_pool *create(struct front_device *dev)
{
	struct front_pool *pool = front_pool_take(FRONT_POOL, sizeof(*pool));

	if (pool != NULL) {
		pool->dev = dev;
		pool->values[1] = pool->values[2] = pool->values[3] = 1;
	}
	return pool;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *ret_pool, CUdevice device)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r == CUDA_SUCCESS && ret_pool == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	pthread_mutex_lock(&front.lock);
	if (dev->default_pool == NULL) {
		dev->default_pool = create(dev);
	}
	if (dev->default_pool == NULL) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		*ret_pool = dev->default_pool;
	}
	pthread_mutex_unlock(&front.lock);
	return r;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *ret_pool, CUdevice device)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	/* Here, NVIDIA's driver calls a wrong device a wrong value. */
	if (r == CUDA_ERROR_INVALID_DEVICE) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS && dev->pool != NULL && ret_pool != NULL) {
		*ret_pool = dev->pool;
		return CUDA_SUCCESS;
	}
	return cuDeviceGetDefaultMemPool(ret_pool, device);
}

static CUresult check_pool(CUmemoryPool pool)
{
	CUresult r = front_check_init();

	return r == CUDA_SUCCESS && !front_is(pool, FRONT_POOL) ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	struct front_device *dev;
	CUresult r = check_pool(pool);

	/* A device that is not there has no pool either: this call knows no other error. */
	if (r == CUDA_SUCCESS &&
		(front_check_device(device, &dev) != CUDA_SUCCESS || pool->dev != dev)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		dev->pool = pool;
	}
	return r;
}

CUresult cuMemPoolCreate(CUmemoryPool *ret_pool, const struct CUmemPoolProps *props)
{
	struct front_device *dev;
	CUresult r = front_check_init();

	if (r != CUDA_SUCCESS) {
		return r;
	}
	/* Only pinned memory of a device that is not shared. */
	if (ret_pool == NULL || props == NULL || props->allocType != 1) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (props->handleTypes != 0 || props->location.type != 1) {
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	r = front_check_device(props->location.id, &dev);
	if (r != CUDA_SUCCESS) {
		return r;
	}
	struct front_pool *pool = create(dev);

	if (pool == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_pool = pool;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	CUresult r = check_pool(pool);

	if (r == CUDA_SUCCESS && pool == pool->dev->default_pool) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		if (pool->dev->pool == pool) {
			pool->dev->pool = NULL;
		}
		front_pool_give(pool, sizeof(*pool));
	}
	return r;
}

/* The first three are ints, the others 64 bits. */
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	CUresult r = check_pool(pool);

	if (r == CUDA_SUCCESS && (value == NULL || attribute < 1 || attribute > N_ATTRIBUTES)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS && attribute <= 3) {
		*(int *)value = (int)pool->values[attribute];
	} else if (r == CUDA_SUCCESS) {
		*(uint64_t *)value = pool->values[attribute];
	}
	return r;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	CUresult r = check_pool(pool);

	if (r == CUDA_SUCCESS && (value == NULL || attribute < 1 || attribute > N_ATTRIBUTES)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	/* The rest are read only, but for high-water marks, which can be put back to zero. */
	if (r == CUDA_SUCCESS && attribute > 4 &&
		((attribute != 6 && attribute != 8) || *(uint64_t *)value != 0)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		pool->values[attribute] =
			attribute <= 3 ? (uint64_t) * (int *)value : *(uint64_t *)value;
	}
	return r;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	return check_pool(pool);
}

CUresult cuMemAllocFromPoolAsync(
	CUdeviceptr *ret_address, size_t size, CUmemoryPool pool, CUstream stream)
{
	CUresult r = check_pool(pool);

	return r != CUDA_SUCCESS ? r : cuMemAllocAsync(ret_address, size, stream);
}
