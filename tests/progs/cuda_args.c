/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong arguments: what each call says to them, and that nothing happens. usage: cuda_args
 * What is checked here holds on hardware too, but for what is said to be the software GPU's own.
 */
#include <stdbool.h>

#include "cuda_api.h"
#include "cuda_kernels.h"

enum {
	INVALID_VALUE = 1,
	NOT_INITIALIZED = 3,
	INVALID_DEVICE = 101,
	INVALID_IMAGE = 200,
	INVALID_CONTEXT = 201,
	INVALID_PTX = 218,
	FILE_NOT_FOUND = 301,
	INVALID_HANDLE = 400,
	ILLEGAL_STATE = 401,
	NOT_FOUND = 500,
};

static bool soft;

static void test_before_init(void)
{
	void *p = NULL;
	uint64_t a = 0;
	int n = 0;

	CHECK_INT(cu.cuDeviceGetCount(&n), NOT_INITIALIZED);
	CHECK_INT(cu.cuDeviceGet(&n, 0), NOT_INITIALIZED);
	CHECK_INT(cu.cuCtxCreate_v2(&p, 0, 0), NOT_INITIALIZED);
	CHECK_INT(cu.cuMemAlloc_v2(&a, 16), NOT_INITIALIZED);
	CHECK_INT(cu.cuStreamSynchronize(NULL), NOT_INITIALIZED);
	CHECK_INT(cu.cuDriverGetVersion(&n), 0);
	CHECK_INT(cu.cuDriverGetVersion(NULL), INVALID_VALUE);
	CHECK_INT(cu.cuInit(1), INVALID_VALUE);
}

static void test_without_context(void)
{
	void *p = NULL;
	uint64_t a = 0;
	size_t size;
	int word = 0;

	CHECK_INT(cu.cuMemAlloc_v2(&a, 16), INVALID_CONTEXT);
	CHECK_INT(cu.cuMemGetInfo_v2(&size, &size), INVALID_CONTEXT);
	CHECK_INT(cu.cuMemcpyHtoD_v2(0x1000, &word, 4), INVALID_CONTEXT);
	CHECK_INT(cu.cuModuleLoadData(&p, test_ptx), INVALID_CONTEXT);
	CHECK_INT(cu.cuStreamCreate(&p, 0), INVALID_CONTEXT);
	CHECK_INT(cu.cuEventCreate(&p, 0), INVALID_CONTEXT);
	CHECK_INT(cu.cuCtxSynchronize(), INVALID_CONTEXT);
	CHECK_INT(cu.cuCtxGetDevice(&word), INVALID_CONTEXT);
	CHECK_INT(cu.cuCtxPopCurrent_v2(&p), INVALID_CONTEXT);
	CHECK_INT(cu.cuCtxSetCurrent(NULL), 0);
	CHECK_INT(cu.cuCtxGetCurrent(&p), 0);
	CHECK(p == NULL);
}

static void test_devices(void)
{
	char text[8];
	void *p = NULL;
	unsigned flags;
	size_t size;
	int n = 0;

	CHECK_INT(cu.cuDeviceGetCount(NULL), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceGet(NULL, 0), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceGet(&n, 99), INVALID_DEVICE);
	CHECK_INT(cu.cuDeviceGet(&n, -1), INVALID_DEVICE);
	CHECK_INT(cu.cuDeviceGetName(NULL, 10, 0), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceGetName(text, 8, 77), INVALID_DEVICE);
	CHECK_INT(cu.cuDeviceGetAttribute(NULL, 1, 0), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceGetAttribute(&n, 100000, 0), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceGetAttribute(&n, -1, 0), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceGetAttribute(&n, 1, -1), INVALID_DEVICE);
	CHECK_INT(cu.cuDeviceTotalMem_v2(NULL, 0), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceTotalMem_v2(&size, 99), INVALID_DEVICE);
	CHECK_INT(cu.cuDeviceGetUuid_v2(NULL, 0), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceGetPCIBusId(NULL, 10, 0), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceGetByPCIBusId(&n, "nonsense"), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceGetByPCIBusId(NULL, "0:1:0.0"), INVALID_VALUE);
	CHECK_INT(cu.cuDevicePrimaryCtxRetain(NULL, 0), INVALID_VALUE);
	CHECK_INT(cu.cuDevicePrimaryCtxRetain(&p, 99), INVALID_DEVICE);
	CHECK_INT(cu.cuDevicePrimaryCtxRelease_v2(0), INVALID_CONTEXT);
	CHECK_INT(cu.cuDevicePrimaryCtxGetState(99, &flags, &n), INVALID_DEVICE);
	CHECK_INT(cu.cuGetErrorName(123456, (const char **)&p), INVALID_VALUE);
	CHECK(p == NULL);
}

