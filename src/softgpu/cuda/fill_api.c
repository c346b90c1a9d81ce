/* SPDX-License-Identifier: Apache-2.0 */
/* Sets memory to a value. The synchronous forms also return before the device has done it, as the
 * real ones do for device memory. */
#include "softgpu/cuda/front.h"

static CUresult fill(CUstream handle, const struct front_fill *f)
{
	struct front_op op = {.kind = FRONT_OP_FILL, .fill = *f};
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS) {
		r = front_fill_check(s->ctx, f);
	}
	return r != CUDA_SUCCESS ? r : front_do(s, &op);
}

static CUresult fill_line(
	CUstream handle, CUdeviceptr to, uint32_t element, uint32_t value, size_t n)
{
	struct front_fill f = {
		.to = to, .width = n, .height = 1, .value = value, .element = element};

	return fill(handle, &f);
}

static CUresult fill_rows(CUstream handle, CUdeviceptr to, size_t pitch, uint32_t element,
	uint32_t value, size_t width, size_t height)
{
	struct front_fill f = {.to = to,
		.width = width,
		.height = height,
		.pitch = pitch,
		.value = value,
		.element = element};

	return fill(handle, &f);
}

/* The synchronous form, the same for a thread's own stream, and the asynchronous one. */
#define FILL_LINE(bits, type)                                                                      \
	CUresult cuMemsetD##bits##_v2(CUdeviceptr to, type value, size_t n)                        \
	{                                                                                          \
		return fill_line(NULL, to, (bits) / 8, value, n);                                  \
	}                                                                                          \
	CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr to, type value, size_t n)                   \
	{                                                                                          \
		return fill_line(CU_STREAM_PER_THREAD, to, (bits) / 8, value, n);                  \
	}                                                                                          \
	CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t n, CUstream stream)     \
	{                                                                                          \
		return fill_line(stream, to, (bits) / 8, value, n);                                \
	}

#define FILL_ROWS(bits, type)                                                                      \
	CUresult cuMemsetD2D##bits##_v2(                                                           \
		CUdeviceptr to, size_t pitch, type value, size_t width, size_t height)             \
	{                                                                                          \
		return fill_rows(NULL, to, pitch, (bits) / 8, value, width, height);               \
	}                                                                                          \
	CUresult cuMemsetD2D##bits##_v2_ptds(                                                      \
		CUdeviceptr to, size_t pitch, type value, size_t width, size_t height)             \
	{                                                                                          \
		return fill_rows(                                                                  \
			CU_STREAM_PER_THREAD, to, pitch, (bits) / 8, value, width, height);        \
	}                                                                                          \
	CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width,  \
		size_t height, CUstream stream)                                                    \
	{                                                                                          \
		return fill_rows(stream, to, pitch, (bits) / 8, value, width, height);             \
	}

FILL_LINE(8, unsigned char)
FILL_LINE(16, unsigned short)
FILL_LINE(32, unsigned)
FILL_ROWS(8, unsigned char)
FILL_ROWS(16, unsigned short)
FILL_ROWS(32, unsigned)
