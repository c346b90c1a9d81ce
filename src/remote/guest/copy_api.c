/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies. Shared memory has the same address in the worker. Other memory of the program travels
 * inside calls and answers, in pieces; as in CUDA, an asynchronous copy from it returns when the
 * memory may be changed again, and one to it when it is complete.
 */
#include "remote/guest/copy.h"

#include <string.h>

#include "cuda/api.h"
#include "cuda/by_hand.h"

bool guest_is_device(CUdeviceptr address)
{
	uint32_t type = 0;

	if (guest_knows_range(address, 1) || guest_is_shared((void *)(uintptr_t)address, 1)) {
		return true;
	}
	return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
		       CUDA_SUCCESS &&
	       type == CU_MEMORYTYPE_DEVICE;
}

bool guest_is_on_device(CUdeviceptr address, size_t size)
{
	CUdeviceptr base = 0;
	size_t all = 0;

	if (guest_knows_range(address, size) || guest_is_shared((void *)(uintptr_t)address, size)) {
		return true;
	}
	return cuMemGetAddressRange_v2(&base, &all, address) == CUDA_SUCCESS &&
	       size <= all - (address - base);
}

bool guest_is_capturing(unsigned form, CUstream stream)
{
	int status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (atomic_load(&guest.captures) == 0) {
		return false;
	}
	CUresult r = form == RBT_WIRE_PER_THREAD ? cuStreamIsCapturing_ptsz(stream, &status)
						 : cuStreamIsCapturing(stream, &status);

	return r == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* One call. `from`: shared, or the bytes themselves; NULL is the driver's to refuse. */
static CUresult send(enum rbt_call_number number, unsigned how, CUdeviceptr to, const void *from,
	size_t size, const CUstream *stream)
{
	struct guest_call c;
	bool shared = from != NULL && size > 0 && guest_is_shared(from, size);
	CUresult r = guest_begin(&c, number, how);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_range(&c, to, 1, size);
	guest_put(&c, to);
	guest_put(&c, size);
	guest_put(&c, shared ? (uintptr_t)from : 0);
	guest_put_in(&c, shared ? NULL : from, 1, size);
	if (stream != NULL) {
		guest_put_handle(&c, RBT_HANDLE_STREAM, *stream);
	}
	return guest_end(&c);
}

static CUresult receive(enum rbt_call_number number, unsigned how, void *to, CUdeviceptr from,
	size_t size, const CUstream *stream)
{
	struct guest_call c;
	bool shared = to != NULL && size > 0 && guest_is_shared(to, size);
	CUresult r = guest_begin(&c, number, how);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_range(&c, from, 1, size);
	c.doubt = c.doubt || !shared; /* its bytes are in the answer */
	guest_put(&c, from);
	guest_put(&c, size);
	guest_put(&c, shared ? (uintptr_t)to : 0);
	guest_put(&c, !shared && to != NULL);
	if (stream != NULL) {
		guest_put_handle(&c, RBT_HANDLE_STREAM, *stream);
	}
	r = guest_end(&c);
	if (r == CUDA_SUCCESS && !shared && to != NULL) {
		size_t got = 0;
		const void *bytes = guest_take(&c, &got);

		if (bytes == NULL || got != size) {
			return CUDA_ERROR_UNKNOWN;
		}
		memcpy(to, bytes, size);
	}
	return r;
}

/* In pieces. Of memory that the device does not have, nothing is read: the driver refuses it. */
static CUresult to_device(enum rbt_call_number number, unsigned how, CUdeviceptr to,
	const void *from, size_t size, const CUstream *stream)
{
	if (from == NULL || size <= GUEST_CHUNK || guest_is_shared(from, size)) {
		bool there = size <= GUEST_CHUNK / 64 || from == NULL ||
			     guest_is_shared(from, size) || guest_is_on_device(to, size);

		return send(number, how, to, there ? from : NULL, size, stream);
	}
	if (!guest_is_on_device(to, size)) {
		return send(number, how, to, NULL, size, stream);
	}
	CUresult r = CUDA_SUCCESS;

	for (size_t done = 0; r == CUDA_SUCCESS && done < size; done += GUEST_CHUNK) {
		size_t piece = size - done < GUEST_CHUNK ? size - done : GUEST_CHUNK;

		r = send(number, how, to + done, (const char *)from + done, piece, stream);
	}
	return r;
}

static CUresult to_host(enum rbt_call_number number, unsigned how, void *to, CUdeviceptr from,
	size_t size, const CUstream *stream)
{
	if (to == NULL || size <= GUEST_CHUNK || guest_is_shared(to, size)) {
		return receive(number, how, to, from, size, stream);
	}
	if (!guest_is_on_device(from, size)) {
		return receive(number, how, NULL, from, size, stream);
	}
	CUresult r = CUDA_SUCCESS;

	for (size_t done = 0; r == CUDA_SUCCESS && done < size; done += GUEST_CHUNK) {
		size_t piece = size - done < GUEST_CHUNK ? size - done : GUEST_CHUNK;

		r = receive(number, how, (char *)to + done, from + done, piece, stream);
	}
	return r;
}

CUresult guest_cuMemcpyHtoD_v2(unsigned form, CUdeviceptr to, const void *from, size_t size)
{
	return to_device(
		RBT_CALL_cuMemcpyHtoD_v2, form | GUEST_SYNC | GUEST_WAITS, to, from, size, NULL);
}

CUresult guest_cuMemcpyDtoH_v2(unsigned form, void *to, CUdeviceptr from, size_t size)
{
	return to_host(
		RBT_CALL_cuMemcpyDtoH_v2, form | GUEST_SYNC | GUEST_WAITS, to, from, size, NULL);
}

CUresult guest_cuMemcpyHtoDAsync_v2(
	unsigned form, CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
	if (!guest_is_shared(from, size) && guest_is_capturing(form, stream)) {
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return to_device(
		RBT_CALL_cuMemcpyHtoDAsync_v2, form | GUEST_QUEUED, to, from, size, &stream);
}

CUresult guest_cuMemcpyDtoHAsync_v2(
	unsigned form, void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	if (!guest_is_shared(to, size) && guest_is_capturing(form, stream)) {
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return to_host(RBT_CALL_cuMemcpyDtoHAsync_v2, form | GUEST_QUEUED, to, from, size, &stream);
}

/* By address alone: which memory it is decides which copy it is. */
CUresult guest_cuMemcpy(unsigned form, CUdeviceptr to, CUdeviceptr from, size_t size)
{
	bool there = guest_is_device(to), here = guest_is_device(from);
	void *to_p = (void *)(uintptr_t)to;
	const void *from_p = (const void *)(uintptr_t)from;
	bool per_thread = form == RBT_WIRE_PER_THREAD;

	if (there && here) {
		return per_thread ? cuMemcpyDtoD_v2_ptds(to, from, size)
				  : cuMemcpyDtoD_v2(to, from, size);
	}
	if (!there && !here && to != 0 && from != 0) {
		CUresult r =
			per_thread ? cuStreamSynchronize_ptsz(NULL) : cuStreamSynchronize(NULL);

		if (r == CUDA_SUCCESS) {
			memmove(to_p, from_p, size);
		}
		return r;
	}
	return there ? guest_cuMemcpyHtoD_v2(form, to, from_p, size)
		     : guest_cuMemcpyDtoH_v2(form, to_p, from, size);
}

CUresult guest_cuMemcpyAsync(
	unsigned form, CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	bool there = guest_is_device(to), here = guest_is_device(from);
	void *to_p = (void *)(uintptr_t)to;
	const void *from_p = (const void *)(uintptr_t)from;
	bool per_thread = form == RBT_WIRE_PER_THREAD;

	if (there && here) {
		return per_thread ? cuMemcpyDtoDAsync_v2_ptsz(to, from, size, stream)
				  : cuMemcpyDtoDAsync_v2(to, from, size, stream);
	}
	if (!there && !here && to != 0 && from != 0) {
		CUresult r =
			per_thread ? cuStreamSynchronize_ptsz(stream) : cuStreamSynchronize(stream);

		if (r == CUDA_SUCCESS) {
			memmove(to_p, from_p, size);
		}
		return r;
	}
	return there ? guest_cuMemcpyHtoDAsync_v2(form, to, from_p, size, stream)
		     : guest_cuMemcpyDtoHAsync_v2(form, to_p, from, size, stream);
}
