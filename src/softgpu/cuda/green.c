/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: some of a device's SMs, with streams of the primary context. Sizes are checked
 * and rounded as on hardware, but the engine does not bind kernels to SMs: a green context's
 * kernels may use all of them.
 */
#include "softgpu/cuda/front.h"

#define GRANULARITY 2u /* SMs; 8 on Hopper, which has 132 of them */

/* Also what cuDevResourceGenerateDesc() makes. */
struct front_green {
	uint32_t kind;
	struct front_device *dev;
	struct CUdevResource resource;
};

static unsigned round_up(unsigned count)
{
	return (count + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
}

static bool is_sms(const struct CUdevResource *resource)
{
	return resource != NULL && resource->type == CU_DEV_RESOURCE_TYPE_SM &&
	       resource->sm.smCount > 0;
}

static struct CUdevResource sms(unsigned count)
{
	return (struct CUdevResource){.type = CU_DEV_RESOURCE_TYPE_SM,
		.sm = {.smCount = count,
			.minSmPartitionSize = GRANULARITY,
			.smCoscheduledAlignment = GRANULARITY}};
}

CUresult cuDeviceGetDevResource(CUdevice device, struct CUdevResource *ret_resource, int type)
{
	struct front_device *dev;
	CUresult r = front_check_device(device, &dev);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_resource == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (type != CU_DEV_RESOURCE_TYPE_SM) {
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	}
	*ret_resource = sms(dev->n_sms);
	return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(struct CUdevResource *ret_groups, unsigned *ret_n,
	const struct CUdevResource *input, struct CUdevResource *ret_rest, unsigned flags,
	unsigned min_count)
{
	CUresult r = front_check_init();

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_n == NULL || !is_sms(input)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	const unsigned size = round_up(min_count > 0 ? min_count : 1);
	unsigned n = input->sm.smCount / size;

	if (size > input->sm.smCount) {
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	}
	if (ret_groups != NULL) {
		n = *ret_n < n ? *ret_n : n;
		for (unsigned i = 0; i < n; i++) {
			ret_groups[i] = sms(size);
		}
		if (ret_rest != NULL) {
			*ret_rest = sms(input->sm.smCount - n * size);
		}
	}
	*ret_n = n;
	return CUDA_SUCCESS;
}

static struct front_green *make(
	struct front_device *dev, const struct CUdevResource *resource, enum front_kind kind)
{
	struct front_green *green = front_pool_take(kind, sizeof(*green));

	if (green != NULL) {
		green->dev = dev;
		green->resource = *resource;
	}
	return green;
}

CUresult cuDevResourceGenerateDesc(
	CUdevResourceDesc *ret_desc, struct CUdevResource *resources, unsigned n)
{
	CUresult r = front_check_init();

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_desc == NULL || n != 1 || !is_sms(resources)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_desc = make(NULL, resources, FRONT_RESOURCE);
	return *ret_desc != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* A green context keeps the primary context alive. */
CUresult cuGreenCtxCreate(
	CUgreenCtx *ret_green, CUdevResourceDesc desc, CUdevice device, unsigned flags)
{
	const struct front_green *wanted = desc;
	struct front_device *dev;
	CUcontext primary;
	CUresult r = front_check_device(device, &dev);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_green == NULL || flags != CU_GREEN_CTX_DEFAULT_STREAM ||
		!front_is(desc, FRONT_RESOURCE) || wanted->resource.sm.smCount > dev->n_sms) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	r = cuDevicePrimaryCtxRetain(&primary, device);
	if (r != CUDA_SUCCESS) {
		return r;
	}
	*ret_green = make(dev, &wanted->resource, FRONT_GREEN);
	if (*ret_green == NULL) {
		cuDevicePrimaryCtxRelease_v2(device);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

static CUresult check_green(CUgreenCtx handle)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && !front_is(handle, FRONT_GREEN)) {
		r = CUDA_ERROR_INVALID_CONTEXT;
	}
	return r;
}

CUresult cuGreenCtxDestroy(CUgreenCtx handle)
{
	struct front_green *green = handle;
	CUresult r = check_green(handle);

	if (r == CUDA_SUCCESS) {
		CUdevice device = green->dev->ordinal;

		front_pool_give(green, sizeof(*green));
		r = cuDevicePrimaryCtxRelease_v2(device);
	}
	return r;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, struct CUdevResource *ret_resource, int type)
{
	const struct front_green *green = handle;
	CUresult r = check_green(handle);

	if (r == CUDA_SUCCESS && ret_resource == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else if (r == CUDA_SUCCESS && type != CU_DEV_RESOURCE_TYPE_SM) {
		r = CUDA_ERROR_INVALID_RESOURCE_TYPE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_resource = green->resource;
	}
	return r;
}

CUresult cuGreenCtxStreamCreate(
	CUstream *ret_stream, CUgreenCtx handle, unsigned flags, int priority)
{
	const struct front_green *green = handle;
	CUresult r = check_green(handle);

	if (r == CUDA_SUCCESS && (ret_stream == NULL || flags != CU_STREAM_NON_BLOCKING)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r == CUDA_SUCCESS
		       ? front_stream_create(green->dev->primary, flags, priority, ret_stream)
		       : r;
}
