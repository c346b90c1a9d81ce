/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of graphs: nodes, edges, and changing them. */
#include "softgpu/cuda/graph.h"

static CUresult check(const void *object, enum front_kind kind)
{
	CUresult r = front_check_init();

	return r == CUDA_SUCCESS && !front_is(object, kind) ? CUDA_ERROR_INVALID_VALUE : r;
}

/* A list that is returned in part or as a whole: room on input, number of entries on output. Unused
 * entries become NULL. */
struct list {
	CUgraphNode *nodes;
	size_t room, n;
};

static void list_add(struct list *list, CUgraphNode node)
{
	if (list->nodes != NULL && list->n < list->room) {
		list->nodes[list->n] = node;
	}
	list->n++;
}

static void list_end(struct list *list, size_t *ret_n)
{
	for (size_t i = list->n; list->nodes != NULL && i < list->room; i++) {
		list->nodes[i] = NULL;
	}
	/* The number of written entries; or, if none were requested, of all entries. */
	*ret_n = list->nodes == NULL || list->n < list->room ? list->n : list->room;
}

/* The begin of every query: checks the object, and prepares the list. */
static CUresult list_begin(const void *object, enum front_kind kind, CUgraphNode *nodes,
	const size_t *n, struct list *ret)
{
	CUresult r = check(object, kind);

	if (r == CUDA_SUCCESS && n == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret = (struct list){.nodes = nodes, .room = nodes == NULL ? 0 : *n};
	}
	return r;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *ret_nodes, size_t *n_nodes)
{
	struct list list;
	CUresult r = list_begin(graph, FRONT_GRAPH, ret_nodes, n_nodes, &list);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	for (size_t i = 0; i < graph->n; i++) {
		list_add(&list, graph->nodes[i]);
	}
	list_end(&list, n_nodes);
	return CUDA_SUCCESS;
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *ret_nodes, size_t *n_nodes)
{
	struct list list;
	CUresult r = list_begin(graph, FRONT_GRAPH, ret_nodes, n_nodes, &list);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	for (size_t i = 0; i < graph->n; i++) {
		if (graph->nodes[i]->n_deps == 0) {
			list_add(&list, graph->nodes[i]);
		}
	}
	list_end(&list, n_nodes);
	return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *ret_from, CUgraphNode *ret_to, size_t *n_edges)
{
	struct list from, to;
	CUresult r = list_begin(graph, FRONT_GRAPH, ret_from, n_edges, &from);

	if (r == CUDA_SUCCESS) {
		r = list_begin(graph, FRONT_GRAPH, ret_to, n_edges, &to);
	}
	if (r == CUDA_SUCCESS && (ret_from == NULL) != (ret_to == NULL)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	for (size_t i = 0; i < graph->n; i++) {
		for (size_t j = 0; j < graph->nodes[i]->n_deps; j++) {
			list_add(&from, graph->nodes[i]->deps[j]);
			list_add(&to, graph->nodes[i]);
		}
	}
	list_end(&to, n_edges);
	list_end(&from, n_edges);
	return CUDA_SUCCESS;
}

static void plain_edges(struct CUgraphEdgeData *edges, size_t n)
{
	for (size_t i = 0; edges != NULL && i < n; i++) {
		edges[i] = (struct CUgraphEdgeData){0};
	}
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *ret_from, CUgraphNode *ret_to,
	struct CUgraphEdgeData *ret_edges, size_t *n_edges)
{
	CUresult r = cuGraphGetEdges(graph, ret_from, ret_to, n_edges);

	if (r == CUDA_SUCCESS && ret_from != NULL) {
		plain_edges(ret_edges, *n_edges);
	}
	return r;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *ret_nodes, size_t *n_nodes)
{
	struct list list;
	CUresult r = list_begin(node, FRONT_NODE, ret_nodes, n_nodes, &list);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	for (size_t i = 0; i < node->n_deps; i++) {
		list_add(&list, node->deps[i]);
	}
	list_end(&list, n_nodes);
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *ret_nodes,
	struct CUgraphEdgeData *ret_edges, size_t *n_nodes)
{
	CUresult r = cuGraphNodeGetDependencies(node, ret_nodes, n_nodes);

	if (r == CUDA_SUCCESS && ret_nodes != NULL) {
		plain_edges(ret_edges, *n_nodes);
	}
	return r;
}

static bool depends_on(const struct front_node *node, const struct front_node *on)
{
	for (size_t i = 0; i < node->n_deps; i++) {
		if (node->deps[i] == on) {
			return true;
		}
	}
	return false;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *ret_nodes, size_t *n_nodes)
{
	struct list list;
	CUresult r = list_begin(node, FRONT_NODE, ret_nodes, n_nodes, &list);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	for (size_t i = 0; i < node->graph->n; i++) {
		if (depends_on(node->graph->nodes[i], node)) {
			list_add(&list, node->graph->nodes[i]);
		}
	}
	list_end(&list, n_nodes);
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *ret_nodes,
	struct CUgraphEdgeData *ret_edges, size_t *n_nodes)
{
	CUresult r = cuGraphNodeGetDependentNodes(node, ret_nodes, n_nodes);

	if (r == CUDA_SUCCESS && ret_nodes != NULL) {
		plain_edges(ret_edges, *n_nodes);
	}
	return r;
}

static CUresult check_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
	CUresult r = check(graph, FRONT_GRAPH);

	if (r == CUDA_SUCCESS && n > 0 && (from == NULL || to == NULL)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
		if (!front_is(from[i], FRONT_NODE) || !front_is(to[i], FRONT_NODE) ||
			from[i]->graph != graph || to[i]->graph != graph || from[i] == to[i]) {
			r = CUDA_ERROR_INVALID_VALUE;
		}
	}
	return r;
}

