/* SPDX-License-Identifier: Apache-2.0 */
/* Ring buffers of the vm. A record has a header of 8 bytes and a size that is a multiple of 8, as
 * in the kernel, so that both are full after the same records. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "policy/vm_map.h"

#define HEADER_SIZE 8

struct header {
	uint32_t size;
	uint32_t is_discarded;
};
_Static_assert(sizeof(struct header) == HEADER_SIZE, "header of a record");

int vm_ring_init(struct vm_map *m)
{
	const size_t size = m->max_entries;
	uint8_t *base =
		mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (base == MAP_FAILED) {
		return -ENOMEM;
	}
	/* A length of 0 makes a second mapping of the same pages. */
	if (mremap(base, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, base + size) == MAP_FAILED) {
		munmap(base, 2 * size);
		return -ENOMEM;
	}
	m->ring = base;
	return 0;
}

void vm_ring_finish(struct vm_map *m)
{
	if (m->ring != NULL) {
		munmap(m->ring, 2 * (size_t)m->max_entries);
	}
}

static uint64_t record_size(uint32_t size)
{
	return ((uint64_t)size + HEADER_SIZE + 7) & ~(uint64_t)7;
}

uint8_t *vm_ring_reserve(struct vm_map *m, uint32_t size)
{
	const uint64_t mask = m->max_entries - 1, end = m->produced + record_size(size);

	if (end - m->consumed > mask) {
		return NULL;
	}
	struct header h = {.size = size};
	uint8_t *at = m->ring + (m->produced & mask);
	memcpy(at, &h, sizeof(h));
	m->produced = end;
	return at + HEADER_SIZE;
}

void vm_ring_commit(uint8_t *record, bool is_discarded)
{
	struct header h;

	memcpy(&h, record - HEADER_SIZE, sizeof(h));
	h.is_discarded = is_discarded;
	memcpy(record - HEADER_SIZE, &h, sizeof(h));
}

ssize_t vm_ring_read(struct vm_map *m, void *buf, size_t size)
{
	while (m->consumed < m->produced) {
		const uint8_t *at = m->ring + (m->consumed & (m->max_entries - 1));
		struct header h;
		memcpy(&h, at, sizeof(h));
		m->consumed += record_size(h.size);
		if (h.is_discarded) {
			continue;
		}
		if (h.size > size) {
			return -EMSGSIZE;
		}
		memcpy(buf, at + HEADER_SIZE, h.size);
		return (ssize_t)h.size;
	}
	return -EAGAIN;
}
