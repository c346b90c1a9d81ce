/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, captures and graphs. */
#include "remote/cudart/cudart.h"

RT_FORWARD(cudaStreamCreate, (CUstream * ret), cuStreamCreate(ret, 0))
RT_FORWARD(cudaStreamCreateWithFlags, (CUstream * ret, unsigned flags), cuStreamCreate(ret, flags))
RT_FORWARD(cudaStreamCreateWithPriority, (CUstream * ret, unsigned flags, int priority),
	cuStreamCreateWithPriority(ret, flags, priority))
RT_FORWARD(cudaStreamDestroy, (CUstream stream), cuStreamDestroy_v2(stream))
RT_FORWARD_PT(cudaStreamGetPriority, ptsz, (CUstream stream, int *ret), cuStreamGetPriority,
	(stream, ret))
RT_FORWARD_PT(
	cudaStreamGetFlags, ptsz, (CUstream stream, unsigned *ret), cuStreamGetFlags, (stream, ret))
RT_FORWARD_PT(cudaStreamGetId, ptsz, (CUstream stream, unsigned long long *ret), cuStreamGetId,
	(stream, ret))
RT_FORWARD_PT(
	cudaStreamGetDevice, ptsz, (CUstream stream, int *ret), cuStreamGetDevice, (stream, ret))
RT_FORWARD_PT(cudaStreamWaitEvent, ptsz, (CUstream stream, CUevent event, unsigned flags),
	cuStreamWaitEvent, (stream, event, flags))
RT_FORWARD_PT(cudaStreamSynchronize, ptsz, (CUstream stream), cuStreamSynchronize, (stream))
RT_FORWARD_PT(cudaStreamQuery, ptsz, (CUstream stream), cuStreamQuery, (stream))
RT_FORWARD_PT(cudaStreamAddCallback, ptsz,
	(CUstream stream, CUstreamCallback callback, void *user, unsigned flags),
	cuStreamAddCallback, (stream, callback, user, flags))
RT_FORWARD_PT(cudaLaunchHostFunc, ptsz, (CUstream stream, CUhostFn fn, void *user),
	cuLaunchHostFunc, (stream, fn, user))

RT_FORWARD(cudaEventCreate, (CUevent * ret), cuEventCreate(ret, 0))
RT_FORWARD(cudaEventCreateWithFlags, (CUevent * ret, unsigned flags), cuEventCreate(ret, flags))
RT_FORWARD(cudaEventDestroy, (CUevent event), cuEventDestroy_v2(event))
RT_FORWARD(cudaEventQuery, (CUevent event), cuEventQuery(event))
RT_FORWARD(cudaEventSynchronize, (CUevent event), cuEventSynchronize(event))
RT_FORWARD(cudaEventElapsedTime, (float *ret_ms, CUevent from, CUevent to),
	cuEventElapsedTime(ret_ms, from, to))
RT_FORWARD_PT(
	cudaEventRecord, ptsz, (CUevent event, CUstream stream), cuEventRecord, (event, stream))
RT_FORWARD_PT(cudaEventRecordWithFlags, ptsz, (CUevent event, CUstream stream, unsigned flags),
	cuEventRecordWithFlags, (event, stream, flags))

RT_FORWARD_PT(cudaStreamBeginCapture, ptsz, (CUstream stream, int mode), cuStreamBeginCapture_v2,
	(stream, mode))
RT_FORWARD_PT(cudaStreamEndCapture, ptsz, (CUstream stream, CUgraph *ret), cuStreamEndCapture,
	(stream, ret))
RT_FORWARD_PT(cudaStreamIsCapturing, ptsz, (CUstream stream, int *ret), cuStreamIsCapturing,
	(stream, ret))
RT_FORWARD(
	cudaThreadExchangeStreamCaptureMode, (int *mode), cuThreadExchangeStreamCaptureMode(mode))
RT_FORWARD_PT(cudaStreamBeginCaptureToGraph, ptsz,
	(CUstream stream, CUgraph graph, const CUgraphNode *deps,
		const struct CUgraphEdgeData *edges, size_t n, int mode),
	cuStreamBeginCaptureToGraph, (stream, graph, deps, edges, n, mode))

#define INFO_V2                                                                                    \
	(CUstream stream, int *ret_status, unsigned long long *ret_id, CUgraph *ret_graph,         \
		const CUgraphNode **ret_deps, size_t *ret_n)
#define INFO_V3                                                                                    \
	(CUstream stream, int *ret_status, unsigned long long *ret_id, CUgraph *ret_graph,         \
		const CUgraphNode **ret_deps, const struct CUgraphEdgeData **ret_edges,            \
		size_t *ret_n)
