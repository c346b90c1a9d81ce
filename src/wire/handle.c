/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/handle.h"

#include <errno.h>
#include <stdlib.h>

#define GENERATIONS 0xffffffu
#define NONE        UINT32_MAX
#define FIRST_ROOM  64u

static uint64_t make(enum rbt_handle_kind kind, uint32_t generation, uint32_t index)
{
	return (uint64_t)kind << 56 | (uint64_t)generation << 32 | index;
}

enum rbt_handle_kind rbt_handle_kind_of(uint64_t handle)
{
	return (enum rbt_handle_kind)(handle >> 56);
}

uint32_t rbt_handle_index(uint64_t handle)
{
	return (uint32_t)handle;
}

static uint32_t bucket(const struct rbt_handles *t, enum rbt_handle_kind kind, const void *object)
{
	uint64_t x = ((uint64_t)(uintptr_t)object ^ (uint64_t)kind << 59) * 0x9e3779b97f4a7c15ull;

	return (uint32_t)(x >> 32) & (t->room - 1);
}

static void link_entry(struct rbt_handles *t, uint32_t i)
{
	uint32_t b = bucket(t, (enum rbt_handle_kind)t->kinds[i], t->entries[i].object);

	t->entries[i].next = t->hash[b];
	t->hash[b] = i;
}

static void unlink_entry(struct rbt_handles *t, uint32_t i)
{
	uint32_t *p = &t->hash[bucket(t, (enum rbt_handle_kind)t->kinds[i], t->entries[i].object)];

	while (*p != i) {
		p = &t->entries[*p].next;
	}
	*p = t->entries[i].next;
}

static int grow(struct rbt_handles *t, uint32_t room)
{
	struct rbt_handle_entry *entries = reallocarray(t->entries, room, sizeof(*entries));

	if (entries == NULL) {
		return -ENOMEM;
	}
	t->entries = entries;
	uint8_t *kinds = realloc(t->kinds, room);

	if (kinds == NULL) {
		return -ENOMEM;
	}
	t->kinds = kinds;
	uint32_t *hash = reallocarray(t->hash, room, sizeof(*hash));

	if (hash == NULL) {
		return -ENOMEM;
	}
	t->hash = hash;
	t->room = room;
	for (uint32_t i = 0; i < room; i++) {
		hash[i] = NONE;
	}
	for (uint32_t i = 0; i < t->n; i++) {
		if (entries[i].object != NULL) {
			link_entry(t, i);
		}
	}
	return 0;
}

int rbt_handles_init(struct rbt_handles *t, uint32_t limit)
{
	*t = (struct rbt_handles){.limit = limit, .free = NONE};
	return grow(t, FIRST_ROOM);
}

void rbt_handles_finish(struct rbt_handles *t)
{
	free(t->entries);
	free(t->hash);
	free(t->kinds);
	*t = (struct rbt_handles){.free = NONE};
}

static uint32_t new_entry(struct rbt_handles *t)
{
	if (t->free != NONE) {
		uint32_t i = t->free;

		t->free = t->entries[i].next;
		return i;
	}
	if (t->n == t->room && grow(t, t->room * 2) < 0) {
		return NONE;
	}
	t->entries[t->n] = (struct rbt_handle_entry){.generation = 1};
	return t->n++;
}

uint64_t rbt_handles_add(struct rbt_handles *t, enum rbt_handle_kind kind, void *object)
{
	for (uint32_t i = t->hash[bucket(t, kind, object)]; i != NONE; i = t->entries[i].next) {
		if (t->entries[i].object == object && t->kinds[i] == kind) {
			return make(kind, t->entries[i].generation, i);
		}
	}
	uint32_t i = t->n_used < t->limit ? new_entry(t) : NONE;

	if (i == NONE) {
		return 0;
	}
	t->entries[i].object = object;
	t->kinds[i] = (uint8_t)kind;
	link_entry(t, i);
	t->n_used++;
	return make(kind, t->entries[i].generation, i);
}

static int find(const struct rbt_handles *t, uint64_t handle, uint32_t *ret)
{
	uint32_t i = rbt_handle_index(handle);

	if (i >= t->n || t->entries[i].object == NULL ||
		make((enum rbt_handle_kind)t->kinds[i], t->entries[i].generation, i) != handle) {
		return -ENOENT;
	}
	*ret = i;
	return 0;
}

void *rbt_handles_find(const struct rbt_handles *t, enum rbt_handle_kind kind, uint64_t handle)
{
	uint32_t i;

	return find(t, handle, &i) == 0 && t->kinds[i] == kind ? t->entries[i].object : NULL;
}

void rbt_handles_remove(struct rbt_handles *t, uint64_t handle)
{
	uint32_t i;

	if (find(t, handle, &i) < 0) {
		return;
	}
	unlink_entry(t, i);
	t->entries[i].object = NULL;
	/* Generation 0 is skipped: it would make a kind's first handle look like a small number. */
	t->entries[i].generation =
		t->entries[i].generation == GENERATIONS ? 1 : t->entries[i].generation + 1;
	t->entries[i].next = t->free;
	t->free = i;
	t->n_used--;
}
