/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/cuda/graph.h"

#include <stdlib.h>
#include <string.h>

struct front_graph *front_graph_create(void)
{
	return front_pool_take(FRONT_GRAPH, sizeof(struct front_graph));
}

CUresult front_op_copy(const struct front_op *op, struct front_op *ret)
{
	struct front_op copy = *op;

	if (op->kind == FRONT_OP_KERNEL) {
		uint32_t size = op->launch.param_size;
		void *params = malloc(size > 0 ? size : 1);

		if (params == NULL) {
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		memcpy(params, op->launch.params, size);
		copy.launch.params = params;
	} else if (op->kind == FRONT_OP_GRAPH) {
		CUresult r = front_graph_clone(op->graph, &copy.graph);

		if (r != CUDA_SUCCESS) {
			return r;
		}
		copy.graph->is_child = true;
	}
	*ret = copy;
	return CUDA_SUCCESS;
}

void front_op_free(struct front_op *op)
{
	if (op->kind == FRONT_OP_KERNEL) {
		free((void *)(uintptr_t)op->launch.params);
	} else if (op->kind == FRONT_OP_GRAPH) {
		front_graph_destroy(op->graph);
	}
	*op = (struct front_op){.kind = FRONT_OP_EMPTY};
}

static void free_node(struct front_node *node)
{
	if (node == NULL) {
		return;
	}
	front_op_free(&node->op);
	free(node->deps);
	free(node->params);
	front_pool_give(node, sizeof(*node));
}

void front_graph_destroy(struct front_graph *graph)
{
	if (graph == NULL) {
		return;
	}
	for (size_t i = 0; i < graph->n; i++) {
		free_node(graph->nodes[i]);
	}
	free(graph->nodes);
	front_pool_give(graph, sizeof(*graph));
}

CUresult front_node_depend(struct front_node *node, struct front_node *on)
{
	struct front_node **deps;

	for (size_t i = 0; i < node->n_deps; i++) {
		if (node->deps[i] == on) {
			return CUDA_SUCCESS;
		}
	}
	deps = realloc(node->deps, (node->n_deps + 1) * sizeof(struct front_node *));
	if (deps == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	node->deps = deps;
	node->deps[node->n_deps++] = on;
	return CUDA_SUCCESS;
}

bool front_node_independ(struct front_node *node, const struct front_node *of)
{
	for (size_t i = 0; i < node->n_deps; i++) {
		if (node->deps[i] == of) {
			node->deps[i] = node->deps[--node->n_deps];
			return true;
		}
	}
	return false;
}

static bool make_room(struct front_graph *graph)
{
	if (graph->n < graph->room) {
		return true;
	}
	size_t room = graph->room == 0 ? 16 : 2 * graph->room;
	struct front_node **nodes = realloc(graph->nodes, room * sizeof(struct front_node *));

	if (nodes == NULL) {
		return false;
	}
	graph->nodes = nodes;
	graph->room = room;
	return true;
}

CUresult front_node_add(struct front_graph *graph, const struct front_op *op,
	struct front_context *ctx, struct front_node *const *deps, size_t n_deps,
	struct front_node **ret)
{
	struct front_node *node = front_pool_take(FRONT_NODE, sizeof(*node));

	if (node == NULL || !make_room(graph)) {
		front_pool_give(node, sizeof(*node));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	node->graph = graph;
	node->ctx = ctx;
	CUresult r = front_op_copy(op, &node->op);

	for (size_t i = 0; i < n_deps && r == CUDA_SUCCESS; i++) {
		r = front_node_depend(node, deps[i]);
	}
	if (r != CUDA_SUCCESS) {
		free_node(node);
		return r;
	}
	node->index = graph->n;
	graph->nodes[graph->n++] = node;
	*ret = node;
	return CUDA_SUCCESS;
}

void front_node_remove(struct front_node *node)
{
	struct front_graph *graph = node->graph;

	for (size_t i = node->index + 1; i < graph->n; i++) {
		graph->nodes[i - 1] = graph->nodes[i];
		graph->nodes[i - 1]->index = i - 1;
	}
	graph->n--;
	for (size_t i = 0; i < graph->n; i++) {
		(void)front_node_independ(graph->nodes[i], node);
	}
	free_node(node);
}

CUresult front_graph_clone(const struct front_graph *graph, struct front_graph **ret)
{
	struct front_graph *clone = front_graph_create();
	CUresult r = clone == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;

	for (size_t i = 0; i < graph->n && r == CUDA_SUCCESS; i++) {
		struct front_node *node;

		r = front_node_add(
			clone, &graph->nodes[i]->op, graph->nodes[i]->ctx, NULL, 0, &node);
		if (r == CUDA_SUCCESS) {
			node->origin = graph->nodes[i];
		}
	}
	for (size_t i = 0; i < graph->n && r == CUDA_SUCCESS; i++) {
		const struct front_node *from = graph->nodes[i];

		for (size_t j = 0; j < from->n_deps && r == CUDA_SUCCESS; j++) {
			r = front_node_depend(clone->nodes[i], clone->nodes[from->deps[j]->index]);
		}
	}
	if (r != CUDA_SUCCESS) {
		front_graph_destroy(clone);
		return r;
	}
	*ret = clone;
	return CUDA_SUCCESS;
}

/* For each node, the nodes after it: out[start[i]] to out[start[i + 1]]. */
static void find_followers(const struct front_graph *graph, size_t *start, size_t *out)
{
	for (size_t i = 0; i < graph->n; i++) {
		for (size_t j = 0; j < graph->nodes[i]->n_deps; j++) {
			start[graph->nodes[i]->deps[j]->index + 1]++;
		}
	}
	for (size_t i = 0; i < graph->n; i++) {
		start[i + 1] += start[i];
	}
	/* Each follower advances its dependency's start; afterwards all are one too far. */
	for (size_t i = 0; i < graph->n; i++) {
		for (size_t j = 0; j < graph->nodes[i]->n_deps; j++) {
			out[start[graph->nodes[i]->deps[j]->index]++] = i;
		}
	}
	for (size_t i = graph->n; i > 0; i--) {
		start[i] = start[i - 1];
	}
	start[0] = 0;
}

static size_t count_edges(const struct front_graph *graph)
{
	size_t n = 0;

	for (size_t i = 0; i < graph->n; i++) {
		n += graph->nodes[i]->n_deps;
	}
	return n;
}

size_t *front_graph_order(const struct front_graph *graph)
{
	size_t *order = calloc(graph->n + 1, sizeof(size_t));
	size_t *start = calloc(graph->n + 1, sizeof(size_t));
	size_t *missing = calloc(graph->n + 1, sizeof(size_t));
	size_t *out = calloc(count_edges(graph) + 1, sizeof(size_t));
	size_t n = 0, taken = 0;
	bool good = order != NULL && start != NULL && missing != NULL && out != NULL;

	if (good) {
		find_followers(graph, start, out);
	}
	for (size_t i = 0; i < graph->n && good; i++) {
		missing[i] = graph->nodes[i]->n_deps;
		if (missing[i] == 0) {
			order[n++] = i;
		}
	}
	while (good && taken < n) {
		size_t i = order[taken++];

		for (size_t j = start[i]; j < start[i + 1]; j++) {
			if (--missing[out[j]] == 0) {
				order[n++] = out[j];
			}
		}
	}
	free(start);
	free(missing);
	free(out);
	if (!good || n < graph->n) {
		free(order);
		return NULL;
	}
	return order;
}
