/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types and numbers of the CUDA driver interface that the front answers, declared from its
 * public documentation. Names are the interface's own, so that its documentation applies; only what
 * is used here is declared.
 */
#ifndef RBT_CUDA_ABI_H
#define RBT_CUDA_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define CUDA_VERSION 13000 /* what driver 580 has */

/* clang-format off */
typedef enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_IMAGE = 200,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
	CUDA_ERROR_UNSUPPORTED_LIMIT = 215,
	CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
	CUDA_ERROR_INVALID_PTX = 218,
	CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
	CUDA_ERROR_INVALID_SOURCE = 300,
	CUDA_ERROR_FILE_NOT_FOUND = 301,
	CUDA_ERROR_OPERATING_SYSTEM = 304,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_ILLEGAL_STATE = 401,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
	CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
	CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
	CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
	CUDA_ERROR_LAUNCH_FAILED = 719,
	CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720,
	CUDA_ERROR_NOT_PERMITTED = 800,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_SYSTEM_NOT_READY = 802,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
	CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
	CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
	CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
	CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
	CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
	CUDA_ERROR_CAPTURED_EVENT = 907,
	CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
	CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910,
	CUDA_ERROR_INVALID_RESOURCE_TYPE = 914,
	CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915,
	CUDA_ERROR_UNKNOWN = 999,
} CUresult;
/* clang-format on */

typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct front_context *CUcontext;
typedef struct front_stream *CUstream;
typedef struct front_event *CUevent;
typedef struct front_module *CUmodule;
typedef struct front_function *CUfunction;
typedef struct front_library *CUlibrary;
typedef struct front_kernel *CUkernel;
typedef struct front_link_state *CUlinkState;
typedef struct front_graph *CUgraph;
typedef struct front_node *CUgraphNode;
typedef struct front_exec *CUgraphExec;
typedef struct front_pool *CUmemoryPool;
typedef struct front_array *CUarray; /* there are none */

#define CU_STREAM_LEGACY     ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

#define CU_STREAM_NON_BLOCKING 1u

#define CU_DEV_RESOURCE_TYPE_SM     1
#define CU_GREEN_CTX_DEFAULT_STREAM 1u

#define CU_EVENT_BLOCKING_SYNC   1u
#define CU_EVENT_DISABLE_TIMING  2u
#define CU_EVENT_INTERPROCESS    4u
#define CU_EVENT_RECORD_EXTERNAL 1u
#define CU_EVENT_WAIT_EXTERNAL   1u

#define CU_CTX_SCHED_MASK 0x07u
#define CU_CTX_FLAGS_MASK 0xffu

#define CU_MEMHOSTALLOC_PORTABLE      1u
#define CU_MEMHOSTALLOC_DEVICEMAP     2u
#define CU_MEMHOSTALLOC_WRITECOMBINED 4u
#define CU_MEMHOSTREGISTER_ALL        0x0fu
#define CU_MEM_ATTACH_GLOBAL          1u
#define CU_MEM_ATTACH_HOST            2u
#define CU_MEM_ATTACH_SINGLE          4u

#define CU_LAUNCH_PARAM_END            ((void *)0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE    ((void *)2)

enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_UNIFIED };

enum {
	CU_GET_PROC_ADDRESS_SUCCESS,
	CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
	CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
};
#define CU_GET_PROC_ADDRESS_LEGACY_STREAM             1u
#define CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM 2u

enum {
	CU_LIMIT_STACK_SIZE,
	CU_LIMIT_PRINTF_FIFO_SIZE,
	CU_LIMIT_MALLOC_HEAP_SIZE,
	CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH,
	CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT,
	CU_LIMIT_MAX_L2_FETCH_GRANULARITY,
	CU_LIMIT_PERSISTING_L2_CACHE_SIZE,
	CU_LIMIT_SHMEM_SIZE,
	CU_LIMIT_MAX
};

/* Of devices. */
#define CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT 16

