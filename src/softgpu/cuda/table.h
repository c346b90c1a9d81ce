/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of memory by address: sorted, not overlapping. The caller locks. */
#ifndef RBT_SOFTGPU_CUDA_TABLE_H
#define RBT_SOFTGPU_CUDA_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum front_entry_kind {
	FRONT_ENTRY_MEMORY,     /* device memory */
	FRONT_ENTRY_VARIABLE,   /* of a module */
	FRONT_ENTRY_HOST,       /* pinned */
	FRONT_ENTRY_MANAGED,    /* pinned, and called managed */
	FRONT_ENTRY_REGISTERED, /* the program's own; only noted, not really pinned */
	FRONT_ENTRY_SHARED,     /* the program's own, and reachable: a mapping of a sealed memfd */
};

struct front_context;
struct front_entry {
	uint64_t base, size;
	struct front_context *owner;
	enum front_entry_kind kind;
	unsigned flags;
	bool sync_memops; /* as set on the pointer */
	uint64_t id;
};

struct front_table {
	struct front_entry *entries;
	size_t n, room;
};

/* 0, -ENOMEM, or -EEXIST: it overlaps another. */
int front_table_add(struct front_table *t, const struct front_entry *entry);
/* The entry that contains the address, or NULL; valid until the table changes. */
struct front_entry *front_table_find(const struct front_table *t, uint64_t address);
/* Removes the entry at that base; false: there is none. */
bool front_table_remove(struct front_table *t, uint64_t base);
/* Any entry of that owner, or NULL. */
const struct front_entry *front_table_any(const struct front_table *t, const void *owner);

#endif
