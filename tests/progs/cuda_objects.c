/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be asked of and set on contexts, devices, memory pools, functions and libraries, as
 * documented. usage: cuda_objects FOLDER, where FOLDER/classic.ptx is.
 * What is checked here holds on hardware too, but for what is said to be the software GPU's own.
 */
#include <stdbool.h>

#include "cuda_api.h"
#include "cuda_kernels.h"

enum {
	INVALID_VALUE = 1,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
	PEER_ACCESS_UNSUPPORTED = 217,
	FILE_NOT_FOUND = 301,
	INVALID_HANDLE = 400,
	PRIMARY_CONTEXT_ACTIVE = 708,
};
enum { SCHED_MASK = 7, SCHED_SPIN = 1, SCHED_BLOCKING_SYNC = 4, BAD_FLAGS = 0x40000000 };
enum { MAX_DYNAMIC_SHARED = 8, CARVEOUT = 9 };

static bool soft;

static void test_context_forms(void)
{
	struct context_params none = {0};
	unsigned long long ids[3] = {0};
	void *contexts[3] = {0}, *current = NULL;
	unsigned version = 0;
	int device = -1;

	MUST(cu.cuCtxGetCurrent(&contexts[0]));
	OK(cu.cuCtxCreate_v3(&contexts[1], NULL, 0, SCHED_SPIN, 0));
	OK(cu.cuCtxGetCurrent(&current));
	CHECK(current == contexts[1]);
	OK(cu.cuCtxCreate_v4(&contexts[2], &none, 0, 0));
	CHECK_INT(cu.cuCtxCreate_v3(&current, NULL, 0, 0, 99), INVALID_DEVICE);
	CHECK_INT(cu.cuCtxCreate_v4(&current, NULL, 0, -1), INVALID_DEVICE);
	CHECK_INT(cu.cuCtxCreate_v3(NULL, NULL, 0, 0, 0), INVALID_VALUE);
	for (int i = 0; i < 3; i++) {
		OK(cu.cuCtxGetId(contexts[i], &ids[i]));
		OK(cu.cuCtxGetDevice_v2(&device, contexts[i]));
		CHECK_INT(device, 0);
		OK(cu.cuCtxGetApiVersion(contexts[i], &version));
		CHECK(version >= 3010);
	}
	CHECK(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
	/* No context means the current one. */
	OK(cu.cuCtxGetId(NULL, &ids[0]));
	CHECK(ids[0] == ids[2]);
	device = -1;
	OK(cu.cuCtxGetDevice_v2(&device, NULL));
	CHECK_INT(device, 0);
	CHECK_INT(cu.cuCtxGetId(NULL, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuCtxGetDevice_v2(NULL, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuCtxGetApiVersion(NULL, NULL), INVALID_VALUE);
	OK(cu.cuCtxDestroy_v2(contexts[2]));
	OK(cu.cuCtxDestroy_v2(contexts[1]));
	OK(cu.cuCtxSetCurrent(contexts[0]));
}

static void test_context_settings(void)
{
	unsigned flags = 0;
	int config = -1;

	OK(cu.cuCtxSetFlags(SCHED_BLOCKING_SYNC));
	OK(cu.cuCtxGetFlags(&flags));
	CHECK_INT(flags & SCHED_MASK, SCHED_BLOCKING_SYNC);
	CHECK_INT(cu.cuCtxSetFlags(BAD_FLAGS), INVALID_VALUE);
	CHECK_INT(cu.cuCtxGetFlags(NULL), INVALID_VALUE);
	OK(cu.cuCtxGetFlags(&flags));
	CHECK_INT(flags & SCHED_MASK, SCHED_BLOCKING_SYNC);
	OK(cu.cuCtxSetFlags(0));
	/* Preferences: 0 none, 1 shared memory, 2 L1, 3 equal. */
	for (int i = 3; i >= 0; i--) {
		OK(cu.cuCtxSetCacheConfig(i));
		OK(cu.cuCtxGetCacheConfig(&config));
		CHECK_INT(config, i);
	}
	CHECK_INT(cu.cuCtxSetCacheConfig(4), INVALID_VALUE);
	CHECK_INT(cu.cuCtxGetCacheConfig(NULL), INVALID_VALUE);
	/* Banks of four bytes, on all devices that can be had: what is asked for has no effect. */
	OK(cu.cuCtxSetSharedMemConfig(2));
	OK(cu.cuCtxGetSharedMemConfig(&config));
	CHECK_INT(config, 1);
	CHECK_INT(cu.cuCtxSetSharedMemConfig(3), INVALID_VALUE);
	CHECK_INT(cu.cuCtxGetSharedMemConfig(NULL), INVALID_VALUE);
	OK(cu.cuCtxResetPersistingL2Cache());
	OK(cu.cuProfilerStart());
	OK(cu.cuProfilerStop());
}

/* Of calls that work in the current context: without one. */
static void test_no_context(void *context, void *function)
{
	void *p = NULL;
	unsigned flags;
	int n;

	OK(cu.cuCtxSetCurrent(NULL));
	CHECK_INT(cu.cuCtxGetFlags(&flags), INVALID_CONTEXT);
	CHECK_INT(cu.cuCtxSetFlags(0), INVALID_CONTEXT);
	CHECK_INT(cu.cuCtxGetCacheConfig(&n), INVALID_CONTEXT);
	CHECK_INT(cu.cuCtxSetCacheConfig(0), INVALID_CONTEXT);
	CHECK_INT(cu.cuCtxGetSharedMemConfig(&n), INVALID_CONTEXT);
	CHECK_INT(cu.cuCtxSetSharedMemConfig(0), INVALID_CONTEXT);
	CHECK_INT(cu.cuCtxResetPersistingL2Cache(), INVALID_CONTEXT);
	CHECK_INT(cu.cuCtxGetDevice_v2(&n, NULL), INVALID_CONTEXT);
	CHECK_INT(cu.cuCtxEnablePeerAccess(context, 0), INVALID_CONTEXT);
	CHECK_INT(cu.cuCtxDisablePeerAccess(context), INVALID_CONTEXT);
	CHECK_INT(cu.cuModuleLoadFatBinary(&p, test_ptx), INVALID_CONTEXT);
	CHECK_INT(cu.cuStreamGetCtx(NULL, &p), INVALID_CONTEXT);
	if (soft) { /* not tried on hardware */
		CHECK_INT(cu.cuProfilerStart(), INVALID_CONTEXT);
		CHECK_INT(cu.cuProfilerStop(), INVALID_CONTEXT);
		CHECK_INT(cu.cuFuncSetCacheConfig(function, 0), INVALID_CONTEXT);
	}
	OK(cu.cuCtxSetCurrent(context));
}

static void test_device(void)
{
	struct device_properties prop;
	int major = 0, minor = -1, value = -1;

	OK(cu.cuDeviceComputeCapability(&major, &minor, 0));
	OK(cu.cuDeviceGetAttribute(&value, 75, 0));
	CHECK_INT(major, value);
	OK(cu.cuDeviceGetAttribute(&value, 76, 0));
	CHECK_INT(minor, value);
	CHECK_INT(cu.cuDeviceComputeCapability(&major, &minor, 99), INVALID_DEVICE);
	CHECK_INT(cu.cuDeviceComputeCapability(NULL, &minor, 0), INVALID_VALUE);
	OK(cu.cuDeviceGetProperties(&prop, 0));
	const struct {
		int attribute, value;
	} same[] = {{1, prop.block_threads}, {2, prop.block[0]}, {3, prop.block[1]},
		{4, prop.block[2]}, {5, prop.grid[0]}, {6, prop.grid[1]}, {7, prop.grid[2]},
		{8, prop.block_shared}, {9, prop.constant}, {10, prop.warp}, {11, prop.pitch},
		{12, prop.block_registers}, {13, prop.clock_khz}, {14, prop.texture_align}};
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		OK(cu.cuDeviceGetAttribute(&value, same[i].attribute, 0));
		CHECK_INT(same[i].value, value);
	}
	CHECK_INT(cu.cuDeviceGetProperties(NULL, 0), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceGetProperties(&prop, -1), INVALID_DEVICE);
}

/* One device reaches itself without asking; it is no peer of itself. */
static void test_peers(void *context)
{
	int value = -1;

	OK(cu.cuDeviceCanAccessPeer(&value, 0, 0));
	CHECK_INT(value, 0);
	CHECK_INT(cu.cuDeviceCanAccessPeer(&value, 0, 99), INVALID_DEVICE);
	CHECK_INT(cu.cuDeviceCanAccessPeer(NULL, 0, 0), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceGetP2PAttribute(&value, 2, 0, 0), INVALID_DEVICE);
	CHECK_INT(cu.cuDeviceGetP2PAttribute(&value, 2, 0, 99), INVALID_DEVICE);
	CHECK_INT(cu.cuCtxEnablePeerAccess(context, 0), PEER_ACCESS_UNSUPPORTED);
	CHECK_INT(cu.cuCtxEnablePeerAccess(NULL, 0), INVALID_CONTEXT);
	CHECK_INT(cu.cuCtxDisablePeerAccess(NULL), INVALID_CONTEXT);
}

static void check_primary(unsigned flags, int active)
{
	unsigned got_flags = 0;
	int got_active = -1;

	OK(cu.cuDevicePrimaryCtxGetState(0, &got_flags, &got_active));
	CHECK_INT(got_active, active);
	CHECK_INT(got_flags & SCHED_MASK, flags);
}

static void test_primary_context(void *context)
{
	void *primary = NULL, *again = NULL;
	uint64_t data = 0;

	OK(cu.cuDevicePrimaryCtxSetFlags(0, SCHED_SPIN));
	check_primary(SCHED_SPIN, 0);
	OK(cu.cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cu.cuDevicePrimaryCtxRetain(&again, 0));
	CHECK(primary == again);
	check_primary(SCHED_SPIN, 1);
	/* The first form refuses what the second does. */
	if (soft) {
		CHECK_INT(cu.cuDevicePrimaryCtxSetFlags(0, 0), PRIMARY_CONTEXT_ACTIVE);
		check_primary(SCHED_SPIN, 1);
	}
	OK(cu.cuDevicePrimaryCtxSetFlags_v2(0, SCHED_BLOCKING_SYNC));
	check_primary(SCHED_BLOCKING_SYNC, 1);
	CHECK_INT(cu.cuDevicePrimaryCtxSetFlags_v2(0, BAD_FLAGS), INVALID_VALUE);
	CHECK_INT(cu.cuDevicePrimaryCtxSetFlags_v2(99, 0), INVALID_DEVICE);
	OK(cu.cuDevicePrimaryCtxRelease(0));
	check_primary(SCHED_BLOCKING_SYNC, 1);
	/* With the last reference the flags end, too. The first form takes one release too many. */
	OK(cu.cuDevicePrimaryCtxRelease(0));
	check_primary(0, 0);
	OK(cu.cuDevicePrimaryCtxRelease(0));
	CHECK_INT(cu.cuDevicePrimaryCtxRelease(99), INVALID_DEVICE);
	/* A reset ends the context although there is a reference, which is released as usual. */
	OK(cu.cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cu.cuCtxSetCurrent(primary));
	OK(cu.cuMemAlloc_v2(&data, 64));
	OK(cu.cuDevicePrimaryCtxReset(0));
	check_primary(0, 0);
	OK(cu.cuDevicePrimaryCtxRelease(0));
	CHECK_INT(cu.cuDevicePrimaryCtxReset(99), INVALID_DEVICE);
	OK(cu.cuCtxSetCurrent(context));
}

static void test_pool_attributes(void *pool)
{
	uint64_t threshold = 0, zero = 0, high = 1;
	int reuse = -1;

	for (int attribute = 1; attribute <= 3; attribute++) {
		OK(cu.cuMemPoolGetAttribute(pool, attribute, &reuse));
		CHECK_INT(reuse, 1);
		reuse = 0;
		OK(cu.cuMemPoolSetAttribute(pool, attribute, &reuse));
		reuse = -1;
		OK(cu.cuMemPoolGetAttribute(pool, attribute, &reuse));
		CHECK_INT(reuse, 0);
	}
	threshold = UINT64_MAX;
	OK(cu.cuMemPoolSetAttribute(pool, 4, &threshold));
	threshold = 0;
	OK(cu.cuMemPoolGetAttribute(pool, 4, &threshold));
	CHECK(threshold == UINT64_MAX);
	/* What is and was reserved and used: high-water marks can be put back, to zero. */
	for (int attribute = 5; attribute <= 8; attribute++) {
		bool is_mark = attribute == 6 || attribute == 8;
		OK(cu.cuMemPoolGetAttribute(pool, attribute, &high));
		CHECK_INT(cu.cuMemPoolSetAttribute(pool, attribute, &zero),
			is_mark ? 0 : INVALID_VALUE);
	}
	threshold = 7;
	CHECK_INT(cu.cuMemPoolSetAttribute(pool, 6, &threshold), INVALID_VALUE);
	CHECK_INT(cu.cuMemPoolGetAttribute(pool, 99, &threshold), INVALID_VALUE);
	CHECK_INT(cu.cuMemPoolGetAttribute(pool, 1, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuMemPoolSetAttribute(pool, 0, &threshold), INVALID_VALUE);
}

static void test_pools(void)
{
	struct pool_properties props = {.alloc_type = 1, .location = {.type = 1, .id = 0}};
	void *pool = NULL, *standard = NULL, *current = NULL, *s;
	uint64_t data = 0;
	uint32_t got = 0;

	MUST(cu.cuStreamCreate(&s, NON_BLOCKING));
	OK(cu.cuDeviceGetDefaultMemPool(&standard, 0));
	OK(cu.cuDeviceGetMemPool(&current, 0));
	CHECK(standard != NULL && current == standard);
	OK(cu.cuMemPoolCreate(&pool, &props));
	CHECK(pool != standard);
	test_pool_attributes(pool);
	OK(cu.cuDeviceSetMemPool(0, pool));
	OK(cu.cuDeviceGetMemPool(&current, 0));
	CHECK(current == pool);
	OK(cu.cuDeviceGetDefaultMemPool(&current, 0));
	CHECK(current == standard);
	/* Memory of it is memory. */
	OK(cu.cuMemAllocFromPoolAsync(&data, 64, pool, s));
	OK(cu.cuMemsetD32Async(data, 42, 16, s));
	OK(cu.cuMemcpyDtoHAsync_v2(&got, data + 60, 4, s));
	OK(cu.cuStreamSynchronize(s));
	CHECK_INT(got, 42);
	OK(cu.cuMemFreeAsync(data, s));
	OK(cu.cuStreamSynchronize(s));
	OK(cu.cuMemPoolTrimTo(pool, 0));
	CHECK_INT(cu.cuMemAllocFromPoolAsync(NULL, 64, pool, s), INVALID_VALUE);
	CHECK_INT(cu.cuMemPoolDestroy(standard), INVALID_VALUE);
	OK(cu.cuMemPoolDestroy(pool));
	OK(cu.cuDeviceGetMemPool(&current, 0));
	CHECK(current == standard);
	/* What no pool can be made of, and what is none. */
	props.location.id = 99;
	CHECK(cu.cuMemPoolCreate(&pool, &props) != 0);
	props = (struct pool_properties){.alloc_type = 0, .location = {.type = 1, .id = 0}};
	CHECK_INT(cu.cuMemPoolCreate(&pool, &props), INVALID_VALUE);
	CHECK_INT(cu.cuMemPoolCreate(&pool, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceGetDefaultMemPool(NULL, 0), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceGetDefaultMemPool(&pool, 99), INVALID_DEVICE);
	CHECK_INT(cu.cuDeviceGetMemPool(&pool, 99), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceSetMemPool(99, standard), INVALID_VALUE);
	if (soft) { /* hardware's driver crashes on no pool */
		CHECK_INT(cu.cuDeviceSetMemPool(0, NULL), INVALID_VALUE);
		CHECK_INT(cu.cuMemPoolTrimTo(NULL, 0), INVALID_VALUE);
	}
	OK(cu.cuStreamDestroy_v2(s));
}

/* Hints about managed memory change nothing that can be read. */
static void test_hints(void)
{
	const struct location device = {1, 0}, nowhere = {77, 0};
	uint64_t managed = 0, plain = cuda_api_zeros(16);
	const int advices[] = {1, 2, 3, 4, 5, 6};

	OK(cu.cuMemAllocManaged(&managed, 4096, 1));
	*(uint32_t *)(uintptr_t)managed = 11;
	for (size_t i = 0; i < 6; i++) {
		OK(cu.cuMemAdvise(managed, 4096, advices[i], 0));
		OK(cu.cuMemAdvise_v2(managed, 4096, advices[i], device));
	}
	OK(cu.cuMemPrefetchAsync(managed, 4096, 0, NULL));
	OK(cu.cuMemPrefetchAsync(managed, 4096, -1, NULL));
	OK(cu.cuMemPrefetchAsync_v2(managed, 4096, device, 0, NULL));
	OK(cu.cuStreamAttachMemAsync(NULL, managed, 0, 1));
	OK(cu.cuCtxSynchronize());
	CHECK_INT(*(uint32_t *)(uintptr_t)managed, 11);
	CHECK_INT(cu.cuMemAdvise(managed, 4096, 99, 0), INVALID_VALUE);
	CHECK_INT(cu.cuMemAdvise_v2(managed, 0, 1, device), INVALID_VALUE);
	CHECK_INT(cu.cuMemPrefetchAsync(managed, 4096, 99, NULL), INVALID_DEVICE);
	CHECK_INT(cu.cuMemPrefetchAsync(managed, 0, 0, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuMemPrefetchAsync_v2(managed, 4096, nowhere, 0, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuMemPrefetchAsync_v2(managed, 4096, device, 1, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuStreamAttachMemAsync(NULL, managed, 0, 99), INVALID_VALUE);
	CHECK_INT(cu.cuStreamAttachMemAsync(NULL, plain, 0, 1), INVALID_VALUE);
	if (soft) { /* hardware's driver rounds sizes up, and may crash on NULL */
		CHECK_INT(cu.cuMemAdvise(managed, 1 << 20, 1, 0), INVALID_VALUE);
		CHECK_INT(cu.cuPointerSetAttribute(NULL, 6, plain), INVALID_VALUE);
	}
	OK(cu.cuMemFree_v2(managed));
	/* An attribute of device memory. */
	int on = 1;
	OK(cu.cuPointerSetAttribute(&on, 6, plain));
	on = 0;
	OK(cu.cuPointerGetAttribute(&on, 6, plain));
	CHECK_INT(on, 1);
	CHECK_INT(cu.cuPointerSetAttribute(&on, 2, plain), INVALID_VALUE);
	CHECK_INT(cu.cuPointerSetAttribute(&on, 6, 0x1000), INVALID_VALUE);
	OK(cu.cuMemFree_v2(plain));
}

static void test_functions(void *module)
{
	void *functions[8] = {0}, *named[6];
	const char *const names[] = {"nothing", "affine", "mixed", "tables", "last_word", "poke"};
	unsigned n = 0;
	int value = -1;

	OK(cu.cuModuleGetFunctionCount(&n, module));
	CHECK_INT(n, 6);
	OK(cu.cuModuleEnumerateFunctions(functions, 8, module));
	CHECK(functions[6] == NULL && functions[7] == NULL);
	/* Each once, in whatever order. */
	for (int i = 0; i < 6; i++) {
		int times = 0;
		named[i] = cuda_api_function(module, names[i]);
		for (int j = 0; j < 6; j++) {
			times += functions[j] == named[i];
		}
		CHECK_INT(times, 1);
	}
	functions[1] = NULL;
	OK(cu.cuModuleEnumerateFunctions(functions, 1, module));
	CHECK(functions[0] != NULL && functions[1] == NULL);
	OK(cu.cuModuleGetLoadingMode(&value));
	CHECK(value == 1 || (value == 2 && !soft)); /* eager, or lazy */
	OK(cu.cuFuncLoad(named[1]));
	OK(cu.cuFuncIsLoaded(&value, named[1]));
	CHECK_INT(value, 1);
	for (int i = 0; i <= 3; i++) {
		OK(cu.cuFuncSetCacheConfig(named[1], i));
	}
	CHECK_INT(cu.cuFuncSetCacheConfig(named[1], 4), INVALID_VALUE);
	for (int i = 0; i <= 2; i++) {
		OK(cu.cuFuncSetSharedMemConfig(named[1], i));
	}
	CHECK_INT(cu.cuFuncSetSharedMemConfig(named[1], 3), INVALID_VALUE);
	if (soft) { /* hardware's driver may crash on what is no handle, and on NULL */
		CHECK_INT(cu.cuModuleGetFunctionCount(NULL, module), INVALID_VALUE);
		CHECK_INT(cu.cuModuleEnumerateFunctions(NULL, 8, module), INVALID_VALUE);
		CHECK_INT(cu.cuModuleGetLoadingMode(NULL), INVALID_VALUE);
		CHECK_INT(cu.cuFuncIsLoaded(NULL, named[1]), INVALID_VALUE);
		CHECK_INT(cu.cuFuncLoad(module), INVALID_HANDLE);
		CHECK_INT(cu.cuFuncIsLoaded(&value, module), INVALID_HANDLE);
		CHECK_INT(cu.cuFuncSetCacheConfig(module, 0), INVALID_HANDLE);
		CHECK_INT(cu.cuFuncSetSharedMemConfig(module, 0), INVALID_HANDLE);
		CHECK_INT(cu.cuModuleGetFunctionCount(&n, named[1]), INVALID_HANDLE);
	}
}

/* The forms with flags say the same; and as many blocks fit as memory is said to be left for. */
static void test_occupancy(void *function)
{
	int blocks = -1, other = -2, grid = -1, size = -1, other_grid = -2, other_size = -2;
	size_t bytes = 0;

	for (int threads = 32; threads <= 1024; threads *= 2) {
		OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, 0));
		OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
			&other, function, threads, 0, 1));
		CHECK(blocks > 0 && blocks == other);
		OK(cu.cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, 1, threads));
		CHECK(bytes > 0);
		OK(cu.cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, 2, threads));
		OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(
			&blocks, function, threads, bytes));
		CHECK(blocks >= 2);
	}
	OK(cu.cuOccupancyMaxPotentialBlockSize(&grid, &size, function, NULL, 0, 0));
	OK(cu.cuOccupancyMaxPotentialBlockSizeWithFlags(
		&other_grid, &other_size, function, NULL, 0, 0, 0));
	CHECK(grid > 0 && grid == other_grid && size > 0 && size == other_size);
	OK(cu.cuOccupancyMaxPotentialBlockSizeWithFlags(
		&other_grid, &other_size, function, NULL, 0, 64, 0));
	CHECK(other_size > 0 && other_size <= 64);
	CHECK_INT(cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
			  &blocks, function, 32, 0, 99),
		INVALID_VALUE);
	CHECK_INT(
		cu.cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, 0, 32), INVALID_VALUE);
	if (soft) { /* hardware's driver may crash on NULL */
		CHECK_INT(cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
				  NULL, function, 32, 0, 0),
			INVALID_VALUE);
		CHECK_INT(cu.cuOccupancyMaxPotentialBlockSizeWithFlags(
				  NULL, &size, function, NULL, 0, 0, 0),
			INVALID_VALUE);
		CHECK_INT(cu.cuOccupancyAvailableDynamicSMemPerBlock(NULL, function, 1, 32),
			INVALID_VALUE);
	}
}

