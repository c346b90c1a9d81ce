/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of the CUDA driver interface that the front answers, one paragraph per file. Each
 * behaves as in the interface's documentation, unless docs/softgpu-cuda.md says otherwise.
 */
#ifndef RBT_SOFTGPU_CUDA_API_H
#define RBT_SOFTGPU_CUDA_API_H

#include "softgpu/cuda/cuda_abi.h"

#pragma GCC visibility push(default)

/* capture.c */
CUresult cuThreadExchangeStreamCaptureMode(int *mode);

/* capture_api.c */
CUresult cuStreamBeginCapture_v2(CUstream handle, int mode);
CUresult cuStreamBeginCapture(CUstream handle);
CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode *deps,
	const struct CUgraphEdgeData *edges, size_t n_deps, int mode);
CUresult cuStreamEndCapture(CUstream handle, CUgraph *ret_graph);
CUresult cuStreamIsCapturing(CUstream handle, int *ret_status);
CUresult cuStreamGetCaptureInfo_v2(CUstream handle, int *ret_status, unsigned long long *ret_id,
	CUgraph *ret_graph, const CUgraphNode **ret_deps, size_t *ret_n_deps);
CUresult cuStreamGetCaptureInfo_v3(CUstream handle, int *ret_status, unsigned long long *ret_id,
	CUgraph *ret_graph, const CUgraphNode **ret_deps, const struct CUgraphEdgeData **ret_edges,
	size_t *ret_n_deps);
CUresult cuStreamGetCaptureInfo(CUstream handle, int *ret_status, unsigned long long *ret_id);
CUresult cuStreamUpdateCaptureDependencies(
	CUstream handle, CUgraphNode *deps, size_t n_deps, unsigned flags);
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode *deps,
	const struct CUgraphEdgeData *edges, size_t n_deps, unsigned flags);

/* context.c */
CUresult cuCtxCreate_v2(CUcontext *ret_ctx, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v3(
	CUcontext *ret_ctx, void *affinity, int n_affinity, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v4(
	CUcontext *ret_ctx, struct CUctxCreateParams *params, unsigned flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext ctx);
CUresult cuCtxPushCurrent_v2(CUcontext ctx);
CUresult cuCtxPopCurrent_v2(CUcontext *ret_ctx);
CUresult cuCtxSetCurrent(CUcontext ctx);
CUresult cuCtxGetCurrent(CUcontext *ret_ctx);

/* context_api.c */
CUresult cuCtxGetDevice_v2(CUdevice *ret_device, CUcontext handle);
CUresult cuCtxGetDevice(CUdevice *ret_device);
CUresult cuCtxGetFlags(unsigned *ret_flags);
CUresult cuCtxSetFlags(unsigned flags);
CUresult cuCtxGetId(CUcontext handle, unsigned long long *ret_id);
CUresult cuCtxGetApiVersion(CUcontext handle, unsigned *ret_version);
CUresult cuCtxSynchronize_v2(CUcontext handle);
CUresult cuCtxSynchronize(void);
CUresult cuCtxGetLimit(size_t *ret_value, int limit);
CUresult cuCtxSetLimit(int limit, size_t value);
CUresult cuCtxGetCacheConfig(int *ret_config);
CUresult cuCtxSetCacheConfig(int config);
CUresult cuCtxGetSharedMemConfig(int *ret_config);
CUresult cuCtxSetSharedMemConfig(int config);
CUresult cuCtxGetStreamPriorityRange(int *ret_least, int *ret_greatest);
CUresult cuCtxResetPersistingL2Cache(void);
CUresult cuDevicePrimaryCtxRetain(CUcontext *ret_ctx, CUdevice device);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *ret_flags, int *ret_active);
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags);
CUresult cuDevicePrimaryCtxRelease(CUdevice device);
CUresult cuDevicePrimaryCtxReset(CUdevice device);

/* copy_api.c */
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size);
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t size);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size);
CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t size);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size);
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t size);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream);
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size);
CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t size);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream);
CUresult cuMemcpyPeer(
	CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t size);
CUresult cuMemcpyPeer_ptds(
	CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t size);
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx,
	size_t size, CUstream stream);
