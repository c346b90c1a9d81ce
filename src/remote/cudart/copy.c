/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and memsets, and those of variables. */
#include <string.h>

#include "remote/cudart/cudart.h"

int rt_copy(void *to, const void *from, size_t size, int kind)
{
	if (size == 0) {
		return 0;
	}
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return (int)rt_driver.cuMemcpyHtoD_v2(RT_PTR(to), from, size);
	case cudaMemcpyDeviceToHost:
		return (int)rt_driver.cuMemcpyDtoH_v2(to, RT_PTR(from), size);
	case cudaMemcpyDeviceToDevice:
		return (int)rt_driver.cuMemcpyDtoD_v2(RT_PTR(to), RT_PTR(from), size);
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return (int)rt_driver.cuMemcpy(RT_PTR(to), RT_PTR(from), size);
	default:
		return cudaErrorInvalidMemcpyDirection;
	}
}

int rt_copy_async(void *to, const void *from, size_t size, int kind, CUstream stream)
{
	if (size == 0) {
		return 0;
	}
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return (int)rt_driver.cuMemcpyHtoDAsync_v2(RT_PTR(to), from, size, stream);
	case cudaMemcpyDeviceToHost:
		return (int)rt_driver.cuMemcpyDtoHAsync_v2(to, RT_PTR(from), size, stream);
	case cudaMemcpyDeviceToDevice:
		return (int)rt_driver.cuMemcpyDtoDAsync_v2(RT_PTR(to), RT_PTR(from), size, stream);
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return (int)rt_driver.cuMemcpyAsync(RT_PTR(to), RT_PTR(from), size, stream);
	default:
		return cudaErrorInvalidMemcpyDirection;
	}
}

RT_API int cudaMemcpy(void *to, const void *from, size_t size, int kind);
RT_API int cudaMemcpy(void *to, const void *from, size_t size, int kind)
{
	int error = rt_enter();

	return rt_done(error != 0 ? error : rt_copy(to, from, size, kind));
}

RT_API int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, CUstream stream);
RT_API int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, CUstream stream)
{
	int error = rt_enter();

	return rt_done(error != 0 ? error : rt_copy_async(to, from, size, kind, stream));
}

static CUstream own(CUstream stream)
{
	return stream != NULL ? stream : CU_STREAM_PER_THREAD;
}

RT_API int cudaMemcpyAsync_ptsz(void *to, const void *from, size_t size, int kind, CUstream stream);
RT_API int cudaMemcpyAsync_ptsz(void *to, const void *from, size_t size, int kind, CUstream stream)
{
	return cudaMemcpyAsync(to, from, size, kind, own(stream));
}

RT_API int cudaMemcpy_ptds(void *to, const void *from, size_t size, int kind);
RT_API int cudaMemcpy_ptds(void *to, const void *from, size_t size, int kind)
{
	int error = rt_enter();

	if (error == 0) {
		error = rt_copy_async(to, from, size, kind, CU_STREAM_PER_THREAD);
	}
	if (error == 0) {
		error = (int)rt_driver.cuStreamSynchronize(CU_STREAM_PER_THREAD);
	}
	return rt_done(error);
}

/* Host memory that the program did not name as such is found by its address. */
static int make_2d(struct CUDA_MEMCPY2D *p, void *to, size_t to_pitch, const void *from,
	size_t from_pitch, size_t width, size_t height, int kind)
{
	static const struct {
		int from, to;
	} types[] = {
		[cudaMemcpyHostToHost] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST},
		[cudaMemcpyHostToDevice] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE},
		[cudaMemcpyDeviceToHost] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST},
		[cudaMemcpyDeviceToDevice] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE},
		[cudaMemcpyDefault] = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED},
	};

	if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
		return cudaErrorInvalidMemcpyDirection;
	}
	if (width > to_pitch || width > from_pitch) {
		return cudaErrorInvalidPitchValue;
	}
	*p = (struct CUDA_MEMCPY2D){.srcMemoryType = types[kind].from,
		.srcHost = from,
		.srcDevice = RT_PTR(from),
		.srcPitch = from_pitch,
		.dstMemoryType = types[kind].to,
		.dstHost = to,
		.dstDevice = RT_PTR(to),
		.dstPitch = to_pitch,
		.WidthInBytes = width,
		.Height = height};
	return rt_enter();
}

RT_API int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
	size_t width, size_t height, int kind);
RT_API int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
	size_t width, size_t height, int kind)
{
	struct CUDA_MEMCPY2D p;
	int error = make_2d(&p, to, to_pitch, from, from_pitch, width, height, kind);

	if (error == 0 && width > 0 && height > 0) {
		error = (int)rt_driver.cuMemcpy2DUnaligned_v2(&p);
	}
	return rt_done(error);
}

RT_API int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
	size_t width, size_t height, int kind, CUstream stream);
