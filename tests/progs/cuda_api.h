/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of the CUDA driver interface that the test programs make, declared from its public
 * documentation and from nothing of ours: handles are void *, device addresses uint64_t, results
 * int. The programs run on NVIDIA's driver, too (tests/hw/cuda), except for the checks that are
 * marked as the software GPU's own.
 *
 * Each program is built twice: linked with libcuda (CUDA_LINKED), or finding it with dlopen(3). In
 * the second form, $CUDA_API_PROC=1 makes it ask cuGetProcAddress for every call.
 *
 * $CUDA_TEST_VERBOSE=1 prints the name of each test before it runs. A program that crashes prints
 * the line of its last check.
 */
#ifndef RBT_TESTS_PROGS_CUDA_API_H
#define RBT_TESTS_PROGS_CUDA_API_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_AT() cuda_api_at(__FILE__, __LINE__)
void cuda_api_at(const char *file, int line);

#include "../unit/check.h"

struct memcpy2d {
	size_t src_x, src_y;
	int src_type;
	const void *src_host;
	uint64_t src_device;
	void *src_array;
	size_t src_pitch, dst_x, dst_y;
	int dst_type;
	void *dst_host;
	uint64_t dst_device;
	void *dst_array;
	size_t dst_pitch, width, height;
};

struct memcpy3d {
	size_t src_x, src_y, src_z, src_lod;
	int src_type;
	const void *src_host;
	uint64_t src_device;
	void *src_array, *src_reserved;
	size_t src_pitch, src_height, dst_x, dst_y, dst_z, dst_lod;
	int dst_type;
	void *dst_host;
	uint64_t dst_device;
	void *dst_array, *dst_reserved;
	size_t dst_pitch, dst_height, width, height, depth;
};

struct launch_attribute {
	int id, pad;
	union {
		char bytes[64];
		int flag;
		unsigned dims[3];
	} value;
};

struct launch_config {
	unsigned grid[3], block[3], shared;
	void *stream;
	struct launch_attribute *attributes;
	unsigned n_attributes;
};

struct kernel_node {
	void *function;
	unsigned grid[3], block[3], shared;
	void **params, **extra;
	void *kernel, *context;
};

struct memset_node {
	uint64_t to;
	size_t pitch;
	unsigned value, element;
	size_t width, height;
};

struct host_node {
	void (*fn)(void *user);
	void *user;
};

struct update_info {
	int result;
	void *error_node, *error_from;
};

struct context_params {
	void *affinity;
	int n_affinity;
	void *cig;
};

struct device_properties {
	int block_threads, block[3], grid[3], block_shared, constant, warp, pitch, block_registers;
	int clock_khz, texture_align;
};

struct location {
	int type, id;
};

struct pool_properties {
	int alloc_type, handle_types;
	struct location location;
	void *security;
	size_t max_size;
	unsigned short usage;
	unsigned char reserved[54];
};

struct edge {
	unsigned char from_port, to_port, type, reserved[5];
};

struct instantiate_params {
	uint64_t flags;
	void *upload_stream, *error_node;
	int result;
};

#define LAUNCH_ARGS                                                                                \
	void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,           \
		unsigned bz, unsigned shared, void *stream, void **params

