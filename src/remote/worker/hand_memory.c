/* SPDX-License-Identifier: Apache-2.0 */
/* Memory. Pinned memory of a guest is shared memory that is registered with the driver here. */
#include <string.h>

#include "remote/worker/served.h"

CUresult serve_cuInit(struct served *s)
{
	unsigned flags = (unsigned)served_get(s);

	return served_is_good(s, s->driver->cuInit != NULL) ? s->driver->cuInit(flags) : s->refusal;
}

CUresult serve_cuDriverGetVersion(struct served *s)
{
	int *ret = served_out(s, sizeof(*ret), 1);

	return served_is_good(s, s->driver->cuDriverGetVersion != NULL)
		       ? s->driver->cuDriverGetVersion(ret)
		       : s->refusal;
}

CUresult serve_cuCtxCreate_v3(struct served *s)
{
	CUcontext *ret = served_handles_out(s, RBT_HANDLE_CONTEXT, 1);
	unsigned flags = (unsigned)served_get(s);
	CUdevice device = (CUdevice)served_get(s);

	return served_is_good(s, s->driver->cuCtxCreate_v3 != NULL)
		       ? s->driver->cuCtxCreate_v3(ret, NULL, 0, flags, device)
		       : s->refusal;
}

CUresult serve_cuCtxCreate_v4(struct served *s)
{
	CUcontext *ret = served_handles_out(s, RBT_HANDLE_CONTEXT, 1);
	unsigned flags = (unsigned)served_get(s);
	CUdevice device = (CUdevice)served_get(s);

	return served_is_good(s, s->driver->cuCtxCreate_v4 != NULL)
		       ? s->driver->cuCtxCreate_v4(ret, NULL, flags, device)
		       : s->refusal;
}

CUresult serve_cuMemFree_v2(struct served *s)
{
	CUdeviceptr address = served_get(s);

	if (!served_is_good(s, s->driver->cuMemFree_v2 != NULL)) {
		return s->refusal;
	}
	CUresult r = s->driver->cuMemFree_v2(address);

	if (r == CUDA_SUCCESS) {
		served_freed(s, address);
	}
	return r;
}

/* Registers shared memory, for cuMemHostAlloc, cuMemHostRegister and cuMemAllocManaged. The answer
 * has the address that kernels use. */
static CUresult pin(struct served *s)
{
	uint64_t address = served_get(s), size = served_get(s);
	unsigned flags = (unsigned)served_get(s);
	CUdeviceptr *ret = served_room(s, sizeof(*ret));
	void *p = (void *)(uintptr_t)address;

	if (!served_is_shared(s, address, size)) {
		s->malformed = true;
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!served_is_good(s, s->driver->cuMemHostRegister_v2 != NULL &&
				       s->driver->cuMemHostGetDevicePointer_v2 != NULL)) {
		return s->refusal;
	}
	CUresult r = s->driver->cuMemHostRegister_v2(p, size, flags);

	if (r == CUDA_SUCCESS) {
		r = s->driver->cuMemHostGetDevicePointer_v2(ret, p, 0);
		if (r != CUDA_SUCCESS) {
			(void)s->driver->cuMemHostUnregister(p);
		}
	}
	return r;
}

CUresult serve_cuMemHostAlloc(struct served *s)
{
	return pin(s);
}

CUresult serve_cuMemHostRegister_v2(struct served *s)
{
	return pin(s);
}

CUresult serve_cuMemAllocManaged(struct served *s)
{
	return pin(s);
}

static CUresult unpin(struct served *s)
{
	uint64_t address = served_get(s);

	return served_is_good(s, s->driver->cuMemHostUnregister != NULL)
		       ? s->driver->cuMemHostUnregister((void *)(uintptr_t)address)
		       : s->refusal;
}

CUresult serve_cuMemFreeHost(struct served *s)
{
	return unpin(s);
}

CUresult serve_cuMemHostUnregister(struct served *s)
{
	return unpin(s);
}

CUresult serve_cuMemHostGetDevicePointer_v2(struct served *s)
{
	CUdeviceptr *ret = served_out(s, sizeof(*ret), 1);
	void *p = (void *)(uintptr_t)served_get(s);
	unsigned flags = (unsigned)served_get(s);

	return served_is_good(s, s->driver->cuMemHostGetDevicePointer_v2 != NULL)
		       ? s->driver->cuMemHostGetDevicePointer_v2(ret, p, flags)
		       : s->refusal;
}