static void test_kernel(void *library, void *kernel)
{
	size_t offset = 99, size = 99;
	const char *name = NULL;
	void *owner = NULL;
	int value = -1;

	OK(cu.cuKernelGetName(&name, kernel));
	CHECK(name != NULL && strcmp(name, "mixed") == 0);
	/* A kernel may stand for its function in launches and occupancy, but not here. */
	CHECK_INT(cu.cuFuncGetName(&name, kernel), INVALID_HANDLE);
	OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, kernel, 32, 0));
	CHECK(value > 0);
	OK(cu.cuKernelGetLibrary(&owner, kernel));
	CHECK(owner == library);
	/* A byte, 64 bits, 16, 32. */
	const size_t offsets[] = {0, 8, 16, 20}, sizes[] = {1, 8, 2, 4};
	for (size_t i = 0; i < 4; i++) {
		OK(cu.cuKernelGetParamInfo(kernel, i, &offset, &size));
		CHECK(offset == offsets[i] && size == sizes[i]);
	}
	OK(cu.cuKernelGetParamInfo(kernel, 1, &offset, NULL));
	CHECK_INT(offset, 8);
	CHECK_INT(cu.cuKernelGetParamInfo(kernel, 4, &offset, &size), INVALID_VALUE);
	OK(cu.cuKernelSetAttribute(CARVEOUT, 50, kernel, 0));
	OK(cu.cuKernelSetAttribute(MAX_DYNAMIC_SHARED, 1024, kernel, 0));
	OK(cu.cuKernelGetAttribute(&value, MAX_DYNAMIC_SHARED, kernel, 0));
	CHECK_INT(value, 1024);
	CHECK_INT(cu.cuKernelSetAttribute(MAX_DYNAMIC_SHARED, -1, kernel, 0), INVALID_VALUE);
	CHECK_INT(cu.cuKernelSetAttribute(MAX_DYNAMIC_SHARED, 64, kernel, 99), INVALID_DEVICE);
	OK(cu.cuKernelSetCacheConfig(kernel, 1, 0));
	CHECK_INT(cu.cuKernelSetCacheConfig(kernel, 4, 0), INVALID_VALUE);
	CHECK_INT(cu.cuKernelSetCacheConfig(kernel, 1, 99), INVALID_DEVICE);
	if (soft) { /* hardware's driver may crash on what is no handle, and on NULL */
		CHECK_INT(cu.cuKernelGetName(NULL, kernel), INVALID_VALUE);
		CHECK_INT(cu.cuKernelGetLibrary(NULL, kernel), INVALID_VALUE);
		CHECK_INT(cu.cuKernelGetName(&name, library), INVALID_HANDLE);
		CHECK_INT(cu.cuKernelGetLibrary(&owner, library), INVALID_HANDLE);
		CHECK_INT(cu.cuKernelGetParamInfo(library, 0, &offset, &size), INVALID_HANDLE);
		CHECK_INT(cu.cuKernelSetAttribute(CARVEOUT, 50, library, 0), INVALID_HANDLE);
		CHECK_INT(cu.cuKernelSetCacheConfig(library, 1, 0), INVALID_HANDLE);
	}
}

