/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the guest's libcuda.so.1: those that are generated, and the smaller ones that
 * are not. */
#include "cuda/api.h"
#include "cuda/by_hand.h"
#include "cuda/common.h"
#include "cuda/guest_names.h"
#include "remote/guest/guest.h"

#include "cuda/guest.inc"

#define NAME_ABSENT(name, version, symbol) {#name, version, (void (*)(void))guest_refused, NULL},
/* Sorted by name, then by version. */
static const struct rbt_cuda_name names[] = {
	GUEST_NAMES(RBT_CUDA_NAME, RBT_CUDA_NAME_PT, NAME_ABSENT)};

CUresult guest_cuGetProcAddress_v2(unsigned form, const char *symbol, void **ret_fn, int version,
	uint64_t flags, int *ret_status)
{
	int status = CU_GET_PROC_ADDRESS_SUCCESS;
	CUresult r = rbt_cuda_look_up(names, sizeof(names) / sizeof(names[0]), symbol, ret_fn,
		version, flags, form == RBT_WIRE_PER_THREAD, &status);

	if (r == CUDA_SUCCESS && ret_status != NULL) {
		*ret_status = status;
	}
	return r;
}

/* The form until CUDA 12: a missing name is an error. */
CUresult guest_cuGetProcAddress(
	unsigned form, const char *symbol, void **ret_fn, int version, uint64_t flags)
{
	int status = CU_GET_PROC_ADDRESS_SUCCESS;
	CUresult r = guest_cuGetProcAddress_v2(form, symbol, ret_fn, version, flags, &status);

	return r == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_ERROR_NOT_FOUND
									  : r;
}

CUresult guest_cuGetErrorName(unsigned form, int result, const char **ret_name)
{
	return rbt_cuda_error_name(result, ret_name);
}

CUresult guest_cuGetErrorString(unsigned form, int result, const char **ret_text)
{
	return rbt_cuda_error_text(result, ret_text);
}

/* NVIDIA's static runtime authenticates the driver through these tables. This library is none. */
CUresult guest_cuGetExportTable(unsigned form, const void **ret_table, const struct CUuuid *id)
{
	if (ret_table == NULL || id == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_table = NULL;
	return CUDA_ERROR_NOT_FOUND;
}

/* Also a forked child may ask, so that it is asked early. */
static _Atomic int driver_version;

CUresult guest_cuDriverGetVersion(unsigned form, int *ret_version)
{
	struct guest_call c;
	int version = driver_version;

	if (ret_version == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (version == 0) {
		CUresult r = guest_begin(&c, RBT_CALL_cuDriverGetVersion, GUEST_SYNC);

		if (r != CUDA_SUCCESS) {
			return r;
		}
		guest_put_out(&c, &version, sizeof(version), 1);
		r = guest_end(&c);
		if (r != CUDA_SUCCESS) {
			return r;
		}
		driver_version = version;
	}
	*ret_version = version;
	return CUDA_SUCCESS;
}

CUresult guest_cuInit(unsigned form, unsigned flags)
{
	struct guest_call c;
	int version;
	CUresult r = guest_begin(&c, RBT_CALL_cuInit, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put(&c, flags);
	r = guest_end(&c);
	return r != CUDA_SUCCESS ? r : guest_cuDriverGetVersion(0, &version);
}

/* Parts of a GPU are the host's to give. */
CUresult guest_cuCtxCreate_v3(unsigned form, CUcontext *ret_ctx, void *affinity, int n_affinity,
	unsigned flags, CUdevice device)
{
	struct guest_call c;
	CUresult r = guest_begin(&c, RBT_CALL_cuCtxCreate_v3, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (affinity != NULL || n_affinity != 0) {
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	guest_put_handles_out(&c, ret_ctx, 1);
	guest_put(&c, flags);
	guest_put(&c, (uint64_t)device);
	return guest_end(&c);
}

CUresult guest_cuCtxCreate_v4(unsigned form, CUcontext *ret_ctx, struct CUctxCreateParams *params,
	unsigned flags, CUdevice device)
{
	struct guest_call c;
	CUresult r = guest_begin(&c, RBT_CALL_cuCtxCreate_v4, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (params != NULL && (params->numExecAffinityParams != 0 || params->cigParams != NULL)) {
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	guest_put_handles_out(&c, ret_ctx, 1);
	guest_put(&c, flags);
	guest_put(&c, (uint64_t)device);
	return guest_end(&c);
}

CUresult guest_cuOccupancyMaxPotentialBlockSize(unsigned form, int *ret_grid, int *ret_block,
	CUfunction handle, CUoccupancyB2DSize dynamic_of, size_t dynamic, int limit)
{
	return guest_cuOccupancyMaxPotentialBlockSizeWithFlags(
		form, ret_grid, ret_block, handle, dynamic_of, dynamic, limit, 0);
}

/* With a function of the program: the largest block that keeps most threads busy. */
static CUresult search_block(int *ret_grid, int *ret_block, CUfunction handle,
	CUoccupancyB2DSize dynamic_of, int limit, unsigned flags)
{
	CUdevice device;
	int top = 0, sms = 0, best = 0, best_block = 0;
	CUresult r = cuFuncGetAttribute(&top, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, handle);

	if (r == CUDA_SUCCESS) {
		r = cuCtxGetDevice(&device);
	}
	if (r == CUDA_SUCCESS) {
		r = cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
	}
	top = limit > 0 && limit < top ? limit : top;
	for (int i = (top + 31) / 32 * 32; r == CUDA_SUCCESS && i > 0; i -= 32) {
		int block = i < top ? i : top, n = 0;

		r = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
			&n, handle, block, dynamic_of(block), flags);
		if (n * block > best * best_block) {
			best = n;
			best_block = block;
		}
	}
	if (r == CUDA_SUCCESS) {
		*ret_grid = best * sms;
		*ret_block = best_block;
	}
	return r;
}

CUresult guest_cuOccupancyMaxPotentialBlockSizeWithFlags(unsigned form, int *ret_grid,
	int *ret_block, CUfunction handle, CUoccupancyB2DSize dynamic_of, size_t dynamic, int limit,
	unsigned flags)
{
	struct guest_call c;

	if (dynamic_of != NULL && ret_grid != NULL && ret_block != NULL && limit >= 0) {
		return search_block(ret_grid, ret_block, handle, dynamic_of, limit, flags);
	}
	CUresult r =
		guest_begin(&c, RBT_CALL_cuOccupancyMaxPotentialBlockSizeWithFlags, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_out(&c, ret_grid, sizeof(*ret_grid), 1);
	guest_put_out(&c, ret_block, sizeof(*ret_block), 1);
	guest_put_handle(&c, RBT_HANDLE_FUNCTION, handle);
	guest_put(&c, dynamic);
	guest_put(&c, (uint64_t)limit);
	guest_put(&c, flags);
	return guest_end(&c);
}
