/* SPDX-License-Identifier: Apache-2.0 */
/* Launches. A guest packs a kernel's parameters as the kernel has them in its memory. */
#include "remote/worker/hand.h"

#include <string.h>

#include "remote/worker/served.h"

void hand_params(struct served *s, struct hand_params *p)
{
	p->buffer = (void *)(uintptr_t)served_block(s, &p->size);
	p->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
	p->extra[1] = p->buffer;
	p->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
	p->extra[3] = &p->size;
	p->extra[4] = CU_LAUNCH_PARAM_END;
}

struct dimensions {
	unsigned grid[3], block[3], shared;
};

static void take_dimensions(struct served *s, struct dimensions *d)
{
	for (int i = 0; i < 3; i++) {
		d->grid[i] = (unsigned)served_get(s);
	}
	for (int i = 0; i < 3; i++) {
		d->block[i] = (unsigned)served_get(s);
	}
	d->shared = (unsigned)served_get(s);
}

CUresult serve_cuLaunchKernel(struct served *s)
{
	struct dimensions d;
	struct hand_params p;
	CUfunction f = served_find(s, RBT_HANDLE_FUNCTION, served_get(s));

	take_dimensions(s, &d);
	CUstream stream = served_find(s, RBT_HANDLE_STREAM, served_get(s));

	hand_params(s, &p);
	CUresult (*fn)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		unsigned, CUstream, void **, void **) = SERVED_FN(s, cuLaunchKernel);

	if (!served_is_good(s, fn != NULL)) {
		return s->refusal;
	}
	return fn(f, d.grid[0], d.grid[1], d.grid[2], d.block[0], d.block[1], d.block[2], d.shared,
		stream, NULL, p.buffer != NULL ? p.extra : NULL);
}

/* The call has no form with a buffer. The driver says where in the buffer each parameter is. */
static CUresult split(struct served *s, CUfunction f, const struct hand_params *p, void **ret)
{
	size_t offset = 0, size = 0;

	for (size_t i = 0; i < HAND_MAX_PARAMS && s->driver->cuFuncGetParamInfo != NULL &&
			   s->driver->cuFuncGetParamInfo(f, i, &offset, &size) == CUDA_SUCCESS;
		i++) {
		if (offset > p->size || size > p->size - offset) {
			return CUDA_ERROR_INVALID_VALUE;
		}
		ret[i] = (uint8_t *)p->buffer + offset;
	}
	return CUDA_SUCCESS;
}

CUresult serve_cuLaunchCooperativeKernel(struct served *s)
{
	struct dimensions d;
	struct hand_params p;
	void *params[HAND_MAX_PARAMS] = {NULL};
	CUfunction f = served_find(s, RBT_HANDLE_FUNCTION, served_get(s));

	take_dimensions(s, &d);
	CUstream stream = served_find(s, RBT_HANDLE_STREAM, served_get(s));

	hand_params(s, &p);
	CUresult (*fn)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		unsigned, CUstream, void **) = SERVED_FN(s, cuLaunchCooperativeKernel);

	if (!served_is_good(s, fn != NULL)) {
		return s->refusal;
	}
	CUresult r = p.buffer != NULL ? split(s, f, &p, params) : CUDA_SUCCESS;

	return r != CUDA_SUCCESS
		       ? r
		       : fn(f, d.grid[0], d.grid[1], d.grid[2], d.block[0], d.block[1], d.block[2],
				 d.shared, stream, p.buffer != NULL ? params : NULL);
}

CUresult serve_cuLaunchKernelEx(struct served *s)
{
	struct CUlaunchConfig config = {0};
	struct dimensions d;
	struct hand_params p;
	size_t bytes = 0;
	CUfunction f = served_find(s, RBT_HANDLE_FUNCTION, served_get(s));

	take_dimensions(s, &d);
	CUstream stream = served_find(s, RBT_HANDLE_STREAM, served_get(s));
	const void *attributes = served_block(s, &bytes);

	hand_params(s, &p);
	CUresult (*fn)(const struct CUlaunchConfig *, CUfunction, void **, void **) =
		SERVED_FN(s, cuLaunchKernelEx);

	if (bytes % sizeof(struct CUlaunchAttribute) != 0) {
		s->malformed = true;
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!served_is_good(s, fn != NULL)) {
		return s->refusal;
	}
	config.gridDimX = d.grid[0];
	config.gridDimY = d.grid[1];
	config.gridDimZ = d.grid[2];
	config.blockDimX = d.block[0];
	config.blockDimY = d.block[1];
	config.blockDimZ = d.block[2];
	config.sharedMemBytes = d.shared;
	config.hStream = stream;
	config.attrs = (struct CUlaunchAttribute *)(uintptr_t)attributes;
	config.numAttrs = (unsigned)(bytes / sizeof(struct CUlaunchAttribute));
	return fn(&config, f, NULL, p.buffer != NULL ? p.extra : NULL);
}
