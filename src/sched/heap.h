/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A binary heap of nodes that are embedded in the ordered objects. rbt_heap_reserve() allocates
 * beforehand, so that nothing can fail while events are handled.
 */
#ifndef RBT_SCHED_HEAP_H
#define RBT_SCHED_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct rbt_heap_node {
	uint64_t major, minor, seq; /* compared in this order; the smallest is first */
	uint32_t pos;               /* index, from 1; 0: in no heap */
};

struct rbt_heap {
	struct rbt_heap_node **nodes;
	uint32_t n, capacity;
};

bool rbt_heap_before(const struct rbt_heap_node *a, const struct rbt_heap_node *b);
/* Room for n nodes in all. 0 or -ENOMEM. */
int rbt_heap_reserve(struct rbt_heap *heap, uint32_t n);
void rbt_heap_finish(struct rbt_heap *heap);
/* NULL when empty. */
struct rbt_heap_node *rbt_heap_top(const struct rbt_heap *heap);
/* The node must be in no heap, and room must be reserved. */
void rbt_heap_push(struct rbt_heap *heap, struct rbt_heap_node *node);
/* Does nothing for a node that is in no heap. */
void rbt_heap_remove(struct rbt_heap *heap, struct rbt_heap_node *node);
/* To be called after a node's keys have changed. */
void rbt_heap_update(struct rbt_heap *heap, struct rbt_heap_node *node);

#endif
