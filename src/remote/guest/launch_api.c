/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches. The guest packs parameters itself, so that the program may change its variables when
 * the call has returned. A launch is queued if it is within the limits that every GPU has and those
 * that the driver tells for the function; another one waits for the driver's answer.
 */
#include "remote/guest/launch.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/api.h"
#include "cuda/by_hand.h"

#define BUCKETS     1024u
#define MAX_GRID_X  0x7fffffffu
#define MAX_GRID_YZ 65535u
#define MAX_BLOCK   1024u
#define MAX_BLOCK_Z 64u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct guest_function *buckets[BUCKETS];

static CUresult param_info(CUfunction f, size_t i, size_t *ret_offset, size_t *ret_size)
{
	bool is_kernel = rbt_handle_kind_of((uintptr_t)f) == RBT_HANDLE_KERNEL;

	return is_kernel ? cuKernelGetParamInfo((CUkernel)(void *)f, i, ret_offset, ret_size)
			 : cuFuncGetParamInfo(f, i, ret_offset, ret_size);
}

static CUresult attribute(CUfunction f, int name, int *ret)
{
	CUdevice device;

	if (rbt_handle_kind_of((uintptr_t)f) != RBT_HANDLE_KERNEL) {
		return cuFuncGetAttribute(ret, name, f);
	}
	CUresult r = cuCtxGetDevice(&device);

	return r != CUDA_SUCCESS ? r : cuKernelGetAttribute(ret, name, (CUkernel)(void *)f, device);
}

static CUresult ask_function(CUfunction f, struct guest_function *i)
{
	CUresult r = CUDA_SUCCESS;

	i->n = 0;
	i->size = 0;
	while (r == CUDA_SUCCESS && i->n < GUEST_MAX_PARAMS) {
		size_t offset = 0, size = 0;

		r = param_info(f, i->n, &offset, &size);
		if (r == CUDA_SUCCESS) {
			i->offsets[i->n] = offset;
			i->sizes[i->n++] = size;
			i->size = offset + size > i->size ? offset + size : i->size;
		}
	}
	/* The driver says "invalid value" behind the last one. */
	r = r == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : r;
	if (r == CUDA_SUCCESS) {
		r = attribute(f, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &i->max_threads);
	}
	if (r == CUDA_SUCCESS) {
		r = attribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &i->max_dynamic);
	}
	return r;
}