CUresult cuMemcpy2D_v2(const struct CUDA_MEMCPY2D *p);
CUresult cuMemcpy2D_v2_ptds(const struct CUDA_MEMCPY2D *p);
CUresult cuMemcpy2DUnaligned_v2(const struct CUDA_MEMCPY2D *p);
CUresult cuMemcpy2DUnaligned_v2_ptds(const struct CUDA_MEMCPY2D *p);
CUresult cuMemcpy2DAsync_v2(const struct CUDA_MEMCPY2D *p, CUstream stream);
CUresult cuMemcpy3D_v2(const struct CUDA_MEMCPY3D *p);
CUresult cuMemcpy3D_v2_ptds(const struct CUDA_MEMCPY3D *p);
CUresult cuMemcpy3DAsync_v2(const struct CUDA_MEMCPY3D *p, CUstream stream);
CUresult cuMemcpy3DPeer(const struct CUDA_MEMCPY3D *p);
CUresult cuMemcpy3DPeer_ptds(const struct CUDA_MEMCPY3D *p);
CUresult cuMemcpy3DPeerAsync(const struct CUDA_MEMCPY3D *p, CUstream stream);

/* device.c */
CUresult cuDeviceGet(CUdevice *ret_device, int ordinal);
CUresult cuDeviceGetCount(int *ret_count);
CUresult cuDeviceGetName(char *name, int size, CUdevice device);
CUresult cuDeviceGetUuid(struct CUuuid *ret_uuid, CUdevice device);
CUresult cuDeviceGetUuid_v2(struct CUuuid *ret_uuid, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *ret_bytes, CUdevice device);
CUresult cuDeviceGetAttribute(int *ret_value, int attribute, CUdevice device);
CUresult cuDeviceGetProperties(struct CUdevprop *ret, CUdevice device);
CUresult cuDeviceComputeCapability(int *ret_major, int *ret_minor, CUdevice device);
CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device);
CUresult cuDeviceGetByPCIBusId(CUdevice *ret_device, const char *id);
CUresult cuDeviceCanAccessPeer(int *ret_can, CUdevice device, CUdevice peer);
CUresult cuDeviceGetP2PAttribute(int *ret_value, int attribute, CUdevice device, CUdevice peer);
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags);
CUresult cuCtxDisablePeerAccess(CUcontext peer);

/* error.c */
CUresult cuGetErrorName(int result, const char **ret_name);
CUresult cuGetErrorString(int result, const char **ret_text);

/* event.c */
CUresult cuEventCreate(CUevent *ret_event, unsigned flags);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned flags);
CUresult cuEventRecord(CUevent event, CUstream handle);
CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime(float *ret_ms, CUevent start, CUevent end);
CUresult cuEventElapsedTime_v2(float *ret_ms, CUevent start, CUevent end);

/* exec.c */
CUresult cuGraphInstantiateWithFlags(
	CUgraphExec *ret_exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphInstantiate_v2(CUgraphExec *ret_exec, CUgraph graph, CUgraphNode *ret_error_node,
	char *log, size_t log_size);
CUresult cuGraphInstantiate(CUgraphExec *ret_exec, CUgraph graph, CUgraphNode *ret_error_node,
	char *log, size_t log_size);
CUresult cuGraphInstantiateWithParams(
	CUgraphExec *ret_exec, CUgraph graph, struct CUDA_GRAPH_INSTANTIATE_PARAMS *params);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphExecGetFlags(CUgraphExec exec, unsigned long long *ret_flags);
CUresult cuGraphUpload(CUgraphExec exec, CUstream handle);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle);
CUresult cuGraphExecKernelNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphExecKernelNodeSetParams_v2(
	CUgraphExec exec, CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
	const struct CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx);
CUresult cuGraphExecMemcpyNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const struct CUDA_MEMCPY3D *params, CUcontext ctx);
CUresult cuGraphExecHostNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const struct CUDA_HOST_NODE_PARAMS *params);
CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled);
CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned *ret_enabled);
CUresult cuGraphExecUpdate_v2(
	CUgraphExec exec, CUgraph graph, struct CUgraphExecUpdateResultInfo *ret_info);
