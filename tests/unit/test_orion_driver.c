/* SPDX-License-Identifier: Apache-2.0 */
#include "test_orion_driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/intercept.h"
#include "util/time.h"

#define EXPORTED __attribute__((visibility("default")))

/* The types that the interface leaves open. */
struct front_stream {
	uint64_t end_ns; /* of its last kernel */
	unsigned flags;
	bool is_capturing;
};
struct front_event {
	_Atomic uint64_t at_ns;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The thread has a current context: it has set one, or is one of the program. */
static _Thread_local bool has_context;
static uint64_t free_at_ns;
static CUstream last_stream;
static uint32_t n_launches;
static _Atomic CUresult failure;
static struct front_stream legacy;
static struct front_stream *const context = &legacy; /* any address will do */

static struct front_stream *stream_of(CUstream s)
{
	return s == NULL || s == CU_STREAM_LEGACY || s == CU_STREAM_PER_THREAD ? &legacy : s;
}

static void sleep_until(uint64_t ns)
{
	uint64_t now;

	while ((now = rbt_now_ns()) < ns) {
		struct timespec t = {.tv_sec = (time_t)((ns - now) / RBT_NS_PER_S),
			.tv_nsec = (long)((ns - now) % RBT_NS_PER_S)};
		nanosleep(&t, NULL);
	}
}

static CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
	unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
	uint64_t now_ns = rbt_now_ns();

	if (failure != CUDA_SUCCESS) {
		return failure;
	}
	pthread_mutex_lock(&lock);
	struct front_stream *s = stream_of(stream);
	last_stream = stream;
	n_launches++;
	if (!s->is_capturing) {
		free_at_ns = (free_at_ns > now_ns ? free_at_ns : now_ns) + gx * UINT64_C(1000);
		s->end_ns = free_at_ns;
	}
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static uint64_t end_of(CUstream stream)
{
	pthread_mutex_lock(&lock);
	uint64_t end_ns = stream_of(stream)->end_ns;
	pthread_mutex_unlock(&lock);
	return end_ns;
}

static CUresult cuStreamSynchronize(CUstream stream)
{
	sleep_until(end_of(stream));
	return CUDA_SUCCESS;
}

static CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream stream)
{
	return cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

static CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n)
{
	cuMemcpyHtoDAsync_v2(to, from, n, NULL);
	return cuStreamSynchronize(NULL);
}

static CUresult cuStreamCreateWithPriority(CUstream *ret, unsigned flags, int priority)
{
	static struct front_stream pool[1024];
	static _Atomic uint32_t n_used;
	uint32_t i = n_used++;

	if (i >= sizeof(pool) / sizeof(pool[0])) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = &pool[i];
	(*ret)->flags = flags;
	return CUDA_SUCCESS;
}

/* Not used again: the entry of a stream may be looked at a last time. */
static CUresult cuStreamDestroy_v2(CUstream stream)
{
	return CUDA_SUCCESS;
}

static CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	return CUDA_SUCCESS;
}

static CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	pthread_mutex_lock(&lock);
	stream->is_capturing = true;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static CUresult cuStreamEndCapture(CUstream stream, CUgraph *ret)
{
	pthread_mutex_lock(&lock);
	stream->is_capturing = false;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static CUresult cuStreamIsCapturing(CUstream stream, int *ret)
{
	pthread_mutex_lock(&lock);
	*ret = stream_of(stream)->is_capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : 0;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static CUresult cuCtxGetCurrent(CUcontext *ret)
{
	*ret = (CUcontext)context;
	return CUDA_SUCCESS;
}

static CUresult cuCtxSetCurrent(CUcontext ctx)
{
	has_context = ctx != NULL;
	return CUDA_SUCCESS;
}

static CUresult cuCtxGetDevice(CUdevice *ret)
{
	*ret = 0;
	return CUDA_SUCCESS;
}

static CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice device)
{
	return cuCtxGetCurrent(ret);
}

static CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *ret_flags, int *ret_active)
{
	*ret_flags = 0;
	*ret_active = 0;
	return CUDA_SUCCESS;
}

static CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	return CUDA_SUCCESS;
}

static CUresult cuDeviceGetAttribute(int *ret, int attribute, CUdevice device)
{
	*ret = 100; /* SMs */
	return CUDA_SUCCESS;
}

static CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return CUDA_SUCCESS;
}

static CUresult cuStreamGetFlags(CUstream s, unsigned *ret)
{
	*ret = stream_of(s)->flags;
	return CUDA_SUCCESS;
}

static CUresult cuStreamGetCtx(CUstream s, CUcontext *ret)
{
	return cuCtxGetCurrent(ret);
}

static CUresult cuStreamWaitEvent(CUstream s, CUevent event, unsigned flags)
{
	return CUDA_SUCCESS; /* the GPU runs all in order */
}

static CUresult cuEventCreate(CUevent *ret, unsigned flags)
{
	*ret = calloc(1, sizeof(**ret));
	return CUDA_SUCCESS;
}

static CUresult cuEventDestroy_v2(CUevent event)
{
	free(event);
	return CUDA_SUCCESS;
}

static CUresult cuEventRecord(CUevent event, CUstream s)
{
	uint64_t end_ns = end_of(s), now_ns = rbt_now_ns();

	event->at_ns = end_ns > now_ns ? end_ns : now_ns;
	return CUDA_SUCCESS;
}

