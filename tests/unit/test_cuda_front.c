/* SPDX-License-Identifier: Apache-2.0 */
/* The libcuda front on a device that the test stops, fails and kills at will. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "../progs/cuda_kernels.h"
#include "check.h"
#include "softgpu/cuda/front.h"
#include "test_cuda_world.h"
#include "util/time.h"

#define OK(call) CHECK_INT(call, 0)

static CUcontext context;
static CUmodule module;
static CUfunction affine, nothing;

static void launch(CUstream stream, CUdeviceptr data, uint32_t add)
{
	uint32_t mul = 1, turns = 0;
	void *params[] = {&data, &mul, &add, &turns};

	OK(cuLaunchKernel(affine, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

/* Nothing is done while the device stands, and calls that need not wait do not. */
static void test_asynchronous(void)
{
	CUstream s;
	CUevent e;
	CUdeviceptr data;
	uint32_t got = 0;
	float ms;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&e, 0));
	OK(cuMemAlloc_v2(&data, 4));
	OK(cuMemsetD32_v2(data, 0, 1));
	OK(cuCtxSynchronize());
	cuda_world_pause(true);
	for (uint32_t i = 0; i < 100; i++) {
		launch(s, data, 1);
	}
	OK(cuEventRecord(e, s));
	CHECK_INT(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
	CHECK_INT(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	CHECK_INT(cuEventElapsedTime(&ms, e, e), CUDA_ERROR_NOT_READY);
	OK(cuMemsetD32_v2(data, 0, 0));
	/* The default stream has nothing to wait for. */
	OK(cuStreamSynchronize(NULL));
	OK(cuMemcpyDtoH_v2(&got, data, 4));
	CHECK_INT(got, 0);
	cuda_world_pause(false);
	OK(cuEventSynchronize(e));
	OK(cuMemcpyDtoH_v2(&got, data, 4));
	CHECK_INT(got, 100);
	OK(cuEventDestroy_v2(e));
	OK(cuStreamDestroy_v2(s));
	OK(cuMemFree_v2(data));
}

static void *resume_soon(void *data)
{
	usleep(30000);
	cuda_world_pause(false);
	return NULL;
}

/* A full ring makes a launch wait, no longer than it must. */
static void test_full_ring(void)
{
	pthread_t thread;
	CUdeviceptr data;
	uint32_t got = 0;
	CUstream s;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc_v2(&data, 4));
	OK(cuMemsetD32_v2(data, 0, 1));
	OK(cuCtxSynchronize());
	cuda_world_pause(true);
	pthread_create(&thread, NULL, resume_soon, NULL);
	for (int i = 0; i < 3000; i++) {
		launch(s, data, 1);
	}
	OK(cuStreamSynchronize(s));
	pthread_join(thread, NULL);
	OK(cuMemcpyDtoH_v2(&got, data, 4));
	CHECK_INT(got, 3000);
	OK(cuStreamDestroy_v2(s));
	OK(cuMemFree_v2(data));
}

/* Memory freed in stream order is kept until the stream has come there, and found when needed. */
static void test_deferred_free(void)
{
	CUstream s;
	CUdeviceptr a, b = 0;
	size_t left, total, before;
	pthread_t thread;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuMemGetInfo_v2(&before, &total));
	OK(cuMemAllocAsync(&a, before / 2 + (1 << 20), s));
	cuda_world_pause(true);
	OK(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
	OK(cuMemFreeAsync(a, s));
	CHECK_INT(cuMemFreeAsync(a, s), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemGetInfo_v2(&left, &total));
	CHECK(left < before / 2);
	pthread_create(&thread, NULL, resume_soon, NULL);
	OK(cuMemAlloc_v2(&b, before / 2 + (1 << 20)));
	pthread_join(thread, NULL);
	OK(cuMemFree_v2(b));
	OK(cuStreamSynchronize(s));
	OK(cuMemGetInfo_v2(&left, &total));
	CHECK_INT(left, before);
	OK(cuStreamDestroy_v2(s));
}

