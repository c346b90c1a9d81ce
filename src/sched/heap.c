/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/heap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

bool rbt_heap_before(const struct rbt_heap_node *a, const struct rbt_heap_node *b)
{
	if (a->major != b->major) {
		return a->major < b->major;
	}
	return a->minor != b->minor ? a->minor < b->minor : a->seq < b->seq;
}

int rbt_heap_reserve(struct rbt_heap *heap, uint32_t n)
{
	uint32_t capacity = heap->capacity > 0 ? heap->capacity : 16;

	if (n <= heap->capacity) {
		return 0;
	}
	while (capacity < n) {
		capacity *= 2;
	}
	struct rbt_heap_node **nodes = realloc(heap->nodes, capacity * sizeof(*nodes));
	if (nodes == NULL) {
		return -ENOMEM;
	}
	heap->nodes = nodes;
	heap->capacity = capacity;
	return 0;
}

void rbt_heap_finish(struct rbt_heap *heap)
{
	free(heap->nodes);
	*heap = (struct rbt_heap){0};
}

struct rbt_heap_node *rbt_heap_top(const struct rbt_heap *heap)
{
	return heap->n > 0 ? heap->nodes[0] : NULL;
}

static void put(struct rbt_heap *heap, uint32_t at, struct rbt_heap_node *node)
{
	heap->nodes[at - 1] = node;
	node->pos = at;
}

static void sift_up(struct rbt_heap *heap, struct rbt_heap_node *node)
{
	uint32_t at = node->pos;

	while (at > 1 && rbt_heap_before(node, heap->nodes[at / 2 - 1])) {
		put(heap, at, heap->nodes[at / 2 - 1]);
		at /= 2;
	}
	put(heap, at, node);
}

static void sift_down(struct rbt_heap *heap, struct rbt_heap_node *node)
{
	uint32_t at = node->pos;

	for (uint32_t child = at * 2; child <= heap->n; child = at * 2) {
		if (child < heap->n &&
			rbt_heap_before(heap->nodes[child], heap->nodes[child - 1])) {
			child++;
		}
		if (!rbt_heap_before(heap->nodes[child - 1], node)) {
			break;
		}
		put(heap, at, heap->nodes[child - 1]);
		at = child;
	}
	put(heap, at, node);
}

void rbt_heap_push(struct rbt_heap *heap, struct rbt_heap_node *node)
{
	assert(node->pos == 0 && heap->n < heap->capacity);
	put(heap, ++heap->n, node);
	sift_up(heap, node);
}

void rbt_heap_update(struct rbt_heap *heap, struct rbt_heap_node *node)
{
	sift_up(heap, node);
	sift_down(heap, node);
}

void rbt_heap_remove(struct rbt_heap *heap, struct rbt_heap_node *node)
{
	uint32_t at = node->pos;

	if (at == 0) {
		return;
	}
	struct rbt_heap_node *last = heap->nodes[--heap->n];
	node->pos = 0;
	if (last != node) {
		put(heap, at, last);
		rbt_heap_update(heap, last);
	}
}
