/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs: the operations of a graph and its children in one order. Branches that could
 * run side by side run one after another.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/cuda/graph.h"

#define MAX_DEPTH 16

struct exec_item {
	struct front_op op;
	struct front_node *node; /* the object whose handle the program has */
	struct front_context *ctx;
	uint64_t shape; /* of its dependencies, to be compared */
	bool disabled;
};

struct front_exec {
	uint32_t kind;
	struct exec_item *items;
	size_t n;
	unsigned long long flags;
};

static void destroy(struct front_exec *exec)
{
	if (exec == NULL) {
		return;
	}
	for (size_t i = 0; i < exec->n; i++) {
		front_op_free(&exec->items[i].op);
	}
	free(exec->items);
	front_pool_give(exec, sizeof(*exec));
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x100000001b3ull;
}

static uint64_t shape_of(const struct front_node *node)
{
	uint64_t sum = mix(0xcbf29ce484222325ull, node->op.kind);

	/* A sum, because the order of the list has no meaning. */
	for (size_t i = 0; i < node->n_deps; i++) {
		sum += mix(node->n_deps, node->deps[i]->index + 1);
	}
	return sum;
}

static CUresult append(struct front_exec *exec, struct front_node *node, uint64_t shape)
{
	struct exec_item *items = realloc(exec->items, (exec->n + 1) * sizeof(*items));

	if (items == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	exec->items = items;
	items[exec->n] = (struct exec_item){.node = node, .ctx = node->ctx, .shape = shape};
	CUresult r = front_op_copy(&node->op, &items[exec->n].op);

	exec->n += r == CUDA_SUCCESS;
	return r;
}

static CUresult flatten(struct front_exec *exec, const struct front_graph *graph, int depth)
{
	size_t *order = front_graph_order(graph);
	CUresult r = order == NULL || depth > MAX_DEPTH ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

	for (size_t i = 0; i < graph->n && r == CUDA_SUCCESS; i++) {
		struct front_node *node = graph->nodes[order[i]];

		if (node->op.kind == FRONT_OP_GRAPH) {
			r = flatten(exec, node->op.graph, depth + 1);
		} else {
			r = append(exec, node, shape_of(node));
		}
	}
	free(order);
	return r;
}

static CUresult instantiate(
	const struct front_graph *graph, unsigned long long flags, struct front_exec **ret)
{
	struct front_exec *exec = front_pool_take(FRONT_EXEC, sizeof(*exec));

	if (exec == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	exec->flags = flags;
	CUresult r = flatten(exec, graph, 0);

	if (r != CUDA_SUCCESS) {
		destroy(exec);
		return r;
	}
	*ret = exec;
	return CUDA_SUCCESS;
}

/* 1 frees memory of memory nodes, of which there are none; 2 uploads; 4 is launched from the
 * device; 8 uses nodes' priorities. */
#define FLAG_UPLOAD        2u
#define FLAG_DEVICE_LAUNCH 4u
#define FLAG_NODE_PRIORITY 8u
#define FLAGS              0xfu

CUresult cuGraphInstantiateWithFlags(CUgraphExec *ret_exec, CUgraph graph, unsigned long long flags)
{
	CUresult r = front_check_init();

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_exec == NULL || !front_is(graph, FRONT_GRAPH) || (flags & ~FLAGS) != 0) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if ((flags & FLAG_DEVICE_LAUNCH) != 0) {
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return instantiate(graph, flags, ret_exec);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *ret_exec, CUgraph graph, CUgraphNode *ret_error_node,
	char *log, size_t log_size)
{
	CUresult r = cuGraphInstantiateWithFlags(ret_exec, graph, 0);

	if (ret_error_node != NULL) {
		*ret_error_node = NULL;
	}
	if (log != NULL && log_size > 0) {
		log[0] = '\0';
	}
	return r;
}

CUresult cuGraphInstantiate(CUgraphExec *ret_exec, CUgraph graph, CUgraphNode *ret_error_node,
	char *log, size_t log_size)
{
	return cuGraphInstantiate_v2(ret_exec, graph, ret_error_node, log, log_size);
}

CUresult cuGraphInstantiateWithParams(
	CUgraphExec *ret_exec, CUgraph graph, struct CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && params == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	r = cuGraphInstantiateWithFlags(ret_exec, graph, params->flags);
	params->hErrNode_out = NULL;
	params->result_out = r == CUDA_SUCCESS ? 0 : 1; /* success; error */
	return r;
}

static CUresult check_exec(CUgraphExec exec)
{
	CUresult r = front_check_init();

	return r == CUDA_SUCCESS && !front_is(exec, FRONT_EXEC) ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	CUresult r = check_exec(exec);

	if (r == CUDA_SUCCESS) {
		destroy(exec);
	}
	return r;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, unsigned long long *ret_flags)
{
	CUresult r = check_exec(exec);

	if (r == CUDA_SUCCESS && ret_flags == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		/* Not the flag that is over after the instantiation. NVIDIA's driver does not
		 * return the priorities' flag either. */
		*ret_flags = exec->flags & ~(unsigned long long)(FLAG_UPLOAD | FLAG_NODE_PRIORITY);
	}
	return r;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream handle)
{
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	return r != CUDA_SUCCESS ? r : check_exec(exec);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS) {
		r = check_exec(exec);
	}
	/* NVIDIA's driver does not capture the launch of a graph. */
	if (r == CUDA_SUCCESS) {
		r = front_capture_refuse(s);
	}
	for (size_t i = 0; r == CUDA_SUCCESS && i < exec->n; i++) {
		const struct exec_item *item = &exec->items[i];

		if (item->disabled) {
			continue;
		}
		if (item->ctx != NULL && item->ctx != s->ctx) {
			return CUDA_ERROR_INVALID_VALUE; /* one context a graph */
		}
		r = i == 0 ? front_do_node(s, &item->op) : front_op_run(s, &item->op, true);
	}
	return r;
}

static struct exec_item *find_item(
	CUgraphExec exec, CUgraphNode node, enum front_op_kind kind, CUresult *ret_result)
{
	*ret_result = check_exec(exec);
	for (size_t i = 0; *ret_result == CUDA_SUCCESS && i < exec->n; i++) {
		struct exec_item *item = &exec->items[i];

		if (item->node == node && node != NULL && item->op.kind == kind) {
			*ret_result =
				item->ctx == NULL ? CUDA_SUCCESS : front_check_context(item->ctx);
			return *ret_result == CUDA_SUCCESS ? item : NULL;
		}
	}
	if (*ret_result == CUDA_SUCCESS) {
		*ret_result = CUDA_ERROR_INVALID_VALUE;
	}
	return NULL;
}

static CUresult replace(struct exec_item *item, const struct front_op *op)
{
	struct front_op copy;
	CUresult r = front_op_copy(op, &copy);

	if (r == CUDA_SUCCESS) {
		front_op_free(&item->op);
		item->op = copy;
	}
	return r;
}

static CUresult set_kernel(
	CUgraphExec exec, CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS *p, bool is_v2)
{
	_Alignas(8) uint8_t buffer[GPU_MAX_PARAMS];
	struct front_op op;
	CUresult r;
	struct exec_item *item = find_item(exec, node, FRONT_OP_KERNEL, &r);

	if (item == NULL || p == NULL) {
		return item == NULL ? r : CUDA_ERROR_INVALID_VALUE;
	}
	r = front_op_from_kernel(item->ctx, p, is_v2, buffer, &op);
	if (r == CUDA_SUCCESS && op.launch.function->module->ctx != item->ctx) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r != CUDA_SUCCESS ? r : replace(item, &op);
}

CUresult cuGraphExecKernelNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS *params)
{
	return set_kernel(exec, node, params, false);
}