/* What RM hears is for those who watch: contexts, and memory. */
static void test_accounting(void)
{
	CUcontext other;
	CUdeviceptr a;

	CHECK_INT(cuda_world_contexts(), 1);
	OK(cuCtxCreate_v2(&other, 0, 0));
	CHECK_INT(cuda_world_contexts(), 2);
	OK(cuMemAlloc_v2(&a, 3 << 20));
	CHECK_INT(cuda_world_memory(), 3 << 20);
	OK(cuMemFree_v2(a));
	CHECK_INT(cuda_world_memory(), 0);
	OK(cuCtxDestroy_v2(other));
	CHECK_INT(cuda_world_contexts(), 1);
	OK(cuCtxSetCurrent(context));
}

/* What the server refuses is a result, and leaves nothing behind. */
static void test_refused_requests(void)
{
	CUcontext other = NULL;
	CUmodule m = NULL;
	CUdeviceptr a = 7;
	void *host = NULL;

	cuda_world_fail(1, -ENOMEM);
	CHECK_INT(cuMemAlloc_v2(&a, 16), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(a, 7);
	cuda_world_fail(1, -ENOMEM);
	CHECK_INT(cuMemHostAlloc(&host, 16, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(host == NULL);
	cuda_world_fail(1, -ENOSPC);
	CHECK_INT(cuCtxCreate_v2(&other, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(other == NULL);
	CHECK_INT(cuda_world_contexts(), 1);
	cuda_world_fail(1, -ENOTSUP);
	CHECK_INT(cuModuleLoadData(&m, test_ptx), CUDA_ERROR_INVALID_PTX);
	CHECK(m == NULL);
	OK(cuMemAlloc_v2(&a, 16));
	OK(cuMemFree_v2(a));
}

/* Handles that have ended are told from those that live, also under a module's feet. */
static void test_stale_handles(void)
{
	CUcontext other;
	CUmodule m;
	CUfunction f;
	CUstream s;
	CUevent e;
	CUgraph graph;
	CUgraphNode node;
	int n;

	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuModuleLoadData(&m, test_ptx));
	OK(cuModuleGetFunction(&f, m, "affine"));
	OK(cuStreamCreate(&s, 0));
	OK(cuEventCreate(&e, 0));
	OK(cuModuleUnload(m));
	CHECK_INT(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
	CHECK_INT(cuFuncGetAttribute(&n, 0, f), CUDA_ERROR_INVALID_HANDLE);
	CHECK_INT(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		CUDA_ERROR_INVALID_HANDLE);
	OK(cuCtxDestroy_v2(other));
	CHECK_INT(cuCtxDestroy_v2(other), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_INT(cuCtxPushCurrent_v2(other), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxSetCurrent(context));
	CHECK_INT(cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
	CHECK_INT(cuEventQuery(e), CUDA_ERROR_INVALID_HANDLE);
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
	OK(cuGraphDestroy(graph));
	CHECK_INT(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuGraphDestroyNode(node), CUDA_ERROR_INVALID_VALUE);
	/* A context that is current in another place when it goes. */
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuCtxPushCurrent_v2(context));
	OK(cuCtxDestroy_v2(other));
	OK(cuCtxPopCurrent_v2(NULL));
	CHECK_INT(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	OK(cuCtxSetCurrent(context));
}

/* A graph outlives what its nodes are about: launching it is an error then, and no more. */
static void test_stale_graphs(void)
{
	CUcontext other;
	CUmodule m;
	CUfunction f;
	CUdeviceptr a;
	CUevent e;
	CUgraph graph;
	CUgraphNode kernel, fill, record;
	CUgraphExec exec;
	struct CUDA_KERNEL_NODE_PARAMS kernel_params = {.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1};
	struct CUDA_MEMSET_NODE_PARAMS fill_params = {.elementSize = 4, .width = 1, .height = 1};

	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuModuleLoadData(&m, test_ptx));
	OK(cuModuleGetFunction(&f, m, "nothing"));
	OK(cuMemAlloc_v2(&a, 4));
	OK(cuEventCreate(&e, 0));
	kernel_params.func = f;
	fill_params.dst = a;
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode_v2(&kernel, graph, NULL, 0, &kernel_params));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuModuleUnload(m));
	CHECK_INT(cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_HANDLE);
	CHECK_INT(cuGraphKernelNodeGetParams_v2(kernel, &kernel_params), CUDA_ERROR_INVALID_HANDLE);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroyNode(kernel));
	OK(cuGraphAddEventRecordNode(&record, graph, NULL, 0, e));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuEventDestroy_v2(e));
	CHECK_INT(cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_HANDLE);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &fill_params, NULL));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuCtxDestroy_v2(other));
	OK(cuCtxSetCurrent(context));
	CHECK(cuGraphLaunch(exec, NULL) != CUDA_SUCCESS);
	CHECK_INT(cuGraphMemsetNodeSetParams(fill, &fill_params), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	CHECK_INT(cuGraphExecMemsetNodeSetParams(exec, fill, &fill_params, NULL),
		CUDA_ERROR_CONTEXT_IS_DESTROYED);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuCtxSynchronize());
}