static void test_contexts(void *context)
{
	void *p = NULL;
	size_t size;
	int zeros[64] = {0};

	CHECK_INT(cu.cuCtxCreate_v2(NULL, 0, 0), INVALID_VALUE);
	CHECK_INT(cu.cuCtxCreate_v2(&p, 0, 99), INVALID_DEVICE);
	CHECK_INT(cu.cuCtxCreate_v2(&p, 0xffff0000, 0), INVALID_VALUE);
	CHECK_INT(cu.cuCtxGetCurrent(NULL), INVALID_VALUE);
	CHECK_INT(cu.cuCtxPushCurrent_v2(NULL), INVALID_VALUE);
	CHECK_INT(cu.cuCtxGetLimit(&size, 1000), INVALID_VALUE);
	CHECK_INT(cu.cuCtxGetLimit(NULL, 0), INVALID_VALUE);
	CHECK_INT(cu.cuCtxGetDevice(NULL), INVALID_VALUE);
	if (soft) {
		/* Where hardware's driver may crash. */
		CHECK_INT(cu.cuCtxDestroy_v2(NULL), INVALID_VALUE);
		CHECK_INT(cu.cuCtxDestroy_v2(zeros), INVALID_CONTEXT);
		CHECK_INT(cu.cuCtxSetCurrent(zeros), INVALID_CONTEXT);
	}
	OK(cu.cuCtxGetCurrent(&p));
	CHECK(p == context);
}

