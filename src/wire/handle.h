/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles are what guests have in place of the driver's pointers: kind, index and generation in 64
 * bits. A worker's table knows which object each stands for. A handle that is made up, of another
 * kind, or of an object that is gone, finds nothing.
 *
 * Not thread-safe: the caller locks.
 */
#ifndef RBT_WIRE_HANDLE_H
#define RBT_WIRE_HANDLE_H

#include <stddef.h>
#include <stdint.h>

/* Numbers never change. 0 is no kind, so that no handle is 0, 1 or 2 (which name default streams).
 *  */
enum rbt_handle_kind {
	RBT_HANDLE_CONTEXT = 1,
	RBT_HANDLE_STREAM,
	RBT_HANDLE_EVENT,
	RBT_HANDLE_MODULE,
	RBT_HANDLE_FUNCTION,
	RBT_HANDLE_LIBRARY,
	RBT_HANDLE_KERNEL,
	RBT_HANDLE_LINK,
	RBT_HANDLE_GRAPH,
	RBT_HANDLE_NODE,
	RBT_HANDLE_EXEC,
	RBT_HANDLE_POOL,
	RBT_HANDLE_KINDS
};

enum rbt_handle_kind rbt_handle_kind_of(uint64_t handle); /* may be no valid kind */
uint32_t rbt_handle_index(uint64_t handle);

struct rbt_handle_entry {
	void *object;        /* NULL: free */
	uint32_t generation; /* 24 bits */
	uint32_t next;       /* same hash, or next free */
};

struct rbt_handles {
	struct rbt_handle_entry *entries;
	uint32_t *hash;
	uint8_t *kinds;
	uint32_t n, room, limit, free, n_used;
};

/* At most `limit` handles at a time. */
int rbt_handles_init(struct rbt_handles *t, uint32_t limit);
void rbt_handles_finish(struct rbt_handles *t);

/* The handle of an object, which is added if it is new; 0: the table is full. */
uint64_t rbt_handles_add(struct rbt_handles *t, enum rbt_handle_kind kind, void *object);

/* NULL: no such object. */
void *rbt_handles_find(const struct rbt_handles *t, enum rbt_handle_kind kind, uint64_t handle);

void rbt_handles_remove(struct rbt_handles *t, uint64_t handle);

#endif
