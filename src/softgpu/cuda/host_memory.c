/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that the device can access: pinned, at one address for both. Managed memory is the
 * same under another name. Registered memory that is a shared mapping is reachable, too
 * (share.c). Other registered memory is only noted: the device cannot access it, and the host makes
 * copies of it.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softgpu/cuda/front.h"

size_t front_host_span(unsigned kind, size_t size)
{
	return (kind & 0xff) == FRONT_ENTRY_MANAGED ? 2 * size : size;
}

/* Behind managed memory as much of the UVM node stays mapped, by which tools recognise a program
 * that has such memory. */
static void *reserve(size_t span, unsigned kind)
{
	int fd = (kind & 0xff) == FRONT_ENTRY_MANAGED ? front.rm.uvm : -1;
	int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

	return mmap(NULL, span, PROT_NONE, flags, fd, 0);
}

static CUresult pin(struct front_context *ctx, size_t size, unsigned kind, void **ret)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (size > SIZE_MAX - page) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	size_t whole = (size + page - 1) / page * page;
	/* Reserves an address range until the memory is there. */
	void *p = reserve(front_host_span(kind, whole), kind);

	if (p == MAP_FAILED) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	int r = front_link_pin(ctx, whole, p);
	CUresult result = front_from_errno(r);

	if (result == CUDA_SUCCESS) {
		result = front_memory_add(ctx, (uint64_t)(uintptr_t)p, whole, kind);
		if (result != CUDA_SUCCESS) {
			(void)front_link_free(ctx, (uint64_t)(uintptr_t)p);
		}
	}
	if (result != CUDA_SUCCESS) {
		munmap(p, front_host_span(kind, whole));
		return result;
	}
	*ret = p;
	return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **ret_host, size_t size, unsigned flags)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS &&
		(ret_host == NULL || size == 0 ||
			(flags & ~(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
					 CU_MEMHOSTALLOC_WRITECOMBINED)) != 0)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r != CUDA_SUCCESS ? r : pin(ctx, size, FRONT_ENTRY_HOST | flags << 8, ret_host);
}

CUresult cuMemAllocHost_v2(void **ret_host, size_t size)
{
	return cuMemHostAlloc(ret_host, size, 0);
}

CUresult cuMemAllocManaged(CUdeviceptr *ret_address, size_t size, unsigned flags)
{
	struct front_context *ctx;
	void *p;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS &&
		(ret_address == NULL || size == 0 ||
			(flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = pin(ctx, size, FRONT_ENTRY_MANAGED | flags << 8, &p);
	}
	if (r == CUDA_SUCCESS) {
		*ret_address = (CUdeviceptr)(uintptr_t)p;
	}
	return r;
}

/* The host memory that begins at the pointer, of that kind. */
static bool find_host(const void *p, enum front_entry_kind kind, struct front_entry *ret)
{
	pthread_mutex_lock(&front.lock);
	const struct front_entry *entry = front_table_find(&front.host, (uint64_t)(uintptr_t)p);
	bool found = entry != NULL && entry->kind == kind;

	if (found) {
		*ret = *entry;
	}
	pthread_mutex_unlock(&front.lock);
	return found;
}

CUresult cuMemFreeHost(void *p)
{
	struct front_context *ctx;
	struct front_entry entry;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (!find_host(p, FRONT_ENTRY_HOST, &entry) || entry.base != (uint64_t)(uintptr_t)p) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	r = front_wait_context(entry.owner);
	return r != CUDA_SUCCESS ? r : front_memory_free(entry.owner, entry.base);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *ret_address, void *p, unsigned flags)
{
	struct front_context *ctx;
	struct front_entry entry;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_address == NULL || p == NULL || flags != 0) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (find_host(p, FRONT_ENTRY_REGISTERED, &entry)) {
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (!find_host(p, FRONT_ENTRY_HOST, &entry) && !find_host(p, FRONT_ENTRY_MANAGED, &entry) &&
		!find_host(p, FRONT_ENTRY_SHARED, &entry)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_address = (CUdeviceptr)(uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned *ret_flags, void *p)
{
	struct front_context *ctx;
	struct front_entry entry;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && (ret_flags == NULL || !find_host(p, FRONT_ENTRY_HOST, &entry))) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		/* Pinned memory is always mapped, as with unified addressing. */
		*ret_flags = entry.flags | CU_MEMHOSTALLOC_DEVICEMAP;
	}
	return r;
}

CUresult cuMemHostRegister_v2(void *p, size_t size, unsigned flags)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	uint64_t base = (uint64_t)(uintptr_t)p;

	if (p == NULL || size == 0 || (flags & ~CU_MEMHOSTREGISTER_ALL) != 0 ||
		base + size < base) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	struct front_entry entry = {.base = base,
		.size = size,
		.owner = ctx,
		.kind = FRONT_ENTRY_REGISTERED,
		.flags = flags,
		.id = atomic_fetch_add(&front.next_id, 1) + 1};

	pthread_mutex_lock(&front.lock);
	bool known = front_table_find(&front.host, base) != NULL;
	pthread_mutex_unlock(&front.lock);
	if (known) {
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	}
	if (front_share(ctx, base, size)) {
		entry.kind = FRONT_ENTRY_SHARED;
	}
	pthread_mutex_lock(&front.lock);
	int error = front_table_add(&front.host, &entry);
	pthread_mutex_unlock(&front.lock);
	if (error < 0 && entry.kind == FRONT_ENTRY_SHARED) {
		front_unshare(ctx, base, size);
	}
	return error == -EEXIST ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
				: front_from_errno(error);
}

