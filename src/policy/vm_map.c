/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/vm_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static bool is_hash(const struct vm_map *m)
{
	return m->type == BPF_MAP_TYPE_HASH || m->type == BPF_MAP_TYPE_LRU_HASH;
}

static uint8_t *key_at(const struct vm_map *m, uint32_t slot)
{
	return m->keys + (size_t)slot * m->key_size;
}

static int init_hash(struct vm_map *m)
{
	while ((1u << m->bucket_bits) < m->max_entries) {
		m->bucket_bits++;
	}
	m->keys = calloc(m->n_slots, m->key_size);
	m->links = calloc(m->n_slots, sizeof(*m->links));
	m->buckets = malloc(sizeof(*m->buckets) << m->bucket_bits);
	if (m->keys == NULL || m->links == NULL || m->buckets == NULL) {
		return -ENOMEM;
	}
	memset(m->buckets, 0xff, sizeof(*m->buckets) << m->bucket_bits); /* VM_NO_SLOT */
	/* Nobody can choose keys that all end in one bucket. */
	if (getrandom(&m->seed, sizeof(m->seed), GRND_NONBLOCK) < 0) {
		m->seed = (uintptr_t)m;
	}
	for (uint32_t i = 0; i < m->max_entries; i++) {
		m->links[i].next = i + 1 < m->max_entries ? i + 1 : VM_NO_SLOT;
	}
	m->spare = m->max_entries;
	m->newest = m->oldest = VM_NO_SLOT;
	return 0;
}

struct vm_map *vm_map_create(const struct rbt_object_map *shape)
{
	struct vm_map *m = calloc(1, sizeof(*m));
	int r = 0;

	if (m == NULL) {
		return NULL;
	}
	m->refs = 1;
	m->type = shape->type;
	m->key_size = shape->key_size;
	m->value_size = shape->value_size;
	m->max_entries = shape->max_entries;
	m->stride = (m->value_size + 7) & ~7u;
	if (m->type == BPF_MAP_TYPE_RINGBUF) {
		r = vm_ring_init(m);
	} else {
		m->n_slots = m->max_entries + is_hash(m);
		m->values = calloc(m->n_slots, m->stride);
		r = m->values == NULL ? -ENOMEM : is_hash(m) ? init_hash(m) : 0;
	}
	if (r < 0) {
		vm_map_unref(m);
		return NULL;
	}
	if (shape->initial != NULL) {
		memcpy(m->values, shape->initial, m->value_size);
	}
	return m;
}

struct vm_map *vm_map_ref(struct vm_map *m)
{
	m->refs++;
	return m;
}

void vm_map_unref(struct vm_map *m)
{
	if (m == NULL || --m->refs > 0) {
		return;
	}
	vm_ring_finish(m);
	free(m->values);
	free(m->keys);
	free(m->links);
	free(m->buckets);
	free(m);
}

static uint32_t *bucket_of(const struct vm_map *m, const void *key)
{
	const uint64_t factor = 0x9e3779b97f4a7c15u; /* 2^64 divided by the golden ratio */
	const unsigned char *k = key;
	uint64_t h = m->seed;

	for (uint32_t rest = m->key_size; rest > 0;) {
		uint64_t word = 0;
		uint32_t n = rest < sizeof(word) ? rest : sizeof(word);
		memcpy(&word, k, n);
		h = (h ^ word) * factor;
		h ^= h >> 32;
		k += n;
		rest -= n;
	}
	/* A shift by 64 has no meaning. */
	return &m->buckets[h * factor >> 1 >> (63 - m->bucket_bits)];
}

static bool is_equal(const struct vm_map *m, uint32_t slot, const void *key)
{
	const uint8_t *k = key_at(m, slot);
	uint64_t a, b;

	if (m->key_size == sizeof(a)) { /* the usual key, a task */
		memcpy(&a, k, sizeof(a));
		memcpy(&b, key, sizeof(b));
		return a == b;
	}
	return memcmp(k, key, m->key_size) == 0;
}

/* The link that points to the entry, or to nothing at the end of its bucket. */
static uint32_t *find_link(const struct vm_map *m, const void *key)
{
	uint32_t *link = bucket_of(m, key);

	while (*link != VM_NO_SLOT && !is_equal(m, *link, key)) {
		link = &m->links[*link].next;
	}
	return link;
}

static void lru_remove(struct vm_map *m, uint32_t slot)
{
	struct vm_link *l = &m->links[slot];

	*(l->newer == VM_NO_SLOT ? &m->newest : &m->links[l->newer].older) = l->older;
	*(l->older == VM_NO_SLOT ? &m->oldest : &m->links[l->older].newer) = l->newer;
}

