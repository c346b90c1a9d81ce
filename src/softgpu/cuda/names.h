/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every name of the driver interface that is known here: the name that a program asks for, the
 * version of CUDA that brought this form of it, and the symbol. X: supported; XP: with another form
 * for threads' own default streams; XA: not supported, returns CUDA_ERROR_NOT_SUPPORTED. Names and
 * versions are the interface's; forms from before CUDA 3.2 are omitted.
 */
#ifndef RBT_SOFTGPU_CUDA_NAMES_H
#define RBT_SOFTGPU_CUDA_NAMES_H

/* clang-format off */
#define FRONT_NAMES(X, XP, XA) \
	XA(cuArray3DCreate, 2000, cuArray3DCreate) \
	XA(cuArray3DCreate, 3020, cuArray3DCreate_v2) \
	XA(cuArray3DGetDescriptor, 2000, cuArray3DGetDescriptor) \
	XA(cuArray3DGetDescriptor, 3020, cuArray3DGetDescriptor_v2) \
	XA(cuArrayCreate, 2000, cuArrayCreate) \
	XA(cuArrayCreate, 3020, cuArrayCreate_v2) \
	XA(cuArrayDestroy, 2000, cuArrayDestroy) \
	XA(cuArrayGetDescriptor, 2000, cuArrayGetDescriptor) \
	XA(cuArrayGetDescriptor, 3020, cuArrayGetDescriptor_v2) \
	XA(cuArrayGetMemoryRequirements, 11060, cuArrayGetMemoryRequirements) \
	XA(cuArrayGetPlane, 11020, cuArrayGetPlane) \
	XA(cuArrayGetSparseProperties, 11010, cuArrayGetSparseProperties) \
	X(cuCtxCreate, 3020, cuCtxCreate_v2) \
	X(cuCtxCreate, 11040, cuCtxCreate_v3) \
	X(cuCtxCreate, 12050, cuCtxCreate_v4) \
	X(cuCtxDestroy, 4000, cuCtxDestroy_v2) \
	X(cuCtxDisablePeerAccess, 4000, cuCtxDisablePeerAccess) \
	X(cuCtxEnablePeerAccess, 4000, cuCtxEnablePeerAccess) \
	XA(cuCtxFromGreenCtx, 12040, cuCtxFromGreenCtx) \
	X(cuCtxGetApiVersion, 3020, cuCtxGetApiVersion) \
	X(cuCtxGetCacheConfig, 3020, cuCtxGetCacheConfig) \
	X(cuCtxGetCurrent, 4000, cuCtxGetCurrent) \
	XA(cuCtxGetDevResource, 12040, cuCtxGetDevResource) \
	X(cuCtxGetDevice, 2000, cuCtxGetDevice) \
	X(cuCtxGetDevice, 13000, cuCtxGetDevice_v2) \
	XA(cuCtxGetExecAffinity, 11040, cuCtxGetExecAffinity) \
	X(cuCtxGetFlags, 7000, cuCtxGetFlags) \
	X(cuCtxGetId, 12000, cuCtxGetId) \
	X(cuCtxGetLimit, 3010, cuCtxGetLimit) \
	X(cuCtxGetSharedMemConfig, 4020, cuCtxGetSharedMemConfig) \
	X(cuCtxGetStreamPriorityRange, 5050, cuCtxGetStreamPriorityRange) \
	X(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2) \
	X(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2) \
	XA(cuCtxRecordEvent, 12050, cuCtxRecordEvent) \
	X(cuCtxResetPersistingL2Cache, 11000, cuCtxResetPersistingL2Cache) \
	X(cuCtxSetCacheConfig, 3020, cuCtxSetCacheConfig) \
	X(cuCtxSetCurrent, 4000, cuCtxSetCurrent) \
	X(cuCtxSetFlags, 12010, cuCtxSetFlags) \
	X(cuCtxSetLimit, 3010, cuCtxSetLimit) \
	X(cuCtxSetSharedMemConfig, 4020, cuCtxSetSharedMemConfig) \
	X(cuCtxSynchronize, 2000, cuCtxSynchronize) \
	X(cuCtxSynchronize, 13000, cuCtxSynchronize_v2) \
	XA(cuCtxWaitEvent, 12050, cuCtxWaitEvent) \
	XA(cuDestroyExternalMemory, 10000, cuDestroyExternalMemory) \
	XA(cuDestroyExternalSemaphore, 10000, cuDestroyExternalSemaphore) \
	XA(cuDevResourceGenerateDesc, 12040, cuDevResourceGenerateDesc) \
	XA(cuDevSmResourceSplitByCount, 12040, cuDevSmResourceSplitByCount) \
	X(cuDeviceCanAccessPeer, 4000, cuDeviceCanAccessPeer) \
	X(cuDeviceComputeCapability, 2000, cuDeviceComputeCapability) \
	X(cuDeviceGet, 2000, cuDeviceGet) \
	X(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute) \
	X(cuDeviceGetByPCIBusId, 4010, cuDeviceGetByPCIBusId) \
	X(cuDeviceGetCount, 2000, cuDeviceGetCount) \
	X(cuDeviceGetDefaultMemPool, 11020, cuDeviceGetDefaultMemPool) \
	XA(cuDeviceGetDevResource, 12040, cuDeviceGetDevResource) \
	XA(cuDeviceGetExecAffinitySupport, 11040, cuDeviceGetExecAffinitySupport) \
	XA(cuDeviceGetGraphMemAttribute, 11040, cuDeviceGetGraphMemAttribute) \
	XA(cuDeviceGetHostAtomicCapabilities, 13000, cuDeviceGetHostAtomicCapabilities) \
	X(cuDeviceGetMemPool, 11020, cuDeviceGetMemPool) \
	X(cuDeviceGetName, 2000, cuDeviceGetName) \
	XA(cuDeviceGetP2PAtomicCapabilities, 13000, cuDeviceGetP2PAtomicCapabilities) \
	X(cuDeviceGetP2PAttribute, 8000, cuDeviceGetP2PAttribute) \
	X(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId) \
	X(cuDeviceGetProperties, 2000, cuDeviceGetProperties) \
	XA(cuDeviceGetTexture1DLinearMaxWidth, 11010, cuDeviceGetTexture1DLinearMaxWidth) \
	X(cuDeviceGetUuid, 9020, cuDeviceGetUuid) \
	X(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2) \
	XA(cuDeviceGraphMemTrim, 11040, cuDeviceGraphMemTrim) \
	X(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState) \
	X(cuDevicePrimaryCtxRelease, 7000, cuDevicePrimaryCtxRelease) \
	X(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2) \
	X(cuDevicePrimaryCtxReset, 7000, cuDevicePrimaryCtxReset) \
	X(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2) \
	X(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain) \
	X(cuDevicePrimaryCtxSetFlags, 7000, cuDevicePrimaryCtxSetFlags) \
	X(cuDevicePrimaryCtxSetFlags, 11000, cuDevicePrimaryCtxSetFlags_v2) \
	XA(cuDeviceSetGraphMemAttribute, 11040, cuDeviceSetGraphMemAttribute) \
	X(cuDeviceSetMemPool, 11020, cuDeviceSetMemPool) \
	X(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2) \
	X(cuDriverGetVersion, 2020, cuDriverGetVersion) \
	X(cuEventCreate, 2000, cuEventCreate) \
	X(cuEventDestroy, 4000, cuEventDestroy_v2) \
	X(cuEventElapsedTime, 2000, cuEventElapsedTime) \
	X(cuEventElapsedTime, 12080, cuEventElapsedTime_v2) \
	X(cuEventQuery, 2000, cuEventQuery) \
	XP(cuEventRecord, 2000, cuEventRecord, cuEventRecord_ptsz) \
	XP(cuEventRecordWithFlags, 11010, cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz) \
	X(cuEventSynchronize, 2000, cuEventSynchronize) \
	XA(cuExternalMemoryGetMappedBuffer, 10000, cuExternalMemoryGetMappedBuffer) \
	XA(cuExternalMemoryGetMappedMipmappedArray, 10000, \
		cuExternalMemoryGetMappedMipmappedArray) \
	XA(cuFlushGPUDirectRDMAWrites, 11030, cuFlushGPUDirectRDMAWrites) \
	X(cuFuncGetAttribute, 2020, cuFuncGetAttribute) \
	X(cuFuncGetModule, 11000, cuFuncGetModule) \
	X(cuFuncGetName, 12030, cuFuncGetName) \
	X(cuFuncGetParamInfo, 12040, cuFuncGetParamInfo) \
	X(cuFuncIsLoaded, 12040, cuFuncIsLoaded) \
	X(cuFuncLoad, 12040, cuFuncLoad) \
	X(cuFuncSetAttribute, 9000, cuFuncSetAttribute) \
	X(cuFuncSetCacheConfig, 3000, cuFuncSetCacheConfig) \
	X(cuFuncSetSharedMemConfig, 4020, cuFuncSetSharedMemConfig) \
	X(cuGetErrorName, 6000, cuGetErrorName) \
	X(cuGetErrorString, 6000, cuGetErrorString) \
	X(cuGetExportTable, 3000, cuGetExportTable) \
	X(cuGetProcAddress, 11030, cuGetProcAddress) \
	XP(cuGetProcAddress, 12000, cuGetProcAddress_v2, cuGetProcAddress_v2_ptsz) \
	XA(cuGraphAddBatchMemOpNode, 11070, cuGraphAddBatchMemOpNode) \
	X(cuGraphAddChildGraphNode, 10000, cuGraphAddChildGraphNode) \
	X(cuGraphAddDependencies, 10000, cuGraphAddDependencies) \
	X(cuGraphAddDependencies, 12030, cuGraphAddDependencies_v2) \
	X(cuGraphAddEmptyNode, 10000, cuGraphAddEmptyNode) \
	X(cuGraphAddEventRecordNode, 11010, cuGraphAddEventRecordNode) \
	X(cuGraphAddEventWaitNode, 11010, cuGraphAddEventWaitNode) \
	XA(cuGraphAddExternalSemaphoresSignalNode, 11020, \
		cuGraphAddExternalSemaphoresSignalNode) \
	XA(cuGraphAddExternalSemaphoresWaitNode, 11020, cuGraphAddExternalSemaphoresWaitNode) \
	X(cuGraphAddHostNode, 10000, cuGraphAddHostNode) \
	X(cuGraphAddKernelNode, 10000, cuGraphAddKernelNode) \
	X(cuGraphAddKernelNode, 12000, cuGraphAddKernelNode_v2) \
	XA(cuGraphAddMemAllocNode, 11040, cuGraphAddMemAllocNode) \
	XA(cuGraphAddMemFreeNode, 11040, cuGraphAddMemFreeNode) \
	X(cuGraphAddMemcpyNode, 10000, cuGraphAddMemcpyNode) \
	X(cuGraphAddMemsetNode, 10000, cuGraphAddMemsetNode) \
	XA(cuGraphAddNode, 12020, cuGraphAddNode) \
	XA(cuGraphAddNode, 12030, cuGraphAddNode_v2) \
	XA(cuGraphBatchMemOpNodeGetParams, 11070, cuGraphBatchMemOpNodeGetParams) \
	XA(cuGraphBatchMemOpNodeSetParams, 11070, cuGraphBatchMemOpNodeSetParams) \
	X(cuGraphChildGraphNodeGetGraph, 10000, cuGraphChildGraphNodeGetGraph) \
	X(cuGraphClone, 10000, cuGraphClone) \
	XA(cuGraphConditionalHandleCreate, 12030, cuGraphConditionalHandleCreate) \
	X(cuGraphCreate, 10000, cuGraphCreate) \
	XA(cuGraphDebugDotPrint, 11030, cuGraphDebugDotPrint) \
	X(cuGraphDestroy, 10000, cuGraphDestroy) \
	X(cuGraphDestroyNode, 10000, cuGraphDestroyNode) \
	XA(cuGraphEventRecordNodeGetEvent, 11010, cuGraphEventRecordNodeGetEvent) \
	XA(cuGraphEventRecordNodeSetEvent, 11010, cuGraphEventRecordNodeSetEvent) \
	XA(cuGraphEventWaitNodeGetEvent, 11010, cuGraphEventWaitNodeGetEvent) \
	XA(cuGraphEventWaitNodeSetEvent, 11010, cuGraphEventWaitNodeSetEvent) \
	XA(cuGraphExecBatchMemOpNodeSetParams, 11070, cuGraphExecBatchMemOpNodeSetParams) \
	XA(cuGraphExecChildGraphNodeSetParams, 11010, cuGraphExecChildGraphNodeSetParams) \
	X(cuGraphExecDestroy, 10000, cuGraphExecDestroy) \
	XA(cuGraphExecEventRecordNodeSetEvent, 11010, cuGraphExecEventRecordNodeSetEvent) \
	XA(cuGraphExecEventWaitNodeSetEvent, 11010, cuGraphExecEventWaitNodeSetEvent) \
	XA(cuGraphExecExternalSemaphoresSignalNodeSetParams, 11020, \
		cuGraphExecExternalSemaphoresSignalNodeSetParams) \
	XA(cuGraphExecExternalSemaphoresWaitNodeSetParams, 11020, \
		cuGraphExecExternalSemaphoresWaitNodeSetParams) \
	X(cuGraphExecGetFlags, 12000, cuGraphExecGetFlags) \
	X(cuGraphExecHostNodeSetParams, 10020, cuGraphExecHostNodeSetParams) \
	X(cuGraphExecKernelNodeSetParams, 10010, cuGraphExecKernelNodeSetParams) \
	X(cuGraphExecKernelNodeSetParams, 12000, cuGraphExecKernelNodeSetParams_v2) \
	X(cuGraphExecMemcpyNodeSetParams, 10020, cuGraphExecMemcpyNodeSetParams) \
	X(cuGraphExecMemsetNodeSetParams, 10020, cuGraphExecMemsetNodeSetParams) \
	XA(cuGraphExecNodeSetParams, 12020, cuGraphExecNodeSetParams) \
	X(cuGraphExecUpdate, 10020, cuGraphExecUpdate) \
	X(cuGraphExecUpdate, 12000, cuGraphExecUpdate_v2) \
	XA(cuGraphExternalSemaphoresSignalNodeGetParams, 11020, \
		cuGraphExternalSemaphoresSignalNodeGetParams) \
	XA(cuGraphExternalSemaphoresSignalNodeSetParams, 11020, \
		cuGraphExternalSemaphoresSignalNodeSetParams) \
	XA(cuGraphExternalSemaphoresWaitNodeGetParams, 11020, \
		cuGraphExternalSemaphoresWaitNodeGetParams) \
	XA(cuGraphExternalSemaphoresWaitNodeSetParams, 11020, \
		cuGraphExternalSemaphoresWaitNodeSetParams) \
	X(cuGraphGetEdges, 10000, cuGraphGetEdges) \
	X(cuGraphGetEdges, 12030, cuGraphGetEdges_v2) \
	X(cuGraphGetNodes, 10000, cuGraphGetNodes) \
	X(cuGraphGetRootNodes, 10000, cuGraphGetRootNodes) \
	X(cuGraphHostNodeGetParams, 10000, cuGraphHostNodeGetParams) \
	X(cuGraphHostNodeSetParams, 10000, cuGraphHostNodeSetParams) \
	X(cuGraphInstantiate, 10000, cuGraphInstantiate) \
	X(cuGraphInstantiate, 11000, cuGraphInstantiate_v2) \
	X(cuGraphInstantiateWithFlags, 11040, cuGraphInstantiateWithFlags) \
	XP(cuGraphInstantiateWithParams, 12000, \
		cuGraphInstantiateWithParams, \
		cuGraphInstantiateWithParams_ptsz) \
	XA(cuGraphKernelNodeCopyAttributes, 11000, cuGraphKernelNodeCopyAttributes) \
	XA(cuGraphKernelNodeGetAttribute, 11000, cuGraphKernelNodeGetAttribute) \
	X(cuGraphKernelNodeGetParams, 10000, cuGraphKernelNodeGetParams) \
	X(cuGraphKernelNodeGetParams, 12000, cuGraphKernelNodeGetParams_v2) \
	XA(cuGraphKernelNodeSetAttribute, 11000, cuGraphKernelNodeSetAttribute) \
	X(cuGraphKernelNodeSetParams, 10000, cuGraphKernelNodeSetParams) \
	X(cuGraphKernelNodeSetParams, 12000, cuGraphKernelNodeSetParams_v2) \
	XP(cuGraphLaunch, 10000, cuGraphLaunch, cuGraphLaunch_ptsz) \
	XA(cuGraphMemAllocNodeGetParams, 11040, cuGraphMemAllocNodeGetParams) \
	XA(cuGraphMemFreeNodeGetParams, 11040, cuGraphMemFreeNodeGetParams) \
	XA(cuGraphMemcpyNodeGetParams, 10000, cuGraphMemcpyNodeGetParams) \
	X(cuGraphMemcpyNodeSetParams, 10000, cuGraphMemcpyNodeSetParams) \
	X(cuGraphMemsetNodeGetParams, 10000, cuGraphMemsetNodeGetParams) \
	X(cuGraphMemsetNodeSetParams, 10000, cuGraphMemsetNodeSetParams) \
	X(cuGraphNodeFindInClone, 10000, cuGraphNodeFindInClone) \
	X(cuGraphNodeGetDependencies, 10000, cuGraphNodeGetDependencies) \
	X(cuGraphNodeGetDependencies, 12030, cuGraphNodeGetDependencies_v2) \
	X(cuGraphNodeGetDependentNodes, 10000, cuGraphNodeGetDependentNodes) \
	X(cuGraphNodeGetDependentNodes, 12030, cuGraphNodeGetDependentNodes_v2) \
	X(cuGraphNodeGetEnabled, 11060, cuGraphNodeGetEnabled) \
	X(cuGraphNodeGetType, 10000, cuGraphNodeGetType) \
	X(cuGraphNodeSetEnabled, 11060, cuGraphNodeSetEnabled) \
	XA(cuGraphNodeSetParams, 12020, cuGraphNodeSetParams) \
	XA(cuGraphReleaseUserObject, 11030, cuGraphReleaseUserObject) \
	X(cuGraphRemoveDependencies, 10000, cuGraphRemoveDependencies) \
	X(cuGraphRemoveDependencies, 12030, cuGraphRemoveDependencies_v2) \
	XA(cuGraphRetainUserObject, 11030, cuGraphRetainUserObject) \
	XP(cuGraphUpload, 11010, cuGraphUpload, cuGraphUpload_ptsz) \
	XA(cuGreenCtxCreate, 12040, cuGreenCtxCreate) \
	XA(cuGreenCtxDestroy, 12040, cuGreenCtxDestroy) \
	XA(cuGreenCtxGetDevResource, 12040, cuGreenCtxGetDevResource) \
	XA(cuGreenCtxGetId, 12090, cuGreenCtxGetId) \
	XA(cuGreenCtxRecordEvent, 12040, cuGreenCtxRecordEvent) \
	XA(cuGreenCtxStreamCreate, 12050, cuGreenCtxStreamCreate) \
	XA(cuGreenCtxWaitEvent, 12040, cuGreenCtxWaitEvent) \
	XA(cuImportExternalMemory, 10000, cuImportExternalMemory) \
	XA(cuImportExternalSemaphore, 10000, cuImportExternalSemaphore) \
	X(cuInit, 2000, cuInit) \
	XA(cuIpcCloseMemHandle, 4010, cuIpcCloseMemHandle) \
	XA(cuIpcGetEventHandle, 4010, cuIpcGetEventHandle) \
	XA(cuIpcGetMemHandle, 4010, cuIpcGetMemHandle) \
	XA(cuIpcOpenEventHandle, 4010, cuIpcOpenEventHandle) \
	XA(cuIpcOpenMemHandle, 4010, cuIpcOpenMemHandle) \
	XA(cuIpcOpenMemHandle, 11000, cuIpcOpenMemHandle_v2) \
	X(cuKernelGetAttribute, 12000, cuKernelGetAttribute) \
	X(cuKernelGetFunction, 12000, cuKernelGetFunction) \
	X(cuKernelGetLibrary, 12050, cuKernelGetLibrary) \
	X(cuKernelGetName, 12030, cuKernelGetName) \
	X(cuKernelGetParamInfo, 12040, cuKernelGetParamInfo) \
	X(cuKernelSetAttribute, 12000, cuKernelSetAttribute) \
	X(cuKernelSetCacheConfig, 12000, cuKernelSetCacheConfig) \
	XP(cuLaunchCooperativeKernel, 9000, \
		cuLaunchCooperativeKernel, \
		cuLaunchCooperativeKernel_ptsz) \
	XA(cuLaunchCooperativeKernelMultiDevice, 9000, cuLaunchCooperativeKernelMultiDevice) \
	XP(cuLaunchHostFunc, 10000, cuLaunchHostFunc, cuLaunchHostFunc_ptsz) \
	XP(cuLaunchKernel, 4000, cuLaunchKernel, cuLaunchKernel_ptsz) \
	XP(cuLaunchKernelEx, 11060, cuLaunchKernelEx, cuLaunchKernelEx_ptsz) \
	X(cuLibraryEnumerateKernels, 12040, cuLibraryEnumerateKernels) \
	X(cuLibraryGetGlobal, 12000, cuLibraryGetGlobal) \
	X(cuLibraryGetKernel, 12000, cuLibraryGetKernel) \
	X(cuLibraryGetKernelCount, 12040, cuLibraryGetKernelCount) \
	XA(cuLibraryGetManaged, 12000, cuLibraryGetManaged) \
	X(cuLibraryGetModule, 12000, cuLibraryGetModule) \
	XA(cuLibraryGetUnifiedFunction, 12000, cuLibraryGetUnifiedFunction) \
	X(cuLibraryLoadData, 12000, cuLibraryLoadData) \
	X(cuLibraryLoadFromFile, 12000, cuLibraryLoadFromFile) \
	X(cuLibraryUnload, 12000, cuLibraryUnload) \
	X(cuLinkAddData, 6050, cuLinkAddData_v2) \
	X(cuLinkAddFile, 6050, cuLinkAddFile_v2) \
	X(cuLinkComplete, 5050, cuLinkComplete) \
	X(cuLinkCreate, 6050, cuLinkCreate_v2) \
	X(cuLinkDestroy, 5050, cuLinkDestroy) \
	XA(cuMemAddressFree, 10020, cuMemAddressFree) \
	XA(cuMemAddressReserve, 10020, cuMemAddressReserve) \
	X(cuMemAdvise, 8000, cuMemAdvise) \
	X(cuMemAdvise, 12020, cuMemAdvise_v2) \
	X(cuMemAlloc, 3020, cuMemAlloc_v2) \
	XP(cuMemAllocAsync, 11020, cuMemAllocAsync, cuMemAllocAsync_ptsz) \
	XP(cuMemAllocFromPoolAsync, 11020, \
		cuMemAllocFromPoolAsync, \
		cuMemAllocFromPoolAsync_ptsz) \
	X(cuMemAllocHost, 3020, cuMemAllocHost_v2) \
	X(cuMemAllocManaged, 6000, cuMemAllocManaged) \
	X(cuMemAllocPitch, 3020, cuMemAllocPitch_v2) \
	XA(cuMemBatchDecompressAsync, 12060, cuMemBatchDecompressAsync) \
	XA(cuMemCreate, 10020, cuMemCreate) \
	XA(cuMemDiscardAndPrefetchBatchAsync, 13000, cuMemDiscardAndPrefetchBatchAsync) \
	XA(cuMemDiscardBatchAsync, 13000, cuMemDiscardBatchAsync) \
	XA(cuMemExportToShareableHandle, 10020, cuMemExportToShareableHandle) \
	X(cuMemFree, 3020, cuMemFree_v2) \
	XP(cuMemFreeAsync, 11020, cuMemFreeAsync, cuMemFreeAsync_ptsz) \
	X(cuMemFreeHost, 2000, cuMemFreeHost) \
	XA(cuMemGetAccess, 10020, cuMemGetAccess) \
	X(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2) \
	XA(cuMemGetAllocationGranularity, 10020, cuMemGetAllocationGranularity) \
	XA(cuMemGetAllocationPropertiesFromHandle, 10020, \
		cuMemGetAllocationPropertiesFromHandle) \
	XA(cuMemGetDefaultMemPool, 13000, cuMemGetDefaultMemPool) \
	XA(cuMemGetHandleForAddressRange, 11070, cuMemGetHandleForAddressRange) \
	X(cuMemGetInfo, 3020, cuMemGetInfo_v2) \
	XA(cuMemGetMemPool, 13000, cuMemGetMemPool) \
	X(cuMemHostAlloc, 2020, cuMemHostAlloc) \
	X(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2) \
	X(cuMemHostGetFlags, 2030, cuMemHostGetFlags) \
	X(cuMemHostRegister, 6050, cuMemHostRegister_v2) \
	X(cuMemHostUnregister, 4000, cuMemHostUnregister) \
	XA(cuMemImportFromShareableHandle, 10020, cuMemImportFromShareableHandle) \
	XA(cuMemMap, 10020, cuMemMap) \
	XA(cuMemMapArrayAsync, 11010, cuMemMapArrayAsync) \
	X(cuMemPoolCreate, 11020, cuMemPoolCreate) \
	X(cuMemPoolDestroy, 11020, cuMemPoolDestroy) \
	XA(cuMemPoolExportPointer, 11020, cuMemPoolExportPointer) \
	XA(cuMemPoolExportToShareableHandle, 11020, cuMemPoolExportToShareableHandle) \
	XA(cuMemPoolGetAccess, 11020, cuMemPoolGetAccess) \
	X(cuMemPoolGetAttribute, 11020, cuMemPoolGetAttribute) \
	XA(cuMemPoolImportFromShareableHandle, 11020, cuMemPoolImportFromShareableHandle) \
	XA(cuMemPoolImportPointer, 11020, cuMemPoolImportPointer) \
	XA(cuMemPoolSetAccess, 11020, cuMemPoolSetAccess) \
	X(cuMemPoolSetAttribute, 11020, cuMemPoolSetAttribute) \
	X(cuMemPoolTrimTo, 11020, cuMemPoolTrimTo) \
	XP(cuMemPrefetchAsync, 8000, cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz) \
	XP(cuMemPrefetchAsync, 12020, cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz) \
	XA(cuMemPrefetchBatchAsync, 13000, cuMemPrefetchBatchAsync) \
	XA(cuMemRangeGetAttribute, 8000, cuMemRangeGetAttribute) \
	XA(cuMemRangeGetAttributes, 8000, cuMemRangeGetAttributes) \
	XA(cuMemRelease, 10020, cuMemRelease) \
	XA(cuMemRetainAllocationHandle, 11000, cuMemRetainAllocationHandle) \
	XA(cuMemSetAccess, 10020, cuMemSetAccess) \
	XA(cuMemSetMemPool, 13000, cuMemSetMemPool) \
	XA(cuMemUnmap, 10020, cuMemUnmap) \
	XP(cuMemcpy, 4000, cuMemcpy, cuMemcpy_ptds) \
	XP(cuMemcpy2D, 3020, cuMemcpy2D_v2, cuMemcpy2D_v2_ptds) \
	XP(cuMemcpy2DAsync, 3020, cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz) \
	XP(cuMemcpy2DUnaligned, 3020, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds) \
	XP(cuMemcpy3D, 3020, cuMemcpy3D_v2, cuMemcpy3D_v2_ptds) \
	XP(cuMemcpy3DAsync, 3020, cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz) \
	XA(cuMemcpy3DBatchAsync, 12080, cuMemcpy3DBatchAsync) \
	XA(cuMemcpy3DBatchAsync, 13000, cuMemcpy3DBatchAsync_v2) \
	XP(cuMemcpy3DPeer, 4000, cuMemcpy3DPeer, cuMemcpy3DPeer_ptds) \
	XP(cuMemcpy3DPeerAsync, 4000, cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz) \
	XP(cuMemcpyAsync, 4000, cuMemcpyAsync, cuMemcpyAsync_ptsz) \
	XA(cuMemcpyAtoA, 2000, cuMemcpyAtoA) \
	XA(cuMemcpyAtoA, 3020, cuMemcpyAtoA_v2) \
	XA(cuMemcpyAtoD, 2000, cuMemcpyAtoD) \
	XA(cuMemcpyAtoD, 3020, cuMemcpyAtoD_v2) \
	XA(cuMemcpyAtoH, 2000, cuMemcpyAtoH) \
	XA(cuMemcpyAtoH, 3020, cuMemcpyAtoH_v2) \
	XA(cuMemcpyAtoHAsync, 2000, cuMemcpyAtoHAsync) \
	XA(cuMemcpyAtoHAsync, 3020, cuMemcpyAtoHAsync_v2) \
	XA(cuMemcpyBatchAsync, 12080, cuMemcpyBatchAsync) \
	XA(cuMemcpyBatchAsync, 13000, cuMemcpyBatchAsync_v2) \
	XA(cuMemcpyDtoA, 2000, cuMemcpyDtoA) \
	XA(cuMemcpyDtoA, 3020, cuMemcpyDtoA_v2) \
	XP(cuMemcpyDtoD, 3020, cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds) \
	XP(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz) \
	XP(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds) \
	XP(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz) \
	XA(cuMemcpyHtoA, 2000, cuMemcpyHtoA) \
	XA(cuMemcpyHtoA, 3020, cuMemcpyHtoA_v2) \
	XA(cuMemcpyHtoAAsync, 2000, cuMemcpyHtoAAsync) \
	XA(cuMemcpyHtoAAsync, 3020, cuMemcpyHtoAAsync_v2) \
	XP(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds) \
	XP(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz) \
	XP(cuMemcpyPeer, 4000, cuMemcpyPeer, cuMemcpyPeer_ptds) \
	XP(cuMemcpyPeerAsync, 4000, cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz) \
	XP(cuMemsetD16, 3020, cuMemsetD16_v2, cuMemsetD16_v2_ptds) \
	XP(cuMemsetD16Async, 3020, cuMemsetD16Async, cuMemsetD16Async_ptsz) \
	XP(cuMemsetD2D16, 3020, cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds) \
	XP(cuMemsetD2D16Async, 3020, cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz) \
	XP(cuMemsetD2D32, 3020, cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds) \
	XP(cuMemsetD2D32Async, 3020, cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz) \
	XP(cuMemsetD2D8, 3020, cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds) \
	XP(cuMemsetD2D8Async, 3020, cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz) \
	XP(cuMemsetD32, 3020, cuMemsetD32_v2, cuMemsetD32_v2_ptds) \
	XP(cuMemsetD32Async, 3020, cuMemsetD32Async, cuMemsetD32Async_ptsz) \
	XP(cuMemsetD8, 3020, cuMemsetD8_v2, cuMemsetD8_v2_ptds) \
	XP(cuMemsetD8Async, 3020, cuMemsetD8Async, cuMemsetD8Async_ptsz) \
	XA(cuMipmappedArrayCreate, 5000, cuMipmappedArrayCreate) \
	XA(cuMipmappedArrayDestroy, 5000, cuMipmappedArrayDestroy) \
	XA(cuMipmappedArrayGetLevel, 5000, cuMipmappedArrayGetLevel) \
	XA(cuMipmappedArrayGetMemoryRequirements, 11060, cuMipmappedArrayGetMemoryRequirements) \
	XA(cuMipmappedArrayGetSparseProperties, 11010, cuMipmappedArrayGetSparseProperties) \
	X(cuModuleEnumerateFunctions, 12040, cuModuleEnumerateFunctions) \
	X(cuModuleGetFunction, 2000, cuModuleGetFunction) \
	X(cuModuleGetFunctionCount, 12040, cuModuleGetFunctionCount) \
	X(cuModuleGetGlobal, 3020, cuModuleGetGlobal_v2) \
	X(cuModuleGetLoadingMode, 11070, cuModuleGetLoadingMode) \
	X(cuModuleLoad, 2000, cuModuleLoad) \
	X(cuModuleLoadData, 2000, cuModuleLoadData) \
	X(cuModuleLoadDataEx, 2010, cuModuleLoadDataEx) \
	X(cuModuleLoadFatBinary, 2000, cuModuleLoadFatBinary) \
	X(cuModuleUnload, 2000, cuModuleUnload) \
	X(cuOccupancyAvailableDynamicSMemPerBlock, 10020, \
		cuOccupancyAvailableDynamicSMemPerBlock) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, \
		cuOccupancyMaxActiveBlocksPerMultiprocessor) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000, \
		cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) \
	XA(cuOccupancyMaxActiveClusters, 11070, cuOccupancyMaxActiveClusters) \
	X(cuOccupancyMaxPotentialBlockSize, 6050, cuOccupancyMaxPotentialBlockSize) \
	X(cuOccupancyMaxPotentialBlockSizeWithFlags, 7000, \
		cuOccupancyMaxPotentialBlockSizeWithFlags) \
	XA(cuOccupancyMaxPotentialClusterSize, 11070, cuOccupancyMaxPotentialClusterSize) \
	X(cuPointerGetAttribute, 4000, cuPointerGetAttribute) \
	X(cuPointerGetAttributes, 7000, cuPointerGetAttributes) \
	X(cuPointerSetAttribute, 6000, cuPointerSetAttribute) \
	X(cuProfilerStart, 4000, cuProfilerStart) \
	X(cuProfilerStop, 4000, cuProfilerStop) \
	XA(cuSignalExternalSemaphoresAsync, 10000, cuSignalExternalSemaphoresAsync) \
	XP(cuStreamAddCallback, 5000, cuStreamAddCallback, cuStreamAddCallback_ptsz) \
	XP(cuStreamAttachMemAsync, 6000, cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz) \
	XA(cuStreamBatchMemOp, 8000, cuStreamBatchMemOp) \
	XA(cuStreamBatchMemOp, 11070, cuStreamBatchMemOp_v2) \
	XP(cuStreamBeginCapture, 10000, cuStreamBeginCapture, cuStreamBeginCapture_ptsz) \
	XP(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz) \
	XP(cuStreamBeginCaptureToGraph, 12030, \
		cuStreamBeginCaptureToGraph, \
		cuStreamBeginCaptureToGraph_ptsz) \
	XA(cuStreamCopyAttributes, 11000, cuStreamCopyAttributes) \
	X(cuStreamCreate, 2000, cuStreamCreate) \
	X(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority) \
	X(cuStreamDestroy, 4000, cuStreamDestroy_v2) \
	XP(cuStreamEndCapture, 10000, cuStreamEndCapture, cuStreamEndCapture_ptsz) \
	XA(cuStreamGetAttribute, 11000, cuStreamGetAttribute) \
	XP(cuStreamGetCaptureInfo, 10010, cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz) \
	XP(cuStreamGetCaptureInfo, 11030, \
		cuStreamGetCaptureInfo_v2, \
		cuStreamGetCaptureInfo_v2_ptsz) \
	XP(cuStreamGetCaptureInfo, 12030, \
		cuStreamGetCaptureInfo_v3, \
		cuStreamGetCaptureInfo_v3_ptsz) \
	XP(cuStreamGetCtx, 9020, cuStreamGetCtx, cuStreamGetCtx_ptsz) \
	XP(cuStreamGetCtx, 12050, cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz) \
	XP(cuStreamGetDevice, 12080, cuStreamGetDevice, cuStreamGetDevice_ptsz) \
	XP(cuStreamGetFlags, 5050, cuStreamGetFlags, cuStreamGetFlags_ptsz) \
	XA(cuStreamGetGreenCtx, 12040, cuStreamGetGreenCtx) \
	XP(cuStreamGetId, 12000, cuStreamGetId, cuStreamGetId_ptsz) \
	XP(cuStreamGetPriority, 5050, cuStreamGetPriority, cuStreamGetPriority_ptsz) \
	XP(cuStreamIsCapturing, 10000, cuStreamIsCapturing, cuStreamIsCapturing_ptsz) \
	XP(cuStreamQuery, 2000, cuStreamQuery, cuStreamQuery_ptsz) \
	XA(cuStreamSetAttribute, 11000, cuStreamSetAttribute) \
	XP(cuStreamSynchronize, 2000, cuStreamSynchronize, cuStreamSynchronize_ptsz) \
	XP(cuStreamUpdateCaptureDependencies, 11030, \
		cuStreamUpdateCaptureDependencies, \
		cuStreamUpdateCaptureDependencies_ptsz) \
	XP(cuStreamUpdateCaptureDependencies, 12030, \
		cuStreamUpdateCaptureDependencies_v2, \
		cuStreamUpdateCaptureDependencies_v2_ptsz) \
	XP(cuStreamWaitEvent, 3020, cuStreamWaitEvent, cuStreamWaitEvent_ptsz) \
	XA(cuStreamWaitValue32, 8000, cuStreamWaitValue32) \
	XA(cuStreamWaitValue32, 11070, cuStreamWaitValue32_v2) \
	XA(cuStreamWaitValue64, 9000, cuStreamWaitValue64) \
	XA(cuStreamWaitValue64, 11070, cuStreamWaitValue64_v2) \
	XA(cuStreamWriteValue32, 8000, cuStreamWriteValue32) \
	XA(cuStreamWriteValue32, 11070, cuStreamWriteValue32_v2) \
	XA(cuStreamWriteValue64, 9000, cuStreamWriteValue64) \
	XA(cuStreamWriteValue64, 11070, cuStreamWriteValue64_v2) \
	XA(cuSurfObjectCreate, 5000, cuSurfObjectCreate) \
	XA(cuSurfObjectDestroy, 5000, cuSurfObjectDestroy) \
	XA(cuSurfObjectGetResourceDesc, 5000, cuSurfObjectGetResourceDesc) \
	XA(cuTexObjectCreate, 5000, cuTexObjectCreate) \
	XA(cuTexObjectDestroy, 5000, cuTexObjectDestroy) \
	XA(cuTexObjectGetResourceDesc, 5000, cuTexObjectGetResourceDesc) \
	XA(cuTexObjectGetResourceViewDesc, 5000, cuTexObjectGetResourceViewDesc) \
	XA(cuTexObjectGetTextureDesc, 5000, cuTexObjectGetTextureDesc) \
	X(cuThreadExchangeStreamCaptureMode, 10010, cuThreadExchangeStreamCaptureMode) \
	XA(cuUserObjectCreate, 11030, cuUserObjectCreate) \
	XA(cuUserObjectRelease, 11030, cuUserObjectRelease) \
	XA(cuUserObjectRetain, 11030, cuUserObjectRetain) \
	XA(cuWaitExternalSemaphoresAsync, 10000, cuWaitExternalSemaphoresAsync)
/* clang-format on */

#endif
