/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: nodes of kernels and copies, and outputs that the driver keeps for the caller. */
#include <stdlib.h>
#include <string.h>

#include "cuda/api.h"
#include "cuda/by_hand.h"
#include "remote/guest/copy.h"
#include "remote/guest/launch.h"

/* Until CUDA 12 the last members did not exist: the caller's struct may end before them. */
static void put_kernel(struct guest_call *c, const struct guest_function *f,
	const struct CUDA_KERNEL_NODE_PARAMS *params, bool is_new, CUresult *r)
{
	struct CUDA_KERNEL_NODE_PARAMS p = {0};

	if (params == NULL) {
		guest_put_in(c, NULL, 1, 0);
		guest_put_in(c, NULL, 1, 0);
		return;
	}
	memcpy(&p, params, is_new ? sizeof(p) : offsetof(struct CUDA_KERNEL_NODE_PARAMS, kern));
	p.kernelParams = p.extra = NULL;
	guest_put_in(c, &p, sizeof(p), 1);
	*r = guest_put_params(c, f, params->kernelParams, params->extra);
}

/* The function of a node; NULL: the driver says what is wrong. Makes calls. */
static const struct guest_function *function_of(
	const struct CUDA_KERNEL_NODE_PARAMS *params, bool is_new)
{
	const struct guest_function *f = NULL;
	CUfunction handle = params == NULL         ? NULL
			    : params->func != NULL ? params->func
			    : is_new               ? (CUfunction)(void *)params->kern
						   : NULL;

	if (handle == NULL || !guest_knows_handle((uintptr_t)handle) ||
		guest_function_get(handle, &f) != CUDA_SUCCESS) {
		return NULL;
	}
	return f;
}