#if RT_VERSION >= 13000
RT_FORWARD_PT(cudaStreamGetCaptureInfo, ptsz, INFO_V3, cuStreamGetCaptureInfo_v3,
	(stream, ret_status, ret_id, ret_graph, ret_deps, ret_edges, ret_n))
RT_FORWARD_PT(cudaStreamUpdateCaptureDependencies, ptsz,
	(CUstream stream, CUgraphNode *deps, const struct CUgraphEdgeData *edges, size_t n,
		unsigned flags),
	cuStreamUpdateCaptureDependencies_v2, (stream, deps, edges, n, flags))
#else
RT_FORWARD_PT(cudaStreamGetCaptureInfo, ptsz,
	(CUstream stream, int *ret_status, unsigned long long *ret_id), cuStreamGetCaptureInfo,
	(stream, ret_status, ret_id))
RT_FORWARD_PT(cudaStreamGetCaptureInfo_v2, ptsz, INFO_V2, cuStreamGetCaptureInfo_v2,
	(stream, ret_status, ret_id, ret_graph, ret_deps, ret_n))
RT_FORWARD_PT(cudaStreamGetCaptureInfo_v3, ptsz, INFO_V3, cuStreamGetCaptureInfo_v3,
	(stream, ret_status, ret_id, ret_graph, ret_deps, ret_edges, ret_n))
RT_FORWARD_PT(cudaStreamUpdateCaptureDependencies, ptsz,
	(CUstream stream, CUgraphNode *deps, size_t n, unsigned flags),
	cuStreamUpdateCaptureDependencies, (stream, deps, n, flags))
#endif

RT_FORWARD(cudaGraphCreate, (CUgraph * ret, unsigned flags), cuGraphCreate(ret, flags))
RT_FORWARD(cudaGraphDestroy, (CUgraph graph), cuGraphDestroy(graph))
RT_FORWARD(cudaGraphClone, (CUgraph * ret, CUgraph graph), cuGraphClone(ret, graph))
RT_FORWARD(cudaGraphDestroyNode, (CUgraphNode node), cuGraphDestroyNode(node))
RT_FORWARD(cudaGraphGetNodes, (CUgraph graph, CUgraphNode *ret, size_t *n),
	cuGraphGetNodes(graph, ret, n))
RT_FORWARD(cudaGraphGetRootNodes, (CUgraph graph, CUgraphNode *ret, size_t *n),
	cuGraphGetRootNodes(graph, ret, n))
RT_FORWARD(cudaGraphNodeGetType, (CUgraphNode node, int *ret), cuGraphNodeGetType(node, ret))
RT_FORWARD(cudaGraphAddEmptyNode,
	(CUgraphNode * ret, CUgraph graph, const CUgraphNode *deps, size_t n),
	cuGraphAddEmptyNode(ret, graph, deps, n))
RT_FORWARD(cudaGraphAddHostNode,
	(CUgraphNode * ret, CUgraph graph, const CUgraphNode *deps, size_t n,
		const struct CUDA_HOST_NODE_PARAMS *params),
	cuGraphAddHostNode(ret, graph, deps, n, params))
RT_FORWARD(cudaGraphAddMemsetNode,
	(CUgraphNode * ret, CUgraph graph, const CUgraphNode *deps, size_t n,
		const struct cudaMemsetParams *params),
	cuGraphAddMemsetNode(ret, graph, deps, n, (const void *)params, NULL))
RT_FORWARD(cudaGraphExecDestroy, (CUgraphExec exec), cuGraphExecDestroy(exec))
RT_FORWARD_PT(
	cudaGraphLaunch, ptsz, (CUgraphExec exec, CUstream stream), cuGraphLaunch, (exec, stream))
RT_FORWARD_PT(
	cudaGraphUpload, ptsz, (CUgraphExec exec, CUstream stream), cuGraphUpload, (exec, stream))
RT_FORWARD(cudaGraphInstantiateWithFlags,
	(CUgraphExec * ret, CUgraph graph, unsigned long long flags),
	cuGraphInstantiateWithFlags(ret, graph, flags))
RT_FORWARD(cudaGraphInstantiateWithParams,
	(CUgraphExec * ret, CUgraph graph, struct CUDA_GRAPH_INSTANTIATE_PARAMS *params),
	cuGraphInstantiateWithParams(ret, graph, params))

#if RT_VERSION >= 12000
RT_FORWARD(cudaGraphInstantiate, (CUgraphExec * ret, CUgraph graph, unsigned long long flags),
	cuGraphInstantiateWithFlags(ret, graph, flags))