static void test_library(const char *path)
{
	void *library, *kernels[8] = {0}, *kernel, *module = NULL, *again = NULL, *function = NULL;
	const char *name = NULL;
	unsigned n = 0;

	MUST(cu.cuLibraryLoadData(&library, test_ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cu.cuLibraryGetKernelCount(&n, library));
	CHECK_INT(n, 6);
	OK(cu.cuLibraryEnumerateKernels(kernels, 8, library));
	CHECK(kernels[5] != NULL && kernels[6] == NULL);
	OK(cu.cuLibraryGetKernel(&kernel, library, "mixed"));
	int times = 0;
	for (int i = 0; i < 6; i++) {
		times += kernels[i] == kernel;
	}
	CHECK_INT(times, 1);
	test_kernel(library, kernel);
	/* Its module in this context: always the same, with the same functions. */
	OK(cu.cuLibraryGetModule(&module, library));
	OK(cu.cuLibraryGetModule(&again, library));
	CHECK(module != NULL && module == again);
	OK(cu.cuKernelGetFunction(&function, kernel));
	CHECK(function == cuda_api_function(module, "mixed"));
	OK(cu.cuFuncGetName(&name, function));
	CHECK(name != NULL && strcmp(name, "mixed") == 0);
	if (soft) { /* hardware's driver may crash on NULL */
		CHECK_INT(cu.cuLibraryGetKernelCount(NULL, library), INVALID_VALUE);
		CHECK_INT(cu.cuLibraryEnumerateKernels(NULL, 8, library), INVALID_VALUE);
		CHECK_INT(cu.cuLibraryGetModule(NULL, library), INVALID_VALUE);
	}
	OK(cu.cuLibraryUnload(library));
	/* From a file. */
	OK(cu.cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
	OK(cu.cuLibraryGetKernelCount(&n, library));
	CHECK(n > 0);
	OK(cu.cuLibraryUnload(library));
	CHECK_INT(cu.cuLibraryLoadFromFile(
			  &library, "/nonexistent.ptx", NULL, NULL, 0, NULL, NULL, 0),
		FILE_NOT_FOUND);
	if (soft) { /* hardware's driver may crash on NULL, and on an unloaded library */
		CHECK_INT(cu.cuLibraryLoadFromFile(&library, NULL, NULL, NULL, 0, NULL, NULL, 0),
			INVALID_VALUE);
		CHECK_INT(cu.cuLibraryGetKernelCount(&n, library), INVALID_HANDLE);
		CHECK_INT(cu.cuLibraryEnumerateKernels(kernels, 8, library), INVALID_HANDLE);
		CHECK_INT(cu.cuLibraryGetModule(&module, library), INVALID_HANDLE);
	}
}

/* Other ways to make a module: through the linker from a file, and as a "fat binary", whose text
 * may be PTX. */
static void test_images(const char *path)
{
	void *state = NULL, *image = NULL, *module = NULL;
	unsigned n = 0;
	size_t size = 0;

	MUST(cu.cuLinkCreate_v2(0, NULL, NULL, &state));
	CHECK_INT(cu.cuLinkAddFile_v2(state, 1, "/nonexistent.ptx", 0, NULL, NULL), FILE_NOT_FOUND);
	CHECK_INT(cu.cuLinkAddFile_v2(state, 99, path, 0, NULL, NULL), INVALID_VALUE);
	if (soft) { /* hardware's driver may crash on NULL */
		CHECK_INT(cu.cuLinkAddFile_v2(state, 1, NULL, 0, NULL, NULL), INVALID_VALUE);
	}
	OK(cu.cuLinkDestroy(state));
	MUST(cu.cuLinkCreate_v2(0, NULL, NULL, &state));
	OK(cu.cuLinkAddFile_v2(state, 1, path, 0, NULL, NULL));
	OK(cu.cuLinkComplete(state, &image, &size));
	CHECK(size > 0);
	OK(cu.cuModuleLoadData(&module, image));
	OK(cu.cuModuleGetFunctionCount(&n, module));
	CHECK(n > 0);
	OK(cu.cuModuleUnload(module));
	OK(cu.cuLinkDestroy(state));
	if (soft) { /* that text will do is not documented; and hardware's may crash on NULL */
		OK(cu.cuModuleLoadFatBinary(&module, test_ptx));
		OK(cu.cuModuleGetFunctionCount(&n, module));
		CHECK_INT(n, 6);
		OK(cu.cuModuleUnload(module));
		CHECK_INT(cu.cuModuleLoadFatBinary(NULL, test_ptx), INVALID_VALUE);
		CHECK_INT(cu.cuModuleLoadFatBinary(&module, NULL), INVALID_VALUE);
	}
}

int main(int argc, char **argv)
{
	char path[1024];
	void *context, *module;

	if (argc != 2) {
		fprintf(stderr, "usage: cuda_objects FOLDER\n");
		return 2;
	}
	snprintf(path, sizeof(path), "%s/classic.ptx", argv[1]);
	soft = cuda_api_start(&context);
	MUST(cu.cuModuleLoadData(&module, test_ptx));
	TEST(test_context_forms());
	TEST(test_context_settings());
	TEST(test_no_context(context, cuda_api_function(module, "affine")));
	TEST(test_device());
	TEST(test_peers(context));
	TEST(test_primary_context(context));
	TEST(test_pools());
	TEST(test_hints());
	TEST(test_functions(module));
	TEST(test_occupancy(cuda_api_function(module, "affine")));
	TEST(test_library(path));
	TEST(test_images(path));
	OK(cu.cuCtxDestroy_v2(context));
	return check_result();
}