static CUresult add_kernel(enum rbt_call_number number, CUgraphNode *ret_node, CUgraph graph,
	const CUgraphNode *deps, size_t n_deps, const struct CUDA_KERNEL_NODE_PARAMS *params)
{
	bool is_new = number == RBT_CALL_cuGraphAddKernelNode_v2;
	const struct guest_function *f = function_of(params, is_new);
	struct guest_call c;
	CUresult r = guest_begin(&c, number, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handles_out(&c, ret_node, 1);
	guest_put_handle(&c, RBT_HANDLE_GRAPH, graph);
	guest_put_handles(&c, RBT_HANDLE_NODE, deps, n_deps);
	guest_put(&c, n_deps);
	put_kernel(&c, f, params, is_new, &r);
	return r != CUDA_SUCCESS ? r : guest_end(&c);
}

CUresult guest_cuGraphAddKernelNode(unsigned form, CUgraphNode *ret_node, CUgraph graph,
	const CUgraphNode *deps, size_t n_deps, const struct CUDA_KERNEL_NODE_PARAMS *params)
{
	return add_kernel(RBT_CALL_cuGraphAddKernelNode, ret_node, graph, deps, n_deps, params);
}

CUresult guest_cuGraphAddKernelNode_v2(unsigned form, CUgraphNode *ret_node, CUgraph graph,
	const CUgraphNode *deps, size_t n_deps, const struct CUDA_KERNEL_NODE_PARAMS *params)
{
	return add_kernel(RBT_CALL_cuGraphAddKernelNode_v2, ret_node, graph, deps, n_deps, params);
}

static CUresult set_kernel(enum rbt_call_number number, bool is_new, const CUgraphExec *exec,
	CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS *params)
{
	const struct guest_function *f = function_of(params, is_new);
	struct guest_call c;
	CUresult r = guest_begin(&c, number, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (exec != NULL) {
		guest_put_handle(&c, RBT_HANDLE_EXEC, *exec);
	}
	guest_put_handle(&c, RBT_HANDLE_NODE, node);
	put_kernel(&c, f, params, is_new, &r);
	return r != CUDA_SUCCESS ? r : guest_end(&c);
}

CUresult guest_cuGraphKernelNodeSetParams(
	unsigned form, CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS *params)
{
	return set_kernel(RBT_CALL_cuGraphKernelNodeSetParams, false, NULL, node, params);
}

CUresult guest_cuGraphKernelNodeSetParams_v2(
	unsigned form, CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS *params)
{
	return set_kernel(RBT_CALL_cuGraphKernelNodeSetParams_v2, true, NULL, node, params);
}

CUresult guest_cuGraphExecKernelNodeSetParams(unsigned form, CUgraphExec exec, CUgraphNode node,
	const struct CUDA_KERNEL_NODE_PARAMS *params)
{
	return set_kernel(RBT_CALL_cuGraphExecKernelNodeSetParams, false, &exec, node, params);
}

CUresult guest_cuGraphExecKernelNodeSetParams_v2(unsigned form, CUgraphExec exec, CUgraphNode node,
	const struct CUDA_KERNEL_NODE_PARAMS *params)
{
	return set_kernel(RBT_CALL_cuGraphExecKernelNodeSetParams_v2, true, &exec, node, params);
}

/* The parameters that a node's owner was told: they stay until the node is asked again, or for
 * as long as the process does. */
struct told {
	struct told *next;
	CUgraphNode node;
	void **params;
};

static void **keep_params(CUgraphNode node, const struct guest_function *f, const void *packed)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct told *all;
	/* Pointers, and behind them what they point to. */
	void **params = malloc((f->n + 1) * sizeof(*params) + f->size);
	uint8_t *values = params != NULL ? (uint8_t *)(params + f->n + 1) : NULL;

	if (params == NULL) {
		return NULL;
	}
	memcpy(values, packed, f->size);
	for (size_t i = 0; i < f->n; i++) {
		params[i] = values + f->offsets[i];
	}
	params[f->n] = NULL;
	pthread_mutex_lock(&lock);
	struct told *t = all;

	while (t != NULL && t->node != node) {
		t = t->next;
	}
	if (t == NULL && (t = calloc(1, sizeof(*t))) != NULL) {
		t->node = node;
		t->next = all;
		all = t;
	}
	if (t != NULL) {
		free(t->params);
		t->params = params;
	}
	pthread_mutex_unlock(&lock);
	return params;
}

static CUresult get_kernel(enum rbt_call_number number, bool is_new, CUgraphNode node,
	struct CUDA_KERNEL_NODE_PARAMS *ret)
{
	const struct guest_function *f = NULL;
	struct CUDA_KERNEL_NODE_PARAMS p;
	struct guest_call c;
	size_t size = 0, packed_size = 0;
	uint8_t *packed = NULL;
	CUresult r = guest_begin(&c, number, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handle(&c, RBT_HANDLE_NODE, node);
	guest_put(&c, ret != NULL);
	r = guest_end(&c);
	const void *got = guest_take(&c, &size), *values = guest_take(&c, &packed_size);

	if (r != CUDA_SUCCESS || got == NULL || size != sizeof(p)) {
		return r;
	}
	memcpy(&p, got, sizeof(p));
	if (values != NULL && packed_size > 0) {
		packed = malloc(packed_size);
		if (packed == NULL) {
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		memcpy(packed, values, packed_size);
		CUfunction handle = p.func != NULL ? p.func : (CUfunction)(void *)p.kern;

		guest_learn_handle((uintptr_t)handle);
		r = guest_function_get(handle, &f);
		if (r == CUDA_SUCCESS && f->size <= packed_size) {
			p.kernelParams = keep_params(node, f, packed);
		}
		free(packed);
	}
	memcpy(ret, &p, is_new ? sizeof(p) : offsetof(struct CUDA_KERNEL_NODE_PARAMS, kern));
	return r;
}

CUresult guest_cuGraphKernelNodeGetParams(
	unsigned form, CUgraphNode node, struct CUDA_KERNEL_NODE_PARAMS *ret_params)
{
	return get_kernel(RBT_CALL_cuGraphKernelNodeGetParams, false, node, ret_params);
}

CUresult guest_cuGraphKernelNodeGetParams_v2(
	unsigned form, CUgraphNode node, struct CUDA_KERNEL_NODE_PARAMS *ret_params)
{
	return get_kernel(RBT_CALL_cuGraphKernelNodeGetParams_v2, true, node, ret_params);
}

/* Copies in graphs reach the device and shared memory. Other memory is refused: nothing carries its
 * contents when the graph runs. */
static CUresult resolve(const struct CUDA_MEMCPY3D *given, struct CUDA_MEMCPY3D *p)
{
	if (given == NULL) {
		return CUDA_SUCCESS;
	}
	*p = *given;
	if (p->srcMemoryType == CU_MEMORYTYPE_UNIFIED) {
		p->srcMemoryType = CU_MEMORYTYPE_DEVICE;
	}
	if (p->dstMemoryType == CU_MEMORYTYPE_UNIFIED) {
		p->dstMemoryType = CU_MEMORYTYPE_DEVICE;
	}
	if ((p->srcMemoryType == CU_MEMORYTYPE_HOST && p->srcHost != NULL &&
		    !guest_is_shared(p->srcHost, 1)) ||
		(p->dstMemoryType == CU_MEMORYTYPE_HOST && p->dstHost != NULL &&
			!guest_is_shared(p->dstHost, 1))) {
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

CUresult guest_cuGraphAddMemcpyNode(unsigned form, CUgraphNode *ret_node, CUgraph graph,
	const CUgraphNode *deps, size_t n_deps, const struct CUDA_MEMCPY3D *params, CUcontext given)
{
	struct CUDA_MEMCPY3D p;
	struct guest_call c;
	CUresult r = guest_begin(&c, RBT_CALL_cuGraphAddMemcpyNode, GUEST_SYNC);

	r = r == CUDA_SUCCESS ? resolve(params, &p) : r;
	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handles_out(&c, ret_node, 1);
	guest_put_handle(&c, RBT_HANDLE_GRAPH, graph);
	guest_put_handles(&c, RBT_HANDLE_NODE, deps, n_deps);
	guest_put(&c, n_deps);
	guest_put_in(&c, params != NULL ? &p : NULL, sizeof(p), 1);
	guest_put_handle(&c, RBT_HANDLE_CONTEXT, given);
	return guest_end(&c);
}

CUresult guest_cuGraphMemcpyNodeSetParams(
	unsigned form, CUgraphNode node, const struct CUDA_MEMCPY3D *params)
{
	struct CUDA_MEMCPY3D p;
	struct guest_call c;
	CUresult r = guest_begin(&c, RBT_CALL_cuGraphMemcpyNodeSetParams, GUEST_SYNC);

	r = r == CUDA_SUCCESS ? resolve(params, &p) : r;
	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handle(&c, RBT_HANDLE_NODE, node);
	guest_put_in(&c, params != NULL ? &p : NULL, sizeof(p), 1);
	return guest_end(&c);
}

CUresult guest_cuGraphExecMemcpyNodeSetParams(unsigned form, CUgraphExec exec, CUgraphNode node,
	const struct CUDA_MEMCPY3D *params, CUcontext ctx)
{
	struct CUDA_MEMCPY3D p;
	struct guest_call c;
	CUresult r = guest_begin(&c, RBT_CALL_cuGraphExecMemcpyNodeSetParams, GUEST_SYNC);

	r = r == CUDA_SUCCESS ? resolve(params, &p) : r;
	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handle(&c, RBT_HANDLE_EXEC, exec);
	guest_put_handle(&c, RBT_HANDLE_NODE, node);
	guest_put_in(&c, params != NULL ? &p : NULL, sizeof(p), 1);
	guest_put_handle(&c, RBT_HANDLE_CONTEXT, ctx);
	return guest_end(&c);
}

CUresult guest_cuGraphExecUpdate_v2(unsigned form, CUgraphExec exec, CUgraph graph,
	struct CUgraphExecUpdateResultInfo *ret_info)
{
	struct guest_call c;
	size_t size = 0;
	CUresult r = guest_begin(&c, RBT_CALL_cuGraphExecUpdate_v2, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handle(&c, RBT_HANDLE_EXEC, exec);
	guest_put_handle(&c, RBT_HANDLE_GRAPH, graph);
	guest_put(&c, ret_info != NULL);
	r = guest_end(&c);
	const void *info = guest_take(&c, &size);

	if (info != NULL && size == sizeof(*ret_info) && ret_info != NULL) {
		memcpy(ret_info, info, size);
	}
	return r;
}

CUresult guest_cuGraphInstantiateWithParams(unsigned form, CUgraphExec *ret_exec, CUgraph graph,
	struct CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	struct guest_call c;
	CUresult r = guest_begin(&c, RBT_CALL_cuGraphInstantiateWithParams, form);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handles_out(&c, ret_exec, 1);
	guest_put_handle(&c, RBT_HANDLE_GRAPH, graph);
	guest_put_both(&c, params, sizeof(*params));
	return guest_end(&c);
}

/* Keeps an array for the caller until the thread asks again. */
static const void *keep(struct guest_thread *t, int which, const void *from, size_t size)
{
	free(t->kept[which]);
	t->kept[which] = from != NULL && size > 0 ? malloc(size) : NULL;
	if (t->kept[which] != NULL) {
		memcpy(t->kept[which], from, size);
	}
	return t->kept[which];
}

struct capture {
	int *status;
	unsigned long long *id;
	CUgraph *graph;
	const CUgraphNode **deps;
	const struct CUgraphEdgeData **edges;
	size_t *n_deps;
};

static CUresult end_capture_info(struct guest_call *c, const struct capture *want)
{
	size_t size = 0, nodes_size = 0, edges_size = 0;
	CUresult r = guest_end(c);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	const uint64_t *numbers = guest_take(c, &size);
	const uint64_t *nodes = guest_take(c, &nodes_size);
	const void *edges = guest_take(c, &edges_size);

	if (numbers == NULL || size != 4 * sizeof(*numbers)) {
		return CUDA_ERROR_UNKNOWN;
	}
	if (want->status != NULL) {
		*want->status = (int)numbers[0];
	}
	/* The rest is there only while the stream captures, as in CUDA. */
	if (numbers[0] != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		return r;
	}
	if (want->id != NULL) {
		*want->id = numbers[1];
	}
	if (want->graph != NULL) {
		*want->graph = (CUgraph)(uintptr_t)numbers[2];
		guest_learn_handle(numbers[2]);
	}
	if (want->deps != NULL) {
		*want->deps = keep(c->thread, 0, nodes, nodes_size);
	}
	if (want->edges != NULL) {
		*want->edges = keep(c->thread, 1, edges, edges_size);
	}
	if (want->n_deps != NULL) {
		*want->n_deps = numbers[3];
	}
	return r;
}

CUresult guest_cuStreamGetCaptureInfo_v2(unsigned form, CUstream handle, int *ret_status,
	unsigned long long *ret_id, CUgraph *ret_graph, const CUgraphNode **ret_deps,
	size_t *ret_n_deps)
{
	struct capture want = {ret_status, ret_id, ret_graph, ret_deps, NULL, ret_n_deps};
	struct guest_call c;
	CUresult r = guest_begin(&c, RBT_CALL_cuStreamGetCaptureInfo_v2, form);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handle(&c, RBT_HANDLE_STREAM, handle);
	guest_put(&c, ret_status != NULL);
	return end_capture_info(&c, &want);
}

CUresult guest_cuStreamGetCaptureInfo_v3(unsigned form, CUstream handle, int *ret_status,
	unsigned long long *ret_id, CUgraph *ret_graph, const CUgraphNode **ret_deps,
	const struct CUgraphEdgeData **ret_edges, size_t *ret_n_deps)
{
	struct capture want = {ret_status, ret_id, ret_graph, ret_deps, ret_edges, ret_n_deps};
	struct guest_call c;
	CUresult r = guest_begin(&c, RBT_CALL_cuStreamGetCaptureInfo_v3, form);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handle(&c, RBT_HANDLE_STREAM, handle);
	guest_put(&c, ret_status != NULL);
	guest_put(&c, ret_edges != NULL);
	return end_capture_info(&c, &want);
}

CUresult guest_cuStreamGetCtx_v2(
	unsigned form, CUstream handle, CUcontext *ret_ctx, void **ret_green)
{
	struct guest_call c;
	CUresult r = guest_begin(&c, RBT_CALL_cuStreamGetCtx_v2, form);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handle(&c, RBT_HANDLE_STREAM, handle);
	guest_put_handles_out(&c, ret_ctx, 1);
	guest_put(&c, ret_green != NULL);
	r = guest_end(&c);
	if (r == CUDA_SUCCESS && ret_green != NULL) {
		*ret_green = NULL;
	}
	return r;
}
