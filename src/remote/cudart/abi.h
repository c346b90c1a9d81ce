/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types and numbers of the CUDA runtime interface that this library answers, declared from its
 * public documentation. Names are the interface's own. RT_VERSION is the CUDA version of the
 * library that is built (9000, 11000, 12000, 13000): layouts and parameters differ between them.
 */
#ifndef RBT_REMOTE_CUDART_ABI_H
#define RBT_REMOTE_CUDART_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"

/* Results in the numbers of CUDA 10.1 and newer. Those of the driver have the same numbers. */
enum {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorInvalidConfiguration = 9,
	cudaErrorInvalidPitchValue = 12,
	cudaErrorInvalidSymbol = 13,
	cudaErrorInvalidMemcpyDirection = 21,
	cudaErrorInsufficientDriver = 35,
	cudaErrorMissingConfiguration = 52,
	cudaErrorInvalidDeviceFunction = 98,
	cudaErrorInvalidDevice = 101,
	cudaErrorInvalidKernelImage = 200,
	cudaErrorSymbolNotFound = 500,
	cudaErrorNotSupported = 801,
};

enum {
	cudaMemcpyHostToHost,
	cudaMemcpyHostToDevice,
	cudaMemcpyDeviceToHost,
	cudaMemcpyDeviceToDevice,
	cudaMemcpyDefault
};

enum {
	cudaMemoryTypeUnregistered,
	cudaMemoryTypeHost,
	cudaMemoryTypeDevice,
	cudaMemoryTypeManaged
};

struct dim3 {
	unsigned x, y, z;
};

struct cudaPitchedPtr {
	void *ptr;
	size_t pitch, xsize, ysize;
};

struct cudaExtent {
	size_t width, height, depth;
};

struct cudaLaunchConfig {
	struct dim3 gridDim, blockDim;
	size_t dynamicSmemBytes;
	CUstream stream;
	struct CUlaunchAttribute *attrs;
	unsigned numAttrs;
};

struct cudaPointerAttributes {
#if RT_VERSION < 10000
	int memoryType, device;
	void *devicePointer, *hostPointer;
	int isManaged;
#else
	int type, device;
	void *devicePointer, *hostPointer;
#if RT_VERSION >= 13000
	long reserved[8];
#endif
#endif
};

struct cudaFuncAttributes {
	size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
	int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA;
	int maxDynamicSharedSizeBytes, preferredShmemCarveout;
#if RT_VERSION >= 12000
	int clusterDimMustBeSet;
	int requiredClusterWidth, requiredClusterHeight, requiredClusterDepth;
	int clusterSchedulingPolicyPreference, nonPortableClusterSizeAllowed;
	int reserved[16];
#endif
};

struct cudaKernelNodeParams {
	void *func;
	struct dim3 gridDim, blockDim;
	unsigned sharedMemBytes;
	void **kernelParams, **extra;
};

struct cudaMemsetParams {
	void *dst;
	size_t pitch;
	unsigned value, elementSize;
	size_t width, height;
};

/* CUDA 13 keeps what older versions have, without clocks and modes that attributes tell. */
struct cudaDeviceProp {
	char name[256];
#if RT_VERSION >= 10000
	struct CUuuid uuid;
	char luid[8];
	unsigned luidDeviceNodeMask;
#endif
	size_t totalGlobalMem, sharedMemPerBlock;
	int regsPerBlock, warpSize;
	size_t memPitch;
	int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
#if RT_VERSION < 13000
	int clockRate;
#endif
	size_t totalConstMem;
	int major, minor;
	size_t textureAlignment, texturePitchAlignment;
#if RT_VERSION < 13000
	int deviceOverlap;
#endif
	int multiProcessorCount;
#if RT_VERSION < 13000
	int kernelExecTimeoutEnabled;
#endif
	int integrated, canMapHostMemory;
#if RT_VERSION < 13000
	int computeMode;
#endif
	int maxTexture1D, maxTexture1DMipmap;
#if RT_VERSION < 13000
	int maxTexture1DLinear;
#endif
	int maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2];
	int maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap, maxTexture1DLayered[2];
	int maxTexture2DLayered[3], maxTextureCubemapLayered[2], maxSurface1D, maxSurface2D[2];
	int maxSurface3D[3], maxSurface1DLayered[2], maxSurface2DLayered[3], maxSurfaceCubemap;
	int maxSurfaceCubemapLayered[2];
	size_t surfaceAlignment;
	int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver;
	int asyncEngineCount, unifiedAddressing;
#if RT_VERSION < 13000
	int memoryClockRate;
#endif
	int memoryBusWidth, l2CacheSize;
#if RT_VERSION >= 11000
	int persistingL2CacheMaxSize;
#endif
	int maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported;
	int localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID;
	int hostNativeAtomicSupported;
#if RT_VERSION < 13000
	int singleToDoublePrecisionPerfRatio;
#endif
	int pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported;
	int canUseHostPointerForRegisteredMem, cooperativeLaunch;
#if RT_VERSION < 13000
	int cooperativeMultiDeviceLaunch;
#endif
	size_t sharedMemPerBlockOptin;
#if RT_VERSION >= 10000
	int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost;
#endif
#if RT_VERSION >= 11000
	int maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
	size_t reservedSharedMemPerBlock;
#endif
#if RT_VERSION >= 12000
	int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported;
	int timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
	unsigned gpuDirectRDMAFlushWritesOptions;
	int gpuDirectRDMAWritesOrdering;
	unsigned memoryPoolSupportedHandleTypes;
	int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch;
	int unifiedFunctionPointers;
#endif
#if RT_VERSION >= 13000
	int deviceNumaConfig, deviceNumaId, mpsEnabled, hostNumaId;
	unsigned gpuPciDeviceID, gpuPciSubsystemID;
	int hostNumaMultinodeIpcSupported, reserved[56];
#elif RT_VERSION >= 12000
	int reserved[63];
#endif
};

/* What programs of CUDA 11 have room for: a prefix of the structure of CUDA 12. */
#define RT_PROP_11_SIZE 728u
#if RT_VERSION >= 13000
static_assert(sizeof(struct cudaDeviceProp) == 1008, "ABI");
static_assert(sizeof(struct cudaPointerAttributes) == 88, "ABI");
#elif RT_VERSION >= 12000
static_assert(sizeof(struct cudaDeviceProp) == 1032, "ABI");
static_assert(sizeof(struct cudaPointerAttributes) == 24, "ABI");
#elif RT_VERSION >= 11000
static_assert(sizeof(struct cudaDeviceProp) == RT_PROP_11_SIZE, "ABI");
#endif
static_assert(sizeof(struct cudaLaunchConfig) == 56, "ABI");
static_assert(sizeof(struct cudaMemsetParams) == sizeof(struct CUDA_MEMSET_NODE_PARAMS), "ABI");

#endif
