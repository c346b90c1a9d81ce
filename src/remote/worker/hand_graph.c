/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: nodes with parameters, and outputs that are structs with handles in them. */
#include <string.h>

#include "remote/worker/hand.h"

/* The parameters of a kernel's node, as guests send them. */
struct kernel {
	struct CUDA_KERNEL_NODE_PARAMS params;
	struct hand_params packed;
	bool given;
};

static void take_kernel(struct served *s, struct kernel *k)
{
	const struct CUDA_KERNEL_NODE_PARAMS *given = served_in(s, sizeof(*given), 1);

	hand_params(s, &k->packed);
	k->given = given != NULL;
	if (given == NULL || s->malformed) {
		return;
	}
	k->params = *given;
	k->params.func = served_find(s, RBT_HANDLE_FUNCTION, (uintptr_t)given->func);
	k->params.kern = served_find(s, RBT_HANDLE_KERNEL, (uintptr_t)given->kern);
	k->params.ctx = served_find(s, RBT_HANDLE_CONTEXT, (uintptr_t)given->ctx);
	k->params.kernelParams = NULL;
	k->params.extra = k->packed.buffer != NULL ? k->packed.extra : NULL;
}

static const struct CUDA_KERNEL_NODE_PARAMS *params_of(const struct kernel *k)
{
	return k->given ? &k->params : NULL;
}

typedef CUresult add_kernel_fn(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
	const struct CUDA_KERNEL_NODE_PARAMS *);

static CUresult add_kernel(struct served *s, add_kernel_fn *fn)
{
	struct kernel k = {0};
	CUgraphNode *ret = served_handles_out(s, RBT_HANDLE_NODE, 1);
	CUgraph graph = served_find(s, RBT_HANDLE_GRAPH, served_get(s));
	const CUgraphNode *deps = served_handles(s, RBT_HANDLE_NODE, SERVED_MANY);
	size_t n_deps = served_get(s);

	take_kernel(s, &k);
	served_check_count(s, deps, sizeof(*deps), n_deps);
	return served_is_good(s, fn != NULL) ? fn(ret, graph, deps, n_deps, params_of(&k))
					     : s->refusal;
}

CUresult serve_cuGraphAddKernelNode(struct served *s)
{
	return add_kernel(s, s->driver->cuGraphAddKernelNode);
}

CUresult serve_cuGraphAddKernelNode_v2(struct served *s)
{
	return add_kernel(s, s->driver->cuGraphAddKernelNode_v2);
}

typedef CUresult set_kernel_fn(CUgraphNode, const struct CUDA_KERNEL_NODE_PARAMS *);

static CUresult set_kernel(struct served *s, set_kernel_fn *fn)
{
	struct kernel k = {0};
	CUgraphNode node = served_find(s, RBT_HANDLE_NODE, served_get(s));

	take_kernel(s, &k);
	return served_is_good(s, fn != NULL) ? fn(node, params_of(&k)) : s->refusal;
}

CUresult serve_cuGraphKernelNodeSetParams(struct served *s)
{
	return set_kernel(s, s->driver->cuGraphKernelNodeSetParams);
}

CUresult serve_cuGraphKernelNodeSetParams_v2(struct served *s)
{
	return set_kernel(s, s->driver->cuGraphKernelNodeSetParams_v2);
}

typedef CUresult set_exec_kernel_fn(
	CUgraphExec, CUgraphNode, const struct CUDA_KERNEL_NODE_PARAMS *);

static CUresult set_exec_kernel(struct served *s, set_exec_kernel_fn *fn)
{
	struct kernel k = {0};
	CUgraphExec exec = served_find(s, RBT_HANDLE_EXEC, served_get(s));
	CUgraphNode node = served_find(s, RBT_HANDLE_NODE, served_get(s));

	take_kernel(s, &k);
	return served_is_good(s, fn != NULL) ? fn(exec, node, params_of(&k)) : s->refusal;
}