static void test_modules(void *module)
{
	void *p = NULL;
	uint64_t a;
	size_t size;
	int option = 5;

	CHECK_INT(cu.cuModuleLoadData(NULL, test_ptx), INVALID_VALUE);
	CHECK_INT(cu.cuModuleLoadData(&p, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuModuleLoad(&p, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuModuleLoad(&p, "/nonexistent/x.ptx"), FILE_NOT_FOUND);
	CHECK_INT(cu.cuModuleGetFunction(&p, module, "nobody"), NOT_FOUND);
	CHECK_INT(cu.cuModuleGetFunction(NULL, module, "affine"), INVALID_VALUE);
	CHECK_INT(cu.cuModuleGetFunction(&p, module, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuModuleGetGlobal_v2(&a, &size, module, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuModuleLoadDataEx(&p, test_ptx, 1, NULL, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuLibraryLoadData(&p, NULL, NULL, NULL, 0, NULL, NULL, 0), INVALID_VALUE);
	CHECK_INT(
		cu.cuLibraryLoadData(NULL, test_ptx, NULL, NULL, 0, NULL, NULL, 0), INVALID_VALUE);
	if (soft) {
		CHECK_INT(cu.cuModuleLoadDataEx(&p, test_ptx, 1, &option, NULL), INVALID_VALUE);
		CHECK_INT(cu.cuModuleLoadData(&p, ""), INVALID_IMAGE);
		CHECK_INT(cu.cuModuleLoadData(&p, "x"), INVALID_PTX);
		CHECK_INT(cu.cuModuleGetFunction(&p, NULL, "affine"), INVALID_HANDLE);
		CHECK_INT(cu.cuModuleUnload(NULL), INVALID_HANDLE);
		CHECK_INT(cu.cuLibraryUnload(NULL), INVALID_HANDLE);
		CHECK_INT(cu.cuFuncGetAttribute(&option, 0, NULL), INVALID_HANDLE);
	}
	CHECK(p == NULL);
}

static int launch_as(void *f, unsigned gx, unsigned bx, unsigned by, unsigned bz, unsigned shared)
{
	static uint64_t data;
	static uint32_t one = 1;
	void *params[] = {&data, &one, &one, &one};

	return cu.cuLaunchKernel(f, gx, 1, 1, bx, by, bz, shared, NULL, params, NULL);
}

static void test_launches(void *affine)
{
	uint64_t data = 0;
	size_t size = 8;
	uint32_t one = 1;
	int n;
	void *params[] = {&data, &one, &one, &one};
	void *extra[] = {(void *)1, &data, (void *)2, &size, (void *)0};
	struct launch_config config = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .n_attributes = 1};

	CHECK_INT(launch_as(affine, 0, 1, 1, 1, 0), INVALID_VALUE);
	CHECK_INT(launch_as(affine, 0x80000000u, 1, 1, 1, 0), INVALID_VALUE);
	CHECK_INT(launch_as(affine, 1, 0, 1, 1, 0), INVALID_VALUE);
	CHECK_INT(launch_as(affine, 1, 1025, 1, 1, 0), INVALID_VALUE);
	CHECK_INT(launch_as(affine, 1, 1, 1, 65, 0), INVALID_VALUE);
	CHECK_INT(launch_as(affine, 1, 1024, 2, 1, 0), INVALID_VALUE);
	CHECK_INT(launch_as(affine, 1, 1, 1, 1, 48 * 1024 + 1), INVALID_VALUE);
	CHECK_INT(launch_as(affine, 1, 1, 1, 1, 1u << 30), INVALID_VALUE);
	CHECK_INT(launch_as(NULL, 1, 1, 1, 1, 0), INVALID_HANDLE);
	CHECK_INT(
		cu.cuLaunchKernel(affine, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra), INVALID_VALUE);
	CHECK_INT(cu.cuLaunchKernelEx(NULL, affine, params, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuLaunchHostFunc(NULL, NULL, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuStreamAddCallback(NULL, NULL, NULL, 0), INVALID_VALUE);
	CHECK_INT(cu.cuFuncGetAttribute(NULL, 0, affine), INVALID_VALUE);
	CHECK_INT(cu.cuFuncGetAttribute(&n, 1000, affine), INVALID_VALUE);
	CHECK_INT(cu.cuFuncSetAttribute(affine, 8, 1 << 30), INVALID_VALUE);
	CHECK_INT(cu.cuFuncSetAttribute(affine, 8, -1), INVALID_VALUE);
	CHECK_INT(cu.cuFuncSetAttribute(affine, 0, 1), INVALID_VALUE);
	CHECK_INT(
		cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, affine, 32, 0), INVALID_VALUE);
	CHECK_INT(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, affine, 0, 0), INVALID_VALUE);
	if (soft) {
		params[2] = NULL;
		CHECK_INT(cu.cuLaunchKernel(affine, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
			INVALID_VALUE);
		CHECK_INT(cu.cuLaunchKernel(affine, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			INVALID_VALUE);
		CHECK_INT(cu.cuLaunchKernel(affine, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
			INVALID_VALUE);
		CHECK_INT(cu.cuLaunchKernelEx(&config, affine, params, NULL), INVALID_VALUE);
	}
	OK(cu.cuCtxSynchronize());
}

static void test_memory(void)
{
	uint64_t a = 7, b;
	size_t size;
	void *host = NULL;
	int word = 0, bad = -5;
	struct memcpy2d none = {.width = 4, .height = 1};

	CHECK_INT(cu.cuMemAlloc_v2(NULL, 16), INVALID_VALUE);
	CHECK_INT(cu.cuMemAlloc_v2(&a, 0), INVALID_VALUE);
	CHECK_INT(a, 0);
	CHECK_INT(cu.cuMemAllocPitch_v2(&a, &size, 4, 4, 3), INVALID_VALUE);
	CHECK_INT(cu.cuMemAllocPitch_v2(&a, NULL, 4, 4, 4), INVALID_VALUE);
	CHECK_INT(cu.cuMemAllocPitch_v2(&a, &size, 0, 4, 4), INVALID_VALUE);
	CHECK_INT(cu.cuMemAllocManaged(&a, 16, 0), INVALID_VALUE);
	CHECK_INT(cu.cuMemHostAlloc(NULL, 16, 0), INVALID_VALUE);
	CHECK_INT(cu.cuMemHostAlloc(&host, 16, 0x100), INVALID_VALUE);
	CHECK_INT(cu.cuMemFreeHost(&word), INVALID_VALUE);
	CHECK_INT(cu.cuMemHostGetDevicePointer_v2(&a, &word, 0), INVALID_VALUE);
	CHECK_INT(cu.cuMemHostRegister_v2(NULL, 16, 0), INVALID_VALUE);
	CHECK_INT(cu.cuMemHostRegister_v2(&word, 0, 0), INVALID_VALUE);
	CHECK_INT(cu.cuMemHostUnregister(NULL), INVALID_VALUE);
	CHECK_INT(cu.cuMemFree_v2(12345), INVALID_VALUE);
	MUST(cu.cuMemAlloc_v2(&b, 64));
	CHECK_INT(cu.cuMemFree_v2(b + 16), INVALID_VALUE);
	CHECK_INT(cu.cuMemcpyHtoD_v2(b, NULL, 4), INVALID_VALUE);
	CHECK_INT(cu.cuMemcpyDtoH_v2(NULL, b, 4), INVALID_VALUE);
	CHECK_INT(cu.cuMemcpyHtoD_v2(0, &word, 4), INVALID_VALUE);
	CHECK_INT(cu.cuMemcpyDtoD_v2(b, 0, 4), INVALID_VALUE);
	CHECK_INT(cu.cuMemcpyHtoD_v2(b, &word, 0), 0);
	CHECK_INT(cu.cuMemcpy2D_v2(&none), INVALID_VALUE);
	CHECK_INT(cu.cuMemsetD32_v2(b + 1, 0, 4), INVALID_VALUE);
	CHECK_INT(cu.cuMemsetD32_v2(0, 0, 4), INVALID_VALUE);
	CHECK_INT(cu.cuMemsetD8_v2(b, 0, 1ull << 50), INVALID_VALUE);
	CHECK_INT(cu.cuPointerGetAttribute(NULL, 2, b), INVALID_VALUE);
	CHECK_INT(cu.cuPointerGetAttribute(&word, bad, b), INVALID_VALUE);
	CHECK_INT(cu.cuPointerGetAttributes(1, NULL, NULL, b), INVALID_VALUE);
	CHECK_INT(cu.cuMemAllocAsync(NULL, 16, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuMemFreeAsync(12345, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuMemcpyHtoDAsync_v2(0, &word, 4, NULL), INVALID_VALUE);
	if (soft) {
		/* Hardware's driver rounds sizes up. */
		CHECK_INT(cu.cuMemcpyHtoD_v2(b, &none, 65), INVALID_VALUE);
		CHECK_INT(cu.cuMemsetD8_v2(b, 0, 65), INVALID_VALUE);
		CHECK_INT(cu.cuMemcpy2D_v2(NULL), INVALID_VALUE);
		CHECK_INT(cu.cuMemGetInfo_v2(NULL, NULL), INVALID_VALUE);
	}
	OK(cu.cuMemFree_v2(b));
}

static void test_streams(void)
{
	void *s = NULL, *e = NULL, *p = NULL;
	int zeros[64] = {0};
	unsigned flags;
	float ms;

	CHECK_INT(cu.cuStreamCreate(NULL, 0), INVALID_VALUE);
	CHECK_INT(cu.cuStreamCreate(&s, 0x80), INVALID_VALUE);
	CHECK_INT(cu.cuStreamGetFlags(NULL, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuEventCreate(NULL, 0), INVALID_VALUE);
	CHECK_INT(cu.cuEventCreate(&e, 0x100), INVALID_VALUE);
	CHECK_INT(cu.cuEventQuery(NULL), INVALID_HANDLE);
	CHECK_INT(cu.cuEventRecord(NULL, NULL), INVALID_HANDLE);
	CHECK_INT(cu.cuEventSynchronize(NULL), INVALID_HANDLE);
	CHECK_INT(cu.cuEventDestroy_v2(NULL), INVALID_HANDLE);
	CHECK_INT(cu.cuStreamWaitEvent(NULL, NULL, 0), INVALID_HANDLE);
	CHECK_INT(cu.cuEventElapsedTime(&ms, NULL, NULL), INVALID_HANDLE);
	CHECK_INT(cu.cuStreamDestroy_v2(NULL), INVALID_HANDLE);
	MUST(cu.cuStreamCreate(&s, 0));
	MUST(cu.cuEventCreate(&e, 0));
	CHECK_INT(cu.cuStreamWaitEvent(s, e, 8), INVALID_VALUE);
	CHECK_INT(cu.cuStreamEndCapture(s, NULL), ILLEGAL_STATE);
	CHECK_INT(cu.cuStreamBeginCapture_v2(s, 7), INVALID_VALUE);
	if (soft) {
		CHECK_INT(cu.cuStreamSynchronize(zeros), INVALID_HANDLE);
		CHECK_INT(cu.cuStreamGetFlags(zeros, &flags), INVALID_HANDLE);
		CHECK_INT(cu.cuEventQuery(zeros), INVALID_HANDLE);
		CHECK_INT(cu.cuEventQuery(s), INVALID_HANDLE);
		CHECK_INT(cu.cuStreamSynchronize(e), INVALID_HANDLE);
		OK(cu.cuEventDestroy_v2(e));
		CHECK_INT(cu.cuEventDestroy_v2(e), INVALID_HANDLE);
		MUST(cu.cuEventCreate(&e, 0));
	}
	CHECK_INT(cu.cuGraphCreate(NULL, 0), INVALID_VALUE);
	CHECK_INT(cu.cuGraphCreate(&p, 1), INVALID_VALUE);
	CHECK_INT(cu.cuGraphInstantiateWithFlags(NULL, NULL, 0), INVALID_VALUE);
	CHECK_INT(cu.cuGraphLaunch(NULL, s), INVALID_VALUE);
	CHECK_INT(cu.cuGraphDestroy(NULL), INVALID_VALUE);
	CHECK_INT(cu.cuGraphExecDestroy(NULL), INVALID_VALUE);
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuEventDestroy_v2(e));
}

int main(void)
{
	char name[64] = "";
	void *context, *module, *affine;

	cuda_api_open();
	TEST(test_before_init());
	MUST(cu.cuInit(0));
	MUST(cu.cuInit(0));
	MUST(cu.cuDeviceGetName(name, sizeof(name), 0));
	soft = strstr(name, "software") != NULL;
	TEST(test_without_context());
	TEST(test_devices());
	MUST(cu.cuCtxCreate_v2(&context, 0, 0));
	TEST(test_contexts(context));
	MUST(cu.cuModuleLoadData(&module, test_ptx));
	affine = cuda_api_function(module, "affine");
	TEST(test_modules(module));
	TEST(test_launches(affine));
	TEST(test_memory());
	TEST(test_streams());
	OK(cu.cuModuleUnload(module));
	OK(cu.cuCtxDestroy_v2(context));
	return check_result();
}