CUresult cuGraphExecKernelNodeSetParams_v2(
	CUgraphExec exec, CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS *params)
{
	return set_kernel(exec, node, params, true);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
	const struct CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx)
{
	struct front_op op;
	CUresult r;
	struct exec_item *item = find_item(exec, node, FRONT_OP_FILL, &r);

	if (item == NULL || params == NULL) {
		return item == NULL ? r : CUDA_ERROR_INVALID_VALUE;
	}
	r = front_op_from_memset(item->ctx, params, &op);
	return r != CUDA_SUCCESS ? r : replace(item, &op);
}

CUresult cuGraphExecMemcpyNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const struct CUDA_MEMCPY3D *params, CUcontext ctx)
{
	struct front_op op;
	CUresult r;
	struct exec_item *item = find_item(exec, node, FRONT_OP_COPY, &r);

	if (item == NULL || params == NULL) {
		return item == NULL ? r : CUDA_ERROR_INVALID_VALUE;
	}
	r = front_op_from_memcpy(item->ctx, params, &op);
	return r != CUDA_SUCCESS ? r : replace(item, &op);
}

CUresult cuGraphExecHostNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const struct CUDA_HOST_NODE_PARAMS *params)
{
	CUresult r;
	struct exec_item *item = find_item(exec, node, FRONT_OP_HOST, &r);

	if (item == NULL || params == NULL || params->fn == NULL) {
		return item == NULL ? r : CUDA_ERROR_INVALID_VALUE;
	}
	item->op.host.fn = params->fn;
	item->op.host.user = params->userData;
	return CUDA_SUCCESS;
}

