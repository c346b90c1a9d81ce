/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs made by the program: nodes of all kinds, and their parameters. */
#include <stdlib.h>
#include <string.h>

#include "softgpu/cuda/graph.h"

static CUresult check_graph(CUgraph graph)
{
	CUresult r = front_check_init();

	return r == CUDA_SUCCESS && !front_is(graph, FRONT_GRAPH) ? CUDA_ERROR_INVALID_VALUE : r;
}

static CUresult check_node(CUgraphNode node, enum front_op_kind kind)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && (!front_is(node, FRONT_NODE) || node->op.kind != kind)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	/* A graph may outlive the context of its nodes. */
	if (r == CUDA_SUCCESS && node->ctx != NULL) {
		r = front_check_context(node->ctx);
	}
	return r;
}

CUresult cuGraphCreate(CUgraph *ret_graph, unsigned flags)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && (ret_graph == NULL || flags != 0)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	struct front_graph *graph = front_graph_create();

	if (graph == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_graph = graph;
	return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
	CUresult r = check_graph(graph);

	if (r == CUDA_SUCCESS && graph->is_child) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		front_graph_destroy(graph);
	}
	return r;
}

CUresult cuGraphClone(CUgraph *ret_clone, CUgraph graph)
{
	CUresult r = check_graph(graph);

	if (r == CUDA_SUCCESS && ret_clone == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r != CUDA_SUCCESS ? r : front_graph_clone(graph, ret_clone);
}

static CUresult add(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t n_deps,
	struct front_context *ctx, const struct front_op *op)
{
	CUresult r = check_graph(graph);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (ret_node == NULL || (n_deps > 0 && deps == NULL)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	for (size_t i = 0; i < n_deps; i++) {
		if (!front_is(deps[i], FRONT_NODE) || deps[i]->graph != graph) {
			return CUDA_ERROR_INVALID_VALUE;
		}
	}
	return front_node_add(graph, op, ctx, deps, n_deps, ret_node);
}

CUresult front_op_from_kernel(struct front_context *ctx, const struct CUDA_KERNEL_NODE_PARAMS *p,
	bool is_v2, void *buffer, struct front_op *ret)
{
	CUfunction handle = p->func;

	if (is_v2 && handle == NULL) {
		handle = (CUfunction)(void *)p->kern;
	}
	struct front_op op = {.kind = FRONT_OP_KERNEL,
		.launch = {.function = front_function_of(ctx, handle),
			.grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
			.block = {p->blockDimX, p->blockDimY, p->blockDimZ},
			.shared = p->sharedMemBytes,
			.params = buffer}};

	if (op.launch.function == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	op.launch.param_size = op.launch.function->ptx->param_size;
	CUresult r = front_launch_check(op.launch.function->module->ctx, &op.launch);

	if (r == CUDA_SUCCESS) {
		r = front_params_pack(op.launch.function->ptx, p->kernelParams, p->extra, buffer);
	}
	if (r == CUDA_SUCCESS) {
		*ret = op;
	}
	return r;
}

static CUresult add_kernel(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, const struct CUDA_KERNEL_NODE_PARAMS *p, bool is_v2)
{
	_Alignas(8) uint8_t buffer[GPU_MAX_PARAMS];
	struct front_context *ctx;
	struct front_op op;
	CUresult r = front_enter(&ctx);

	if (r == CUDA_SUCCESS && p == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = front_op_from_kernel(ctx, p, is_v2, buffer, &op);
	}
	return r != CUDA_SUCCESS
		       ? r
		       : add(ret_node, graph, deps, n_deps, op.launch.function->module->ctx, &op);
}

CUresult cuGraphAddKernelNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, const struct CUDA_KERNEL_NODE_PARAMS *params)
{
	return add_kernel(ret_node, graph, deps, n_deps, params, false);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, const struct CUDA_KERNEL_NODE_PARAMS *params)
{
	return add_kernel(ret_node, graph, deps, n_deps, params, true);
}

/* The given context, or the current one. */
static CUresult enter_given(CUcontext given, struct front_context **ret)
{
	CUresult r = front_check_init();

	if (r != CUDA_SUCCESS || given == NULL) {
		return r != CUDA_SUCCESS ? r : front_enter(ret);
	}
	if (!front_is(given, FRONT_CONTEXT)) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	*ret = given;
	return front_check_context(given);
}

CUresult front_op_from_memcpy(
	struct front_context *ctx, const struct CUDA_MEMCPY3D *p, struct front_op *ret)
{
	struct front_op op = {.kind = FRONT_OP_COPY};
	CUresult r = front_copy_from_3d(p, &op.copy);

	if (r == CUDA_SUCCESS) {
		r = front_copy_check(ctx, &op.copy);
	}
	if (r == CUDA_SUCCESS) {
		*ret = op;
	}
	return r;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, const struct CUDA_MEMCPY3D *params, CUcontext given)
{
	struct front_context *ctx;
	struct front_op op;
	CUresult r = enter_given(given, &ctx);

	if (r == CUDA_SUCCESS && params == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = front_op_from_memcpy(ctx, params, &op);
	}
	return r != CUDA_SUCCESS ? r : add(ret_node, graph, deps, n_deps, ctx, &op);
}

CUresult front_op_from_memset(
	struct front_context *ctx, const struct CUDA_MEMSET_NODE_PARAMS *p, struct front_op *ret)
{
	struct front_op op = {.kind = FRONT_OP_FILL,
		.fill = {.to = p->dst,
			.width = p->width,
			.height = p->height,
			.pitch = p->pitch,
			.value = p->value,
			.element = p->elementSize}};
	CUresult r = front_fill_check(ctx, &op.fill);

	if (r == CUDA_SUCCESS) {
		*ret = op;
	}
	return r;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, const struct CUDA_MEMSET_NODE_PARAMS *params, CUcontext given)
{
	struct front_context *ctx;
	struct front_op op;
	CUresult r = enter_given(given, &ctx);

	if (r == CUDA_SUCCESS && params == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = front_op_from_memset(ctx, params, &op);
	}
	return r != CUDA_SUCCESS ? r : add(ret_node, graph, deps, n_deps, ctx, &op);
}

CUresult cuGraphAddHostNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, const struct CUDA_HOST_NODE_PARAMS *params)
{
	struct front_op op = {.kind = FRONT_OP_HOST};
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && (params == NULL || params->fn == NULL)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	op.host.fn = params->fn;
	op.host.user = params->userData;
	return add(ret_node, graph, deps, n_deps, NULL, &op);
}

CUresult cuGraphAddEmptyNode(
	CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t n_deps)
{
	struct front_op op = {.kind = FRONT_OP_EMPTY};

	return add(ret_node, graph, deps, n_deps, NULL, &op);
}

CUresult cuGraphAddChildGraphNode(
	CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t n_deps, CUgraph child)
{
	struct front_op op = {.kind = FRONT_OP_GRAPH, .graph = child};
	CUresult r = check_graph(child);

	return r != CUDA_SUCCESS ? r : add(ret_node, graph, deps, n_deps, NULL, &op);
}

static CUresult add_event(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, CUevent event, enum front_op_kind kind)
{
	struct front_op op = {.kind = kind, .event = event};
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && !front_is(event, FRONT_EVENT)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r != CUDA_SUCCESS ? r : add(ret_node, graph, deps, n_deps, event->ctx, &op);
}

CUresult cuGraphAddEventRecordNode(
	CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t n_deps, CUevent event)
{
	return add_event(ret_node, graph, deps, n_deps, event, FRONT_OP_RECORD);
}

CUresult cuGraphAddEventWaitNode(
	CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t n_deps, CUevent event)
{
	return add_event(ret_node, graph, deps, n_deps, event, FRONT_OP_WAIT);
}

static CUresult get_kernel(CUgraphNode node, struct CUDA_KERNEL_NODE_PARAMS *ret, size_t size)
{
	struct CUDA_KERNEL_NODE_PARAMS p = {0};
	CUresult r = check_node(node, FRONT_OP_KERNEL);

	if (r == CUDA_SUCCESS && ret == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	const struct front_launch *l = &node->op.launch;

	if (!front_launch_is_good(l)) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	const struct rbt_ptx_function *ptx = l->function->ptx;

	if (node->params == NULL) {
		node->params = calloc(ptx->nparams + 1, sizeof(void *));
	}
	for (uint32_t i = 0; node->params != NULL && i < ptx->nparams; i++) {
		node->params[i] = (uint8_t *)(uintptr_t)l->params + ptx->params[i].offset;
	}
	p.func = l->function;
	p.gridDimX = l->grid[0];
	p.gridDimY = l->grid[1];
	p.gridDimZ = l->grid[2];
	p.blockDimX = l->block[0];
	p.blockDimY = l->block[1];
	p.blockDimZ = l->block[2];
	p.sharedMemBytes = l->shared;
	p.kernelParams = node->params;
	p.ctx = l->function->module->ctx;
	memcpy(ret, &p, size);
	return node->params == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, struct CUDA_KERNEL_NODE_PARAMS *ret_params)
{
	return get_kernel(node, ret_params, offsetof(struct CUDA_KERNEL_NODE_PARAMS, kern));
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, struct CUDA_KERNEL_NODE_PARAMS *ret_params)
{
	return get_kernel(node, ret_params, sizeof(*ret_params));
}

/* The node's operation is replaced by a copy of this one. */
static CUresult replace(CUgraphNode node, const struct front_op *op)
{
	struct front_op copy;
	CUresult r = front_op_copy(op, &copy);

	if (r == CUDA_SUCCESS) {
		front_op_free(&node->op);
		node->op = copy;
		free(node->params);
		node->params = NULL;
	}
	return r;
}

static CUresult set_kernel(CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS *p, bool is_v2)
{
	_Alignas(8) uint8_t buffer[GPU_MAX_PARAMS];
	struct front_op op;
	CUresult r = check_node(node, FRONT_OP_KERNEL);

	if (r == CUDA_SUCCESS && p == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = front_op_from_kernel(node->ctx, p, is_v2, buffer, &op);
	}
	return r != CUDA_SUCCESS ? r : replace(node, &op);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS *params)
{
	return set_kernel(node, params, false);
}

CUresult cuGraphKernelNodeSetParams_v2(
	CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS *params)
{
	return set_kernel(node, params, true);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, struct CUDA_MEMSET_NODE_PARAMS *ret_params)
{
	CUresult r = check_node(node, FRONT_OP_FILL);

	if (r == CUDA_SUCCESS && ret_params == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		const struct front_fill *f = &node->op.fill;

		*ret_params = (struct CUDA_MEMSET_NODE_PARAMS){.dst = f->to,
			.pitch = f->pitch,
			.value = f->value,
			.elementSize = f->element,
			.width = f->width,
			.height = f->height};
	}
	return r;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const struct CUDA_MEMSET_NODE_PARAMS *params)
{
	struct front_op op;
	CUresult r = check_node(node, FRONT_OP_FILL);

	if (r == CUDA_SUCCESS && params == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = front_op_from_memset(node->ctx, params, &op);
	}
	return r != CUDA_SUCCESS ? r : replace(node, &op);
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const struct CUDA_MEMCPY3D *params)
{
	struct front_op op;
	CUresult r = check_node(node, FRONT_OP_COPY);

	if (r == CUDA_SUCCESS && params == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		r = front_op_from_memcpy(node->ctx, params, &op);
	}
	return r != CUDA_SUCCESS ? r : replace(node, &op);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, struct CUDA_HOST_NODE_PARAMS *ret_params)
{
	CUresult r = check_node(node, FRONT_OP_HOST);

	if (r == CUDA_SUCCESS && ret_params == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		ret_params->fn = node->op.host.fn;
		ret_params->userData = node->op.host.user;
	}
	return r;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const struct CUDA_HOST_NODE_PARAMS *params)
{
	CUresult r = check_node(node, FRONT_OP_HOST);

	if (r == CUDA_SUCCESS && (params == NULL || params->fn == NULL)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		node->op.host.fn = params->fn;
		node->op.host.user = params->userData;
	}
	return r;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *ret_graph)
{
	CUresult r = check_node(node, FRONT_OP_GRAPH);

	if (r == CUDA_SUCCESS && ret_graph == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_graph = node->op.graph;
	}
	return r;
}