/* Of functions. */
enum {
	CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
	CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
	CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
	CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
	CU_FUNC_ATTRIBUTE_NUM_REGS,
	CU_FUNC_ATTRIBUTE_PTX_VERSION,
	CU_FUNC_ATTRIBUTE_BINARY_VERSION,
	CU_FUNC_ATTRIBUTE_CACHE_MODE_CA,
	CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
	CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
	CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET,
	CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
	CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
	CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH,
	CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
	CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
	CU_FUNC_ATTRIBUTE_MAX
};

/* Of launches. */
enum {
	CU_LAUNCH_ATTRIBUTE_IGNORE,
	CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
	CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
	CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
	CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
	CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
	CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
	CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT,
	CU_LAUNCH_ATTRIBUTE_PRIORITY,
	CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
	CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
	CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
	CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT,
	CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE,
	CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
};

/* Of compiling. */
enum {
	CU_JIT_MAX_REGISTERS,
	CU_JIT_THREADS_PER_BLOCK,
	CU_JIT_WALL_TIME,
	CU_JIT_INFO_LOG_BUFFER,
	CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
	CU_JIT_ERROR_LOG_BUFFER,
	CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
	CU_JIT_NUM_OPTIONS = 35
};
enum {
	CU_JIT_INPUT_CUBIN,
	CU_JIT_INPUT_PTX,
	CU_JIT_INPUT_FATBINARY,
	CU_JIT_INPUT_OBJECT,
	CU_JIT_INPUT_LIBRARY,
	CU_JIT_INPUT_NVVM,
	CU_JIT_NUM_INPUT_TYPES
};

/* Of pointers. */
enum {
	CU_POINTER_ATTRIBUTE_CONTEXT = 1,
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
	CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
	CU_POINTER_ATTRIBUTE_HOST_POINTER,
	CU_POINTER_ATTRIBUTE_P2P_TOKENS,
	CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
	CU_POINTER_ATTRIBUTE_BUFFER_ID,
	CU_POINTER_ATTRIBUTE_IS_MANAGED,
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
	CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
	CU_POINTER_ATTRIBUTE_RANGE_SIZE,
	CU_POINTER_ATTRIBUTE_MAPPED,
	CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
	CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
	CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
	CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
};

enum {
	CU_STREAM_CAPTURE_MODE_GLOBAL,
	CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
	CU_STREAM_CAPTURE_MODE_RELAXED
};
enum {
	CU_STREAM_CAPTURE_STATUS_NONE,
	CU_STREAM_CAPTURE_STATUS_ACTIVE,
	CU_STREAM_CAPTURE_STATUS_INVALIDATED
};
enum {
	CU_GRAPH_NODE_TYPE_KERNEL,
	CU_GRAPH_NODE_TYPE_MEMCPY,
	CU_GRAPH_NODE_TYPE_MEMSET,
	CU_GRAPH_NODE_TYPE_HOST,
	CU_GRAPH_NODE_TYPE_GRAPH,
	CU_GRAPH_NODE_TYPE_EMPTY,
	CU_GRAPH_NODE_TYPE_WAIT_EVENT,
	CU_GRAPH_NODE_TYPE_EVENT_RECORD
};

struct CUuuid {
	unsigned char bytes[16];
};

struct CUdevprop {
	int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
	int sharedMemPerBlock, totalConstantMemory, SIMDWidth, memPitch, regsPerBlock;
	int clockRate, textureAlign;
};

struct CUDA_MEMCPY2D {
	size_t srcXInBytes, srcY;
	int srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	size_t srcPitch;
	size_t dstXInBytes, dstY;
	int dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	size_t dstPitch;
	size_t WidthInBytes, Height;
};

/* The form for one device has `reserved` members in place of the contexts of the form for peers. */
struct CUDA_MEMCPY3D {
	size_t srcXInBytes, srcY, srcZ, srcLOD;
	int srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	CUcontext srcContext;
	size_t srcPitch, srcHeight;
	size_t dstXInBytes, dstY, dstZ, dstLOD;
	int dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	CUcontext dstContext;
	size_t dstPitch, dstHeight;
	size_t WidthInBytes, Height, Depth;
};

