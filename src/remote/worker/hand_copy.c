/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between the guest's memory and the device. Memory that is shared has the same address
 * here. Other memory travels inside calls and answers: the driver has used it when its function
 * returns, since to the driver it is pageable memory.
 */
#include "remote/worker/served.h"

/* Host memory that is read: where it is, or the bytes themselves. */
static const void *take_source(struct served *s, size_t size)
{
	uint64_t address = served_get(s);
	size_t bytes = 0;
	const void *inside = served_block(s, &bytes);

	if (address != 0 ? !served_is_shared(s, address, size) : inside != NULL && bytes != size) {
		s->malformed = true;
		s->refusal = CUDA_ERROR_INVALID_VALUE;
	}
	return address != 0 ? (const void *)(uintptr_t)address : inside;
}

/* Host memory that is written: where it is, or room in the answer; NULL if the guest passes none.
 *  */
static void *take_target(struct served *s, size_t size)
{
	uint64_t address = served_get(s);
	bool inside = served_get(s) != 0;

	if (address != 0 && !served_is_shared(s, address, size)) {
		s->malformed = true;
		s->refusal = CUDA_ERROR_INVALID_VALUE;
		return NULL;
	}
	return address != 0 ? (void *)(uintptr_t)address : inside ? served_room(s, size) : NULL;
}

CUresult serve_cuMemcpyHtoD_v2(struct served *s)
{
	CUresult (*fn)(CUdeviceptr, const void *, size_t) = SERVED_FN(s, cuMemcpyHtoD_v2);
	CUdeviceptr to = served_get(s);
	size_t size = served_get(s);
	const void *from = take_source(s, size);

	return served_is_good(s, fn != NULL) ? fn(to, from, size) : s->refusal;
}

CUresult serve_cuMemcpyHtoDAsync_v2(struct served *s)
{
	CUresult (*fn)(CUdeviceptr, const void *, size_t, CUstream) =
		SERVED_FN(s, cuMemcpyHtoDAsync_v2);
	CUdeviceptr to = served_get(s);
	size_t size = served_get(s);
	const void *from = take_source(s, size);
	CUstream stream = served_find(s, RBT_HANDLE_STREAM, served_get(s));

	return served_is_good(s, fn != NULL) ? fn(to, from, size, stream) : s->refusal;
}

CUresult serve_cuMemcpyDtoH_v2(struct served *s)
{
	CUresult (*fn)(void *, CUdeviceptr, size_t) = SERVED_FN(s, cuMemcpyDtoH_v2);
	CUdeviceptr from = served_get(s);
	size_t size = served_get(s);
	void *to = take_target(s, size);

	return served_is_good(s, fn != NULL) ? fn(to, from, size) : s->refusal;
}

/* Into the answer: it is complete when the stream is. (CUDA waits for pageable memory, too.) */
CUresult serve_cuMemcpyDtoHAsync_v2(struct served *s)
{
	CUresult (*fn)(void *, CUdeviceptr, size_t, CUstream) = SERVED_FN(s, cuMemcpyDtoHAsync_v2);
	CUresult (*wait)(CUstream) = SERVED_FN(s, cuStreamSynchronize);
	CUdeviceptr from = served_get(s);
	size_t size = served_get(s);
	void *to = take_target(s, size);
	CUstream stream = served_find(s, RBT_HANDLE_STREAM, served_get(s));

	if (!served_is_good(s, fn != NULL && wait != NULL)) {
		return s->refusal;
	}
	CUresult r = fn(to, from, size, stream);

	return r == CUDA_SUCCESS && s->n_outs > 0 ? wait(stream) : r;
}
