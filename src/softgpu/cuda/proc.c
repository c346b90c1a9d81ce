/* SPDX-License-Identifier: Apache-2.0 */
/* Calls and results by name. */
#include "cuda/common.h"
#include "cuda/names.h"
#include "softgpu/cuda/front.h"

/* Unsupported calls: the same function for all. */
CUresult front_absent(void);

#define NAME_ABSENT(name, version, symbol) {#name, version, (void (*)(void))front_absent, NULL},
/* Sorted by name, then by version. */
static const struct rbt_cuda_name names[] = {
	FRONT_NAMES(RBT_CUDA_NAME, RBT_CUDA_NAME_PT, NAME_ABSENT)};

static CUresult look_up(const char *symbol, void **ret_fn, int version, uint64_t flags,
	bool per_thread, int *ret_status)
{
	return rbt_cuda_look_up(names, sizeof(names) / sizeof(names[0]), symbol, ret_fn, version,
		flags, per_thread, ret_status);
}

CUresult cuGetProcAddress_v2(
	const char *symbol, void **ret_fn, int version, uint64_t flags, int *ret_status)
{
	int status = CU_GET_PROC_ADDRESS_SUCCESS;
	CUresult r = look_up(symbol, ret_fn, version, flags, false, &status);

	if (r == CUDA_SUCCESS && ret_status != NULL) {
		*ret_status = status;
	}
	return r;
}

CUresult cuGetProcAddress_v2_ptsz(
	const char *symbol, void **ret_fn, int version, uint64_t flags, int *ret_status)
{
	int status = CU_GET_PROC_ADDRESS_SUCCESS;
	CUresult r = look_up(symbol, ret_fn, version, flags, true, &status);

	if (r == CUDA_SUCCESS && ret_status != NULL) {
		*ret_status = status;
	}
	return r;
}

/* The form until CUDA 12: a missing name is an error. */
CUresult cuGetProcAddress(const char *symbol, void **ret_fn, int version, uint64_t flags)
{
	int status = CU_GET_PROC_ADDRESS_SUCCESS;
	CUresult r = look_up(symbol, ret_fn, version, flags, false, &status);

	return r == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_ERROR_NOT_FOUND
									  : r;
}

CUresult cuGetErrorName(int result, const char **ret_name)
{
	return rbt_cuda_error_name(result, ret_name);
}

CUresult cuGetErrorString(int result, const char **ret_text)
{
	return rbt_cuda_error_text(result, ret_text);
}
