/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's memory, as the device sees it: a few regions of QEMU's shared memory. An address that
 * a guest or QEMU names becomes a pointer only here, and only if all of its bytes are in one
 * region. Pure: regions are mapped by the caller.
 */
#ifndef RBT_REMOTE_VHOST_MEMORY_H
#define RBT_REMOTE_VHOST_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* As many as one vhost-user message has files. */
#define VHOST_MAX_REGIONS 8

struct vhost_region {
	uint64_t guest;       /* the guest's physical address of the first byte */
	uint64_t user;        /* the same byte's address in QEMU, by which rings are named */
	uint64_t size;        /* in bytes, not 0 */
	uint64_t file_offset; /* of the first byte */
	unsigned char *base;  /* the first byte here, borrowed */
};

struct vhost_memory {
	size_t n;
	struct vhost_region regions[VHOST_MAX_REGIONS];
};

/* Adds a region. -EINVAL if it is empty, ends beyond 2^64, or overlaps another region; -ENOSPC. */
int vhost_memory_add(struct vhost_memory *m, const struct vhost_region *region);

/* The bytes at an address of the guest, or of QEMU; NULL unless all of them are in one region. */
void *vhost_memory_at(const struct vhost_memory *m, uint64_t guest, uint64_t size);
void *vhost_memory_at_user(const struct vhost_memory *m, uint64_t user, uint64_t size);

/* The region that contains these bytes at an address of the guest, or NULL. */
const struct vhost_region *vhost_memory_region(
	const struct vhost_memory *m, uint64_t guest, uint64_t size);

#endif
