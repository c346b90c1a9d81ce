/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: allocations, pools, attributes of pointers. */
#include "remote/cudart/cudart.h"

/* An allocation of nothing succeeds, and returns no address. */
static int allocate(void **ret, size_t size, unsigned flags, bool managed)
{
	CUdeviceptr address = 0;
	int error = ret == NULL ? cudaErrorInvalidValue : rt_enter();

	if (error == 0 && (size > 0 || managed)) {
		error = (int)(managed ? rt_driver.cuMemAllocManaged(&address, size, flags)
				      : rt_driver.cuMemAlloc_v2(&address, size));
	}
	if (error == 0) {
		*ret = (void *)(uintptr_t)address;
	}
	return error;
}

RT_API int cudaMalloc(void **ret, size_t size);
RT_API int cudaMalloc(void **ret, size_t size)
{
	return rt_done(allocate(ret, size, 0, false));
}

RT_API int cudaMallocManaged(void **ret, size_t size, unsigned flags);
RT_API int cudaMallocManaged(void **ret, size_t size, unsigned flags)
{
	return rt_done(allocate(ret, size, flags, true));
}

RT_API int cudaFree(void *p);
RT_API int cudaFree(void *p)
{
	int error = rt_enter();

	if (error == 0 && p != NULL) {
		error = (int)rt_driver.cuMemFree_v2(RT_PTR(p));
	}
	return rt_done(error);
}

RT_API int cudaFreeHost(void *p);
RT_API int cudaFreeHost(void *p)
{
	int error = rt_enter();

	if (error == 0 && p != NULL) {
		error = (int)rt_driver.cuMemFreeHost(p);
	}
	return rt_done(error);
}

/* The least alignment of rows that every device has. */
#define PITCH_ELEMENT 4

RT_API int cudaMallocPitch(void **ret, size_t *ret_pitch, size_t width, size_t height);
RT_API int cudaMallocPitch(void **ret, size_t *ret_pitch, size_t width, size_t height)
{
	CUdeviceptr address = 0;
	int error = ret == NULL || ret_pitch == NULL ? cudaErrorInvalidValue : rt_enter();

	if (error == 0) {
		error = (int)rt_driver.cuMemAllocPitch_v2(
			&address, ret_pitch, width, height, PITCH_ELEMENT);
	}
	if (error == 0) {
		*ret = (void *)(uintptr_t)address;
	}
	return rt_done(error);
}

RT_FORWARD(cudaMallocHost, (void **ret, size_t size), cuMemHostAlloc(ret, size, 0))
RT_FORWARD(
	cudaHostAlloc, (void **ret, size_t size, unsigned flags), cuMemHostAlloc(ret, size, flags))
RT_FORWARD(cudaHostRegister, (void *p, size_t size, unsigned flags),
	cuMemHostRegister_v2(p, size, flags))
RT_FORWARD(cudaHostUnregister, (void *p), cuMemHostUnregister(p))
RT_FORWARD(cudaHostGetDevicePointer, (void **ret, void *p, unsigned flags),
	cuMemHostGetDevicePointer_v2((CUdeviceptr *)ret, p, flags))
RT_FORWARD(cudaHostGetFlags, (unsigned *ret_flags, void *p), cuMemHostGetFlags(ret_flags, p))
RT_FORWARD(cudaMemGetInfo, (size_t * ret_free, size_t *ret_total),
	cuMemGetInfo_v2(ret_free, ret_total))

RT_FORWARD_PT(cudaMallocAsync, ptsz, (void **ret, size_t size, CUstream stream), cuMemAllocAsync,
	((CUdeviceptr *)ret, size, stream))
RT_FORWARD_PT(cudaMallocFromPoolAsync, ptsz,
	(void **ret, size_t size, CUmemoryPool pool, CUstream stream), cuMemAllocFromPoolAsync,
	((CUdeviceptr *)ret, size, pool, stream))
RT_FORWARD_PT(cudaFreeAsync, ptsz, (void *p, CUstream stream), cuMemFreeAsync, (RT_PTR(p), stream))
RT_FORWARD(cudaMemPoolCreate, (CUmemoryPool * ret, const struct CUmemPoolProps *props),
	cuMemPoolCreate(ret, props))