CUresult cuGraphExecUpdate(
	CUgraphExec exec, CUgraph graph, CUgraphNode *ret_error_node, int *ret_result);

/* fill_api.c */
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n);
CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t n);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream);
CUresult cuMemsetD2D8_v2(
	CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height);
CUresult cuMemsetD2D8_v2_ptds(
	CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height);
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
	size_t height, CUstream stream);
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t n);
CUresult cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t n);
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n, CUstream stream);
CUresult cuMemsetD2D16_v2(
	CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height);
CUresult cuMemsetD2D16_v2_ptds(
	CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height);
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
	size_t height, CUstream stream);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t n);
CUresult cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned value, size_t n);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream);
CUresult cuMemsetD2D32_v2(
	CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height);
CUresult cuMemsetD2D32_v2_ptds(
	CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height);
CUresult cuMemsetD2D32Async(
	CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream);

/* function.c */
CUresult cuFuncGetAttribute(int *ret_value, int attribute, CUfunction handle);
CUresult cuFuncSetAttribute(CUfunction handle, int attribute, int value);
CUresult cuFuncSetCacheConfig(CUfunction handle, int config);
CUresult cuFuncSetSharedMemConfig(CUfunction handle, int config);
CUresult cuFuncGetModule(CUmodule *ret_module, CUfunction handle);
CUresult cuFuncGetName(const char **ret_name, CUfunction handle);
CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *ret_offset, size_t *ret_size);
CUresult cuFuncIsLoaded(int *ret_state, CUfunction handle);
CUresult cuFuncLoad(CUfunction handle);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *ret_blocks, CUfunction handle, int threads, size_t dynamic, unsigned flags);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *ret_blocks, CUfunction handle, int threads, size_t dynamic);
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *ret_grid, int *ret_block, CUfunction handle,
	CUoccupancyB2DSize dynamic_of, size_t dynamic, int limit, unsigned flags);
CUresult cuOccupancyMaxPotentialBlockSize(int *ret_grid, int *ret_block, CUfunction handle,
	CUoccupancyB2DSize dynamic_of, size_t dynamic, int limit);
CUresult cuOccupancyAvailableDynamicSMemPerBlock(
	size_t *ret_bytes, CUfunction handle, int blocks, int threads);

/* graph_api.c */
CUresult cuGraphCreate(CUgraph *ret_graph, unsigned flags);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphClone(CUgraph *ret_clone, CUgraph graph);
CUresult cuGraphAddKernelNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, const struct CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphAddKernelNode_v2(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, const struct CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphAddMemcpyNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, const struct CUDA_MEMCPY3D *params, CUcontext given);
CUresult cuGraphAddMemsetNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, const struct CUDA_MEMSET_NODE_PARAMS *params, CUcontext given);
CUresult cuGraphAddHostNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, const struct CUDA_HOST_NODE_PARAMS *params);
CUresult cuGraphAddEmptyNode(
	CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t n_deps);
CUresult cuGraphAddChildGraphNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, CUgraph child);
CUresult cuGraphAddEventRecordNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, CUevent event);
CUresult cuGraphAddEventWaitNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
	size_t n_deps, CUevent event);
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, struct CUDA_KERNEL_NODE_PARAMS *ret_params);
CUresult cuGraphKernelNodeGetParams_v2(
	CUgraphNode node, struct CUDA_KERNEL_NODE_PARAMS *ret_params);
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphKernelNodeSetParams_v2(
	CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, struct CUDA_MEMSET_NODE_PARAMS *ret_params);
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const struct CUDA_MEMSET_NODE_PARAMS *params);
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const struct CUDA_MEMCPY3D *params);
CUresult cuGraphHostNodeGetParams(CUgraphNode node, struct CUDA_HOST_NODE_PARAMS *ret_params);
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const struct CUDA_HOST_NODE_PARAMS *params);
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *ret_graph);

/* graph_query.c */
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *ret_nodes, size_t *n_nodes);
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *ret_nodes, size_t *n_nodes);
CUresult cuGraphGetEdges(
	CUgraph graph, CUgraphNode *ret_from, CUgraphNode *ret_to, size_t *n_edges);
CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *ret_from, CUgraphNode *ret_to,
	struct CUgraphEdgeData *ret_edges, size_t *n_edges);
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *ret_nodes, size_t *n_nodes);
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *ret_nodes,
	struct CUgraphEdgeData *ret_edges, size_t *n_nodes);
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *ret_nodes, size_t *n_nodes);
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *ret_nodes,
	struct CUgraphEdgeData *ret_edges, size_t *n_nodes);
CUresult cuGraphAddDependencies(
	CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n);
CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	const struct CUgraphEdgeData *edges, size_t n);
CUresult cuGraphRemoveDependencies(
	CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n);
CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	const struct CUgraphEdgeData *edges, size_t n);
CUresult cuGraphNodeGetType(CUgraphNode node, int *ret_type);
CUresult cuGraphDestroyNode(CUgraphNode node);
CUresult cuGraphNodeFindInClone(CUgraphNode *ret_node, CUgraphNode origin, CUgraph clone);

/* host_memory.c */
CUresult cuMemHostAlloc(void **ret_host, size_t size, unsigned flags);
CUresult cuMemAllocHost_v2(void **ret_host, size_t size);
CUresult cuMemAllocManaged(CUdeviceptr *ret_address, size_t size, unsigned flags);
CUresult cuMemFreeHost(void *p);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *ret_address, void *p, unsigned flags);
CUresult cuMemHostGetFlags(unsigned *ret_flags, void *p);
CUresult cuMemHostRegister_v2(void *p, size_t size, unsigned flags);
CUresult cuMemHostUnregister(void *p);
CUresult cuMemAdvise(CUdeviceptr address, size_t size, int advice, CUdevice device);
CUresult cuMemAdvise_v2(
	CUdeviceptr address, size_t size, int advice, struct CUmemLocation location);
CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t size, CUdevice device, CUstream handle);
CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t size, struct CUmemLocation location,
	unsigned flags, CUstream handle);

/* init.c */
CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int *ret_version);
CUresult cuGetExportTable(const void **ret_table, const struct CUuuid *id);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

/* launch.c */
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
	unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream stream,
	void **params, void **extra);
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
	unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
	CUstream stream, void **params);
CUresult cuLaunchKernelEx(
	const struct CUlaunchConfig *config, CUfunction function, void **params, void **extra);
CUresult cuLaunchKernelEx_ptsz(
	const struct CUlaunchConfig *config, CUfunction function, void **params, void **extra);

/* library.c */
CUresult cuLibraryLoadData(CUlibrary *ret_library, const void *code, const int *jit_options,
	void **jit_values, unsigned n_jit, const int *options, void **values, unsigned n_options);
CUresult cuLibraryLoadFromFile(CUlibrary *ret_library, const char *path, const int *jit_options,
	void **jit_values, unsigned n_jit, const int *options, void **values, unsigned n_options);
CUresult cuLibraryUnload(CUlibrary library);
CUresult cuLibraryGetKernel(CUkernel *ret_kernel, CUlibrary library, const char *name);
CUresult cuLibraryGetKernelCount(unsigned *ret_count, CUlibrary library);
CUresult cuLibraryEnumerateKernels(CUkernel *ret_kernels, unsigned room, CUlibrary library);
CUresult cuLibraryGetModule(CUmodule *ret_module, CUlibrary library);
CUresult cuLibraryGetGlobal(
	CUdeviceptr *ret_address, size_t *ret_size, CUlibrary library, const char *name);
CUresult cuKernelGetFunction(CUfunction *ret_function, CUkernel kernel);
CUresult cuKernelGetLibrary(CUlibrary *ret_library, CUkernel kernel);
CUresult cuKernelGetName(const char **ret_name, CUkernel kernel);
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *ret_offset, size_t *ret_size);
CUresult cuKernelGetAttribute(int *ret_value, int attribute, CUkernel kernel, CUdevice device);
CUresult cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice device);
CUresult cuKernelSetCacheConfig(CUkernel kernel, int config, CUdevice device);

