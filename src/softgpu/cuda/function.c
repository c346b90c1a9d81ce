/* SPDX-License-Identifier: Apache-2.0 */
/* Functions: the resources they need, and how many of their blocks fit on an SM. */
#include "softgpu/cuda/front.h"

#define WARP     32u
#define MAX_REGS 64 /* of 1024 threads, an SM's registers are enough for */
#define MIN_REGS 8

/* Registers are no limit here, but programs calculate with them: every launch that works must seem
 * possible by the reported number. */
static int count_registers(const struct rbt_ptx_function *f)
{
	uint64_t n = f->nregs32 + 2ull * f->nregs64;
	uint64_t max = f->max_nreg != 0 && f->max_nreg < MAX_REGS ? f->max_nreg : MAX_REGS;

	n = n < MIN_REGS ? MIN_REGS : n;
	return (int)(n < max ? n : max);
}

static uint32_t max_threads(const struct rbt_ptx_function *f)
{
	const uint32_t *dims = f->req_ntid[0] != 0 ? f->req_ntid : f->max_ntid;
	uint64_t n = (uint64_t)dims[0] * dims[1] * dims[2];

	return n == 0 || n > GPU_MAX_BLOCK ? GPU_MAX_BLOCK : (uint32_t)n;
}

static uint64_t constant_bytes(const struct front_module *module)
{
	uint64_t n = 0;

	for (uint32_t i = 0; module != NULL && i < module->ptx->nvariables; i++) {
		if (module->ptx->variables[i].space == RBT_PTX_SPACE_CONST) {
			n += module->ptx->variables[i].size;
		}
	}
	return n;
}

CUresult front_function_attribute(const struct front_function *f, int attribute, int *ret)
{
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*ret = (int)max_threads(f->ptx);
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*ret = (int)f->ptx->shared_size;
		break;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		*ret = (int)constant_bytes(f->module);
		break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*ret = (int)f->ptx->local_size;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*ret = count_registers(f->ptx);
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*ret = 70;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*ret = (int)f->max_dynamic;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*ret = f->carveout;
		break;
	default:
		if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) {
			return CUDA_ERROR_INVALID_VALUE;
		}
		*ret = 0; /* caches and clusters: there are none */
		break;
	}
	return CUDA_SUCCESS;
}

CUresult front_function_set(struct front_function *f, int attribute, int value)
{
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 ||
			(uint64_t)(unsigned)value + f->ptx->shared_size > GPU_BLOCK_SHARED) {
			return CUDA_ERROR_INVALID_VALUE;
		}
		f->max_dynamic = (uint32_t)value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < -1 || value > 100) {
			return CUDA_ERROR_INVALID_VALUE;
		}
		f->carveout = value;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

struct front_function *front_function_of(struct front_context *ctx, CUfunction handle)
{
	struct front_function *f;

	if (front_is(handle, FRONT_FUNCTION)) {
		return handle;
	}
	/* A kernel of a library may be given in place of a function. */
	if (ctx != NULL && front_is(handle, FRONT_KERNEL) &&
		front_kernel_function(ctx, (CUkernel)(void *)handle, &f) == CUDA_SUCCESS) {
		return f;
	}
	return NULL;
}