CUresult serve_cuGraphExecKernelNodeSetParams(struct served *s)
{
	return set_exec_kernel(s, s->driver->cuGraphExecKernelNodeSetParams);
}

CUresult serve_cuGraphExecKernelNodeSetParams_v2(struct served *s)
{
	return set_exec_kernel(s, s->driver->cuGraphExecKernelNodeSetParams_v2);
}

/* The values of a node's parameters: the driver's pointers to them, or the buffer that was given.
 * The answer has them packed. */
static void pack(struct served *s, const struct CUDA_KERNEL_NODE_PARAMS *p)
{
	size_t offset = 0, size = 0, total = 0;
	void *given = NULL;

	for (size_t i = 0;
		p->func != NULL && i < HAND_MAX_PARAMS &&
		s->driver->cuFuncGetParamInfo(p->func, i, &offset, &size) == CUDA_SUCCESS;
		i++) {
		total = offset + size > total ? offset + size : total;
	}
	for (int i = 0; p->extra != NULL && p->extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
		given = p->extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER ? p->extra[i + 1] : given;
	}
	uint8_t *out = served_room(s, total);

	if (out == NULL) {
		return;
	}
	if (given != NULL) {
		memcpy(out, given, total);
	}
	for (size_t i = 0;
		p->kernelParams != NULL && i < HAND_MAX_PARAMS && p->func != NULL &&
		s->driver->cuFuncGetParamInfo(p->func, i, &offset, &size) == CUDA_SUCCESS;
		i++) {
		memcpy(out + offset, p->kernelParams[i], size);
	}
}

static CUresult get_kernel(struct served *s,
	CUresult (*fn)(CUgraphNode, struct CUDA_KERNEL_NODE_PARAMS *), size_t size)
{
	CUgraphNode node = served_find(s, RBT_HANDLE_NODE, served_get(s));
	bool wanted = served_get(s) != 0;
	struct CUDA_KERNEL_NODE_PARAMS p = {0}, *out = served_room(s, sizeof(*out));

	if (!served_is_good(s, fn != NULL && s->driver->cuFuncGetParamInfo != NULL)) {
		return s->refusal;
	}
	CUresult r = fn(node, wanted ? &p : NULL);

	if (r == CUDA_SUCCESS && out != NULL) {
		*out = p;
		out->func = served_pointer_of(s, RBT_HANDLE_FUNCTION, p.func);
		out->kern =
			size == sizeof(p) ? served_pointer_of(s, RBT_HANDLE_KERNEL, p.kern) : NULL;
		out->ctx =
			size == sizeof(p) ? served_pointer_of(s, RBT_HANDLE_CONTEXT, p.ctx) : NULL;
		out->kernelParams = out->extra = NULL;
		pack(s, &p);
	}
	return r;
}

CUresult serve_cuGraphKernelNodeGetParams(struct served *s)
{
	return get_kernel(s, s->driver->cuGraphKernelNodeGetParams,
		offsetof(struct CUDA_KERNEL_NODE_PARAMS, kern));
}

CUresult serve_cuGraphKernelNodeGetParams_v2(struct served *s)
{
	return get_kernel(s, s->driver->cuGraphKernelNodeGetParams_v2,
		sizeof(struct CUDA_KERNEL_NODE_PARAMS));
}

/* Copies inside graphs: between device memory and shared memory only. */
static bool take_copy(struct served *s, struct CUDA_MEMCPY3D *ret)
{
	const struct CUDA_MEMCPY3D *given = served_in(s, sizeof(*given), 1);

	if (given == NULL || s->malformed) {
		return false;
	}
	*ret = *given;
	ret->srcArray = ret->dstArray = NULL;
	ret->srcContext = served_find(s, RBT_HANDLE_CONTEXT, (uintptr_t)given->srcContext);
	ret->dstContext = served_find(s, RBT_HANDLE_CONTEXT, (uintptr_t)given->dstContext);
	if (s->refusal == CUDA_SUCCESS && !hand_copy_is_good(s, ret, 0, 0)) {
		s->refusal = CUDA_ERROR_NOT_SUPPORTED;
	}
	return true;
}

