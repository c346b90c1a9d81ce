/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of rows and slices. Host memory is in the call, in the answer, or shared (hand_copy.c). */
#include "remote/worker/hand.h"

/* One side of a copy. */
struct side {
	int type;
	const void *host;
	size_t x, y, z, pitch, height;
};

/* How many bytes of host memory the copy touches, from its pointer on; false: more than there are.
 *  */
static bool extent(const struct side *d, const struct CUDA_MEMCPY3D *p, size_t *ret)
{
	size_t rows, bytes;

	if (p->WidthInBytes == 0 || p->Height == 0 || p->Depth == 0) {
		*ret = 0;
		return true;
	}
	/* Slices before the last one, rows before its last one, and that row. */
	return !__builtin_add_overflow(d->z, p->Depth - 1, &rows) &&
	       !__builtin_mul_overflow(rows, d->height, &rows) &&
	       !__builtin_add_overflow(rows, d->y, &rows) &&
	       !__builtin_add_overflow(rows, p->Height - 1, &rows) &&
	       !__builtin_mul_overflow(rows, d->pitch, &bytes) &&
	       !__builtin_add_overflow(bytes, d->x, &bytes) &&
	       !__builtin_add_overflow(bytes, p->WidthInBytes, ret);
}

/* `inside`: the number of bytes in the call or answer; 0: the memory must be shared. */
static bool is_good(
	struct served *s, const struct side *d, const struct CUDA_MEMCPY3D *p, size_t inside)
{
	size_t bytes;

	if (d->type == CU_MEMORYTYPE_DEVICE) {
		return true;
	}
	if (d->type != CU_MEMORYTYPE_HOST) {
		return false; /* guests resolve unified addresses, and have no arrays */
	}
	return extent(d, p, &bytes) &&
	       (inside != 0 ? bytes <= inside : served_is_shared(s, (uintptr_t)d->host, bytes));
}

bool hand_copy_is_good(
	struct served *s, const struct CUDA_MEMCPY3D *p, size_t from_size, size_t to_size)
{
	struct side src = {p->srcMemoryType, p->srcHost, p->srcXInBytes, p->srcY, p->srcZ,
		p->srcPitch, p->srcHeight};
	struct side dst = {p->dstMemoryType, p->dstHost, p->dstXInBytes, p->dstY, p->dstZ,
		p->dstPitch, p->dstHeight};

	return is_good(s, &src, p, from_size) && is_good(s, &dst, p, to_size);
}

static void take(struct served *s, struct CUDA_MEMCPY3D *p)
{
	const struct CUDA_MEMCPY3D *given = served_in(s, sizeof(*given), 1);
	size_t from_size = 0;
	const void *from = served_block(s, &from_size);
	uint64_t to_size = served_get(s);

	*p = (struct CUDA_MEMCPY3D){0};
	if (given == NULL || s->malformed) {
		s->refusal = CUDA_ERROR_INVALID_VALUE;
		return;
	}
	*p = *given;
	p->srcContext = served_find(s, RBT_HANDLE_CONTEXT, (uintptr_t)given->srcContext);
	p->dstContext = served_find(s, RBT_HANDLE_CONTEXT, (uintptr_t)given->dstContext);
	p->srcArray = NULL;
	p->dstArray = NULL;
	if (from != NULL) {
		p->srcHost = from;
	}
	if (to_size != 0) {
		p->dstHost = served_room(s, to_size > RBT_WIRE_MAX_CALL ? SIZE_MAX : to_size);
	}
	if (s->refusal == CUDA_SUCCESS && !hand_copy_is_good(s, p, from_size, to_size)) {
		s->refusal = CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult copy(struct served *s, CUresult (*fn)(const struct CUDA_MEMCPY3D *))
{
	struct CUDA_MEMCPY3D p;

	take(s, &p);
	return served_is_good(s, fn != NULL) ? fn(&p) : s->refusal;
}

/* With an answer that has data: when the stream is done. */
static CUresult copy_async(struct served *s, CUresult (*fn)(const struct CUDA_MEMCPY3D *, CUstream))
{
	CUresult (*wait)(CUstream) = SERVED_FN(s, cuStreamSynchronize);
	struct CUDA_MEMCPY3D p;

	take(s, &p);
	CUstream stream = served_find(s, RBT_HANDLE_STREAM, served_get(s));

	if (!served_is_good(s, fn != NULL && wait != NULL)) {
		return s->refusal;
	}
	CUresult r = fn(&p, stream);

	return r == CUDA_SUCCESS && s->n_outs > 0 ? wait(stream) : r;
}

CUresult serve_cuMemcpy3D_v2(struct served *s)
{
	return copy(s, SERVED_FN(s, cuMemcpy3D_v2));
}

CUresult serve_cuMemcpy3DPeer(struct served *s)
{
	return copy(s, SERVED_FN(s, cuMemcpy3DPeer));
}

CUresult serve_cuMemcpy3DAsync_v2(struct served *s)
{
	return copy_async(s, SERVED_FN(s, cuMemcpy3DAsync_v2));
}

CUresult serve_cuMemcpy3DPeerAsync(struct served *s)
{
	return copy_async(s, SERVED_FN(s, cuMemcpy3DPeerAsync));
}