RT_API int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
	size_t width, size_t height, int kind, CUstream stream)
{
	struct CUDA_MEMCPY2D p;
	int error = make_2d(&p, to, to_pitch, from, from_pitch, width, height, kind);

	if (error == 0 && width > 0 && height > 0) {
		error = (int)rt_driver.cuMemcpy2DAsync_v2(&p, stream);
	}
	return rt_done(error);
}

static int peers(int to_device, int from_device, CUcontext *ret_to, CUcontext *ret_from)
{
	int error = rt_enter();

	if (error == 0) {
		error = rt_context_of(to_device, ret_to);
	}
	return error != 0 ? error : rt_context_of(from_device, ret_from);
}

RT_API int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t size);
RT_API int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t size)
{
	CUcontext a, b;
	int error = peers(to_device, from_device, &a, &b);

	if (error == 0 && size > 0) {
		error = (int)rt_driver.cuMemcpyPeer(RT_PTR(to), a, RT_PTR(from), b, size);
	}
	return rt_done(error);
}

RT_API int cudaMemcpyPeerAsync(
	void *to, int to_device, const void *from, int from_device, size_t size, CUstream stream);
RT_API int cudaMemcpyPeerAsync(
	void *to, int to_device, const void *from, int from_device, size_t size, CUstream stream)
{
	CUcontext a, b;
	int error = peers(to_device, from_device, &a, &b);

	if (error == 0 && size > 0) {
		error = (int)rt_driver.cuMemcpyPeerAsync(
			RT_PTR(to), a, RT_PTR(from), b, size, stream);
	}
	return rt_done(error);
}

RT_FORWARD(cudaMemset, (void *p, int value, size_t n),
	cuMemsetD8_v2(RT_PTR(p), (unsigned char)value, n))
RT_FORWARD_PT(cudaMemsetAsync, ptsz, (void *p, int value, size_t n, CUstream stream),
	cuMemsetD8Async, (RT_PTR(p), (unsigned char)value, n, stream))
RT_FORWARD(cudaMemset2D, (void *p, size_t pitch, int value, size_t width, size_t height),
	cuMemsetD2D8_v2(RT_PTR(p), pitch, (unsigned char)value, width, height))
RT_FORWARD_PT(cudaMemset2DAsync, ptsz,
	(void *p, size_t pitch, int value, size_t width, size_t height, CUstream stream),
	cuMemsetD2D8Async, (RT_PTR(p), pitch, (unsigned char)value, width, height, stream))

/* `offset` and `size` within a variable; its address. */
static int variable_part(const void *symbol, size_t offset, size_t size, void **ret)
{
	CUdeviceptr address;
	size_t whole;
	int error = rt_variable_find(symbol, &address, &whole);

	if (error == 0 && (offset > whole || size > whole - offset)) {
		error = cudaErrorInvalidValue;
	}
	if (error == 0) {
		*ret = (void *)(uintptr_t)(address + offset);
	}
	return error;
}

RT_API int cudaMemcpyToSymbol(
	const void *symbol, const void *from, size_t size, size_t offset, int kind);
RT_API int cudaMemcpyToSymbol(
	const void *symbol, const void *from, size_t size, size_t offset, int kind)
{
	void *at;
	int error = variable_part(symbol, offset, size, &at);

	return rt_done(error != 0 ? error : rt_copy(at, from, size, kind));
}

RT_API int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t size, size_t offset, int kind);
RT_API int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t size, size_t offset, int kind)
{
	void *at;
	int error = variable_part(symbol, offset, size, &at);

	return rt_done(error != 0 ? error : rt_copy(to, at, size, kind));
}

RT_API int cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t size, size_t offset,
	int kind, CUstream stream);
RT_API int cudaMemcpyToSymbolAsync(
	const void *symbol, const void *from, size_t size, size_t offset, int kind, CUstream stream)
{
	void *at;
	int error = variable_part(symbol, offset, size, &at);

	return rt_done(error != 0 ? error : rt_copy_async(at, from, size, kind, stream));
}

RT_API int cudaMemcpyFromSymbolAsync(
	void *to, const void *symbol, size_t size, size_t offset, int kind, CUstream stream);
RT_API int cudaMemcpyFromSymbolAsync(
	void *to, const void *symbol, size_t size, size_t offset, int kind, CUstream stream)
{
	void *at;
	int error = variable_part(symbol, offset, size, &at);

	return rt_done(error != 0 ? error : rt_copy_async(to, at, size, kind, stream));
}

RT_API int cudaGetSymbolAddress(void **ret, const void *symbol);
RT_API int cudaGetSymbolAddress(void **ret, const void *symbol)
{
	void *at = NULL;
	int error = ret == NULL ? cudaErrorInvalidValue : variable_part(symbol, 0, 0, &at);

	if (error == 0) {
		*ret = at;
	}
	return rt_done(error);
}

RT_API int cudaGetSymbolSize(size_t *ret, const void *symbol);
RT_API int cudaGetSymbolSize(size_t *ret, const void *symbol)
{
	CUdeviceptr address;

	return rt_done(
		ret == NULL ? cudaErrorInvalidValue : rt_variable_find(symbol, &address, ret));
}
