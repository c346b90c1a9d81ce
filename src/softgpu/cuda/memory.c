/* SPDX-License-Identifier: Apache-2.0 */
/* The table of memory, and device memory. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "softgpu/cuda/front.h"

#define PITCH 512u

static bool is_device_address(const struct front_device *dev, uint64_t address)
{
	return address >= GPU_MEMORY_VA && address - GPU_MEMORY_VA < dev->arena_bytes;
}

/* The table for an address, or for memory of a kind. */
static struct front_table *table_of(struct front_device *dev, uint64_t address)
{
	return is_device_address(dev, address) ? &dev->table : &front.host;
}

bool front_entry_find(struct front_context *ctx, uint64_t address, struct front_entry *ret)
{
	pthread_mutex_lock(&front.lock);
	const struct front_entry *entry = front_table_find(table_of(ctx->dev, address), address);

	if (entry != NULL) {
		*ret = *entry;
	}
	pthread_mutex_unlock(&front.lock);
	return entry != NULL;
}

CUresult front_place_find(
	struct front_context *ctx, uint64_t address, uint64_t size, struct front_place *ret)
{
	struct front_entry entry;
	struct front_place place = {.kind = FRONT_PAGEABLE, .address = address};
	bool found = front_entry_find(ctx, address, &entry);

	if (is_device_address(ctx->dev, address) && !found) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (found && entry.kind != FRONT_ENTRY_REGISTERED) {
		if (size > entry.size - (address - entry.base)) {
			return CUDA_ERROR_INVALID_VALUE;
		}
		place.kind = is_device_address(ctx->dev, address) ? FRONT_DEVICE : FRONT_PINNED;
		place.owner = entry.owner;
	} else if (address == 0 || address + size < address) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret = place;
	return CUDA_SUCCESS;
}

void *front_place_host(const struct front_device *dev, const struct front_place *place)
{
	return place->kind == FRONT_DEVICE ? dev->arena + (place->address - GPU_MEMORY_VA)
					   : (void *)(uintptr_t)place->address;
}

/* RM knows how much memory the context has, and may refuse more. 0 or -errno. */
static int account(struct front_context *ctx, uint64_t more, uint64_t less)
{
	pthread_mutex_lock(&ctx->lock);
	uint64_t now = ctx->memory_bytes + more - less;
	int r = front_rm_memory(&front.rm, &ctx->rm, now);
	if (r == 0) {
		ctx->memory_bytes = now;
	}
	pthread_mutex_unlock(&ctx->lock);
	return r;
}

CUresult front_memory_add(struct front_context *ctx, uint64_t base, uint64_t size, unsigned kind)
{
	struct front_entry entry = {.base = base,
		.size = size,
		.owner = ctx,
		.kind = (enum front_entry_kind)(kind & 0xff),
		.flags = kind >> 8,
		.id = atomic_fetch_add(&front.next_id, 1) + 1};

	bool is_memory = entry.kind == FRONT_ENTRY_MEMORY;
	int r = is_memory ? account(ctx, size, 0) : 0;

	if (r < 0) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&front.lock);
	r = front_table_add(table_of(ctx->dev, base), &entry);
	pthread_mutex_unlock(&front.lock);
	if (r < 0 && is_memory) {
		(void)account(ctx, 0, size);
	}
	return front_from_errno(r);
}

void front_memory_remove(struct front_context *ctx, uint64_t base)
{
	pthread_mutex_lock(&front.lock);
	(void)front_table_remove(table_of(ctx->dev, base), base);
	pthread_mutex_unlock(&front.lock);
}

CUresult front_memory_free(struct front_context *ctx, uint64_t base)
{
	struct front_entry entry;

	if (!front_entry_find(ctx, base, &entry) || entry.base != base) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	front_memory_remove(ctx, base);
	int r = front_link_free(ctx, base);

	if (entry.kind == FRONT_ENTRY_MEMORY) {
		(void)account(ctx, 0, entry.size);
	} else {
		/* Last: a new mapping must not get this address while it is still listed as
		 * pinned. */
		munmap((void *)(uintptr_t)base, front_host_span(entry.kind, entry.size));
	}
	return front_from_errno(r);
}

static void destroy_in(struct front_table *table, const struct front_context *ctx)
{
	const struct front_entry *entry;

	pthread_mutex_lock(&front.lock);
	while ((entry = front_table_any(table, ctx)) != NULL) {
		if (entry->kind == FRONT_ENTRY_HOST || entry->kind == FRONT_ENTRY_MANAGED) {
			munmap((void *)(uintptr_t)entry->base,
				front_host_span(entry->kind, entry->size));
		}
		(void)front_table_remove(table, entry->base);
	}
	pthread_mutex_unlock(&front.lock);
}