static void test_primary(void)
{
	CUcontext first, second;
	CUdeviceptr a;

	OK(cuDevicePrimaryCtxRetain(&first, 0));
	OK(cuCtxPushCurrent_v2(first));
	OK(cuMemAlloc_v2(&a, 64));
	CHECK_INT(cuCtxDestroy_v2(first), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuDevicePrimaryCtxReset_v2(0));
	CHECK_INT(cuMemAlloc_v2(&a, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	/* A reset is no release. */
	OK(cuDevicePrimaryCtxRelease_v2(0));
	CHECK_INT(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	/* The handle is the device's for good. */
	OK(cuDevicePrimaryCtxRetain(&second, 0));
	CHECK(first == second);
	OK(cuMemAlloc_v2(&a, 64));
	OK(cuCtxPopCurrent_v2(&second));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	CHECK_INT(cuda_world_contexts(), 1);
}

static void *wait_for_all(void *result)
{
	OK(cuCtxSetCurrent(context));
	*(CUresult *)result = cuCtxSynchronize();
	return NULL;
}

/* Last: the device goes while a thread waits. */
static void test_lost(void)
{
	CUresult result = CUDA_SUCCESS;
	CUdeviceptr a;
	CUstream s;
	pthread_t thread;
	uint64_t began_ns;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	cuda_world_pause(true);
	OK(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
	pthread_create(&thread, NULL, wait_for_all, &result);
	usleep(20000);
	began_ns = rbt_now_ns();
	cuda_world_kill();
	pthread_join(thread, NULL);
	CHECK_INT(result, CUDA_ERROR_DEVICE_UNAVAILABLE);
	CHECK(rbt_now_ns() - began_ns < 200 * RBT_NS_PER_MS);
	CHECK_INT(cuMemAlloc_v2(&a, 16), CUDA_ERROR_DEVICE_UNAVAILABLE);
	CHECK_INT(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL),
		CUDA_ERROR_DEVICE_UNAVAILABLE);
	CHECK_INT(cuStreamSynchronize(s), CUDA_ERROR_DEVICE_UNAVAILABLE);
	OK(cuStreamDestroy_v2(s));
	CHECK_INT(cuCtxDestroy_v2(context), CUDA_ERROR_DEVICE_UNAVAILABLE);
	CHECK_INT(cuCtxCreate_v2(&context, 0, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

int main(void)
{
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&context, 0, 0));
	OK(cuModuleLoadData(&module, test_ptx));
	OK(cuModuleGetFunction(&affine, module, "affine"));
	OK(cuModuleGetFunction(&nothing, module, "nothing"));
	test_asynchronous();
	test_full_ring();
	test_deferred_free();
	test_accounting();
	test_refused_requests();
	test_stale_handles();
	test_stale_graphs();
	test_primary();
	test_lost();
	return check_result();
}
