/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps of the vm. They behave as the kernel's: the same errors, and an update of an entry in a hash
 * map puts a new value into its place, so that pointers to the old value still see that one.
 */
#ifndef RBT_POLICY_VM_MAP_H
#define RBT_POLICY_VM_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "policy/object.h"

#define VM_NO_SLOT UINT32_MAX

struct vm_link {
	uint32_t next;         /* in its bucket, or in the list of free slots */
	uint32_t newer, older; /* LRU_HASH: in the order of use */
};

struct vm_map {
	unsigned refs; /* engines that share it */
	uint32_t type, key_size, value_size, max_entries;

	/* Values are in slots. An array has one per index. A hash map has one more than entries. */
	uint32_t n_slots, stride;
	uint8_t *values;

	/* Hash maps. */
	uint8_t *keys;
	struct vm_link *links;
	uint32_t *buckets;
	unsigned bucket_bits;
	uint64_t seed;
	uint32_t free, spare, n_entries;
	uint32_t newest, oldest;

	/* Ring buffers: the bytes are mapped twice, one behind the other, so that none wraps. */
	uint8_t *ring;
	uint64_t produced, consumed;
};

/* NULL if there is no memory. */
struct vm_map *vm_map_create(const struct rbt_object_map *shape);
struct vm_map *vm_map_ref(struct vm_map *m);
/* Accepts NULL. */
void vm_map_unref(struct vm_map *m);

/* The slot of an entry, or VM_NO_SLOT. is_use: it counts as used, for LRU_HASH. */
uint32_t vm_map_find(struct vm_map *m, const void *key, bool is_use);
static inline uint8_t *vm_map_value(const struct vm_map *m, uint32_t slot)
{
	return m->values + (size_t)slot * m->stride;
}
int vm_map_update(struct vm_map *m, const void *key, const void *value, uint64_t flags);
int vm_map_delete(struct vm_map *m, const void *key);
int vm_map_next_key(const struct vm_map *m, const void *key, void *ret_key);

/* vm_ring.c: reserve() returns the place for a record, or NULL if there is no room. Every record
 * is finished before the hook ends. */
int vm_ring_init(struct vm_map *m);
void vm_ring_finish(struct vm_map *m);
uint8_t *vm_ring_reserve(struct vm_map *m, uint32_t size);
void vm_ring_commit(uint8_t *record, bool is_discarded);
ssize_t vm_ring_read(struct vm_map *m, void *buf, size_t size);

#endif