/* The server frees its side with the context. */
void front_memory_destroy(struct front_context *ctx)
{
	destroy_in(&ctx->dev->table, ctx);
	destroy_in(&front.host, ctx);
}

static CUresult alloc_device(struct front_context *ctx, size_t size, CUdeviceptr *ret)
{
	CUdeviceptr address;

	front_defer_reap(ctx);
	int r = front_link_alloc(ctx, size, &address);

	if (r == -ENOMEM && !LIST_EMPTY(&ctx->deferred)) {
		/* Stream-ordered frees may be under way. */
		(void)front_wait_context(ctx);
		front_defer_reap(ctx);
		r = front_link_alloc(ctx, size, &address);
	}
	if (r < 0) {
		return front_from_errno(r);
	}
	CUresult result = front_memory_add(ctx, address, size, FRONT_ENTRY_MEMORY);

	if (result != CUDA_SUCCESS) {
		(void)front_link_free(ctx, address);
		return result;
	}
	*ret = address;
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *ret_address, size_t size)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && ret_address != NULL && size == 0) {
		*ret_address = 0; /* as NVIDIA's driver does */
	}
	if (r == CUDA_SUCCESS && (ret_address == NULL || size == 0)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r != CUDA_SUCCESS ? r : alloc_device(ctx, size, ret_address);
}

CUresult cuMemAllocPitch_v2(
	CUdeviceptr *ret_address, size_t *ret_pitch, size_t width, size_t height, unsigned element)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_address == NULL || ret_pitch == NULL || width == 0 || height == 0 ||
		(element != 4 && element != 8 && element != 16) || width > SIZE_MAX - PITCH) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	size_t pitch = (width + PITCH - 1) / PITCH * PITCH, size;

	if (__builtin_mul_overflow(pitch, height, &size)) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = alloc_device(ctx, size, ret_address);
	if (r == CUDA_SUCCESS) {
		*ret_pitch = pitch;
	}
	return r;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	struct front_context *ctx;
	struct front_entry entry;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS || address == 0) {
		return r;
	}
	if (!front_entry_find(ctx, address, &entry) || entry.base != address ||
		(entry.kind != FRONT_ENTRY_MEMORY && entry.kind != FRONT_ENTRY_MANAGED) ||
		(entry.kind == FRONT_ENTRY_MEMORY && entry.flags != 0)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	/* Running work may use it: wait, as the real driver does. */
	r = front_wait_context(entry.owner);
	if (r != CUDA_SUCCESS) {
		return r;
	}
	return front_memory_free(entry.owner, address);
}

CUresult cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
	struct front_context *ctx;
	uint64_t bytes;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && (ret_free == NULL || ret_total == NULL)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = front_from_errno(front_link_memory(ctx, &bytes));
	}
	if (r == CUDA_SUCCESS) {
		*ret_free = bytes;
		*ret_total = ctx->dev->memory_bytes;
	}
	return r;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *ret_base, size_t *ret_size, CUdeviceptr address)
{
	struct front_context *ctx;
	struct front_entry entry;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (!front_entry_find(ctx, address, &entry) || entry.kind == FRONT_ENTRY_REGISTERED) {
		return CUDA_ERROR_NOT_FOUND;
	}
	if (ret_base != NULL) {
		*ret_base = entry.base;
	}
	if (ret_size != NULL) {
		*ret_size = entry.size;
	}
	return CUDA_SUCCESS;
}

/* The pointer is valid at once, which is more than CUDA promises. */
CUresult cuMemAllocAsync(CUdeviceptr *ret_address, size_t size, CUstream handle)
{
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS && (ret_address == NULL || size == 0)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS && s->capture != NULL) {
		r = CUDA_ERROR_NOT_SUPPORTED; /* memory nodes are not there */
	}
	return r != CUDA_SUCCESS ? r : alloc_device(s->ctx, size, ret_address);
}

/* Marks an allocation of the context as freed; false: it is none, or is marked already. */
static bool mark_freed(struct front_context *ctx, CUdeviceptr address)
{
	pthread_mutex_lock(&front.lock);
	struct front_entry *entry = front_table_find(&ctx->dev->table, address);
	bool good = entry != NULL && entry->base == address && entry->owner == ctx &&
		    entry->kind == FRONT_ENTRY_MEMORY && entry->flags == 0;

	if (good) {
		entry->flags = 1;
	}
	pthread_mutex_unlock(&front.lock);
	return good;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
	struct gpu_head fence[GPU_SLOT_BYTES / sizeof(struct gpu_head)] = {
		{.command = GPU_CMD_NOTHING, .slots = 1}};
	struct front_deferred d = {.free = address};
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (s->capture != NULL) {
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (!mark_freed(s->ctx, address)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	r = front_submit(s, fence, NULL, 0, &d.number);
	d.channel = s->channel;
	return r != CUDA_SUCCESS ? r : front_defer(s->ctx, &d);
}