/* Kernels, copies and fills can be disabled. */
static struct exec_item *find_optional(CUgraphExec exec, CUgraphNode node, CUresult *ret_result)
{
	static const enum front_op_kind kinds[] = {FRONT_OP_KERNEL, FRONT_OP_COPY, FRONT_OP_FILL};
	struct exec_item *item = NULL;

	for (int i = 0; i < 3 && item == NULL; i++) {
		item = find_item(exec, node, kinds[i], ret_result);
	}
	return item;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled)
{
	CUresult r;
	struct exec_item *item = find_optional(exec, node, &r);

	if (item != NULL) {
		item->disabled = enabled == 0;
	}
	return item == NULL ? r : CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned *ret_enabled)
{
	CUresult r;
	const struct exec_item *item = find_optional(exec, node, &r);

	if (item == NULL || ret_enabled == NULL) {
		return item == NULL ? r : CUDA_ERROR_INVALID_VALUE;
	}
	*ret_enabled = !item->disabled;
	return CUDA_SUCCESS;
}

/* The first node that differs from the other graph's at the same place; NULL: all are the same. */
static struct front_node *compare(const struct front_exec *a, const struct front_exec *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++) {
		if (a->items[i].shape != b->items[i].shape || a->items[i].ctx != b->items[i].ctx) {
			return b->items[i].node;
		}
	}
	return NULL;
}

/* The same graph with other parameters: the operations are replaced. The program's handles of the
 * nodes stay those of the first graph. */
CUresult cuGraphExecUpdate_v2(
	CUgraphExec exec, CUgraph graph, struct CUgraphExecUpdateResultInfo *ret_info)
{
	struct front_exec *other;
	CUresult r = check_exec(exec);

	if (r == CUDA_SUCCESS && (!front_is(graph, FRONT_GRAPH) || ret_info == NULL)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = instantiate(graph, exec->flags, &other);
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	struct front_node *wrong = compare(exec, other);

	*ret_info = (struct CUgraphExecUpdateResultInfo){.errorNode = wrong};
	if (wrong != NULL || exec->n != other->n) {
		ret_info->result = 2; /* another topology */
		destroy(other);
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	for (size_t i = 0; i < exec->n; i++) {
		struct front_op op = exec->items[i].op;

		exec->items[i].op = other->items[i].op;
		other->items[i].op = op;
	}
	destroy(other);
	return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate(
	CUgraphExec exec, CUgraph graph, CUgraphNode *ret_error_node, int *ret_result)
{
	struct CUgraphExecUpdateResultInfo info = {0};
	CUresult r = cuGraphExecUpdate_v2(exec, graph, &info);

	if (ret_error_node != NULL) {
		*ret_error_node = info.errorNode;
	}
	if (ret_result != NULL) {
		*ret_result = info.result;
	}
	return r;
}