static CUresult cuEventQuery(CUevent event)
{
	if (!has_context) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	return rbt_now_ns() >= event->at_ns ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult cuEventSynchronize(CUevent event)
{
	sleep_until(event->at_ns);
	return CUDA_SUCCESS;
}

static CUresult cuEventElapsedTime(float *ret_ms, CUevent start, CUevent end)
{
	*ret_ms = (float)((double)(end->at_ns - start->at_ns) / 1e6);
	return CUDA_SUCCESS;
}

static CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	*mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	return CUDA_SUCCESS;
}

static CUresult cuFuncGetName(const char **ret, CUfunction f)
{
	*ret = "kernel";
	return CUDA_SUCCESS;
}

static struct {
	const char *symbol;
	void *real;
	_Atomic(void *) target; /* a trampoline */
} functions[] = {
#define FUNCTION(symbol)                                                                           \
	{                                                                                          \
#symbol, (void *)(uintptr_t)symbol, (void *)(uintptr_t)symbol                      \
	}
	FUNCTION(cuLaunchKernel),
	FUNCTION(cuStreamSynchronize),
	FUNCTION(cuMemcpyHtoDAsync_v2),
	FUNCTION(cuMemcpyHtoD_v2),
	FUNCTION(cuStreamBeginCapture_v2),
	FUNCTION(cuStreamEndCapture),
	FUNCTION(cuStreamDestroy_v2),
	FUNCTION(cuCtxDestroy_v2),
	FUNCTION(cuStreamCreateWithPriority),
	FUNCTION(cuStreamIsCapturing),
	FUNCTION(cuCtxGetCurrent),
	FUNCTION(cuCtxSetCurrent),
	FUNCTION(cuCtxGetStreamPriorityRange),
	FUNCTION(cuCtxGetDevice),
	FUNCTION(cuDevicePrimaryCtxRetain),
	FUNCTION(cuDevicePrimaryCtxRelease_v2),
	FUNCTION(cuDevicePrimaryCtxGetState),
	FUNCTION(cuDeviceGetAttribute),
	FUNCTION(cuStreamGetFlags),
	FUNCTION(cuStreamGetCtx),
	FUNCTION(cuStreamWaitEvent),
	FUNCTION(cuEventCreate),
	FUNCTION(cuEventDestroy_v2),
	FUNCTION(cuEventRecord),
	FUNCTION(cuEventQuery),
	FUNCTION(cuEventSynchronize),
	FUNCTION(cuEventElapsedTime),
	FUNCTION(cuThreadExchangeStreamCaptureMode),
	FUNCTION(cuFuncGetName),
};
#define N_FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

EXPORTED void *rubato_standin_driver_v1(const char *symbol)
{
	for (size_t i = 0; i < N_FUNCTIONS; i++) {
		if (strcmp(functions[i].symbol, symbol) == 0) {
			return functions[i].real;
		}
	}
	return NULL;
}

EXPORTED int rubato_standin_queue_v1(rubato_wrap_fn *wrap)
{
	for (size_t i = 0; i < N_FUNCTIONS; i++) {
		functions[i].target = wrap != NULL ? wrap(functions[i].symbol, functions[i].real)
						   : functions[i].real;
	}
	return 0;
}

void *world_driver(const char *symbol)
{
	return rubato_standin_driver_v1(symbol);
}

void *world_function(const char *symbol)
{
	for (size_t i = 0; i < N_FUNCTIONS; i++) {
		if (strcmp(functions[i].symbol, symbol) == 0) {
			return functions[i].target;
		}
	}
	abort();
}

bool world_is_intercepted(void)
{
	return world_function("cuLaunchKernel") != world_driver("cuLaunchKernel");
}

#define CALL(symbol) ((__typeof__(symbol) *)(uintptr_t)world_function(#symbol))

CUresult world_launch(CUstream stream, uint32_t duration_us)
{
	has_context = true;
	return CALL(cuLaunchKernel)(
		(CUfunction)(uintptr_t)16, duration_us, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

CUresult world_synchronize(CUstream stream)
{
	return CALL(cuStreamSynchronize)(stream);
}

CUresult world_copy(void)
{
	return CALL(cuMemcpyHtoD_v2)(0, NULL, 0);
}

CUresult world_begin_capture(CUstream stream)
{
	return CALL(cuStreamBeginCapture_v2)(stream, 0);
}

CUresult world_end_capture(CUstream stream)
{
	CUgraph graph;

	return CALL(cuStreamEndCapture)(stream, &graph);
}

CUresult world_stream_create(CUstream *ret, unsigned flags)
{
	return cuStreamCreateWithPriority(ret, flags, 0);
}

CUresult world_stream_destroy(CUstream stream)
{
	return CALL(cuStreamDestroy_v2)(stream);
}

CUresult world_destroy_other_context(void)
{
	return CALL(cuCtxDestroy_v2)((CUcontext)(void *)&failure);
}

uint64_t world_idle_at_ns(void)
{
	pthread_mutex_lock(&lock);
	uint64_t at_ns = free_at_ns;
	pthread_mutex_unlock(&lock);
	return at_ns;
}

CUstream world_last_stream(void)
{
	pthread_mutex_lock(&lock);
	CUstream s = last_stream;
	pthread_mutex_unlock(&lock);
	return s;
}

uint32_t world_n_launches(void)
{
	pthread_mutex_lock(&lock);
	uint32_t n = n_launches;
	pthread_mutex_unlock(&lock);
	return n;
}

void world_fail(CUresult result)
{
	failure = result;
}
