/* SPDX-License-Identifier: Apache-2.0 */
/* Queries about pointers. */
#include <string.h>

#include "softgpu/cuda/front.h"

/* Size of an attribute's value; 0: there is no such attribute. */
static size_t value_size(int attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return 8;
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
		return 0;
	}
}

static bool is_device(const struct front_entry *entry)
{
	return entry->kind == FRONT_ENTRY_MEMORY || entry->kind == FRONT_ENTRY_VARIABLE;
}

/* The value as a number; false: this memory does not have the attribute. */
static bool value_of(
	const struct front_entry *entry, CUdeviceptr pointer, int attribute, uint64_t *ret)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*ret = (uint64_t)(uintptr_t)entry->owner;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*ret = is_device(entry) || entry->kind == FRONT_ENTRY_MANAGED ? CU_MEMORYTYPE_DEVICE
									      : CU_MEMORYTYPE_HOST;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*ret = pointer;
		return entry->kind != FRONT_ENTRY_REGISTERED;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*ret = pointer;
		return !is_device(entry);
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*ret = entry->id;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*ret = entry->kind == FRONT_ENTRY_MANAGED;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*ret = (uint64_t)entry->owner->dev->ordinal;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*ret = entry->base;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*ret = entry->size;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*ret = entry->kind != FRONT_ENTRY_REGISTERED;
		return true;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*ret = 3; /* read and write */
		return true;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*ret = entry->sync_memops;
		return true;
	default:
		*ret = 0;
		return true;
	}
}

static void store(void *data, size_t size, uint64_t value)
{
	/* Little-endian: the low half first. */
	memcpy(data, &value, size);
}

CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer)
{
	struct front_context *ctx;
	struct front_entry entry;
	uint64_t value;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (data == NULL || value_size(attribute) == 0 || !front_entry_find(ctx, pointer, &entry) ||
		!value_of(&entry, pointer, attribute, &value)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	store(data, value_size(attribute), value);
	return CUDA_SUCCESS;
}

/* An unknown pointer is no error here: all its attributes are zero. */
CUresult cuPointerGetAttributes(unsigned n, const int *attributes, void **data, CUdeviceptr pointer)
{
	struct front_context *ctx;
	struct front_entry entry;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (n == 0 || attributes == NULL || data == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	for (unsigned i = 0; i < n; i++) {
		if (value_size(attributes[i]) == 0 || data[i] == NULL) {
			return CUDA_ERROR_INVALID_VALUE;
		}
	}
	bool found = front_entry_find(ctx, pointer, &entry);

	for (unsigned i = 0; i < n; i++) {
		uint64_t value = 0;

		if (!found) {
			value = attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
					? UINT64_MAX - 1
					: 0;
		} else if (!value_of(&entry, pointer, attributes[i], &value)) {
			value = 0;
		}
		store(data[i], value_size(attributes[i]), value);
	}
	return CUDA_SUCCESS;
}

/* Copies of memory with this attribute always wait; here, every synchronous one does. */
CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr pointer)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && (value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	pthread_mutex_lock(&front.lock);
	struct front_entry *entry = front_table_find(&ctx->dev->table, pointer);

	if (entry == NULL || !is_device(entry)) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else {
		entry->sync_memops = *(const unsigned *)value != 0;
	}
	pthread_mutex_unlock(&front.lock);
	return r;
}