struct CUlaunchAttribute {
	int id, pad;
	union {
		char bytes[64];
		int cooperative;
		struct {
			unsigned x, y, z;
		} cluster;
		uint64_t align;
	} value;
};

struct CUlaunchConfig {
	unsigned gridDimX, gridDimY, gridDimZ;
	unsigned blockDimX, blockDimY, blockDimZ;
	unsigned sharedMemBytes;
	CUstream hStream;
	struct CUlaunchAttribute *attrs;
	unsigned numAttrs;
};

/* States of a process, as cuCheckpointProcessGetState() tells them. */
enum CUprocessState {
	CU_PROCESS_STATE_RUNNING = 0,
	CU_PROCESS_STATE_LOCKED = 1,
	CU_PROCESS_STATE_CHECKPOINTED = 2,
	CU_PROCESS_STATE_FAILED = 3,
};

struct CUcheckpointLockArgs {
	unsigned timeoutMs; /* 0: none */
	unsigned reserved0;
	uint64_t reserved1[7];
};

struct CUctxCreateParams {
	void *execAffinityParams;
	int numExecAffinityParams;
	void *cigParams;
};

struct CUmemLocation {
	int type, id;
};

struct CUmemPoolProps {
	int allocType, handleTypes;
	struct CUmemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned short usage;
	unsigned char reserved[54];
};

/* Until CUDA 12 the members after kernelParams and extra did not exist. */
struct CUDA_KERNEL_NODE_PARAMS {
	CUfunction func;
	unsigned gridDimX, gridDimY, gridDimZ;
	unsigned blockDimX, blockDimY, blockDimZ;
	unsigned sharedMemBytes;
	void **kernelParams, **extra;
	CUkernel kern;
	CUcontext ctx;
};

struct CUDA_MEMSET_NODE_PARAMS {
	CUdeviceptr dst;
	size_t pitch;
	unsigned value, elementSize;
	size_t width, height;
};

struct CUDA_HOST_NODE_PARAMS {
	void (*fn)(void *user);
	void *userData;
};

struct CUDA_GRAPH_INSTANTIATE_PARAMS {
	uint64_t flags;
	CUstream hUploadStream;
	CUgraphNode hErrNode_out;
	int result_out;
};

struct CUgraphExecUpdateResultInfo {
	int result;
	CUgraphNode errorNode, errorFromNode;
};

struct CUgraphEdgeData {
	unsigned char from_port, to_port, type, reserved[5];
};

/* Some of a device's SMs. What the driver keeps in the padding names them. */
struct CUdevResource {
	int type;
	unsigned char internal[92];
	union {
		struct {
			unsigned smCount, minSmPartitionSize, smCoscheduledAlignment;
		} sm;
		unsigned char oversize[48];
	};
};
typedef void *CUdevResourceDesc;
typedef void *CUgreenCtx;

typedef void (*CUhostFn)(void *user);
typedef void (*CUstreamCallback)(CUstream stream, CUresult status, void *user);
typedef size_t (*CUoccupancyB2DSize)(int block_size);

static_assert(sizeof(struct CUDA_MEMCPY2D) == 128, "ABI");
static_assert(sizeof(struct CUDA_MEMCPY3D) == 200, "ABI");
static_assert(sizeof(struct CUlaunchAttribute) == 72, "ABI");
static_assert(sizeof(struct CUlaunchConfig) == 56, "ABI");
static_assert(sizeof(struct CUmemPoolProps) == 88, "ABI");
static_assert(offsetof(struct CUDA_KERNEL_NODE_PARAMS, kern) == 56, "ABI");
static_assert(sizeof(struct CUDA_MEMSET_NODE_PARAMS) == 40, "ABI");
static_assert(sizeof(struct CUDA_GRAPH_INSTANTIATE_PARAMS) == 32, "ABI");
static_assert(offsetof(struct CUdevResource, sm) == 96, "ABI");
static_assert(sizeof(struct CUdevResource) == 144, "ABI");

#endif