static void lru_add(struct vm_map *m, uint32_t slot)
{
	m->links[slot].newer = VM_NO_SLOT;
	m->links[slot].older = m->newest;
	*(m->newest == VM_NO_SLOT ? &m->oldest : &m->links[m->newest].newer) = slot;
	m->newest = slot;
}

uint32_t vm_map_find(struct vm_map *m, const void *key, bool is_use)
{
	uint32_t slot;

	if (!is_hash(m)) {
		memcpy(&slot, key, sizeof(slot));
		return slot < m->max_entries ? slot : VM_NO_SLOT;
	}
	slot = *find_link(m, key);
	if (is_use && slot != VM_NO_SLOT && m->type == BPF_MAP_TYPE_LRU_HASH && slot != m->newest) {
		lru_remove(m, slot);
		lru_add(m, slot);
	}
	return slot;
}

/* Takes the entry that *link points to out of its lists. */
static uint32_t unlink_entry(struct vm_map *m, uint32_t *link)
{
	uint32_t slot = *link;

	*link = m->links[slot].next;
	if (m->type == BPF_MAP_TYPE_LRU_HASH) {
		lru_remove(m, slot);
	}
	m->n_entries--;
	return slot;
}

static void free_slot(struct vm_map *m, uint32_t slot)
{
	m->links[slot].next = m->free;
	m->free = slot;
}

static void link_entry(struct vm_map *m, uint32_t slot)
{
	uint32_t *bucket = bucket_of(m, key_at(m, slot));

	m->links[slot].next = *bucket;
	*bucket = slot;
	if (m->type == BPF_MAP_TYPE_LRU_HASH) {
		lru_add(m, slot);
	}
	m->n_entries++;
}

static int update_hash(struct vm_map *m, const void *key, const void *value, uint64_t flags)
{
	uint32_t *link = find_link(m, key), slot;
	const bool is_there = *link != VM_NO_SLOT;

	if ((is_there && flags == BPF_NOEXIST) || (!is_there && flags == BPF_EXIST)) {
		return is_there ? -EEXIST : -ENOENT;
	}
	if (is_there) {
		slot = m->spare;
	} else {
		if (m->n_entries == m->max_entries) {
			if (m->type != BPF_MAP_TYPE_LRU_HASH) {
				return -E2BIG;
			}
			free_slot(m, unlink_entry(m, find_link(m, key_at(m, m->oldest))));
		}
		slot = m->free;
		m->free = m->links[slot].next;
	}
	/* Both may lie in this very slot, if the policy kept a pointer to an old entry. */
	memcpy(key_at(m, slot), key, m->key_size);
	memmove(vm_map_value(m, slot), value, m->value_size);
	if (is_there) {
		m->spare = unlink_entry(m, link);
	}
	link_entry(m, slot);
	return 0;
}

int vm_map_update(struct vm_map *m, const void *key, const void *value, uint64_t flags)
{
	if (flags > BPF_EXIST) {
		return -EINVAL;
	}
	if (is_hash(m)) {
		return update_hash(m, key, value, flags);
	}
	uint32_t slot = vm_map_find(m, key, true);
	if (slot == VM_NO_SLOT) {
		return -E2BIG;
	}
	if (flags == BPF_NOEXIST) {
		return -EEXIST;
	}
	memmove(vm_map_value(m, slot), value, m->value_size);
	return 0;
}

int vm_map_delete(struct vm_map *m, const void *key)
{
	if (!is_hash(m)) {
		return -EINVAL;
	}
	uint32_t *link = find_link(m, key);
	if (*link == VM_NO_SLOT) {
		return -ENOENT;
	}
	free_slot(m, unlink_entry(m, link));
	return 0;
}

int vm_map_next_key(const struct vm_map *m, const void *key, void *ret_key)
{
	uint32_t bucket = 0, slot = VM_NO_SLOT;

	if (!is_hash(m)) {
		uint32_t next = 0;
		if (key != NULL) {
			memcpy(&next, key, sizeof(next));
			next = next < m->max_entries ? next + 1 : 0;
		}
		memcpy(ret_key, &next, next < m->max_entries ? sizeof(next) : 0);
		return next < m->max_entries ? 0 : -ENOENT;
	}
	uint32_t *link = key != NULL ? find_link(m, key) : NULL;
	if (link != NULL && *link != VM_NO_SLOT) { /* otherwise: from the beginning */
		slot = m->links[*link].next;
		bucket = (uint32_t)(bucket_of(m, key) - m->buckets) + 1;
	}
	for (; slot == VM_NO_SLOT && bucket < (1u << m->bucket_bits); bucket++) {
		slot = m->buckets[bucket];
	}
	if (slot == VM_NO_SLOT) {
		return -ENOENT;
	}
	memcpy(ret_key, key_at(m, slot), m->key_size);
	return 0;
}
