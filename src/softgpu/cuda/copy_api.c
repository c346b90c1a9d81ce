/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, in all their forms. All become a struct front_copy. */
#include "softgpu/cuda/front.h"

/* `sync`: wait until it is done, if CUDA promises that. */
static CUresult copy(CUstream handle, const struct front_copy *c, bool sync)
{
	struct front_op op = {.kind = FRONT_OP_COPY, .copy = *c};
	struct front_place to, from;
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS && sync) {
		r = front_capture_refuse(s);
	}
	if (r == CUDA_SUCCESS) {
		r = front_copy_check(s->ctx, c);
	}
	if (r != CUDA_SUCCESS || c->width == 0 || c->height == 0 || c->depth == 0) {
		return r;
	}
	if (!sync || c->to_context != NULL || c->from_context != NULL) {
		return front_do(s, &op);
	}
	(void)front_place_find(s->ctx, c->to, 1, &to);
	(void)front_place_find(s->ctx, c->from, 1, &from);
	if (to.kind == FRONT_DEVICE && from.kind == FRONT_DEVICE) {
		return front_do(s, &op); /* asynchronous to the host also on a GPU */
	}
	/* The device would only be slower: it has nothing else to do on this stream. */
	r = front_wait_stream(s);
	if (r == CUDA_SUCCESS) {
		r = front_copy_now(s->ctx, c);
	}
	front_print_drain(s->ctx);
	return r;
}

static CUresult copy_line(CUstream handle, uint64_t to, uint64_t from, size_t size, bool sync)
{
	struct front_copy c = {.to = to,
		.from = from,
		.width = size,
		.height = 1,
		.depth = 1,
		.to_pitch = size,
		.from_pitch = size};

	return copy(handle, &c, sync);
}

/* The typed forms: the device side must be device memory. */
static CUresult copy_typed(CUstream handle, uint64_t to, uint64_t from, size_t size, bool sync,
	bool to_device, bool from_device)
{
	struct front_copy c = {.to = to,
		.from = from,
		.width = size,
		.height = 1,
		.depth = 1,
		.to_pitch = size,
		.from_pitch = size,
		.to_device = to_device,
		.from_device = from_device};

	return copy(handle, &c, sync);
}

#define HOST(p) ((uint64_t)(uintptr_t)(p))

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
	return copy_typed(NULL, to, HOST(from), size, true, true, false);
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t size)
{
	return copy_typed(CU_STREAM_PER_THREAD, to, HOST(from), size, true, true, false);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
	return copy_typed(NULL, HOST(to), from, size, true, false, true);
}

CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t size)
{
	return copy_typed(CU_STREAM_PER_THREAD, HOST(to), from, size, true, false, true);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return copy_typed(NULL, to, from, size, true, true, true);
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return copy_typed(CU_STREAM_PER_THREAD, to, from, size, true, true, true);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
	return copy_typed(stream, to, HOST(from), size, false, true, false);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	return copy_typed(stream, HOST(to), from, size, false, false, true);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	return copy_typed(stream, to, from, size, false, true, true);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return copy_line(NULL, to, from, size, true);
}

CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return copy_line(CU_STREAM_PER_THREAD, to, from, size, true);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	return copy_line(stream, to, from, size, false);
}

static CUresult copy_peer(CUstream handle, CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
	CUcontext from_ctx, size_t size, bool sync)
{
	struct front_copy c = {.to = to,
		.from = from,
		.width = size,
		.height = 1,
		.depth = 1,
		.to_pitch = size,
		.from_pitch = size,
		.to_context = to_ctx,
		.from_context = from_ctx};
	CUresult r = front_check_init();

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (!front_is(to_ctx, FRONT_CONTEXT) || !front_is(from_ctx, FRONT_CONTEXT) ||
		!to_ctx->alive || !from_ctx->alive) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	return copy(handle, &c, sync);
}

CUresult cuMemcpyPeer(
	CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t size)
{
	return copy_peer(NULL, to, to_ctx, from, from_ctx, size, true);
}

CUresult cuMemcpyPeer_ptds(
	CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t size)
{
	return copy_peer(CU_STREAM_PER_THREAD, to, to_ctx, from, from_ctx, size, true);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx,
	size_t size, CUstream stream)
{
	return copy_peer(stream, to, to_ctx, from, from_ctx, size, false);
}

/* One side of a copy of rows and slices. */
struct side {
	int type;
	const void *host;
	CUdeviceptr device;
	uint64_t x, y, z, pitch, height;
};

