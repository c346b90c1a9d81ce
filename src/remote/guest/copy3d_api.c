/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of rows and slices. A two-dimensional copy is one of a single slice. If a side is memory
 * of the program alone, its rows travel packed, one behind the other; large copies are split.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/api.h"
#include "cuda/by_hand.h"
#include "remote/guest/copy.h"

/* A side in memory of the program alone. */
struct side {
	bool travels;
	uint8_t *base;
	size_t x, y, z, pitch, height;
};

static uint8_t *row(const struct side *d, size_t y, size_t z)
{
	return d->base + ((d->z + z) * d->height + d->y + y) * d->pitch + d->x;
}

/* Unified addresses become those of the host or the device. */
static void resolve(struct CUDA_MEMCPY3D *p)
{
	if (p->srcMemoryType == CU_MEMORYTYPE_UNIFIED) {
		p->srcHost = (const void *)(uintptr_t)p->srcDevice;
		p->srcMemoryType =
			guest_is_device(p->srcDevice) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	}
	if (p->dstMemoryType == CU_MEMORYTYPE_UNIFIED) {
		p->dstHost = (void *)(uintptr_t)p->dstDevice;
		p->dstMemoryType =
			guest_is_device(p->dstDevice) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	}
}

static bool is_host_good(
	const void *host, size_t x, size_t pitch, size_t height, const struct CUDA_MEMCPY3D *p)
{
	return host != NULL &&
	       (p->Height <= 1 || (pitch >= p->WidthInBytes && pitch - p->WidthInBytes >= x)) &&
	       (p->Depth <= 1 || height >= p->Height);
}

struct copy {
	enum rbt_call_number number;
	unsigned how;
	const CUstream *stream;
};

static CUresult one(const struct copy *k, struct CUDA_MEMCPY3D p, const struct side *src,
	const struct side *dst, size_t bytes)
{
	struct guest_call c;
	CUresult r = guest_begin(&c, k->number, k->how);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (src->travels) {
		p.srcHost = NULL;
		p.srcXInBytes = p.srcY = p.srcZ = 0;
		p.srcPitch = p.WidthInBytes;
		p.srcHeight = p.Height;
	}
	if (dst->travels) {
		p.dstHost = NULL;
		p.dstXInBytes = p.dstY = p.dstZ = 0;
		p.dstPitch = p.WidthInBytes;
		p.dstHeight = p.Height;
	}
	guest_put_in(&c, &p, sizeof(p), 1);
	uint8_t *packed = src->travels ? rbt_wire_put_room(&c.writer, bytes) : NULL;

	if (!src->travels) {
		guest_put_in(&c, NULL, 1, 0);
	}
	for (size_t z = 0; packed != NULL && z < p.Depth; z++) {
		for (size_t y = 0; y < p.Height; y++) {
			memcpy(packed, row(src, y, z), p.WidthInBytes);
			packed += p.WidthInBytes;
		}
	}
	guest_put(&c, dst->travels ? bytes : 0);
	if (k->stream != NULL) {
		guest_put_handle(&c, RBT_HANDLE_STREAM, *k->stream);
	}
	r = guest_end(&c);
	size_t got = 0;
	const uint8_t *from = r == CUDA_SUCCESS && dst->travels ? guest_take(&c, &got) : NULL;

	for (size_t z = 0; from != NULL && got == bytes && z < p.Depth; z++) {
		for (size_t y = 0; y < p.Height; y++) {
			memcpy(row(dst, y, z), from, p.WidthInBytes);
			from += p.WidthInBytes;
		}
	}
	return r;
}

/* A part of the copy: `n` of `all`, along one dimension. */
static CUresult parts(const struct copy *k, const struct CUDA_MEMCPY3D *p, const struct side *src,
	const struct side *dst);

static CUresult part(const struct copy *k, const struct CUDA_MEMCPY3D *p, struct side src,
	struct side dst, size_t offset[3], size_t size[3])
{
	struct CUDA_MEMCPY3D q = *p;

	q.srcXInBytes += offset[0];
	q.dstXInBytes += offset[0];
	q.srcY += offset[1];
	q.dstY += offset[1];
	q.srcZ += offset[2];
	q.dstZ += offset[2];
	src.x += offset[0];
	dst.x += offset[0];
	src.y += offset[1];
	dst.y += offset[1];
	src.z += offset[2];
	dst.z += offset[2];
	q.WidthInBytes = size[0];
	q.Height = size[1];
	q.Depth = size[2];
	return parts(k, &q, &src, &dst);
}

static CUresult parts(const struct copy *k, const struct CUDA_MEMCPY3D *p, const struct side *src,
	const struct side *dst)
{
	size_t bytes = p->WidthInBytes * p->Height * p->Depth;
	size_t size[3] = {p->WidthInBytes, p->Height, p->Depth};
	int along = size[2] > 1 ? 2 : size[1] > 1 ? 1 : 0;
	CUresult r = CUDA_SUCCESS;

	if (bytes <= GUEST_CHUNK) {
		return one(k, *p, src, dst, bytes);
	}
	size_t each = bytes / size[along], step = each < GUEST_CHUNK ? GUEST_CHUNK / each : 1;

	for (size_t done = 0; r == CUDA_SUCCESS && done < size[along]; done += step) {
		size_t offset[3] = {0, 0, 0}, now[3] = {size[0], size[1], size[2]};

		offset[along] = done;
		now[along] = size[along] - done < step ? size[along] - done : step;
		r = part(k, p, *src, *dst, offset, now);
	}
	return r;
}