CUresult serve_cuGraphAddMemcpyNode(struct served *s)
{
	struct CUDA_MEMCPY3D p = {0};
	CUgraphNode *ret = served_handles_out(s, RBT_HANDLE_NODE, 1);
	CUgraph graph = served_find(s, RBT_HANDLE_GRAPH, served_get(s));
	const CUgraphNode *deps = served_handles(s, RBT_HANDLE_NODE, SERVED_MANY);
	size_t n_deps = served_get(s);
	bool given = take_copy(s, &p);
	CUcontext ctx = served_find(s, RBT_HANDLE_CONTEXT, served_get(s));

	served_check_count(s, deps, sizeof(*deps), n_deps);
	if (!served_is_good(s, s->driver->cuGraphAddMemcpyNode != NULL)) {
		return s->refusal;
	}
	return s->driver->cuGraphAddMemcpyNode(ret, graph, deps, n_deps, given ? &p : NULL, ctx);
}

CUresult serve_cuGraphMemcpyNodeSetParams(struct served *s)
{
	struct CUDA_MEMCPY3D p = {0};
	CUgraphNode node = served_find(s, RBT_HANDLE_NODE, served_get(s));
	bool given = take_copy(s, &p);

	return served_is_good(s, s->driver->cuGraphMemcpyNodeSetParams != NULL)
		       ? s->driver->cuGraphMemcpyNodeSetParams(node, given ? &p : NULL)
		       : s->refusal;
}

CUresult serve_cuGraphExecMemcpyNodeSetParams(struct served *s)
{
	struct CUDA_MEMCPY3D p = {0};
	CUgraphExec exec = served_find(s, RBT_HANDLE_EXEC, served_get(s));
	CUgraphNode node = served_find(s, RBT_HANDLE_NODE, served_get(s));
	bool given = take_copy(s, &p);
	CUcontext ctx = served_find(s, RBT_HANDLE_CONTEXT, served_get(s));

	return served_is_good(s, s->driver->cuGraphExecMemcpyNodeSetParams != NULL)
		       ? s->driver->cuGraphExecMemcpyNodeSetParams(
				 exec, node, given ? &p : NULL, ctx)
		       : s->refusal;
}

CUresult serve_cuGraphExecUpdate_v2(struct served *s)
{
	CUgraphExec exec = served_find(s, RBT_HANDLE_EXEC, served_get(s));
	CUgraph graph = served_find(s, RBT_HANDLE_GRAPH, served_get(s));
	bool wanted = served_get(s) != 0;
	struct CUgraphExecUpdateResultInfo *info = served_room(s, sizeof(*info));

	if (!served_is_good(s, s->driver->cuGraphExecUpdate_v2 != NULL)) {
		return s->refusal;
	}
	CUresult r = s->driver->cuGraphExecUpdate_v2(exec, graph, wanted ? info : NULL);

	info->errorNode = served_pointer_of(s, RBT_HANDLE_NODE, info->errorNode);
	info->errorFromNode = served_pointer_of(s, RBT_HANDLE_NODE, info->errorFromNode);
	return r;
}

CUresult serve_cuGraphInstantiateWithParams(struct served *s)
{
	CUresult (*fn)(CUgraphExec *, CUgraph, struct CUDA_GRAPH_INSTANTIATE_PARAMS *) =
		SERVED_FN(s, cuGraphInstantiateWithParams);
	CUgraphExec *ret = served_handles_out(s, RBT_HANDLE_EXEC, 1);
	CUgraph graph = served_find(s, RBT_HANDLE_GRAPH, served_get(s));
	struct CUDA_GRAPH_INSTANTIATE_PARAMS *p = served_both(s, sizeof(*p));

	if (p != NULL) {
		p->hUploadStream = served_find(s, RBT_HANDLE_STREAM, (uintptr_t)p->hUploadStream);
		p->hErrNode_out = NULL;
	}
	if (!served_is_good(s, fn != NULL)) {
		return s->refusal;
	}
	CUresult r = fn(ret, graph, p);

	if (p != NULL) {
		p->hErrNode_out = served_pointer_of(s, RBT_HANDLE_NODE, p->hErrNode_out);
	}
	return r;
}