/* linker.c */
CUresult cuLinkCreate_v2(unsigned n_options, int *options, void **values, CUlinkState *ret_state);
CUresult cuLinkAddData_v2(CUlinkState state, int type, void *data, size_t size, const char *name,
	unsigned n_options, int *options, void **values);
CUresult cuLinkAddFile_v2(CUlinkState state, int type, const char *path, unsigned n_options,
	int *options, void **values);
CUresult cuLinkComplete(CUlinkState state, void **ret_image, size_t *ret_size);
CUresult cuLinkDestroy(CUlinkState state);

/* memory.c */
CUresult cuMemAlloc_v2(CUdeviceptr *ret_address, size_t size);
CUresult cuMemAllocPitch_v2(
	CUdeviceptr *ret_address, size_t *ret_pitch, size_t width, size_t height, unsigned element);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *ret_base, size_t *ret_size, CUdeviceptr address);
CUresult cuMemAllocAsync(CUdeviceptr *ret_address, size_t size, CUstream handle);
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle);

/* mempool.c */
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *ret_pool, CUdevice device);
CUresult cuDeviceGetMemPool(CUmemoryPool *ret_pool, CUdevice device);
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);
CUresult cuMemPoolCreate(CUmemoryPool *ret_pool, const struct CUmemPoolProps *props);
CUresult cuMemPoolDestroy(CUmemoryPool pool);
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value);
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value);
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep);
CUresult cuMemAllocFromPoolAsync(
	CUdeviceptr *ret_address, size_t size, CUmemoryPool pool, CUstream stream);

/* module.c */
CUresult cuModuleLoadData(CUmodule *ret_module, const void *image);
CUresult cuModuleLoadDataEx(CUmodule *ret_module, const void *image, unsigned n_options,
	const int *options, void **values);
CUresult cuModuleLoadFatBinary(CUmodule *ret_module, const void *image);
CUresult cuModuleLoad(CUmodule *ret_module, const char *path);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *ret_function, CUmodule module, const char *name);
CUresult cuModuleGetGlobal_v2(
	CUdeviceptr *ret_address, size_t *ret_size, CUmodule module, const char *name);
CUresult cuModuleGetFunctionCount(unsigned *ret_count, CUmodule module);
CUresult cuModuleEnumerateFunctions(CUfunction *ret_functions, unsigned room, CUmodule module);
CUresult cuModuleGetLoadingMode(int *ret_mode);

/* per_thread.c */
CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from, size_t n, CUstream s);
CUresult cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t n, CUstream s);
CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s);
CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s);
CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
	CUcontext from_ctx, size_t n, CUstream s);
CUresult cuMemcpy2DAsync_v2_ptsz(const struct CUDA_MEMCPY2D *p, CUstream s);
CUresult cuMemcpy3DAsync_v2_ptsz(const struct CUDA_MEMCPY3D *p, CUstream s);
CUresult cuMemcpy3DPeerAsync_ptsz(const struct CUDA_MEMCPY3D *p, CUstream s);
CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char v, size_t n, CUstream s);
CUresult cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short v, size_t n, CUstream s);
CUresult cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned v, size_t n, CUstream s);
CUresult cuMemsetD2D8Async_ptsz(
	CUdeviceptr to, size_t pitch, unsigned char v, size_t width, size_t height, CUstream s);
CUresult cuMemsetD2D16Async_ptsz(
	CUdeviceptr to, size_t pitch, unsigned short v, size_t width, size_t height, CUstream s);
CUresult cuMemsetD2D32Async_ptsz(
	CUdeviceptr to, size_t pitch, unsigned v, size_t width, size_t height, CUstream s);
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *ret, size_t n, CUstream s);
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *ret, size_t n, CUmemoryPool pool, CUstream s);
CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream s);
CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr address, size_t n, CUdevice device, CUstream s);
CUresult cuMemPrefetchAsync_v2_ptsz(
	CUdeviceptr address, size_t n, struct CUmemLocation location, unsigned flags, CUstream s);
