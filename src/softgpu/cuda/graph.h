/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: nodes, each with its operation and its dependencies. An executable graph is the nodes'
 * operations in an order that keeps the dependencies; when it is launched, they go to the stream
 * one after another. As in CUDA, a graph belongs to one thread at a time.
 */
#ifndef RBT_SOFTGPU_CUDA_GRAPH_H
#define RBT_SOFTGPU_CUDA_GRAPH_H

#include "softgpu/cuda/front.h"

struct front_node {
	uint32_t kind;
	struct front_graph *graph;
	struct front_op op;       /* a launch's params and a child graph are the node's own */
	struct front_node **deps; /* no node twice */
	size_t n_deps;
	size_t index;              /* in the graph */
	struct front_node *origin; /* of a clone */
	struct front_context *ctx; /* of its addresses and functions; NULL: the stream's */
	void **params;             /* pointers into the launch's params, once asked for */
};

struct front_graph {
	uint32_t kind;
	struct front_node **nodes; /* in the order they were made */
	size_t n, room;
	bool is_child; /* of a node, and destroyed with it */
};

struct front_graph *front_graph_create(void);
void front_graph_destroy(struct front_graph *graph); /* accepts NULL */
/* Copies the operation, with a launch's parameters and a child graph. */
CUresult front_node_add(struct front_graph *graph, const struct front_op *op,
	struct front_context *ctx, struct front_node *const *deps, size_t n_deps,
	struct front_node **ret);
void front_node_remove(struct front_node *node);
CUresult front_graph_clone(const struct front_graph *graph, struct front_graph **ret);
CUresult front_node_depend(struct front_node *node, struct front_node *on);
bool front_node_independ(struct front_node *node, const struct front_node *of);
/* The nodes' indices in an order that keeps the dependencies; the caller frees it. NULL: there is
 * none (a circle), or no memory. */
size_t *front_graph_order(const struct front_graph *graph);

/* A copy of an operation with its own parameters; op_free() frees only those. */
CUresult front_op_copy(const struct front_op *op, struct front_op *ret);
void front_op_free(struct front_op *op);

/* Makes operations from the parameters of nodes that the program gives. */
CUresult front_op_from_kernel(struct front_context *ctx, const struct CUDA_KERNEL_NODE_PARAMS *p,
	bool is_v2, void *buffer, struct front_op *ret);
CUresult front_op_from_memset(
	struct front_context *ctx, const struct CUDA_MEMSET_NODE_PARAMS *p, struct front_op *ret);
CUresult front_op_from_memcpy(
	struct front_context *ctx, const struct CUDA_MEMCPY3D *p, struct front_op *ret);

#endif
