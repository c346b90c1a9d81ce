/* SPDX-License-Identifier: Apache-2.0 */
/* Launches. */
#include <string.h>

#include "softgpu/cuda/front.h"

#define MAX_ATTRIBUTES 64

/* `extra` is a list of names and values: a buffer and its size. */
static CUresult take_buffer(void **extra, const void **ret_buffer, size_t *ret_size)
{
	const void *buffer = NULL;
	const size_t *size = NULL;

	for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
			buffer = extra[i + 1];
		} else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
			size = extra[i + 1];
		} else {
			return CUDA_ERROR_INVALID_VALUE;
		}
	}
	if (buffer == NULL || size == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_buffer = buffer;
	*ret_size = *size;
	return CUDA_SUCCESS;
}

CUresult front_params_pack(
	const struct rbt_ptx_function *ptx, void **params, void **extra, void *buffer)
{
	const void *given;
	size_t size;

	if (params != NULL && extra != NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (ptx->nparams == 0) {
		return CUDA_SUCCESS;
	}
	/* Gaps between parameters are zeroed, so that equal launches are equal bytes. */
	memset(buffer, 0, ptx->param_size);
	if (extra != NULL) {
		CUresult r = take_buffer(extra, &given, &size);

		if (r == CUDA_SUCCESS && size < ptx->param_size) {
			r = CUDA_ERROR_INVALID_VALUE;
		}
		if (r == CUDA_SUCCESS) {
			memcpy(buffer, given, ptx->param_size);
		}
		return r;
	}
	if (params == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	for (uint32_t i = 0; i < ptx->nparams; i++) {
		if (params[i] == NULL) {
			return CUDA_ERROR_INVALID_VALUE;
		}
		memcpy((uint8_t *)buffer + ptx->params[i].offset, params[i], ptx->params[i].size);
	}
	return CUDA_SUCCESS;
}

static bool dims_fit(const struct front_launch *l)
{
	const uint32_t *g = l->grid, *b = l->block;

	return g[0] > 0 && g[1] > 0 && g[2] > 0 && g[0] <= GPU_MAX_GRID_X &&
	       g[1] <= GPU_MAX_GRID_YZ && g[2] <= GPU_MAX_GRID_YZ && b[0] > 0 && b[1] > 0 &&
	       b[2] > 0 && b[0] <= 1024 && b[1] <= 1024 && b[2] <= 64 &&
	       (uint64_t)b[0] * b[1] * b[2] <= GPU_MAX_BLOCK;
}

/* The launch must have the dimensions that .reqntid and .maxntid promise. */
static bool dims_are_as_promised(const struct front_launch *l)
{
	const struct rbt_ptx_function *f = l->function->ptx;
	uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];

	if (f->req_ntid[0] != 0 && memcmp(f->req_ntid, l->block, sizeof(l->block)) != 0) {
		return false;
	}
	return f->max_ntid[0] == 0 ||
	       threads <= (uint64_t)f->max_ntid[0] * f->max_ntid[1] * f->max_ntid[2];
}

CUresult front_launch_check(struct front_context *ctx, const struct front_launch *launch)
{
	const struct front_function *f = launch->function;
	uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];

	if (f->module->ctx != ctx) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	if (!dims_fit(launch) || !dims_are_as_promised(launch) || launch->shared > f->max_dynamic ||
		launch->shared + (uint64_t)f->ptx->shared_size > GPU_BLOCK_SHARED) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if ((launch->flags & GPU_LAUNCH_COOPERATIVE) != 0) {
		uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
		uint64_t most = (uint64_t)front_occupancy(f->ptx, threads, launch->shared) *
				ctx->dev->n_sms;

		if (blocks > most) {
			return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
		}
	}
	return CUDA_SUCCESS;
}

static CUresult launch(const struct CUlaunchConfig *c, uint32_t flags, CUfunction handle,
	void **params, void **extra)
{
	_Alignas(8) uint8_t buffer[GPU_MAX_PARAMS];
	struct front_op op = {.kind = FRONT_OP_KERNEL,
		.launch = {.grid = {c->gridDimX, c->gridDimY, c->gridDimZ},
			.block = {c->blockDimX, c->blockDimY, c->blockDimZ},
			.shared = c->sharedMemBytes,
			.flags = flags,
			.params = buffer}};
	struct front_stream *s;
	CUresult r = front_enter_stream(c->hStream, &s);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	op.launch.function = front_function_of(s->ctx, handle);
	if (op.launch.function == NULL) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	op.launch.param_size = op.launch.function->ptx->param_size;
	r = front_launch_check(s->ctx, &op.launch);
	if (r == CUDA_SUCCESS) {
		r = front_params_pack(op.launch.function->ptx, params, extra, buffer);
	}
	return r != CUDA_SUCCESS ? r : front_do(s, &op);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
	unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream stream,
	void **params, void **extra)
{
	struct CUlaunchConfig c = {
		grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, NULL, 0};

	return launch(&c, 0, function, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
	unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
	CUstream stream, void **params)
{
	struct CUlaunchConfig c = {
		grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, NULL, 0};

	return launch(&c, GPU_LAUNCH_COOPERATIVE, function, params, NULL);
}

/* An attribute that changes only the speed of a kernel can be ignored; one that changes its effect
 * cannot. */
static CUresult take_attribute(const struct CUlaunchAttribute *a, uint32_t *flags)
{
	switch (a->id) {
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		*flags |= a->value.cooperative != 0 ? GPU_LAUNCH_COOPERATIVE : 0;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
		return a->value.cluster.x <= 1 && a->value.cluster.y <= 1 && a->value.cluster.z <= 1
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_NOT_SUPPORTED;
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
		return CUDA_ERROR_NOT_SUPPORTED;
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		return a->value.cooperative == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
	default:
		return a->id < 0 || a->id > MAX_ATTRIBUTES ? CUDA_ERROR_INVALID_VALUE
							   : CUDA_SUCCESS;
	}
}

static CUresult launch_ex(const struct CUlaunchConfig *c, CUstream stream, CUfunction function,
	void **params, void **extra)
{
	struct CUlaunchConfig config = *c;
	uint32_t flags = 0;
	CUresult r = CUDA_SUCCESS;

	config.hStream = stream;
	if (c->numAttrs > MAX_ATTRIBUTES || (c->numAttrs > 0 && c->attrs == NULL)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	for (unsigned i = 0; i < c->numAttrs && r == CUDA_SUCCESS; i++) {
		r = take_attribute(&c->attrs[i], &flags);
	}
	return r != CUDA_SUCCESS ? r : launch(&config, flags, function, params, extra);
}

CUresult cuLaunchKernelEx(
	const struct CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && config == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r != CUDA_SUCCESS ? r : launch_ex(config, config->hStream, function, params, extra);
}

CUresult cuLaunchKernelEx_ptsz(
	const struct CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && config == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	return launch_ex(config, config->hStream == NULL ? CU_STREAM_PER_THREAD : config->hStream,
		function, params, extra);
}
