/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/vhost/memory.h"

#include <errno.h>
#include <stdbool.h>

static bool contains(uint64_t begin, uint64_t region_size, uint64_t address, uint64_t size)
{
	return address >= begin && size <= region_size && address - begin <= region_size - size;
}

static bool overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
	return a < b + b_size && b < a + a_size;
}

int vhost_memory_add(struct vhost_memory *m, const struct vhost_region *region)
{
	const uint64_t last = region->size - 1;

	if (region->size == 0 || region->guest + last < last || region->user + last < last ||
		region->guest + last == UINT64_MAX || region->user + last == UINT64_MAX) {
		return -EINVAL;
	}
	for (size_t i = 0; i < m->n; i++) {
		const struct vhost_region *r = &m->regions[i];

		if (overlap(r->guest, r->size, region->guest, region->size) ||
			overlap(r->user, r->size, region->user, region->size)) {
			return -EINVAL;
		}
	}
	if (m->n == VHOST_MAX_REGIONS) {
		return -ENOSPC;
	}
	m->regions[m->n++] = *region;
	return 0;
}

const struct vhost_region *vhost_memory_region(
	const struct vhost_memory *m, uint64_t guest, uint64_t size)
{
	for (size_t i = 0; i < m->n; i++) {
		if (contains(m->regions[i].guest, m->regions[i].size, guest, size)) {
			return &m->regions[i];
		}
	}
	return NULL;
}

void *vhost_memory_at(const struct vhost_memory *m, uint64_t guest, uint64_t size)
{
	const struct vhost_region *r = vhost_memory_region(m, guest, size);

	return r != NULL ? r->base + (guest - r->guest) : NULL;
}

void *vhost_memory_at_user(const struct vhost_memory *m, uint64_t user, uint64_t size)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct vhost_region *r = &m->regions[i];

		if (contains(r->user, r->size, user, size)) {
			return r->base + (user - r->user);
		}
	}
	return NULL;
}