/* The current context and a function in it. */
static CUresult enter_function(CUfunction handle, struct front_function **ret)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	struct front_function *f = front_function_of(ctx, handle);

	if (f == NULL) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	*ret = f;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *ret_value, int attribute, CUfunction handle)
{
	struct front_function *f;
	CUresult r = enter_function(handle, &f);

	if (r == CUDA_SUCCESS && ret_value == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r != CUDA_SUCCESS ? r : front_function_attribute(f, attribute, ret_value);
}

CUresult cuFuncSetAttribute(CUfunction handle, int attribute, int value)
{
	struct front_function *f;
	CUresult r = enter_function(handle, &f);

	return r != CUDA_SUCCESS ? r : front_function_set(f, attribute, value);
}

CUresult cuFuncSetCacheConfig(CUfunction handle, int config)
{
	struct front_function *f;
	CUresult r = enter_function(handle, &f);

	return r == CUDA_SUCCESS && (config < 0 || config > 3) ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult cuFuncSetSharedMemConfig(CUfunction handle, int config)
{
	struct front_function *f;
	CUresult r = enter_function(handle, &f);

	return r == CUDA_SUCCESS && (config < 0 || config > 2) ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult cuFuncGetModule(CUmodule *ret_module, CUfunction handle)
{
	struct front_function *f;
	CUresult r = enter_function(handle, &f);

	if (r == CUDA_SUCCESS && ret_module == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_module = f->module;
	}
	return r;
}

/* Driver 580 refuses a CUkernel here, while launches and occupancy calls take it in place of a
 * function. cuKernelGetName() names kernels. */
CUresult cuFuncGetName(const char **ret_name, CUfunction handle)
{
	struct front_function *f;
	CUresult r = enter_function(handle, &f);

	if (r == CUDA_SUCCESS && !front_is(handle, FRONT_FUNCTION)) {
		r = CUDA_ERROR_INVALID_HANDLE;
	}
	if (r == CUDA_SUCCESS && ret_name == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_name = f->ptx->name;
	}
	return r;
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *ret_offset, size_t *ret_size)
{
	struct front_function *f;
	CUresult r = enter_function(handle, &f);

	if (r == CUDA_SUCCESS && (ret_offset == NULL || index >= f->ptx->nparams)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_offset = f->ptx->params[index].offset;
		if (ret_size != NULL) {
			*ret_size = f->ptx->params[index].size;
		}
	}
	return r;
}

CUresult cuFuncIsLoaded(int *ret_state, CUfunction handle)
{
	struct front_function *f;
	CUresult r = enter_function(handle, &f);

	if (r == CUDA_SUCCESS && ret_state == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_state = 1;
	}
	return r;
}

CUresult cuFuncLoad(CUfunction handle)
{
	struct front_function *f;

	return enter_function(handle, &f);
}

uint32_t front_occupancy(const struct rbt_ptx_function *ptx, uint32_t threads, uint64_t dynamic)
{
	uint64_t shared = ptx->shared_size + dynamic;
	uint32_t whole = (threads + WARP - 1) / WARP * WARP;

	if (threads == 0 || threads > max_threads(ptx) || shared > GPU_BLOCK_SHARED) {
		return 0;
	}
	uint64_t n = GPU_SM_THREADS / whole;

	n = n < GPU_SM_BLOCKS ? n : GPU_SM_BLOCKS;
	if (shared > 0 && GPU_SM_SHARED / shared < n) {
		n = GPU_SM_SHARED / shared;
	}
	return (uint32_t)n;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *ret_blocks, CUfunction handle, int threads, size_t dynamic, unsigned flags)
{
	struct front_function *f;
	CUresult r = enter_function(handle, &f);

	if (r == CUDA_SUCCESS && (ret_blocks == NULL || threads <= 0 || flags > 1)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_blocks = (int)front_occupancy(f->ptx, (uint32_t)threads, dynamic);
	}
	return r;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *ret_blocks, CUfunction handle, int threads, size_t dynamic)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		ret_blocks, handle, threads, dynamic, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *ret_grid, int *ret_block, CUfunction handle,
	CUoccupancyB2DSize dynamic_of, size_t dynamic, int limit, unsigned flags)
{
	struct front_function *f;
	CUresult r = enter_function(handle, &f);
	uint32_t best_threads = 0, best = 0;

	if (r == CUDA_SUCCESS &&
		(ret_grid == NULL || ret_block == NULL || limit < 0 || flags > 1)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	uint32_t top = max_threads(f->ptx);

	if (limit > 0 && (uint32_t)limit < top) {
		top = (uint32_t)limit;
	}
	/* The largest first: if SMs are equally busy, fewer blocks are better. */
	for (uint32_t t = (top + WARP - 1) / WARP * WARP; t > 0; t -= WARP) {
		uint32_t threads = t < top ? t : top;
		uint64_t bytes = dynamic_of != NULL ? dynamic_of((int)threads) : dynamic;
		uint32_t n = front_occupancy(f->ptx, threads, bytes);

		if (n * threads > best * best_threads) {
			best_threads = threads;
			best = n;
		}
	}
	*ret_block = (int)best_threads;
	*ret_grid = (int)(best * f->module->ctx->dev->n_sms);
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *ret_grid, int *ret_block, CUfunction handle,
	CUoccupancyB2DSize dynamic_of, size_t dynamic, int limit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(
		ret_grid, ret_block, handle, dynamic_of, dynamic, limit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(
	size_t *ret_bytes, CUfunction handle, int blocks, int threads)
{
	struct front_function *f;
	CUresult r = enter_function(handle, &f);

	if (r == CUDA_SUCCESS &&
		(ret_bytes == NULL || blocks <= 0 || threads <= 0 ||
			front_occupancy(f->ptx, (uint32_t)threads, 0) < (uint32_t)blocks)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_bytes = GPU_SM_SHARED / (uint32_t)blocks - f->ptx->shared_size;
	}
	return r;
}
