/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that program and kernels both use: pinned, managed, registered. Pinned memory is shared
 * with the worker, which registers it with its driver. Managed memory is the same under another
 * name: kernels reach it across the bus, and it does not migrate. Registered memory is shared if it
 * is made of whole pages of the program's own; otherwise it is only noted, and copies of it travel
 * as those of any other memory do.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cuda/api.h"
#include "cuda/by_hand.h"
#include "remote/guest/guest.h"
#include "remote/guest/map.h"

/* Lets the worker register shared memory. */
static CUresult pin(enum rbt_call_number number, struct guest_shared *s)
{
	struct guest_call c;
	size_t size = 0;
	CUresult r = guest_begin(&c, number, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put(&c, s->address);
	guest_put(&c, s->size);
	guest_put(&c, (s->flags & CU_MEMHOSTALLOC_PORTABLE) | CU_MEMHOSTALLOC_DEVICEMAP);
	r = guest_end(&c);
	const uint64_t *device = guest_take(&c, &size);

	if (r == CUDA_SUCCESS && (device == NULL || size != sizeof(*device))) {
		r = CUDA_ERROR_UNKNOWN;
	}
	if (r == CUDA_SUCCESS) {
		s->device = *device;
	}
	return r;
}

static CUresult unpin(enum rbt_call_number number, uint64_t address)
{
	struct guest_call c;
	CUresult r = guest_begin(&c, number, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put(&c, address);
	return guest_end(&c);
}

/* New memory for both sides. */
static CUresult allocate(enum rbt_call_number number, size_t size, unsigned flags,
	enum guest_shared_kind kind, void **ret)
{
	long page = sysconf(_SC_PAGESIZE);
	struct guest_shared s = {.flags = flags, .kind = kind};
	void *p;

	if (size > SIZE_MAX - RBT_LINK_BLOCK) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	int error = guest_map(size, &p);

	if (error < 0) {
		return error == -ECONNRESET ? CUDA_ERROR_DEVICE_UNAVAILABLE
					    : CUDA_ERROR_OUT_OF_MEMORY;
	}
	s.address = (uintptr_t)p;
	s.size = (size + (size_t)page - 1) / (size_t)page * (size_t)page;
	CUresult r = pin(number, &s);

	if (r == CUDA_SUCCESS && guest_shared_add(&s) < 0) {
		(void)unpin(RBT_CALL_cuMemFreeHost, s.address);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r != CUDA_SUCCESS) {
		guest_unmap(p, size);
		return r;
	}
	*ret = p;
	return CUDA_SUCCESS;
}

static CUresult check(enum rbt_call_number number, bool good)
{
	struct guest_call c;
	CUresult r = guest_begin(&c, number, GUEST_SYNC);

	return r != CUDA_SUCCESS || good ? r : CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_cuMemHostAlloc(unsigned form, void **ret_host, size_t size, unsigned flags)
{
	CUresult r = check(RBT_CALL_cuMemHostAlloc,
		ret_host != NULL && size != 0 &&
			(flags & ~(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
					 CU_MEMHOSTALLOC_WRITECOMBINED)) == 0);

	return r != CUDA_SUCCESS
		       ? r
		       : allocate(RBT_CALL_cuMemHostAlloc, size, flags, GUEST_PINNED, ret_host);
}

CUresult guest_cuMemAllocHost_v2(unsigned form, void **ret_host, size_t size)
{
	return guest_cuMemHostAlloc(form, ret_host, size, 0);
}

CUresult guest_cuMemAllocManaged(
	unsigned form, CUdeviceptr *ret_address, size_t size, unsigned flags)
{
	void *p;
	CUresult r = check(RBT_CALL_cuMemAllocManaged,
		ret_address != NULL && size != 0 &&
			(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST));

	if (r == CUDA_SUCCESS) {
		r = allocate(RBT_CALL_cuMemAllocManaged, size, flags, GUEST_MANAGED, &p);
	}
	if (r == CUDA_SUCCESS) {
		*ret_address = (uintptr_t)p;
	}
	return r;
}

/* Memory that begins at the pointer, of that kind. */
static bool begins_at(const void *p, enum guest_shared_kind kind, struct guest_shared *ret)
{
	return guest_shared_find(p, ret) && ret->address == (uintptr_t)p && ret->kind == kind;
}

static CUresult release(enum rbt_call_number number, const struct guest_shared *s)
{
	/* Work under way may use it: wait, as the driver does. */
	CUresult r = cuCtxSynchronize();

	if (r == CUDA_SUCCESS) {
		r = unpin(number, s->address);
	}
	if (r == CUDA_SUCCESS) {
		guest_shared_remove(s->address);
		guest_unmap((void *)(uintptr_t)s->address, s->size);
	}
	return r;
}

CUresult guest_cuMemFreeHost(unsigned form, void *p)
{
	struct guest_shared s;
	CUresult r = check(RBT_CALL_cuMemFreeHost, begins_at(p, GUEST_PINNED, &s));

	return r != CUDA_SUCCESS ? r : release(RBT_CALL_cuMemFreeHost, &s);
}

CUresult guest_cuMemFree_v2(unsigned form, CUdeviceptr address)
{
	struct guest_shared s;
	struct guest_call c;

	if (begins_at((void *)(uintptr_t)address, GUEST_MANAGED, &s)) {
		return release(RBT_CALL_cuMemFreeHost, &s);
	}
	CUresult r = guest_begin(&c, RBT_CALL_cuMemFree_v2, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put(&c, address);
	guest_put_freed(&c, address);
	return guest_end(&c);
}

CUresult guest_cuMemHostGetFlags(unsigned form, unsigned *ret_flags, void *p)
{
	struct guest_shared s;
	CUresult r = check(RBT_CALL_cuMemHostAlloc,
		ret_flags != NULL && guest_shared_find(p, &s) && s.kind == GUEST_PINNED);

	if (r == CUDA_SUCCESS) {
		*ret_flags = s.flags | CU_MEMHOSTALLOC_DEVICEMAP;
	}
	return r;
}

CUresult guest_cuMemHostGetDevicePointer_v2(
	unsigned form, CUdeviceptr *ret_address, void *p, unsigned flags)
{
	struct guest_shared s;
	CUresult r = check(RBT_CALL_cuMemHostGetDevicePointer_v2,
		ret_address != NULL && flags == 0 && guest_shared_find(p, &s));

	if (r == CUDA_SUCCESS && s.kind == GUEST_STAGED) {
		r = CUDA_ERROR_NOT_SUPPORTED; /* only copies reach it */
	}
	if (r == CUDA_SUCCESS) {
		*ret_address = s.device + ((uintptr_t)p - s.address);
	}
	return r;
}

/* Shares the program's own memory, if that is possible. */
static void try_share(struct guest_shared *s)
{
	const struct rbt_link_ops *ops = guest.link->ops;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	void *p = (void *)(uintptr_t)s->address;

	if (s->address % page != 0 || s->size % page != 0 || ops->share == NULL ||
		ops->share(guest.link, p, s->size) < 0) {
		return;
	}
	if (pin(RBT_CALL_cuMemHostRegister_v2, s) != CUDA_SUCCESS) {
		(void)ops->unmap(guest.link, p, s->size);
		return;
	}
	s->kind = GUEST_REGISTERED;
}

CUresult guest_cuMemHostRegister_v2(unsigned form, void *p, size_t size, unsigned flags)
{
	struct guest_shared s = {
		.address = (uintptr_t)p, .size = size, .flags = flags, .kind = GUEST_STAGED};
	CUresult r = check(RBT_CALL_cuMemHostRegister_v2,
		p != NULL && size != 0 && (flags & ~CU_MEMHOSTREGISTER_ALL) == 0 &&
			s.address + size > s.address);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	struct guest_shared other;

	if (guest_shared_find(p, &other)) {
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	}
	try_share(&s);
	int error = guest_shared_add(&s);

	return error == 0         ? CUDA_SUCCESS
	       : error == -EEXIST ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
				  : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult guest_cuMemHostUnregister(unsigned form, void *p)
{
	struct guest_shared s;
	CUresult r = check(RBT_CALL_cuMemHostUnregister, p != NULL);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (!begins_at(p, GUEST_REGISTERED, &s) && !begins_at(p, GUEST_STAGED, &s)) {
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	}
	if (s.kind == GUEST_REGISTERED) {
		return release(RBT_CALL_cuMemHostUnregister, &s);
	}
	guest_shared_remove(s.address);
	return CUDA_SUCCESS;
}

/* Hints about managed memory have no effect: both sides can always access it. */
static CUresult hint(enum rbt_call_number number, CUdeviceptr address, size_t size, bool good)
{
	struct guest_shared s;

	return check(number, good && guest_shared_find((void *)(uintptr_t)address, &s) &&
				     s.kind == GUEST_MANAGED &&
				     size <= s.size - (address - s.address));
}

CUresult guest_cuMemAdvise(
	unsigned form, CUdeviceptr address, size_t size, int advice, CUdevice device)
{
	return hint(
		RBT_CALL_cuMemAllocManaged, address, size, size != 0 && advice >= 1 && advice <= 6);
}

CUresult guest_cuMemAdvise_v2(
	unsigned form, CUdeviceptr address, size_t size, int advice, struct CUmemLocation location)
{
	return guest_cuMemAdvise(form, address, size, advice, location.id);
}

CUresult guest_cuMemPrefetchAsync(
	unsigned form, CUdeviceptr address, size_t size, CUdevice device, CUstream handle)
{
	int n = 0;
	CUresult r = cuDeviceGetCount(&n);

	if (r == CUDA_SUCCESS && device != -1 && (device < 0 || device >= n)) {
		r = CUDA_ERROR_INVALID_DEVICE;
	}
	if (r == CUDA_SUCCESS && (uintptr_t)handle > 2 && !guest_knows_handle((uintptr_t)handle)) {
		r = CUDA_ERROR_INVALID_HANDLE;
	}
	return r != CUDA_SUCCESS ? r : hint(RBT_CALL_cuMemAllocManaged, address, size, size != 0);
}

/* Location types: 1 a device, 2 to 4 the host or a node of it. */
CUresult guest_cuMemPrefetchAsync_v2(unsigned form, CUdeviceptr address, size_t size,
	struct CUmemLocation location, unsigned flags, CUstream handle)
{
	CUresult r = check(
		RBT_CALL_cuMemAllocManaged, flags == 0 && location.type >= 1 && location.type <= 4);

	return r != CUDA_SUCCESS ? r
				 : guest_cuMemPrefetchAsync(form, address, size,
					   location.type == 1 ? location.id : -1, handle);
}

CUresult guest_cuStreamAttachMemAsync(
	unsigned form, CUstream handle, CUdeviceptr address, size_t size, unsigned flags)
{
	bool good = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
		    flags == CU_MEM_ATTACH_SINGLE;

	return hint(RBT_CALL_cuMemAllocManaged, address, size, good);
}

/* Size of a pool's attribute: the first three are switches. */
static size_t pool_size(int attribute)
{
	return attribute >= 1 && attribute <= 3 ? sizeof(int) : sizeof(uint64_t);
}

static CUresult pool_attribute(
	enum rbt_call_number number, CUmemoryPool pool, int attribute, void *value, bool is_output)
{
	struct guest_call c;
	uint64_t word = 0;
	CUresult r = guest_begin(&c, number, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (value != NULL) {
		memcpy(&word, value, pool_size(attribute));
	}
	guest_put_handle(&c, RBT_HANDLE_POOL, pool);
	guest_put(&c, (uint64_t)attribute);
	guest_put_both(&c, value != NULL ? &word : NULL, sizeof(word));
	r = guest_end(&c);
	if (is_output && r == CUDA_SUCCESS && value != NULL) {
		memcpy(value, &word, pool_size(attribute));
	}
	return r;
}

CUresult guest_cuMemPoolGetAttribute(unsigned form, CUmemoryPool pool, int attribute, void *value)
{
	return pool_attribute(RBT_CALL_cuMemPoolGetAttribute, pool, attribute, value, true);
}

CUresult guest_cuMemPoolSetAttribute(unsigned form, CUmemoryPool pool, int attribute, void *value)
{
	return pool_attribute(RBT_CALL_cuMemPoolSetAttribute, pool, attribute, value, false);
}