RT_FORWARD(cudaGraphExecUpdate,
	(CUgraphExec exec, CUgraph graph, struct CUgraphExecUpdateResultInfo *ret),
	cuGraphExecUpdate_v2(exec, graph, ret))
#else
RT_FORWARD(cudaGraphInstantiate,
	(CUgraphExec * ret, CUgraph graph, CUgraphNode *ret_node, char *log, size_t size),
	cuGraphInstantiate_v2(ret, graph, ret_node, log, size))
RT_FORWARD(cudaGraphExecUpdate,
	(CUgraphExec exec, CUgraph graph, CUgraphNode *ret_node, int *ret_result),
	cuGraphExecUpdate(exec, graph, ret_node, ret_result))
#endif
#if RT_VERSION >= 13000
RT_FORWARD(cudaGraphGetEdges,
	(CUgraph graph, CUgraphNode *from, CUgraphNode *to, struct CUgraphEdgeData *edges,
		size_t *n),
	cuGraphGetEdges_v2(graph, from, to, edges, n))
RT_FORWARD(cudaGraphAddDependencies,
	(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
		const struct CUgraphEdgeData *edges, size_t n),
	cuGraphAddDependencies_v2(graph, from, to, edges, n))
RT_FORWARD(cudaGraphNodeGetDependencies,
	(CUgraphNode node, CUgraphNode *ret, struct CUgraphEdgeData *edges, size_t *n),
	cuGraphNodeGetDependencies_v2(node, ret, edges, n))
#else
RT_FORWARD(cudaGraphGetEdges, (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n),
	cuGraphGetEdges(graph, from, to, n))
RT_FORWARD(cudaGraphAddDependencies,
	(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n),
	cuGraphAddDependencies(graph, from, to, n))
RT_FORWARD(cudaGraphNodeGetDependencies, (CUgraphNode node, CUgraphNode *ret, size_t *n),
	cuGraphNodeGetDependencies(node, ret, n))
#endif

/* Nodes of graphs name a kernel as launches do: by its address on the host. */
static int kernel_params(
	const struct cudaKernelNodeParams *from, struct CUDA_KERNEL_NODE_PARAMS *ret)
{
	CUfunction function;
	int error = from == NULL ? cudaErrorInvalidValue : rt_function_find(from->func, &function);

	if (error == 0) {
		*ret = (struct CUDA_KERNEL_NODE_PARAMS){function, from->gridDim.x, from->gridDim.y,
			from->gridDim.z, from->blockDim.x, from->blockDim.y, from->blockDim.z,
			from->sharedMemBytes, from->kernelParams, from->extra, NULL, NULL};
	}
	return error;
}

RT_API int cudaGraphAddKernelNode(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps,
	size_t n, const struct cudaKernelNodeParams *params);
RT_API int cudaGraphAddKernelNode(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps,
	size_t n, const struct cudaKernelNodeParams *params)
{
	struct CUDA_KERNEL_NODE_PARAMS p;
	int error = kernel_params(params, &p);

	return rt_done(error != 0
			       ? error
			       : (int)rt_driver.cuGraphAddKernelNode_v2(ret, graph, deps, n, &p));
}

RT_API int cudaGraphExecKernelNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const struct cudaKernelNodeParams *params);
RT_API int cudaGraphExecKernelNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const struct cudaKernelNodeParams *params)
{
	struct CUDA_KERNEL_NODE_PARAMS p;
	int error = kernel_params(params, &p);

	return rt_done(error != 0
			       ? error
			       : (int)rt_driver.cuGraphExecKernelNodeSetParams_v2(exec, node, &p));
}

RT_API int cudaGraphKernelNodeGetParams(CUgraphNode node, struct cudaKernelNodeParams *ret);
RT_API int cudaGraphKernelNodeGetParams(CUgraphNode node, struct cudaKernelNodeParams *ret)
{
	struct CUDA_KERNEL_NODE_PARAMS p;
	int error = ret == NULL ? cudaErrorInvalidValue : rt_enter();

	if (error == 0) {
		error = (int)rt_driver.cuGraphKernelNodeGetParams_v2(node, &p);
	}
	if (error == 0) {
		*ret = (struct cudaKernelNodeParams){(void *)rt_function_host(p.func),
			{p.gridDimX, p.gridDimY, p.gridDimZ},
			{p.blockDimX, p.blockDimY, p.blockDimZ}, p.sharedMemBytes, p.kernelParams,
			p.extra};
	}
	return rt_done(error);
}
