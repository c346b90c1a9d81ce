/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: `<<<>>>` of CUDA 10 and newer, of CUDA 9 and older, and by configuration. */
#include <string.h>

#include "remote/cudart/cudart.h"

/* What `<<<>>>` leaves for the launch that follows. A launch's argument can have one itself. */
#define MAX_NESTED    16
#define MAX_ARGUMENTS 4096u

struct configuration {
	struct dim3 grid, block;
	size_t shared;
	CUstream stream;
};

static __thread struct configuration pushed[MAX_NESTED];
static __thread unsigned n_pushed;
/* Of CUDA 9 and older. */
static __thread unsigned char arguments[MAX_ARGUMENTS];
static __thread size_t arguments_size;

static int push(struct dim3 grid, struct dim3 block, size_t shared, CUstream stream)
{
	if (n_pushed == MAX_NESTED) {
		return cudaErrorInvalidConfiguration;
	}
	pushed[n_pushed++] = (struct configuration){grid, block, shared, stream};
	return 0;
}

RT_API unsigned __cudaPushCallConfiguration(
	struct dim3 grid, struct dim3 block, size_t shared, CUstream stream);
RT_API unsigned __cudaPushCallConfiguration(
	struct dim3 grid, struct dim3 block, size_t shared, CUstream stream)
{
	return (unsigned)rt_done(push(grid, block, shared, stream));
}

RT_API int __cudaPopCallConfiguration(
	struct dim3 *ret_grid, struct dim3 *ret_block, size_t *ret_shared, void *ret_stream);
RT_API int __cudaPopCallConfiguration(
	struct dim3 *ret_grid, struct dim3 *ret_block, size_t *ret_shared, void *ret_stream)
{
	if (n_pushed == 0) {
		return rt_done(cudaErrorMissingConfiguration);
	}
	const struct configuration *c = &pushed[--n_pushed];

	*ret_grid = c->grid;
	*ret_block = c->block;
	*ret_shared = c->shared;
	memcpy(ret_stream, &c->stream, sizeof(c->stream));
	return 0;
}

/* The driver's answer to impossible sizes is "invalid value". */
static int checked(int error, struct dim3 grid, struct dim3 block)
{
	bool is_empty = grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 ||
			block.z == 0;
	bool is_large = (uint64_t)block.x * block.y * block.z > 1024 || block.z > 64 ||
			grid.y > 65535 || grid.z > 65535;

	return error == CUDA_ERROR_INVALID_VALUE && (is_empty || is_large)
		       ? cudaErrorInvalidConfiguration
		       : error;
}

static int launch(const void *host, const struct configuration *c, void **params, void **extra)
{
	CUfunction function;
	int error = rt_function_find(host, &function);

	if (error != 0) {
		return error;
	}
	if (c->shared > UINT32_MAX) {
		return cudaErrorInvalidConfiguration;
	}
	error = (int)rt_driver.cuLaunchKernel(function, c->grid.x, c->grid.y, c->grid.z, c->block.x,
		c->block.y, c->block.z, (unsigned)c->shared, c->stream, params, extra);
	return checked(error, c->grid, c->block);
}

RT_API int cudaLaunchKernel(const void *host, struct dim3 grid, struct dim3 block, void **params,
	size_t shared, CUstream stream);
RT_API int cudaLaunchKernel(const void *host, struct dim3 grid, struct dim3 block, void **params,
	size_t shared, CUstream stream)
{
	struct configuration c = {grid, block, shared, stream};

	return rt_done(launch(host, &c, params, NULL));
}

RT_API int cudaLaunchKernel_ptsz(const void *host, struct dim3 grid, struct dim3 block,
	void **params, size_t shared, CUstream stream);
RT_API int cudaLaunchKernel_ptsz(const void *host, struct dim3 grid, struct dim3 block,
	void **params, size_t shared, CUstream stream)
{
	struct configuration c = {
		grid, block, shared, stream != NULL ? stream : CU_STREAM_PER_THREAD};

	return rt_done(launch(host, &c, params, NULL));
}

/* What nvcc 13 makes of `<<<>>>`. The handle of a kernel is its address on the host, so that
 * nothing is loaded before the launch. */
