/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/cuda/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Index of the first entry whose base is above the address. */
static size_t above(const struct front_table *t, uint64_t address)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->entries[middle].base <= address) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

int front_table_add(struct front_table *t, const struct front_entry *entry)
{
	size_t at = above(t, entry->base);

	if (at > 0 && entry->base - t->entries[at - 1].base < t->entries[at - 1].size) {
		return -EEXIST;
	}
	if (at < t->n && t->entries[at].base - entry->base < entry->size) {
		return -EEXIST;
	}
	if (t->n == t->room) {
		size_t room = t->room == 0 ? 64 : 2 * t->room;
		struct front_entry *entries = realloc(t->entries, room * sizeof(*entries));

		if (entries == NULL) {
			return -ENOMEM;
		}
		t->entries = entries;
		t->room = room;
	}
	memmove(&t->entries[at + 1], &t->entries[at], (t->n - at) * sizeof(*t->entries));
	t->entries[at] = *entry;
	t->n++;
	return 0;
}

struct front_entry *front_table_find(const struct front_table *t, uint64_t address)
{
	size_t at = above(t, address);

	if (at == 0 || address - t->entries[at - 1].base >= t->entries[at - 1].size) {
		return NULL;
	}
	return &t->entries[at - 1];
}

bool front_table_remove(struct front_table *t, uint64_t base)
{
	size_t at = above(t, base);

	if (at == 0 || t->entries[at - 1].base != base) {
		return false;
	}
	memmove(&t->entries[at - 1], &t->entries[at], (t->n - at) * sizeof(*t->entries));
	t->n--;
	return true;
}

const struct front_entry *front_table_any(const struct front_table *t, const void *owner)
{
	for (size_t i = t->n; i > 0; i--) {
		if (t->entries[i - 1].owner == owner) {
			return &t->entries[i - 1];
		}
	}
	return NULL;
}