/* A value of up to 8 bytes. Handles are translated. */
static void to_guest(struct served *s, int attribute, uint64_t *value)
{
	enum rbt_handle_kind kind =
		attribute == CU_POINTER_ATTRIBUTE_CONTEXT ? RBT_HANDLE_CONTEXT : RBT_HANDLE_POOL;

	if ((attribute == CU_POINTER_ATTRIBUTE_CONTEXT ||
		    attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) &&
		*value != 0) {
		*value = served_handle_of(s, kind, (void *)(uintptr_t)*value);
	}
}

CUresult serve_cuPointerGetAttribute(struct served *s)
{
	bool wanted = served_get(s) != 0;
	int attribute = (int)served_get(s);
	CUdeviceptr pointer = served_get(s);
	uint64_t *value = served_room(s, 16); /* two tokens, the largest */

	if (!served_is_good(s, s->driver->cuPointerGetAttribute != NULL)) {
		return s->refusal;
	}
	CUresult r = s->driver->cuPointerGetAttribute(wanted ? value : NULL, attribute, pointer);

	if (r == CUDA_SUCCESS) {
		to_guest(s, attribute, value);
	}
	return r;
}

CUresult serve_cuPointerGetAttributes(struct served *s)
{
	enum { MAX = 64, VALUE = 16 };
	void *data[MAX];
	size_t bytes = 0;
	unsigned n = (unsigned)served_get(s);
	const int *attributes = served_block(s, &bytes);
	CUdeviceptr pointer = served_get(s);
	uint8_t *values = served_room(s, (size_t)MAX * VALUE);

	if (n > MAX || attributes == NULL || bytes != n * sizeof(int) || values == NULL) {
		s->malformed = true;
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!served_is_good(s, s->driver->cuPointerGetAttributes != NULL)) {
		return s->refusal;
	}
	for (unsigned i = 0; i < n; i++) {
		data[i] = values + (size_t)i * VALUE;
	}
	CUresult r = s->driver->cuPointerGetAttributes(n, attributes, data, pointer);

	for (unsigned i = 0; r == CUDA_SUCCESS && i < n; i++) {
		to_guest(s, attributes[i], data[i]);
	}
	return r;
}

CUresult serve_cuPointerSetAttribute(struct served *s)
{
	const void *value = served_in(s, sizeof(unsigned), 1);
	int attribute = (int)served_get(s);
	CUdeviceptr pointer = served_get(s);

	if (!served_is_good(s, s->driver->cuPointerSetAttribute != NULL)) {
		return s->refusal;
	}
	return s->driver->cuPointerSetAttribute(value, attribute, pointer);
}

CUresult serve_cuMemPoolGetAttribute(struct served *s)
{
	CUmemoryPool pool = served_find(s, RBT_HANDLE_POOL, served_get(s));
	int attribute = (int)served_get(s);
	void *value = served_both(s, sizeof(uint64_t));

	if (!served_is_good(s, s->driver->cuMemPoolGetAttribute != NULL)) {
		return s->refusal;
	}
	return s->driver->cuMemPoolGetAttribute(pool, attribute, value);
}

CUresult serve_cuMemPoolSetAttribute(struct served *s)
{
	CUmemoryPool pool = served_find(s, RBT_HANDLE_POOL, served_get(s));
	int attribute = (int)served_get(s);
	void *value = served_both(s, sizeof(uint64_t));

	if (!served_is_good(s, s->driver->cuMemPoolSetAttribute != NULL)) {
		return s->refusal;
	}
	return s->driver->cuMemPoolSetAttribute(pool, attribute, value);
}

/* Guests call functions of their own themselves. */
CUresult serve_cuOccupancyMaxPotentialBlockSizeWithFlags(struct served *s)
{
	int *grid = served_out(s, sizeof(*grid), 1);
	int *block = served_out(s, sizeof(*block), 1);
	CUfunction f = served_find(s, RBT_HANDLE_FUNCTION, served_get(s));
	size_t dynamic = served_get(s);
	int limit = (int)served_get(s);
	unsigned flags = (unsigned)served_get(s);

	if (!served_is_good(s, s->driver->cuOccupancyMaxPotentialBlockSizeWithFlags != NULL)) {
		return s->refusal;
	}
	return s->driver->cuOccupancyMaxPotentialBlockSizeWithFlags(
		grid, block, f, NULL, dynamic, limit, flags);
}