/* What a program asks cuGetProcAddress for is the name without its suffix. */
#define CUDA_API(X)                                                                                \
	X(cuInit, "cuInit", (unsigned))                                                            \
	X(cuDriverGetVersion, "cuDriverGetVersion", (int *))                                       \
	X(cuGetErrorName, "cuGetErrorName", (int, const char **))                                  \
	X(cuGetErrorString, "cuGetErrorString", (int, const char **))                              \
	X(cuGetExportTable, "cuGetExportTable", (const void **, const void *))                     \
	X(cuDeviceGet, "cuDeviceGet", (int *, int))                                                \
	X(cuDeviceGetCount, "cuDeviceGetCount", (int *))                                           \
	X(cuDeviceGetName, "cuDeviceGetName", (char *, int, int))                                  \
	X(cuDeviceGetUuid_v2, "cuDeviceGetUuid", (void *, int))                                    \
	X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", (size_t *, int))                                \
	X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, int))                         \
	X(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char *, int, int))                          \
	X(cuDeviceGetByPCIBusId, "cuDeviceGetByPCIBusId", (int *, const char *))                   \
	X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (void **, int))                    \
	X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", (int))                        \
	X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", (int))                            \
	X(cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", (int, unsigned *, int *))      \
	X(cuCtxCreate_v2, "", (void **, unsigned, int))                                            \
	X(cuCtxDestroy_v2, "cuCtxDestroy", (void *))                                               \
	X(cuCtxGetCurrent, "cuCtxGetCurrent", (void **))                                           \
	X(cuCtxSetCurrent, "cuCtxSetCurrent", (void *))                                            \
	X(cuCtxPushCurrent_v2, "cuCtxPushCurrent", (void *))                                       \
	X(cuCtxPopCurrent_v2, "cuCtxPopCurrent", (void **))                                        \
	X(cuCtxGetDevice, "", (int *))                                                             \
	X(cuCtxSynchronize, "", (void))                                                            \
	X(cuCtxGetLimit, "cuCtxGetLimit", (size_t *, int))                                         \
	X(cuCtxSetLimit, "cuCtxSetLimit", (int, size_t))                                           \
	X(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", (int *, int *))              \
	X(cuModuleLoad, "cuModuleLoad", (void **, const char *))                                   \
	X(cuModuleLoadData, "cuModuleLoadData", (void **, const void *))                           \
	X(cuModuleLoadDataEx, "cuModuleLoadDataEx",                                                \
		(void **, const void *, unsigned, int *, void **))                                 \
	X(cuModuleUnload, "cuModuleUnload", (void *))                                              \
	X(cuModuleGetFunction, "cuModuleGetFunction", (void **, void *, const char *))             \
	X(cuModuleGetGlobal_v2, "cuModuleGetGlobal", (uint64_t *, size_t *, void *, const char *)) \
	X(cuLibraryLoadData, "cuLibraryLoadData",                                                  \
		(void **, const void *, int *, void **, unsigned, int *, void **, unsigned))       \
	X(cuLibraryUnload, "cuLibraryUnload", (void *))                                            \
	X(cuLibraryGetKernel, "cuLibraryGetKernel", (void **, void *, const char *))               \
	X(cuLibraryGetGlobal, "cuLibraryGetGlobal", (uint64_t *, size_t *, void *, const char *))  \
	X(cuKernelGetFunction, "cuKernelGetFunction", (void **, void *))                           \
	X(cuLinkCreate_v2, "cuLinkCreate", (unsigned, int *, void **, void **))                    \
	X(cuLinkAddData_v2, "cuLinkAddData",                                                       \
		(void *, int, void *, size_t, const char *, unsigned, int *, void **))             \
	X(cuLinkComplete, "cuLinkComplete", (void *, void **, size_t *))                           \
	X(cuLinkDestroy, "cuLinkDestroy", (void *))                                                \
	X(cuFuncGetAttribute, "cuFuncGetAttribute", (int *, int, void *))                          \
	X(cuFuncSetAttribute, "cuFuncSetAttribute", (void *, int, int))                            \
	X(cuFuncGetName, "cuFuncGetName", (const char **, void *))                                 \
	X(cuFuncGetParamInfo, "cuFuncGetParamInfo", (void *, size_t, size_t *, size_t *))          \
	X(cuFuncGetModule, "cuFuncGetModule", (void **, void *))                                   \
	X(cuLaunchKernel, "cuLaunchKernel", (LAUNCH_ARGS, void **extra))                           \
	X(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", (LAUNCH_ARGS))                   \
	X(cuLaunchKernelEx, "cuLaunchKernelEx",                                                    \
		(const struct launch_config *, void *, void **, void **))                          \
	X(cuLaunchHostFunc, "cuLaunchHostFunc", (void *, void (*)(void *), void *))                \
	X(cuStreamAddCallback, "cuStreamAddCallback",                                              \
		(void *, void (*)(void *, int, void *), void *, unsigned))                         \
	X(cuMemAlloc_v2, "cuMemAlloc", (uint64_t *, size_t))                                       \
	X(cuMemAllocPitch_v2, "cuMemAllocPitch", (uint64_t *, size_t *, size_t, size_t, unsigned)) \
	X(cuMemAllocManaged, "cuMemAllocManaged", (uint64_t *, size_t, unsigned))                  \
	X(cuMemFree_v2, "cuMemFree", (uint64_t))                                                   \
	X(cuMemGetInfo_v2, "cuMemGetInfo", (size_t *, size_t *))                                   \
	X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", (uint64_t *, size_t *, uint64_t))       \
	X(cuMemHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned))                           \
	X(cuMemFreeHost, "cuMemFreeHost", (void *))                                                \
	X(cuMemHostGetDevicePointer_v2, "cuMemHostGetDevicePointer",                               \
		(uint64_t *, void *, unsigned))                                                    \
	X(cuMemHostGetFlags, "cuMemHostGetFlags", (unsigned *, void *))                            \
	X(cuMemHostRegister_v2, "cuMemHostRegister", (void *, size_t, unsigned))                   \
	X(cuMemHostUnregister, "cuMemHostUnregister", (void *))                                    \
	X(cuMemAllocAsync, "cuMemAllocAsync", (uint64_t *, size_t, void *))                        \
	X(cuMemFreeAsync, "cuMemFreeAsync", (uint64_t, void *))                                    \
	X(cuMemcpy, "cuMemcpy", (uint64_t, uint64_t, size_t))                                      \
	X(cuMemcpyAsync, "cuMemcpyAsync", (uint64_t, uint64_t, size_t, void *))                    \
	X(cuMemcpyHtoD_v2, "cuMemcpyHtoD", (uint64_t, const void *, size_t))                       \
	X(cuMemcpyDtoH_v2, "cuMemcpyDtoH", (void *, uint64_t, size_t))                             \
	X(cuMemcpyDtoD_v2, "cuMemcpyDtoD", (uint64_t, uint64_t, size_t))                           \
	X(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", (uint64_t, const void *, size_t, void *))     \
	X(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", (void *, uint64_t, size_t, void *))           \
	X(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", (uint64_t, uint64_t, size_t, void *))         \
	X(cuMemcpyPeer, "cuMemcpyPeer", (uint64_t, void *, uint64_t, void *, size_t))              \
	X(cuMemcpy2D_v2, "cuMemcpy2D", (const struct memcpy2d *))                                  \
	X(cuMemcpy3D_v2, "cuMemcpy3D", (const struct memcpy3d *))                                  \
	X(cuMemsetD8_v2, "cuMemsetD8", (uint64_t, unsigned char, size_t))                          \
	X(cuMemsetD16_v2, "cuMemsetD16", (uint64_t, unsigned short, size_t))                       \
	X(cuMemsetD32_v2, "cuMemsetD32", (uint64_t, unsigned, size_t))                             \
	X(cuMemsetD32Async, "cuMemsetD32Async", (uint64_t, unsigned, size_t, void *))              \
	X(cuMemsetD2D8_v2, "cuMemsetD2D8", (uint64_t, size_t, unsigned char, size_t, size_t))      \
	X(cuPointerGetAttribute, "cuPointerGetAttribute", (void *, int, uint64_t))                 \
	X(cuPointerGetAttributes, "cuPointerGetAttributes",                                        \
		(unsigned, const int *, void **, uint64_t))                                        \
	X(cuStreamCreate, "cuStreamCreate", (void **, unsigned))                                   \
	X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", (void **, unsigned, int))      \
	X(cuStreamDestroy_v2, "cuStreamDestroy", (void *))                                         \
	X(cuStreamQuery, "cuStreamQuery", (void *))                                                \
	X(cuStreamSynchronize, "cuStreamSynchronize", (void *))                                    \
	X(cuStreamWaitEvent, "cuStreamWaitEvent", (void *, void *, unsigned))                      \
	X(cuStreamGetFlags, "cuStreamGetFlags", (void *, unsigned *))                              \
	X(cuStreamGetPriority, "cuStreamGetPriority", (void *, int *))                             \
	X(cuEventCreate, "cuEventCreate", (void **, unsigned))                                     \
	X(cuEventDestroy_v2, "cuEventDestroy", (void *))                                           \
	X(cuEventRecord, "cuEventRecord", (void *, void *))                                        \
	X(cuEventQuery, "cuEventQuery", (void *))                                                  \
	X(cuEventSynchronize, "cuEventSynchronize", (void *))                                      \
	X(cuEventElapsedTime, "cuEventElapsedTime", (float *, void *, void *))                     \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                             \
		"cuOccupancyMaxActiveBlocksPerMultiprocessor", (int *, void *, int, size_t))       \
	X(cuOccupancyMaxPotentialBlockSize, "cuOccupancyMaxPotentialBlockSize",                    \
		(int *, int *, void *, size_t (*)(int), size_t, int))                              \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,                                    \
		"cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",                            \
		(int *, void *, int, size_t, unsigned))                                            \
	X(cuOccupancyMaxPotentialBlockSizeWithFlags, "cuOccupancyMaxPotentialBlockSizeWithFlags",  \
		(int *, int *, void *, size_t (*)(int), size_t, int, unsigned))                    \
	X(cuOccupancyAvailableDynamicSMemPerBlock, "cuOccupancyAvailableDynamicSMemPerBlock",      \
		(size_t *, void *, int, int))                                                      \
	X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", (void *, int))                          \
	X(cuStreamEndCapture, "cuStreamEndCapture", (void *, void **))                             \
	X(cuStreamIsCapturing, "cuStreamIsCapturing", (void *, int *))                             \
	X(cuGraphCreate, "cuGraphCreate", (void **, unsigned))                                     \
	X(cuGraphDestroy, "cuGraphDestroy", (void *))                                              \
	X(cuGraphClone, "cuGraphClone", (void **, void *))                                         \
	X(cuGraphAddKernelNode_v2, "cuGraphAddKernelNode",                                         \
		(void **, void *, void *const *, size_t, const struct kernel_node *))              \
	X(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode",                                            \
		(void **, void *, void *const *, size_t, const struct memcpy3d *, void *))         \
	X(cuGraphAddMemsetNode, "cuGraphAddMemsetNode",                                            \
		(void **, void *, void *const *, size_t, const struct memset_node *, void *))      \
	X(cuGraphAddHostNode, "cuGraphAddHostNode",                                                \
		(void **, void *, void *const *, size_t, const struct host_node *))                \
	X(cuGraphAddEmptyNode, "cuGraphAddEmptyNode", (void **, void *, void *const *, size_t))    \
	X(cuGraphAddChildGraphNode, "cuGraphAddChildGraphNode",                                    \
		(void **, void *, void *const *, size_t, void *))                                  \
	X(cuGraphGetNodes, "cuGraphGetNodes", (void *, void **, size_t *))                         \
	X(cuGraphGetRootNodes, "cuGraphGetRootNodes", (void *, void **, size_t *))                 \
	X(cuGraphNodeGetType, "cuGraphNodeGetType", (void *, int *))                               \
	X(cuGraphKernelNodeGetParams_v2, "cuGraphKernelNodeGetParams",                             \
		(void *, struct kernel_node *))                                                    \
	X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags",                              \
		(void **, void *, unsigned long long))                                             \
	X(cuGraphExecKernelNodeSetParams_v2, "cuGraphExecKernelNodeSetParams",                     \
		(void *, void *, const struct kernel_node *))                                      \
	X(cuGraphExecUpdate_v2, "cuGraphExecUpdate", (void *, void *, struct update_info *))       \
	X(cuGraphLaunch, "cuGraphLaunch", (void *, void *))                                        \
	X(cuGraphUpload, "cuGraphUpload", (void *, void *))                                        \
	X(cuGraphExecDestroy, "cuGraphExecDestroy", (void *))                                      \
	X(cuCtxCreate_v3, "", (void **, void *, int, unsigned, int))                               \
	X(cuCtxCreate_v4, "cuCtxCreate", (void **, struct context_params *, unsigned, int))        \
	X(cuCtxGetDevice_v2, "", (int *, void *))                                                  \
	X(cuCtxGetFlags, "cuCtxGetFlags", (unsigned *))                                            \
	X(cuCtxSetFlags, "cuCtxSetFlags", (unsigned))                                              \
	X(cuCtxGetId, "cuCtxGetId", (void *, unsigned long long *))                                \
	X(cuCtxGetApiVersion, "cuCtxGetApiVersion", (void *, unsigned *))                          \
	X(cuCtxGetCacheConfig, "cuCtxGetCacheConfig", (int *))                                     \
	X(cuCtxSetCacheConfig, "cuCtxSetCacheConfig", (int))                                       \
	X(cuCtxGetSharedMemConfig, "cuCtxGetSharedMemConfig", (int *))                             \
	X(cuCtxSetSharedMemConfig, "cuCtxSetSharedMemConfig", (int))                               \
	X(cuCtxResetPersistingL2Cache, "cuCtxResetPersistingL2Cache", (void))                      \
	X(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", (void *, unsigned))                      \
	X(cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess", (void *))                              \
	X(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int *, int, int))                       \
	X(cuDeviceGetP2PAttribute, "cuDeviceGetP2PAttribute", (int *, int, int, int))              \
	X(cuDeviceComputeCapability, "cuDeviceComputeCapability", (int *, int *, int))             \
	X(cuDeviceGetProperties, "cuDeviceGetProperties", (struct device_properties *, int))       \
	X(cuDevicePrimaryCtxRelease, "", (int))                                                    \
	X(cuDevicePrimaryCtxReset, "", (int))                                                      \
	X(cuDevicePrimaryCtxSetFlags, "", (int, unsigned))                                         \
	X(cuDevicePrimaryCtxSetFlags_v2, "cuDevicePrimaryCtxSetFlags", (int, unsigned))            \
	X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", (void **, int))                  \
	X(cuDeviceGetMemPool, "cuDeviceGetMemPool", (void **, int))                                \
	X(cuDeviceSetMemPool, "cuDeviceSetMemPool", (int, void *))                                 \
	X(cuMemPoolCreate, "cuMemPoolCreate", (void **, const struct pool_properties *))           \
	X(cuMemPoolDestroy, "cuMemPoolDestroy", (void *))                                          \
	X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", (void *, int, void *))                   \
	X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", (void *, int, void *))                   \
	X(cuMemPoolTrimTo, "cuMemPoolTrimTo", (void *, size_t))                                    \
	X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync",                                      \
		(uint64_t *, size_t, void *, void *))                                              \
	X(cuMemAdvise, "", (uint64_t, size_t, int, int))                                           \
	X(cuMemAdvise_v2, "", (uint64_t, size_t, int, struct location))                            \
	X(cuMemPrefetchAsync, "", (uint64_t, size_t, int, void *))                                 \
	X(cuMemPrefetchAsync_v2, "", (uint64_t, size_t, struct location, unsigned, void *))        \
	X(cuPointerSetAttribute, "cuPointerSetAttribute", (const void *, int, uint64_t))           \
	X(cuFuncIsLoaded, "cuFuncIsLoaded", (int *, void *))                                       \
	X(cuFuncLoad, "cuFuncLoad", (void *))                                                      \
	X(cuFuncSetCacheConfig, "cuFuncSetCacheConfig", (void *, int))                             \
	X(cuFuncSetSharedMemConfig, "cuFuncSetSharedMemConfig", (void *, int))                     \
	X(cuKernelGetLibrary, "cuKernelGetLibrary", (void **, void *))                             \
	X(cuKernelGetName, "cuKernelGetName", (const char **, void *))                             \
	X(cuKernelGetParamInfo, "cuKernelGetParamInfo", (void *, size_t, size_t *, size_t *))      \
	X(cuKernelGetAttribute, "cuKernelGetAttribute", (int *, int, void *, int))                 \
	X(cuKernelSetAttribute, "cuKernelSetAttribute", (int, int, void *, int))                   \
	X(cuKernelSetCacheConfig, "cuKernelSetCacheConfig", (void *, int, int))                    \
	X(cuLibraryEnumerateKernels, "cuLibraryEnumerateKernels", (void **, unsigned, void *))     \
	X(cuLibraryGetKernelCount, "cuLibraryGetKernelCount", (unsigned *, void *))                \
	X(cuLibraryGetModule, "cuLibraryGetModule", (void **, void *))                             \
	X(cuLibraryLoadFromFile, "cuLibraryLoadFromFile",                                          \
		(void **, const char *, int *, void **, unsigned, int *, void **, unsigned))       \
	X(cuLinkAddFile_v2, "cuLinkAddFile",                                                       \
		(void *, int, const char *, unsigned, int *, void **))                             \
	X(cuModuleEnumerateFunctions, "cuModuleEnumerateFunctions", (void **, unsigned, void *))   \
	X(cuModuleGetFunctionCount, "cuModuleGetFunctionCount", (unsigned *, void *))              \
	X(cuModuleGetLoadingMode, "cuModuleGetLoadingMode", (int *))                               \
	X(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", (void **, const void *))                 \
	X(cuProfilerStart, "cuProfilerStart", (void))                                              \
	X(cuProfilerStop, "cuProfilerStop", (void))                                                \
	X(cuEventElapsedTime_v2, "cuEventElapsedTime", (float *, void *, void *))                  \
	X(cuMemcpy2DUnaligned_v2, "cuMemcpy2DUnaligned", (const struct memcpy2d *))                \
	X(cuMemcpy3DPeer, "cuMemcpy3DPeer", (const struct memcpy3d *))                             \
	X(cuMemcpy3DPeerAsync, "cuMemcpy3DPeerAsync", (const struct memcpy3d *, void *))           \
	X(cuMemsetD16Async, "cuMemsetD16Async", (uint64_t, unsigned short, size_t, void *))        \
	X(cuMemsetD2D16_v2, "cuMemsetD2D16", (uint64_t, size_t, unsigned short, size_t, size_t))   \
	X(cuMemsetD2D32_v2, "cuMemsetD2D32", (uint64_t, size_t, unsigned, size_t, size_t))         \
	X(cuMemsetD2D8Async, "cuMemsetD2D8Async",                                                  \
		(uint64_t, size_t, unsigned char, size_t, size_t, void *))                         \
	X(cuStreamAttachMemAsync, "cuStreamAttachMemAsync", (void *, uint64_t, size_t, unsigned))  \
	X(cuStreamGetCtx, "", (void *, void **))                                                   \
	X(cuStreamGetCtx_v2, "cuStreamGetCtx", (void *, void **, void **))                         \
	X(cuStreamGetDevice, "cuStreamGetDevice", (void *, int *))                                 \
	X(cuStreamGetId, "cuStreamGetId", (void *, unsigned long long *))                          \
	X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (int *))         \
	X(cuStreamBeginCapture, "", (void *))                                                      \
	X(cuStreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph",                              \
		(void *, void *, void *const *, const struct edge *, size_t, int))                 \
	X(cuStreamGetCaptureInfo, "", (void *, int *, unsigned long long *))                       \
	X(cuStreamGetCaptureInfo_v2, "",                                                           \
		(void *, int *, unsigned long long *, void **, void *const **, size_t *))          \
	X(cuStreamGetCaptureInfo_v3, "cuStreamGetCaptureInfo",                                     \
		(void *, int *, unsigned long long *, void **, void *const **,                     \
			const struct edge **, size_t *))                                           \
	X(cuStreamUpdateCaptureDependencies, "", (void *, void **, size_t, unsigned))              \
	X(cuStreamUpdateCaptureDependencies_v2, "cuStreamUpdateCaptureDependencies",               \
		(void *, void **, const struct edge *, size_t, unsigned))                          \
	X(cuGraphAddDependencies, "", (void *, void *const *, void *const *, size_t))              \
	X(cuGraphAddDependencies_v2, "cuGraphAddDependencies",                                     \
		(void *, void *const *, void *const *, const struct edge *, size_t))               \
	X(cuGraphRemoveDependencies, "", (void *, void *const *, void *const *, size_t))           \
	X(cuGraphRemoveDependencies_v2, "cuGraphRemoveDependencies",                               \
		(void *, void *const *, void *const *, const struct edge *, size_t))               \
	X(cuGraphGetEdges, "", (void *, void **, void **, size_t *))                               \
	X(cuGraphGetEdges_v2, "cuGraphGetEdges",                                                   \
		(void *, void **, void **, struct edge *, size_t *))                               \
	X(cuGraphNodeGetDependencies, "", (void *, void **, size_t *))                             \
	X(cuGraphNodeGetDependencies_v2, "cuGraphNodeGetDependencies",                             \
		(void *, void **, struct edge *, size_t *))                                        \
	X(cuGraphNodeGetDependentNodes, "", (void *, void **, size_t *))                           \
	X(cuGraphNodeGetDependentNodes_v2, "cuGraphNodeGetDependentNodes",                         \
		(void *, void **, struct edge *, size_t *))                                        \
	X(cuGraphNodeFindInClone, "cuGraphNodeFindInClone", (void **, void *, void *))             \
	X(cuGraphNodeGetEnabled, "cuGraphNodeGetEnabled", (void *, void *, unsigned *))            \
	X(cuGraphNodeSetEnabled, "cuGraphNodeSetEnabled", (void *, void *, unsigned))              \
	X(cuGraphDestroyNode, "cuGraphDestroyNode", (void *))                                      \
	X(cuGraphAddEventRecordNode, "cuGraphAddEventRecordNode",                                  \
		(void **, void *, void *const *, size_t, void *))                                  \
	X(cuGraphAddEventWaitNode, "cuGraphAddEventWaitNode",                                      \
		(void **, void *, void *const *, size_t, void *))                                  \
	X(cuGraphAddKernelNode, "",                                                                \
		(void **, void *, void *const *, size_t, const struct kernel_node *))              \
	X(cuGraphChildGraphNodeGetGraph, "cuGraphChildGraphNodeGetGraph", (void *, void **))       \
	X(cuGraphKernelNodeGetParams, "", (void *, struct kernel_node *))                          \
	X(cuGraphKernelNodeSetParams, "", (void *, const struct kernel_node *))                    \
	X(cuGraphKernelNodeSetParams_v2, "cuGraphKernelNodeSetParams",                             \
		(void *, const struct kernel_node *))                                              \
	X(cuGraphMemcpyNodeSetParams, "cuGraphMemcpyNodeSetParams",                                \
		(void *, const struct memcpy3d *))                                                 \
	X(cuGraphMemsetNodeGetParams, "cuGraphMemsetNodeGetParams",                                \
		(void *, struct memset_node *))                                                    \
	X(cuGraphMemsetNodeSetParams, "cuGraphMemsetNodeSetParams",                                \
		(void *, const struct memset_node *))                                              \
	X(cuGraphHostNodeGetParams, "cuGraphHostNodeGetParams", (void *, struct host_node *))      \
	X(cuGraphHostNodeSetParams, "cuGraphHostNodeSetParams",                                    \
		(void *, const struct host_node *))                                                \
	X(cuGraphExecKernelNodeSetParams, "", (void *, void *, const struct kernel_node *))        \
	X(cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams",                        \
		(void *, void *, const struct memcpy3d *, void *))                                 \
	X(cuGraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams",                        \
		(void *, void *, const struct memset_node *, void *))                              \
	X(cuGraphExecHostNodeSetParams, "cuGraphExecHostNodeSetParams",                            \
		(void *, void *, const struct host_node *))                                        \
	X(cuGraphExecUpdate, "", (void *, void *, void **, int *))                                 \
	X(cuGraphExecGetFlags, "cuGraphExecGetFlags", (void *, unsigned long long *))              \
	X(cuGraphInstantiate_v2, "", (void **, void *, void **, char *, size_t))                   \
	X(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams",                            \
		(void **, void *, struct instantiate_params *))                                    \
	X(cuGetProcAddress_v2, "cuGetProcAddress", (const char *, void **, int, uint64_t, int *))  \
	X(cuGetProcAddress, "", (const char *, void **, int, uint64_t))

struct cuda_api {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration, where none can stand */
#define CUDA_MEMBER(name, base, args) int(*name) args;
	CUDA_API(CUDA_MEMBER)
#undef CUDA_MEMBER
};
extern struct cuda_api cu;

/* Fills `cu`; ends the program with 77 if there is no libcuda. */
void cuda_api_open(void);
/* That, cuInit, and a context of the first device; whether it is the software GPU. */
int cuda_api_start(void **ret_context);
/* A file of tests/kernels, loaded; argv[1] of every program is that folder. */
void *cuda_api_module(const char *folder, const char *name);
void *cuda_api_function(void *module, const char *name);
/* n words of the device's memory that are zero by now. */
uint64_t cuda_api_zeros(unsigned n);

/* For calls that must succeed, and for what is not the test's own business. */
#define OK(call) CHECK_INT(call, 0)
#define MUST(call)                                                                                 \
	do {                                                                                       \
		CHECK_AT();                                                                        \
		cuda_api_must(call, #call);                                                        \
	} while (0)
void cuda_api_must(int result, const char *call);
/* For main(): calls a test. */
#define TEST(call)                                                                                 \
	do {                                                                                       \
		cuda_api_announce(#call);                                                          \
		call;                                                                              \
	} while (0)
void cuda_api_announce(const char *test);

#define STREAM_PER_THREAD ((void *)2)
#define NON_BLOCKING      1u
#define DISABLE_TIMING    2u

#endif
