/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, and what is asked about kernels. */
#include <string.h>

#include "remote/cudart/cudart.h"

/* A call about a device, which needs no context. */
#define DEVICE_CALL(name, params, device, call)                                                    \
	RT_API int name params;                                                                    \
	RT_API int name params                                                                     \
	{                                                                                          \
		int error = rt_check_device(device);                                               \
                                                                                                   \
		return rt_done(error != 0 ? error : (int)rt_driver.call);                          \
	}

DEVICE_CALL(cudaDeviceGetAttribute, (int *ret, int attribute, int device), device,
	cuDeviceGetAttribute(ret, attribute, device))
DEVICE_CALL(cudaDeviceGetPCIBusId, (char *ret, int size, int device), device,
	cuDeviceGetPCIBusId(ret, size, device))
DEVICE_CALL(cudaDeviceGetByPCIBusId, (int *ret, const char *id), 0, cuDeviceGetByPCIBusId(ret, id))
DEVICE_CALL(cudaDeviceCanAccessPeer, (int *ret, int device, int peer), device,
	cuDeviceCanAccessPeer(ret, device, peer))
DEVICE_CALL(cudaDeviceGetP2PAttribute, (int *ret, int attribute, int device, int peer), device,
	cuDeviceGetP2PAttribute(ret, attribute, device, peer))

RT_FORWARD(cudaDeviceSynchronize, (void), cuCtxSynchronize())
RT_FORWARD(cudaThreadSynchronize, (void), cuCtxSynchronize())
RT_FORWARD(cudaDeviceGetStreamPriorityRange, (int *ret_least, int *ret_greatest),
	cuCtxGetStreamPriorityRange(ret_least, ret_greatest))
RT_FORWARD(cudaDeviceGetLimit, (size_t * ret, int limit), cuCtxGetLimit(ret, limit))
RT_FORWARD(cudaDeviceSetLimit, (int limit, size_t value), cuCtxSetLimit(limit, value))
RT_FORWARD(cudaDeviceGetCacheConfig, (int *ret), cuCtxGetCacheConfig(ret))
RT_FORWARD(cudaDeviceSetCacheConfig, (int config), cuCtxSetCacheConfig(config))
RT_FORWARD(cudaDeviceGetSharedMemConfig, (int *ret), cuCtxGetSharedMemConfig(ret))
RT_FORWARD(cudaDeviceSetSharedMemConfig, (int config), cuCtxSetSharedMemConfig(config))
RT_FORWARD(cudaCtxResetPersistingL2Cache, (void), cuCtxResetPersistingL2Cache())
RT_FORWARD(cudaProfilerStart, (void), cuProfilerStart())
RT_FORWARD(cudaProfilerStop, (void), cuProfilerStop())

RT_API int cudaSetDeviceFlags(unsigned flags);
RT_API int cudaSetDeviceFlags(unsigned flags)
{
	int error = rt_check_device(rt_thread.device);

	if (error == 0) {
		error = (int)rt_driver.cuDevicePrimaryCtxSetFlags_v2(
			rt_thread.device, flags & CU_CTX_FLAGS_MASK);
	}
	return rt_done(error);
}

RT_API int cudaGetDeviceFlags(unsigned *ret);
RT_API int cudaGetDeviceFlags(unsigned *ret)
{
	int active, error = ret == NULL ? cudaErrorInvalidValue : rt_check_device(rt_thread.device);

	if (error == 0) {
		error = (int)rt_driver.cuDevicePrimaryCtxGetState(rt_thread.device, ret, &active);
	}
	return rt_done(error);
}

RT_API int cudaInitDevice(int device, unsigned device_flags, unsigned flags);
RT_API int cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
	CUcontext context;

	return rt_done(rt_context_of(device, &context));
}

RT_API int cudaDeviceEnablePeerAccess(int peer, unsigned flags);
RT_API int cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	CUcontext context;
	int error = rt_enter();

	if (error == 0) {
		error = rt_context_of(peer, &context);
	}
	return rt_done(error != 0 ? error : (int)rt_driver.cuCtxEnablePeerAccess(context, flags));
}

RT_API int cudaDeviceDisablePeerAccess(int peer);
RT_API int cudaDeviceDisablePeerAccess(int peer)
{
	CUcontext context;
	int error = rt_enter();

	if (error == 0) {
		error = rt_context_of(peer, &context);
	}
	return rt_done(error != 0 ? error : (int)rt_driver.cuCtxDisablePeerAccess(context));
}

RT_API int cudaRuntimeGetVersion(int *ret);
RT_API int cudaRuntimeGetVersion(int *ret)
{
	if (ret == NULL) {
		return rt_done(cudaErrorInvalidValue);
	}
	*ret = RT_VERSION;
	return 0;
}

/* 0 if there is no driver, without an error. */
RT_API int cudaDriverGetVersion(int *ret);
RT_API int cudaDriverGetVersion(int *ret)
{
	if (ret == NULL) {
		return rt_done(cudaErrorInvalidValue);
	}
	int error = rt_init();

	*ret = 0;
	return error != 0 ? 0 : rt_done((int)rt_driver.cuDriverGetVersion(ret));
}

