/* SPDX-License-Identifier: Apache-2.0 */
/* Queries about pointers. The driver answers them, but for what only the guest knows: memory that
 * is called managed here, and memory that is registered only here. */
#include <string.h>

#include "cuda/api.h"
#include "cuda/by_hand.h"
#include "remote/guest/guest.h"

#define MAX_ATTRIBUTES 64u
#define VALUE_SIZE     16u

/* Size of an attribute's value. */
static size_t value_size(int attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return 16;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		return 4;
	default:
		return 8;
	}
}

/* An answer that the guest knows better than the host's driver. */
static bool is_ours(int attribute, CUdeviceptr pointer, uint64_t *ret)
{
	struct guest_shared s;

	if (!guest_shared_find((void *)(uintptr_t)pointer, &s)) {
		return false;
	}
	if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
		*ret = s.kind == GUEST_MANAGED ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		return true;
	}
	if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED) {
		*ret = s.kind == GUEST_MANAGED;
		return true;
	}
	if (s.kind != GUEST_STAGED) {
		return false;
	}
	*ret = attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER       ? pointer
	       : attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ? s.address
	       : attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE       ? s.size
								    : 0;
	return attribute != CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
}

CUresult guest_cuPointerGetAttribute(unsigned form, void *data, int attribute, CUdeviceptr pointer)
{
	struct guest_call c;
	uint64_t ours;
	size_t size = 0;
	CUresult r = guest_begin(&c, RBT_CALL_cuPointerGetAttribute, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (data != NULL && is_ours(attribute, pointer, &ours)) {
		memcpy(data, &ours, value_size(attribute));
		return CUDA_SUCCESS;
	}
	guest_put(&c, data != NULL);
	guest_put(&c, (uint64_t)attribute);
	guest_put(&c, pointer);
	r = guest_end(&c);
	const void *value = guest_take(&c, &size);

	if (r == CUDA_SUCCESS && value != NULL && size == VALUE_SIZE) {
		memcpy(data, value, value_size(attribute));
	}
	return r;
}

CUresult guest_cuPointerGetAttributes(
	unsigned form, unsigned n, const int *attributes, void **data, CUdeviceptr pointer)
{
	struct guest_call c;
	size_t size = 0;
	CUresult r = guest_begin(&c, RBT_CALL_cuPointerGetAttributes, GUEST_SYNC);

	if (r == CUDA_SUCCESS &&
		(n == 0 || n > MAX_ATTRIBUTES || attributes == NULL || data == NULL)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	for (unsigned i = 0; r == CUDA_SUCCESS && i < n; i++) {
		r = data[i] == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put(&c, n);
	guest_put_in(&c, attributes, sizeof(*attributes), n);
	guest_put(&c, pointer);
	r = guest_end(&c);
	const uint8_t *values = guest_take(&c, &size);

	if (r != CUDA_SUCCESS || values == NULL || size < (size_t)n * VALUE_SIZE) {
		return r;
	}
	for (unsigned i = 0; i < n; i++) {
		uint64_t ours;
		bool known = is_ours(attributes[i], pointer, &ours);

		memcpy(data[i], known ? (const void *)&ours : values + (size_t)i * VALUE_SIZE,
			value_size(attributes[i]));
	}
	return CUDA_SUCCESS;
}

CUresult guest_cuPointerSetAttribute(
	unsigned form, const void *value, int attribute, CUdeviceptr pointer)
{
	struct guest_call c;
	CUresult r = guest_begin(&c, RBT_CALL_cuPointerSetAttribute, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_in(&c, value, sizeof(unsigned), 1);
	guest_put(&c, (uint64_t)attribute);
	guest_put(&c, pointer);
	return guest_end(&c);
}
