/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/guest/map.h"

#include <errno.h>

#include "remote/guest/guest.h"

#define TRIES 64

static _Atomic uint64_t next = RBT_LINK_MAP_BASE;

size_t guest_map_size(size_t size)
{
	return (size + RBT_LINK_BLOCK - 1) / RBT_LINK_BLOCK * RBT_LINK_BLOCK;
}

/* Addresses go up and are not used again until the range is exhausted. */
int guest_map(size_t size, void **ret)
{
	if (size == 0 || size > RBT_LINK_MAP_END - RBT_LINK_MAP_BASE - RBT_LINK_BLOCK) {
		return -ENOMEM;
	}
	size = guest_map_size(size);
	for (int i = 0; i < TRIES; i++) {
		uint64_t at = atomic_fetch_add(&next, size);

		if (at >= RBT_LINK_MAP_END || size > RBT_LINK_MAP_END - at) {
			atomic_store(&next, RBT_LINK_MAP_BASE);
			continue;
		}
		int r = guest.link->ops->map(guest.link, (void *)(uintptr_t)at, size);

		if (r != -EEXIST) {
			if (r == 0) {
				*ret = (void *)(uintptr_t)at;
			}
			return r;
		}
	}
	return -ENOMEM;
}

void guest_unmap(void *at, size_t size)
{
	(void)guest.link->ops->unmap(guest.link, at, guest_map_size(size));
}