static CUresult copy(enum rbt_call_number number, unsigned how, const struct CUDA_MEMCPY3D *given,
	const CUstream *stream)
{
	const struct copy k = {number, how, stream};
	struct guest_call c;
	CUresult r = guest_begin(&c, number, how);

	if (r == CUDA_SUCCESS && given == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	struct CUDA_MEMCPY3D p = *given;

	if (p.srcMemoryType == CU_MEMORYTYPE_ARRAY || p.dstMemoryType == CU_MEMORYTYPE_ARRAY) {
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	resolve(&p);
	struct side src = {p.srcMemoryType == CU_MEMORYTYPE_HOST && !guest_is_shared(p.srcHost, 1),
		(uint8_t *)(uintptr_t)p.srcHost, p.srcXInBytes, p.srcY, p.srcZ, p.srcPitch,
		p.srcHeight};
	struct side dst = {p.dstMemoryType == CU_MEMORYTYPE_HOST && !guest_is_shared(p.dstHost, 1),
		p.dstHost, p.dstXInBytes, p.dstY, p.dstZ, p.dstPitch, p.dstHeight};
	size_t bytes;

	if (__builtin_mul_overflow(p.WidthInBytes, p.Height, &bytes) ||
		__builtin_mul_overflow(bytes, p.Depth, &bytes) ||
		(src.travels &&
			!is_host_good(p.srcHost, p.srcXInBytes, p.srcPitch, p.srcHeight, &p)) ||
		(dst.travels &&
			!is_host_good(p.dstHost, p.dstXInBytes, p.dstPitch, p.dstHeight, &p))) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!src.travels && !dst.travels) {
		return one(&k, p, &src, &dst, bytes);
	}
	if (stream != NULL && guest_is_capturing(how & RBT_WIRE_PER_THREAD, *stream)) {
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return bytes == 0 ? CUDA_SUCCESS : parts(&k, &p, &src, &dst);
}

CUresult guest_cuMemcpy3D_v2(unsigned form, const struct CUDA_MEMCPY3D *p)
{
	return copy(RBT_CALL_cuMemcpy3D_v2, form | GUEST_WAITS, p, NULL);
}

CUresult guest_cuMemcpy3DPeer(unsigned form, const struct CUDA_MEMCPY3D *p)
{
	return copy(RBT_CALL_cuMemcpy3DPeer, form | GUEST_WAITS, p, NULL);
}

CUresult guest_cuMemcpy3DAsync_v2(unsigned form, const struct CUDA_MEMCPY3D *p, CUstream stream)
{
	return copy(RBT_CALL_cuMemcpy3DAsync_v2, form, p, &stream);
}

CUresult guest_cuMemcpy3DPeerAsync(unsigned form, const struct CUDA_MEMCPY3D *p, CUstream stream)
{
	return copy(RBT_CALL_cuMemcpy3DPeerAsync, form, p, &stream);
}

static const struct CUDA_MEMCPY3D *slice(const struct CUDA_MEMCPY2D *p, struct CUDA_MEMCPY3D *q)
{
	if (p == NULL) {
		return NULL;
	}
	*q = (struct CUDA_MEMCPY3D){.srcXInBytes = p->srcXInBytes,
		.srcY = p->srcY,
		.srcMemoryType = p->srcMemoryType,
		.srcHost = p->srcHost,
		.srcDevice = p->srcDevice,
		.srcPitch = p->srcPitch,
		.srcHeight = p->srcY + p->Height,
		.dstXInBytes = p->dstXInBytes,
		.dstY = p->dstY,
		.dstMemoryType = p->dstMemoryType,
		.dstHost = p->dstHost,
		.dstDevice = p->dstDevice,
		.dstPitch = p->dstPitch,
		.dstHeight = p->dstY + p->Height,
		.WidthInBytes = p->WidthInBytes,
		.Height = p->Height,
		.Depth = 1};
	return q;
}

CUresult guest_cuMemcpy2D_v2(unsigned form, const struct CUDA_MEMCPY2D *p)
{
	struct CUDA_MEMCPY3D q;

	return guest_cuMemcpy3D_v2(form, slice(p, &q));
}

CUresult guest_cuMemcpy2DUnaligned_v2(unsigned form, const struct CUDA_MEMCPY2D *p)
{
	return guest_cuMemcpy2D_v2(form, p);
}

CUresult guest_cuMemcpy2DAsync_v2(unsigned form, const struct CUDA_MEMCPY2D *p, CUstream stream)
{
	struct CUDA_MEMCPY3D q;

	return guest_cuMemcpy3DAsync_v2(form, slice(p, &q), stream);
}