struct capture {
	int status;
	unsigned long long id;
	CUgraph graph;
	const CUgraphNode *deps;
	const struct CUgraphEdgeData *edges;
	size_t n_deps;
};

/* All outputs are sent; the guest stores those that its program wants. */
static void answer_capture(struct served *s, const struct capture *c)
{
	uint64_t *numbers = served_room(s, 4 * sizeof(*numbers));
	size_t n = c->deps != NULL ? c->n_deps : 0;
	uint64_t *nodes = served_room(s, n * sizeof(*nodes));
	struct CUgraphEdgeData *edges = served_room(s, (c->edges != NULL ? n : 0) * sizeof(*edges));

	if (numbers == NULL || nodes == NULL || edges == NULL) {
		return;
	}
	numbers[0] = (uint64_t)c->status;
	numbers[1] = c->id;
	numbers[2] = (uintptr_t)served_pointer_of(s, RBT_HANDLE_GRAPH, c->graph);
	numbers[3] = c->n_deps;
	for (size_t i = 0; i < n; i++) {
		nodes[i] = (uintptr_t)served_pointer_of(s, RBT_HANDLE_NODE, c->deps[i]);
	}
	if (c->edges != NULL) {
		memcpy(edges, c->edges, n * sizeof(*edges));
	}
}

CUresult serve_cuStreamGetCaptureInfo_v2(struct served *s)
{
	CUresult (*fn)(CUstream, int *, unsigned long long *, CUgraph *, const CUgraphNode **,
		size_t *) = SERVED_FN(s, cuStreamGetCaptureInfo_v2);
	CUstream stream = served_find(s, RBT_HANDLE_STREAM, served_get(s));
	bool wanted = served_get(s) != 0;
	struct capture c = {0};

	if (!served_is_good(s, fn != NULL)) {
		return s->refusal;
	}
	CUresult r = fn(stream, wanted ? &c.status : NULL, &c.id, &c.graph, &c.deps, &c.n_deps);

	if (r == CUDA_SUCCESS) {
		answer_capture(s, &c);
	}
	return r;
}

CUresult serve_cuStreamGetCaptureInfo_v3(struct served *s)
{
	CUresult (*fn)(CUstream, int *, unsigned long long *, CUgraph *, const CUgraphNode **,
		const struct CUgraphEdgeData **, size_t *) =
		SERVED_FN(s, cuStreamGetCaptureInfo_v3);
	CUstream stream = served_find(s, RBT_HANDLE_STREAM, served_get(s));
	bool wanted = served_get(s) != 0, edges = served_get(s) != 0;
	struct capture c = {0};

	if (!served_is_good(s, fn != NULL)) {
		return s->refusal;
	}
	CUresult r = fn(stream, wanted ? &c.status : NULL, &c.id, &c.graph, &c.deps,
		edges ? &c.edges : NULL, &c.n_deps);

	if (r == CUDA_SUCCESS) {
		answer_capture(s, &c);
	}
	return r;
}

CUresult serve_cuStreamGetCtx_v2(struct served *s)
{
	CUresult (*fn)(CUstream, CUcontext *, void **) = SERVED_FN(s, cuStreamGetCtx_v2);
	CUstream stream = served_find(s, RBT_HANDLE_STREAM, served_get(s));
	CUcontext *ret = served_handles_out(s, RBT_HANDLE_CONTEXT, 1);
	bool wanted = served_get(s) != 0;
	void *green = NULL;

	if (!served_is_good(s, fn != NULL)) {
		return s->refusal;
	}
	CUresult r = fn(stream, ret, wanted ? &green : NULL);

	/* Guests have no green contexts. */
	return r == CUDA_SUCCESS && green != NULL ? CUDA_ERROR_NOT_SUPPORTED : r;
}