CUresult cuStreamGetPriority_ptsz(CUstream s, int *ret);
CUresult cuStreamGetFlags_ptsz(CUstream s, unsigned *ret);
CUresult cuStreamGetId_ptsz(CUstream s, unsigned long long *ret);
CUresult cuStreamGetCtx_ptsz(CUstream s, CUcontext *ret);
CUresult cuStreamGetCtx_v2_ptsz(CUstream s, CUcontext *ret, void **green);
CUresult cuStreamGetDevice_ptsz(CUstream s, CUdevice *ret);
CUresult cuStreamWaitEvent_ptsz(CUstream s, CUevent event, unsigned flags);
CUresult cuStreamAddCallback_ptsz(
	CUstream s, CUstreamCallback callback, void *user, unsigned flags);
CUresult cuStreamAttachMemAsync_ptsz(CUstream s, CUdeviceptr address, size_t n, unsigned flags);
CUresult cuStreamQuery_ptsz(CUstream s);
CUresult cuStreamSynchronize_ptsz(CUstream s);
CUresult cuStreamBeginCapture_ptsz(CUstream s);
CUresult cuStreamBeginCapture_v2_ptsz(CUstream s, int mode);
CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream s, CUgraph graph, const CUgraphNode *deps,
	const struct CUgraphEdgeData *edges, size_t n, int mode);
CUresult cuStreamEndCapture_ptsz(CUstream s, CUgraph *ret);
CUresult cuStreamIsCapturing_ptsz(CUstream s, int *ret);
CUresult cuStreamGetCaptureInfo_ptsz(CUstream s, int *status, unsigned long long *id);
CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream s, int *status, unsigned long long *id,
	CUgraph *graph, const CUgraphNode **deps, size_t *n);
CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream s, int *status, unsigned long long *id,
	CUgraph *graph, const CUgraphNode **deps, const struct CUgraphEdgeData **edges, size_t *n);
CUresult cuStreamUpdateCaptureDependencies_ptsz(
	CUstream s, CUgraphNode *deps, size_t n, unsigned flags);
CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream s, CUgraphNode *deps,
	const struct CUgraphEdgeData *edges, size_t n, unsigned flags);
CUresult cuEventRecord_ptsz(CUevent event, CUstream s);
CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream s, unsigned flags);
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
	unsigned by, unsigned bz, unsigned shared, CUstream s, void **params, void **extra);
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
	unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void **params);
CUresult cuLaunchHostFunc_ptsz(CUstream s, CUhostFn fn, void *user);
CUresult cuGraphInstantiateWithParams_ptsz(
	CUgraphExec *ret, CUgraph graph, struct CUDA_GRAPH_INSTANTIATE_PARAMS *params);
CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream s);
CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream s);

/* pointer.c */
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer);
CUresult cuPointerGetAttributes(
	unsigned n, const int *attributes, void **data, CUdeviceptr pointer);
CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr pointer);

/* proc.c */
CUresult cuGetProcAddress_v2(
	const char *symbol, void **ret_fn, int version, uint64_t flags, int *ret_status);
CUresult cuGetProcAddress_v2_ptsz(
	const char *symbol, void **ret_fn, int version, uint64_t flags, int *ret_status);
CUresult cuGetProcAddress(const char *symbol, void **ret_fn, int version, uint64_t flags);

/* stream.c */
CUresult cuStreamCreateWithPriority(CUstream *ret_stream, unsigned flags, int priority);
CUresult cuStreamCreate(CUstream *ret_stream, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream handle);
CUresult cuStreamQuery(CUstream handle);
CUresult cuStreamSynchronize(CUstream handle);
CUresult cuStreamGetFlags(CUstream handle, unsigned *ret_flags);
CUresult cuStreamGetPriority(CUstream handle, int *ret_priority);
CUresult cuStreamGetCtx(CUstream handle, CUcontext *ret_ctx);
CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *ret_ctx, void **ret_green);
CUresult cuStreamGetDevice(CUstream handle, CUdevice *ret_device);
CUresult cuStreamGetId(CUstream handle, unsigned long long *ret_id);
CUresult cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *user);
CUresult cuStreamAddCallback(
	CUstream handle, CUstreamCallback callback, void *user, unsigned flags);
CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t size, unsigned flags);

#pragma GCC visibility pop

#endif
