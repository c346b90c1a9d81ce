/* SPDX-License-Identifier: Apache-2.0 */
/* A guest with two regions of memory and a driver that writes rings by hand. */
#ifndef RBT_TESTS_VHOST_WORLD_H
#define RBT_TESTS_VHOST_WORLD_H

#include <stdint.h>
#include <string.h>

#include "remote/vhost/ring.h"

#define WORLD_SIZE  8 /* entries of the ring */
#define WORLD_LOW   0x1000u
#define WORLD_HIGH  0x100000000u
#define WORLD_BYTES 0x4000u
/* Guest addresses; the first region's are the same to QEMU plus WORLD_USER. */
#define WORLD_DESC  (WORLD_LOW)
#define WORLD_AVAIL (WORLD_LOW + 0x200)
#define WORLD_USED  (WORLD_LOW + 0x400)
#define WORLD_TABLE (WORLD_LOW + 0x800)
#define WORLD_DATA  (WORLD_LOW + 0x1000)
#define WORLD_USER  0x7f0000000000u

struct world {
	_Alignas(16) unsigned char low[WORLD_BYTES], high[WORLD_BYTES];
	struct vhost_memory memory;
	struct vhost_ring ring;
};

static inline void world_init(struct world *w, bool has_event_idx)
{
	memset(w, 0, sizeof(*w));
	vhost_memory_add(&w->memory,
		&(struct vhost_region){WORLD_LOW, WORLD_USER + WORLD_LOW, WORLD_BYTES, 0, w->low});
	vhost_memory_add(&w->memory, &(struct vhost_region){WORLD_HIGH, WORLD_USER + WORLD_HIGH,
					     WORLD_BYTES, WORLD_BYTES, w->high});
	w->ring = (struct vhost_ring){.size = WORLD_SIZE,
		.has_event_idx = has_event_idx,
		.desc = WORLD_USER + WORLD_DESC,
		.avail = WORLD_USER + WORLD_AVAIL,
		.used = WORLD_USER + WORLD_USED};
}

static inline void *world_at(struct world *w, uint64_t guest)
{
	return vhost_memory_at(&w->memory, guest, 1);
}

/* Writes descriptor `i` of the table at a guest address. */
static inline void world_desc(struct world *w, uint64_t table, unsigned i, uint64_t address,
	uint32_t size, uint16_t flags, uint16_t next)
{
	const struct vring_desc d = {address, size, flags, next};

	memcpy((char *)world_at(w, table) + i * sizeof(d), &d, sizeof(d));
}

/* Makes the chain that begins with descriptor `head` available. */
static inline void world_offer(struct world *w, uint16_t head)
{
	uint16_t *avail = world_at(w, WORLD_AVAIL);

	avail[2 + avail[1] % WORLD_SIZE] = head;
	avail[1]++;
}

static inline uint16_t *world_used_idx(struct world *w)
{
	return (uint16_t *)world_at(w, WORLD_USED) + 1;
}

#endif