static CUresult side_address(
	const struct side *side, uint64_t *ret_address, uint64_t *ret_pitch, uint64_t *ret_slice)
{
	uint64_t base, slice, rows, slices, offset;

	switch (side->type) {
	case CU_MEMORYTYPE_HOST:
		base = HOST(side->host);
		break;
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		base = side->device;
		break;
	case CU_MEMORYTYPE_ARRAY:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (__builtin_mul_overflow(side->pitch, side->height, &slice) ||
		__builtin_mul_overflow(side->y, side->pitch, &rows) ||
		__builtin_mul_overflow(side->z, slice, &slices) ||
		__builtin_add_overflow(rows, slices, &offset) ||
		__builtin_add_overflow(offset, side->x, &offset) ||
		__builtin_add_overflow(base, offset, ret_address)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_pitch = side->pitch;
	*ret_slice = slice;
	return CUDA_SUCCESS;
}

/* A copy of one row may omit its pitch, a copy of one slice its height. */
static void complete(struct side *side, const struct front_copy *c)
{
	side->pitch = side->pitch == 0 ? side->x + c->width : side->pitch;
	side->height = side->height == 0 ? side->y + c->height : side->height;
}

static CUresult from_sides(struct side *to, struct side *from, struct front_copy *c)
{
	if (c->width == 0 || c->height == 0 || c->depth == 0) {
		return CUDA_SUCCESS;
	}
	complete(to, c);
	complete(from, c);
	c->to_device = to->type == CU_MEMORYTYPE_DEVICE;
	c->from_device = from->type == CU_MEMORYTYPE_DEVICE;
	if (to->x + c->width > to->pitch || from->x + c->width > from->pitch) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	CUresult r = side_address(to, &c->to, &c->to_pitch, &c->to_slice);

	return r != CUDA_SUCCESS ? r : side_address(from, &c->from, &c->from_pitch, &c->from_slice);
}

CUresult front_copy_from_3d(const struct CUDA_MEMCPY3D *p, struct front_copy *ret)
{
	struct side to = {p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes, p->dstY,
		p->dstZ, p->dstPitch, p->dstHeight};
	struct side from = {p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes, p->srcY,
		p->srcZ, p->srcPitch, p->srcHeight};

	*ret = (struct front_copy){
		.width = p->WidthInBytes, .height = p->Height, .depth = p->Depth};
	if (p->srcLOD != 0 || p->dstLOD != 0) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	return from_sides(&to, &from, ret);
}

static CUresult copy_2d(CUstream handle, const struct CUDA_MEMCPY2D *p, bool sync)
{
	struct front_context *ctx;
	struct front_copy c;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (p == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	struct side to = {p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes, p->dstY, 0,
		p->dstPitch, 0};
	struct side from = {p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes, p->srcY, 0,
		p->srcPitch, 0};

	c = (struct front_copy){.width = p->WidthInBytes, .height = p->Height, .depth = 1};
	r = from_sides(&to, &from, &c);
	return r != CUDA_SUCCESS ? r : copy(handle, &c, sync);
}

static CUresult copy_3d(CUstream handle, const struct CUDA_MEMCPY3D *p, bool sync, bool peer)
{
	struct front_context *ctx;
	struct front_copy c;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (p == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	r = front_copy_from_3d(p, &c);
	if (r == CUDA_SUCCESS && peer) {
		if (!front_is(p->srcContext, FRONT_CONTEXT) || !p->srcContext->alive ||
			!front_is(p->dstContext, FRONT_CONTEXT) || !p->dstContext->alive) {
			return CUDA_ERROR_INVALID_CONTEXT;
		}
		c.from_context = p->srcContext;
		c.to_context = p->dstContext;
	}
	return r != CUDA_SUCCESS ? r : copy(handle, &c, sync);
}

CUresult cuMemcpy2D_v2(const struct CUDA_MEMCPY2D *p)
{
	return copy_2d(NULL, p, true);
}

CUresult cuMemcpy2D_v2_ptds(const struct CUDA_MEMCPY2D *p)
{
	return copy_2d(CU_STREAM_PER_THREAD, p, true);
}

CUresult cuMemcpy2DUnaligned_v2(const struct CUDA_MEMCPY2D *p)
{
	return copy_2d(NULL, p, true);
}

CUresult cuMemcpy2DUnaligned_v2_ptds(const struct CUDA_MEMCPY2D *p)
{
	return copy_2d(CU_STREAM_PER_THREAD, p, true);
}

CUresult cuMemcpy2DAsync_v2(const struct CUDA_MEMCPY2D *p, CUstream stream)
{
	return copy_2d(stream, p, false);
}

CUresult cuMemcpy3D_v2(const struct CUDA_MEMCPY3D *p)
{
	return copy_3d(NULL, p, true, false);
}

CUresult cuMemcpy3D_v2_ptds(const struct CUDA_MEMCPY3D *p)
{
	return copy_3d(CU_STREAM_PER_THREAD, p, true, false);
}

CUresult cuMemcpy3DAsync_v2(const struct CUDA_MEMCPY3D *p, CUstream stream)
{
	return copy_3d(stream, p, false, false);
}

CUresult cuMemcpy3DPeer(const struct CUDA_MEMCPY3D *p)
{
	return copy_3d(NULL, p, true, true);
}

CUresult cuMemcpy3DPeer_ptds(const struct CUDA_MEMCPY3D *p)
{
	return copy_3d(CU_STREAM_PER_THREAD, p, true, true);
}

CUresult cuMemcpy3DPeerAsync(const struct CUDA_MEMCPY3D *p, CUstream stream)
{
	return copy_3d(stream, p, false, true);
}