CUresult cuGraphAddDependencies(
	CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
	CUresult r = check_edges(graph, from, to, n);

	for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
		r = depends_on(to[i], from[i]) ? CUDA_ERROR_INVALID_VALUE
					       : front_node_depend(to[i], from[i]);
	}
	return r;
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	const struct CUgraphEdgeData *edges, size_t n)
{
	return cuGraphAddDependencies(graph, from, to, n);
}

CUresult cuGraphRemoveDependencies(
	CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
	CUresult r = check_edges(graph, from, to, n);

	for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
		r = front_node_independ(to[i], from[i]) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	}
	return r;
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	const struct CUgraphEdgeData *edges, size_t n)
{
	return cuGraphRemoveDependencies(graph, from, to, n);
}

CUresult cuGraphNodeGetType(CUgraphNode node, int *ret_type)
{
	static const int types[] = {
		[FRONT_OP_EMPTY] = CU_GRAPH_NODE_TYPE_EMPTY,
		[FRONT_OP_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
		[FRONT_OP_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
		[FRONT_OP_FILL] = CU_GRAPH_NODE_TYPE_MEMSET,
		[FRONT_OP_HOST] = CU_GRAPH_NODE_TYPE_HOST,
		[FRONT_OP_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
		[FRONT_OP_WAIT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
		[FRONT_OP_GRAPH] = CU_GRAPH_NODE_TYPE_GRAPH,
	};
	CUresult r = check(node, FRONT_NODE);

	if (r == CUDA_SUCCESS && ret_type == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_type = types[node->op.kind];
	}
	return r;
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
	CUresult r = check(node, FRONT_NODE);

	if (r == CUDA_SUCCESS) {
		front_node_remove(node);
	}
	return r;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *ret_node, CUgraphNode origin, CUgraph clone)
{
	CUresult r = check(clone, FRONT_GRAPH);

	if (r == CUDA_SUCCESS && (ret_node == NULL || !front_is(origin, FRONT_NODE))) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	for (size_t i = 0; r == CUDA_SUCCESS && i < clone->n; i++) {
		if (clone->nodes[i]->origin == origin) {
			*ret_node = clone->nodes[i];
			return CUDA_SUCCESS;
		}
	}
	return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
}