/* Entries are not freed: there are as many as functions, and a program may be inside one. */
CUresult guest_function_get(CUfunction f, const struct guest_function **ret)
{
	uint64_t epoch = guest_cache_epoch();
	size_t bucket = ((uintptr_t)f * 0x9e3779b97f4a7c15ull >> 32) % BUCKETS;

	pthread_mutex_lock(&lock);
	struct guest_function *i = buckets[bucket];

	while (i != NULL && (i->handle != f || i->epoch != epoch)) {
		i = i->next;
	}
	pthread_mutex_unlock(&lock);
	if (i != NULL) {
		*ret = i;
		return CUDA_SUCCESS;
	}
	i = calloc(1, sizeof(*i));
	if (i == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	i->handle = f;
	i->epoch = epoch;
	CUresult r = ask_function(f, i);

	if (r != CUDA_SUCCESS) {
		free(i);
		return r;
	}
	pthread_mutex_lock(&lock);
	i->next = buckets[bucket];
	buckets[bucket] = i;
	pthread_mutex_unlock(&lock);
	*ret = i;
	return CUDA_SUCCESS;
}

/* `extra` is a list of names and values: a buffer and its size. */
static CUresult find_buffer(void **extra, const void **ret_buffer, size_t *ret_size)
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
	*ret_buffer = buffer;
	*ret_size = size != NULL ? *size : 0;
	return buffer != NULL && size != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_put_params(
	struct guest_call *c, const struct guest_function *f, void **params, void **extra)
{
	const void *buffer = NULL;
	size_t size = 0;

	if (params != NULL && extra != NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (f == NULL || f->n == 0 || (params == NULL && extra == NULL)) {
		guest_put_in(c, NULL, 1, 0); /* the driver knows what is missing */
		c->doubt = c->doubt || f == NULL || f->n != 0;
		return CUDA_SUCCESS;
	}
	if (extra != NULL) {
		CUresult r = find_buffer(extra, &buffer, &size);

		if (r == CUDA_SUCCESS && size < f->size) {
			r = CUDA_ERROR_INVALID_VALUE;
		}
		guest_put_in(c, buffer, 1, size);
		return r;
	}
	uint8_t *to = rbt_wire_put_room(&c->writer, f->size);

	for (size_t i = 0; to != NULL && i < f->n; i++) {
		if (params[i] == NULL) {
			return CUDA_ERROR_INVALID_VALUE;
		}
		memcpy(to + f->offsets[i], params[i], f->sizes[i]);
	}
	return CUDA_SUCCESS;
}

struct launch {
	unsigned grid[3], block[3], shared;
};

static bool is_usual(const struct guest_function *f, const struct launch *l)
{
	uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];

	return l->grid[0] - 1 < MAX_GRID_X && l->grid[1] - 1 < MAX_GRID_YZ &&
	       l->grid[2] - 1 < MAX_GRID_YZ && l->block[0] - 1 < MAX_BLOCK &&
	       l->block[1] - 1 < MAX_BLOCK && l->block[2] - 1 < MAX_BLOCK_Z &&
	       threads <= (uint64_t)f->max_threads && l->shared <= (unsigned)f->max_dynamic;
}

/* Function, sizes and stream; the function is known afterwards, or NULL. */
static CUresult begin(struct guest_call *c, enum rbt_call_number number, unsigned how, CUfunction f,
	const struct launch *l, CUstream stream, const struct guest_function **ret)
{
	const struct guest_function *i = NULL;

	/* Its calls come before this one. */
	if (atomic_load(&guest.initialized) && guest_knows_handle((uintptr_t)f) &&
		guest_function_get(f, &i) != CUDA_SUCCESS) {
		i = NULL;
	}
	CUresult r = guest_begin(c, number, how);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	c->doubt = c->doubt || i == NULL || !is_usual(i, l);
	guest_put_handle(c, RBT_HANDLE_FUNCTION, f);
	for (int k = 0; k < 3; k++) {
		guest_put(c, l->grid[k]);
	}
	for (int k = 0; k < 3; k++) {
		guest_put(c, l->block[k]);
	}
	guest_put(c, l->shared);
	guest_put_handle(c, RBT_HANDLE_STREAM, stream);
	*ret = i;
	return CUDA_SUCCESS;
}

CUresult guest_cuLaunchKernel(unsigned form, CUfunction function, unsigned grid_x, unsigned grid_y,
	unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
	CUstream stream, void **params, void **extra)
{
	struct launch l = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
	const struct guest_function *f;
	struct guest_call c;
	CUresult r =
		begin(&c, RBT_CALL_cuLaunchKernel, form | GUEST_QUEUED, function, &l, stream, &f);

	if (r == CUDA_SUCCESS) {
		r = guest_put_params(&c, f, params, extra);
	}
	return r != CUDA_SUCCESS ? r : guest_end(&c);
}

/* Whether all its blocks fit on the device at once is for the driver to say. */
CUresult guest_cuLaunchCooperativeKernel(unsigned form, CUfunction function, unsigned grid_x,
	unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
	unsigned shared, CUstream stream, void **params)
{
	struct launch l = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
	const struct guest_function *f;
	struct guest_call c;
	CUresult r = begin(&c, RBT_CALL_cuLaunchCooperativeKernel, form | GUEST_SYNC, function, &l,
		stream, &f);

	if (r == CUDA_SUCCESS) {
		r = guest_put_params(&c, f, params, NULL);
	}
	return r != CUDA_SUCCESS ? r : guest_end(&c);
}

/* Attributes with handles or addresses in them would need a translation each. */
static bool travels(int id)
{
	return id != CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW &&
	       id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT &&
	       id != CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT &&
	       id != CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
}

CUresult guest_cuLaunchKernelEx(unsigned form, const struct CUlaunchConfig *config,
	CUfunction function, void **params, void **extra)
{
	const struct guest_function *f;
	struct guest_call c;

	if (config == NULL || (config->numAttrs != 0 && config->attrs == NULL)) {
		CUresult r = guest_begin(&c, RBT_CALL_cuLaunchKernelEx, form);

		return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
	}
	for (unsigned i = 0; i < config->numAttrs; i++) {
		if (!travels(config->attrs[i].id)) {
			return CUDA_ERROR_NOT_SUPPORTED;
		}
	}
	struct launch l = {{config->gridDimX, config->gridDimY, config->gridDimZ},
		{config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes};
	CUresult r = begin(&c, RBT_CALL_cuLaunchKernelEx, form | GUEST_QUEUED, function, &l,
		config->hStream, &f);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	c.doubt = c.doubt || config->numAttrs != 0;
	guest_put_in(&c, config->attrs, sizeof(*config->attrs), config->numAttrs);
	r = guest_put_params(&c, f, params, extra);
	return r != CUDA_SUCCESS ? r : guest_end(&c);
}
