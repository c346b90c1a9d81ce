/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's library, devices' primary contexts, and which of them is current in a thread. */
#include <dlfcn.h>

#include "remote/cudart/cudart.h"

struct rt_driver rt_driver;
__thread struct rt_thread rt_thread;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_ready;
static int n_devices;
static struct {
	CUcontext context;  /* under the lock; NULL: not retained */
	atomic_uint resets; /* how often the device was reset */
} devices[RT_MAX_DEVICES];

static CUresult missing(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Under the lock. */
static int load(void)
{
	static void *library;

	if (library != NULL) {
		return 0;
	}
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		return cudaErrorInsufficientDriver;
	}
#define DRIVER_FIND(symbol, params)                                                                \
	*(void **)&rt_driver.symbol = dlsym(library, #symbol);                                     \
	if (rt_driver.symbol == NULL) {                                                            \
		rt_driver.symbol = (CUresult(*) params)(void (*)(void))missing;                    \
	}
	DRIVER_CALLS(DRIVER_FIND)
#undef DRIVER_FIND
	return 0;
}

int rt_init(void)
{
	int error;

	if (atomic_load_explicit(&is_ready, memory_order_acquire)) {
		return 0;
	}
	pthread_mutex_lock(&lock);
	error = load();
	if (error == 0) {
		error = (int)rt_driver.cuInit(0);
	}
	if (error == 0) {
		error = (int)rt_driver.cuDeviceGetCount(&n_devices);
	}
	if (error == 0) {
		n_devices = n_devices < RT_MAX_DEVICES ? n_devices : RT_MAX_DEVICES;
		atomic_store_explicit(&is_ready, true, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
	return error;
}

int rt_check_device(int device)
{
	int error = rt_init();

	if (error != 0) {
		return error;
	}
	return device >= 0 && device < n_devices ? 0 : cudaErrorInvalidDevice;
}

int rt_context_of(int device, CUcontext *ret)
{
	int error = rt_check_device(device);

	if (error != 0) {
		return error;
	}
	pthread_mutex_lock(&lock);
	if (devices[device].context == NULL) {
		error = (int)rt_driver.cuDevicePrimaryCtxRetain(&devices[device].context, device);
	}
	if (error == 0) {
		*ret = devices[device].context;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

/* A thread keeps its context until it chooses another device: the driver is asked once. */
int rt_enter(void)
{
	struct rt_thread *t = &rt_thread;
	unsigned epoch = 1 + devices[t->device].resets;
	CUcontext context;

	if (t->bound == epoch && t->bound_device == t->device) {
		return 0;
	}
	int error = rt_context_of(t->device, &context);
	if (error == 0) {
		error = (int)rt_driver.cuCtxSetCurrent(context);
	}
	if (error == 0) {
		t->bound = epoch;
		t->bound_device = t->device;
	}
	return error;
}

static int reset(int device)
{
	int error = rt_check_device(device);

	if (error != 0) {
		return error;
	}
	pthread_mutex_lock(&lock);
	if (devices[device].context != NULL) {
		(void)rt_driver.cuDevicePrimaryCtxRelease_v2(device);
		devices[device].context = NULL;
	}
	error = (int)rt_driver.cuDevicePrimaryCtxReset_v2(device);
	devices[device].resets++;
	pthread_mutex_unlock(&lock);
	rt_functions_forget(device);
	return error;
}

RT_API int cudaDeviceReset(void);
RT_API int cudaDeviceReset(void)
{
	return rt_done(reset(rt_thread.device));
}

RT_API int cudaThreadExit(void);
RT_API int cudaThreadExit(void)
{
	return cudaDeviceReset();
}

RT_API int cudaGetDeviceCount(int *ret_count);
RT_API int cudaGetDeviceCount(int *ret_count)
{
	int error = ret_count == NULL ? cudaErrorInvalidValue : rt_init();

	if (ret_count != NULL) {
		*ret_count = error == 0 ? n_devices : 0;
	}
	return rt_done(error == 0 && n_devices == 0 ? (int)CUDA_ERROR_NO_DEVICE : error);
}

RT_API int cudaGetDevice(int *ret_device);
RT_API int cudaGetDevice(int *ret_device)
{
	int error = ret_device == NULL ? cudaErrorInvalidValue : rt_init();

	if (error == 0) {
		*ret_device = rt_thread.device;
	}
	return rt_done(error);
}

RT_API int cudaSetDevice(int device);
RT_API int cudaSetDevice(int device)
{
	int error = rt_check_device(device);

	if (error == 0) {
		rt_thread.device = device;
	}
	/* Since CUDA 12 the device's context is made and current when this returns. */
	if (error == 0 && RT_VERSION >= 12000) {
		error = rt_enter();
	}
	return rt_done(error);
}