RT_FORWARD(cudaMemPoolDestroy, (CUmemoryPool pool), cuMemPoolDestroy(pool))
RT_FORWARD(cudaMemPoolTrimTo, (CUmemoryPool pool, size_t keep), cuMemPoolTrimTo(pool, keep))
RT_FORWARD(cudaMemPoolGetAttribute, (CUmemoryPool pool, int attribute, void *value),
	cuMemPoolGetAttribute(pool, attribute, value))
RT_FORWARD(cudaMemPoolSetAttribute, (CUmemoryPool pool, int attribute, void *value),
	cuMemPoolSetAttribute(pool, attribute, value))
RT_FORWARD(cudaDeviceGetDefaultMemPool, (CUmemoryPool * ret, int device),
	cuDeviceGetDefaultMemPool(ret, device))
RT_FORWARD(cudaDeviceGetMemPool, (CUmemoryPool * ret, int device), cuDeviceGetMemPool(ret, device))
RT_FORWARD(cudaDeviceSetMemPool, (int device, CUmemoryPool pool), cuDeviceSetMemPool(device, pool))

#if RT_VERSION >= 13000
RT_FORWARD_PT(cudaMemPrefetchAsync, ptsz,
	(const void *p, size_t size, struct CUmemLocation location, unsigned flags,
		CUstream stream),
	cuMemPrefetchAsync_v2, (RT_PTR(p), size, location, flags, stream))
RT_FORWARD(cudaMemAdvise, (const void *p, size_t size, int advice, struct CUmemLocation location),
	cuMemAdvise_v2(RT_PTR(p), size, advice, location))
#else
RT_FORWARD_PT(cudaMemPrefetchAsync, ptsz, (const void *p, size_t size, int device, CUstream stream),
	cuMemPrefetchAsync, (RT_PTR(p), size, device, stream))
RT_FORWARD(cudaMemAdvise, (const void *p, size_t size, int advice, int device),
	cuMemAdvise(RT_PTR(p), size, advice, device))
#endif
RT_FORWARD_PT(cudaStreamAttachMemAsync, ptsz,
	(CUstream stream, void *p, size_t size, unsigned flags), cuStreamAttachMemAsync,
	(stream, RT_PTR(p), size, flags))

/* Host memory that the driver does not know: an error until CUDA 10, a type of its own since 11. */
static int not_registered(struct cudaPointerAttributes *ret, const void *p)
{
#if RT_VERSION < 11000
	return cudaErrorInvalidValue;
#else
	*ret = (struct cudaPointerAttributes){
		.type = cudaMemoryTypeUnregistered, .device = -2, .hostPointer = (void *)p};
	return 0;
#endif
}

static int attributes(struct cudaPointerAttributes *ret, const void *p)
{
	unsigned type = 0, managed = 0;
	int device = 0;
	CUdeviceptr on_device = 0;
	void *on_host = NULL;
	CUresult r =
		rt_driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, RT_PTR(p));

	if (r == CUDA_ERROR_INVALID_VALUE) {
		return not_registered(ret, p);
	}
	if (r != CUDA_SUCCESS) {
		return (int)r;
	}
	/* What a kind of memory does not have stays 0. */
	(void)rt_driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, RT_PTR(p));
	(void)rt_driver.cuPointerGetAttribute(
		&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, RT_PTR(p));
	(void)rt_driver.cuPointerGetAttribute(
		&on_device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, RT_PTR(p));
	if (type == CU_MEMORYTYPE_HOST || managed != 0) {
		(void)rt_driver.cuPointerGetAttribute(
			&on_host, CU_POINTER_ATTRIBUTE_HOST_POINTER, RT_PTR(p));
	}
	*ret = (struct cudaPointerAttributes)
	{
#if RT_VERSION < 10000
		.memoryType = (int)type, .isManaged = managed != 0,
#else
		.type = managed != 0 ? cudaMemoryTypeManaged : (int)type,
#endif
		.device = device, .devicePointer = (void *)(uintptr_t)on_device,
		.hostPointer = on_host,
	};
	return 0;
}

RT_API int cudaPointerGetAttributes(struct cudaPointerAttributes *ret, const void *p);
RT_API int cudaPointerGetAttributes(struct cudaPointerAttributes *ret, const void *p)
{
	int error = ret == NULL ? cudaErrorInvalidValue : rt_enter();

	return rt_done(error != 0 ? error : attributes(ret, p));
}