RT_API int __cudaGetKernel(const void **ret, const void *host);
RT_API int __cudaGetKernel(const void **ret, const void *host)
{
	*ret = host;
	return 0;
}

RT_API int __cudaLaunchKernel(const void *kernel, struct dim3 grid, struct dim3 block,
	void **params, size_t shared, CUstream stream);
RT_API int __cudaLaunchKernel(const void *kernel, struct dim3 grid, struct dim3 block,
	void **params, size_t shared, CUstream stream)
{
	return cudaLaunchKernel(kernel, grid, block, params, shared, stream);
}

RT_API int __cudaLaunchKernel_ptsz(const void *kernel, struct dim3 grid, struct dim3 block,
	void **params, size_t shared, CUstream stream);
RT_API int __cudaLaunchKernel_ptsz(const void *kernel, struct dim3 grid, struct dim3 block,
	void **params, size_t shared, CUstream stream)
{
	return cudaLaunchKernel_ptsz(kernel, grid, block, params, shared, stream);
}

RT_API int cudaLaunchCooperativeKernel(const void *host, struct dim3 grid, struct dim3 block,
	void **params, size_t shared, CUstream stream);
RT_API int cudaLaunchCooperativeKernel(const void *host, struct dim3 grid, struct dim3 block,
	void **params, size_t shared, CUstream stream)
{
	CUfunction function;
	int error = rt_function_find(host, &function);

	if (error == 0) {
		error = (int)rt_driver.cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z,
			block.x, block.y, block.z, (unsigned)shared, stream, params);
	}
	return rt_done(checked(error, grid, block));
}

static int launch_ex(const struct cudaLaunchConfig *c, const void *host, void **params, bool own)
{
	CUfunction function;
	int error = c == NULL ? cudaErrorInvalidValue : rt_function_find(host, &function);

	if (error != 0) {
		return error;
	}
	struct CUlaunchConfig to = {c->gridDim.x, c->gridDim.y, c->gridDim.z, c->blockDim.x,
		c->blockDim.y, c->blockDim.z, (unsigned)c->dynamicSmemBytes,
		own && c->stream == NULL ? CU_STREAM_PER_THREAD : c->stream, c->attrs, c->numAttrs};
	return checked((int)rt_driver.cuLaunchKernelEx(&to, function, params, NULL), c->gridDim,
		c->blockDim);
}

RT_API int cudaLaunchKernelExC(
	const struct cudaLaunchConfig *config, const void *host, void **params);
RT_API int cudaLaunchKernelExC(
	const struct cudaLaunchConfig *config, const void *host, void **params)
{
	return rt_done(launch_ex(config, host, params, false));
}

RT_API int cudaLaunchKernelExC_ptsz(
	const struct cudaLaunchConfig *config, const void *host, void **params);
RT_API int cudaLaunchKernelExC_ptsz(
	const struct cudaLaunchConfig *config, const void *host, void **params)
{
	return rt_done(launch_ex(config, host, params, true));
}

RT_API int cudaConfigureCall(struct dim3 grid, struct dim3 block, size_t shared, CUstream stream);
RT_API int cudaConfigureCall(struct dim3 grid, struct dim3 block, size_t shared, CUstream stream)
{
	arguments_size = 0;
	return rt_done(push(grid, block, shared, stream));
}

RT_API int cudaSetupArgument(const void *argument, size_t size, size_t offset);
RT_API int cudaSetupArgument(const void *argument, size_t size, size_t offset)
{
	if (n_pushed == 0) {
		return rt_done(cudaErrorMissingConfiguration);
	}
	if (argument == NULL || size > MAX_ARGUMENTS || offset > MAX_ARGUMENTS - size) {
		return rt_done(cudaErrorInvalidValue);
	}
	memcpy(arguments + offset, argument, size);
	arguments_size = offset + size > arguments_size ? offset + size : arguments_size;
	return 0;
}

RT_API int cudaLaunch(const void *host);
RT_API int cudaLaunch(const void *host)
{
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
		&arguments_size, CU_LAUNCH_PARAM_END};

	if (n_pushed == 0) {
		return rt_done(cudaErrorMissingConfiguration);
	}
	return rt_done(launch(host, &pushed[--n_pushed], NULL, extra));
}