static int entry_point(const char *symbol, void **ret, int version, uint64_t flags, int *ret_status)
{
	int status = 0, error = symbol == NULL || ret == NULL ? cudaErrorInvalidValue : rt_init();

	if (error == 0) {
		error = (int)rt_driver.cuGetProcAddress_v2(symbol, ret, version, flags, &status);
	}
	if (ret_status != NULL) {
		*ret_status = status;
	} else if (error == 0 && status != 0) {
		error = cudaErrorSymbolNotFound;
	}
	return error;
}

#if RT_VERSION >= 12000
RT_API int cudaGetDriverEntryPoint(
	const char *symbol, void **ret, unsigned long long flags, int *ret_status);
RT_API int cudaGetDriverEntryPoint(
	const char *symbol, void **ret, unsigned long long flags, int *ret_status)
{
	return rt_done(entry_point(symbol, ret, RT_VERSION, flags, ret_status));
}

RT_API int cudaGetDriverEntryPointByVersion(const char *symbol, void **ret, unsigned version,
	unsigned long long flags, int *ret_status);
RT_API int cudaGetDriverEntryPointByVersion(
	const char *symbol, void **ret, unsigned version, unsigned long long flags, int *ret_status)
{
	return rt_done(entry_point(symbol, ret, (int)version, flags, ret_status));
}
#else
RT_API int cudaGetDriverEntryPoint(const char *symbol, void **ret, unsigned long long flags);
RT_API int cudaGetDriverEntryPoint(const char *symbol, void **ret, unsigned long long flags)
{
	return rt_done(entry_point(symbol, ret, RT_VERSION, flags, NULL));
}
#endif

/* A call about a kernel. */
#define KERNEL_CALL(name, params, host, call)                                                      \
	RT_API int name params;                                                                    \
	RT_API int name params                                                                     \
	{                                                                                          \
		CUfunction function;                                                               \
		int error = rt_function_find(host, &function);                                     \
                                                                                                   \
		return rt_done(error != 0 ? error : (int)rt_driver.call);                          \
	}

KERNEL_CALL(cudaFuncSetAttribute, (const void *host, int attribute, int value), host,
	cuFuncSetAttribute(function, attribute, value))
KERNEL_CALL(cudaFuncSetCacheConfig, (const void *host, int config), host,
	cuFuncSetCacheConfig(function, config))
KERNEL_CALL(cudaFuncSetSharedMemConfig, (const void *host, int config), host,
	cuFuncSetSharedMemConfig(function, config))
KERNEL_CALL(
	cudaFuncGetName, (const char **ret, const void *host), host, cuFuncGetName(ret, function))
KERNEL_CALL(cudaFuncGetParamInfo,
	(const void *host, size_t index, size_t *ret_offset, size_t *ret_size), host,
	cuFuncGetParamInfo(function, index, ret_offset, ret_size))
KERNEL_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
	(int *ret, const void *host, int threads, size_t dynamic), host,
	cuOccupancyMaxActiveBlocksPerMultiprocessor(ret, function, threads, dynamic))
KERNEL_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
	(int *ret, const void *host, int threads, size_t dynamic, unsigned flags), host,
	cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		ret, function, threads, dynamic, flags))
KERNEL_CALL(cudaOccupancyAvailableDynamicSMemPerBlock,
	(size_t * ret, const void *host, int blocks, int threads), host,
	cuOccupancyAvailableDynamicSMemPerBlock(ret, function, blocks, threads))

RT_API int cudaGetFuncBySymbol(CUfunction *ret, const void *host);
RT_API int cudaGetFuncBySymbol(CUfunction *ret, const void *host)
{
	return rt_done(ret == NULL ? cudaErrorInvalidValue : rt_function_find(host, ret));
}

static int number(CUfunction function, int attribute)
{
	int value = 0;

	(void)rt_driver.cuFuncGetAttribute(&value, attribute, function);
	return value;
}

RT_API int cudaFuncGetAttributes(struct cudaFuncAttributes *ret, const void *host);
RT_API int cudaFuncGetAttributes(struct cudaFuncAttributes *ret, const void *host)
{
	CUfunction f;
	int error = ret == NULL ? cudaErrorInvalidValue : rt_function_find(host, &f);

	if (error != 0) {
		return rt_done(error);
	}
	*ret = (struct cudaFuncAttributes){
		.sharedSizeBytes = (size_t)number(f, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
		.constSizeBytes = (size_t)number(f, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES),
		.localSizeBytes = (size_t)number(f, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
		.maxThreadsPerBlock = number(f, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
		.numRegs = number(f, CU_FUNC_ATTRIBUTE_NUM_REGS),
		.ptxVersion = number(f, CU_FUNC_ATTRIBUTE_PTX_VERSION),
		.binaryVersion = number(f, CU_FUNC_ATTRIBUTE_BINARY_VERSION),
		.cacheModeCA = number(f, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA),
		.maxDynamicSharedSizeBytes =
			number(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
		.preferredShmemCarveout =
			number(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT),
	};
	return 0;
}