CUresult cuMemHostUnregister(void *p)
{
	struct front_context *ctx;
	struct front_entry entry;
	CUresult r = front_enter(&ctx);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (p == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if ((!find_host(p, FRONT_ENTRY_REGISTERED, &entry) &&
		    !find_host(p, FRONT_ENTRY_SHARED, &entry)) ||
		entry.base != (uint64_t)(uintptr_t)p) {
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	}
	if (entry.kind == FRONT_ENTRY_SHARED) {
		r = front_wait_context(entry.owner);
		if (r != CUDA_SUCCESS) {
			return r;
		}
		front_unshare(entry.owner, entry.base, entry.size);
	}
	pthread_mutex_lock(&front.lock);
	(void)front_table_remove(&front.host, entry.base);
	pthread_mutex_unlock(&front.lock);
	return CUDA_SUCCESS;
}

/* Hints about managed memory have no effect: both sides can always access it. */
static CUresult check_managed(struct front_context *ctx, CUdeviceptr address, size_t size)
{
	struct front_entry entry;

	if (size == 0 || !front_entry_find(ctx, address, &entry) ||
		entry.kind != FRONT_ENTRY_MANAGED || size > entry.size - (address - entry.base)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult cuMemAdvise(CUdeviceptr address, size_t size, int advice, CUdevice device)
{
	struct front_context *ctx;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && (advice < 1 || advice > 6)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r != CUDA_SUCCESS ? r : check_managed(ctx, address, size);
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t size, int advice, struct CUmemLocation location)
{
	return cuMemAdvise(address, size, advice, location.id);
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t size, CUdevice device, CUstream handle)
{
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS && device != -1 && (device < 0 || device >= front.n_devices)) {
		r = CUDA_ERROR_INVALID_DEVICE;
	}
	return r != CUDA_SUCCESS ? r : check_managed(s->ctx, address, size);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t size, struct CUmemLocation location,
	unsigned flags, CUstream handle)
{
	/* Location types: 1 a device, 2 to 4 the host or a node of it. */
	CUdevice device = location.type == 1 ? location.id : -1;

	if (flags != 0 || location.type < 1 || location.type > 4) {
		CUresult r = front_check_init();

		return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
	}
	return cuMemPrefetchAsync(address, size, device, handle);
}
