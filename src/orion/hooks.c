/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intercepted functions other than launches. None of them is held. They are intercepted because
 * they use default streams, tell that work is done, or end the life of something that is noted.
 *
 * A function that is missing here, and works on the default stream, does no harm: the streams in
 * place of clients' default streams are ordered towards it by CUDA.
 */
#include <stddef.h>
#include <stdint.h>

#include "orion/call.h"
#include "orion/capture.h"
#include "orion/client.h"
#include "orion/driver.h"
#include "orion/known.h"
#include "orion/partition.h"
#include "orion/record.h"
#include "orion/stream.h"

/* All functions that take a stream, from calls.txt. */
#define STREAM_CALL(symbol, parameters, arguments, stream, submits, is_own)                        \
	static CUresult(*next_##symbol) parameters;                                                \
	static CUresult hook_##symbol parameters                                                   \
	{                                                                                          \
		struct orion_call call;                                                            \
		stream = orion_call_begin(&call, stream, is_own, submits);                         \
		CUresult r = next_##symbol arguments;                                              \
		orion_call_end(&call);                                                             \
		return r;                                                                          \
	}
#include "cuda/streams.inc"
#undef STREAM_CALL

/* Waits. What the stream had before is done afterwards. */
#define WAIT_HOOK(symbol, is_own)                                                                  \
	static CUresult (*next_##symbol)(CUstream stream);                                         \
	static CUresult hook_##symbol(CUstream stream)                                             \
	{                                                                                          \
		struct orion_call call;                                                            \
		stream = orion_call_begin(&call, stream, is_own, false);                           \
		orion_call_end(&call);                                                             \
		uint32_t submitted =                                                               \
			call.stream != NULL ? orion_stream_submitted(call.stream) : 0;             \
		CUresult r = next_##symbol(stream);                                                \
		if (call.stream != NULL && r == CUDA_SUCCESS) {                                    \
			orion_stream_done(call.stream, submitted);                                 \
		}                                                                                  \
		return r;                                                                          \
	}
WAIT_HOOK(cuStreamSynchronize, false)
WAIT_HOOK(cuStreamSynchronize_ptsz, true)
WAIT_HOOK(cuStreamQuery, false)
WAIT_HOOK(cuStreamQuery_ptsz, true)

/* Copies and fills without a stream: on the one in place of the client's default stream. Copies
 * wait until they are done, fills do not. */
static CUresult wait_for(const struct orion_call *call, CUstream stream, CUresult r)
{
	uint32_t submitted = orion_stream_submitted(call->stream);

	if (r == CUDA_SUCCESS) {
		r = next_cuStreamSynchronize(stream);
	}
	if (r == CUDA_SUCCESS) {
		orion_stream_done(call->stream, submitted);
	}
	return r;
}

#define PLAIN_HOOK(symbol, async, parameters, plain_arguments, arguments, waits)                   \
	static CUresult(*next_##symbol) parameters;                                                \
	static CUresult hook_##symbol parameters                                                   \
	{                                                                                          \
		struct orion_call call;                                                            \
		CUstream stream = orion_call_begin(&call, NULL, false, true);                      \
		if (call.client < 0 || call.stream == NULL || next_##async == NULL) {              \
			orion_call_end(&call);                                                     \
			return next_##symbol plain_arguments;                                      \
		}                                                                                  \
		CUresult r = next_##async arguments;                                               \
		orion_call_end(&call);                                                             \
		return waits ? wait_for(&call, stream, r) : r;                                     \
	}

/* clang-format off */
PLAIN_HOOK(cuMemcpy, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t n),
	(to, from, n), (to, from, n, stream), true)
PLAIN_HOOK(cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t n),
	(to, from, n), (to, from, n, stream), true)
PLAIN_HOOK(cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t n),
	(to, from, n), (to, from, n, stream), true)
PLAIN_HOOK(cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t n),
	(to, from, n), (to, from, n, stream), true)
PLAIN_HOOK(cuMemcpyPeer, cuMemcpyPeerAsync,
	(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t n),
	(to, to_ctx, from, from_ctx, n), (to, to_ctx, from, from_ctx, n, stream), true)
PLAIN_HOOK(cuMemcpy2D_v2, cuMemcpy2DAsync_v2, (const struct CUDA_MEMCPY2D *p),
	(p), (p, stream), true)
PLAIN_HOOK(cuMemcpy3D_v2, cuMemcpy3DAsync_v2, (const struct CUDA_MEMCPY3D *p),
	(p), (p, stream), true)
PLAIN_HOOK(cuMemcpy3DPeer, cuMemcpy3DPeerAsync, (const struct CUDA_MEMCPY3D *p),
	(p), (p, stream), true)
PLAIN_HOOK(cuMemsetD8_v2, cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t n),
	(to, value, n), (to, value, n, stream), false)
PLAIN_HOOK(cuMemsetD16_v2, cuMemsetD16Async, (CUdeviceptr to, unsigned short value, size_t n),
	(to, value, n), (to, value, n, stream), false)
PLAIN_HOOK(cuMemsetD32_v2, cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t n),
	(to, value, n), (to, value, n, stream), false)
PLAIN_HOOK(cuMemsetD2D8_v2, cuMemsetD2D8Async,
	(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height),
	(to, pitch, value, width, height), (to, pitch, value, width, height, stream), false)
PLAIN_HOOK(cuMemsetD2D16_v2, cuMemsetD2D16Async,
	(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height),
	(to, pitch, value, width, height), (to, pitch, value, width, height, stream), false)
PLAIN_HOOK(cuMemsetD2D32_v2, cuMemsetD2D32Async,
	(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height),
	(to, pitch, value, width, height), (to, pitch, value, width, height, stream), false)
/* clang-format on */

/* Waits for a context: of each of its streams, what it had before is done afterwards. Streams
 * that do not fit are found by the scheduler's probes. */
#define N_MARKS 64

struct marks {
	CUcontext ctx;
	uint32_t n;
	struct {
		struct orion_stream *stream;
		uint32_t submitted;
	} all[N_MARKS];
};

static bool mark_stream(struct orion_stream *s, void *data)
{
	struct marks *m = data;

	if (s->ctx == m->ctx && orion_stream_is_busy(s)) {
		m->all[m->n].stream = s;
		m->all[m->n++].submitted = orion_stream_submitted(s);
	}
	return m->n < N_MARKS;
}

/* Other threads' own default streams cannot be looked into. */
static void mark_own(struct marks *m)
{
	struct orion_stream *own = orion_stream_own();

	if (m->n < N_MARKS && orion_stream_is_busy(own)) {
		m->all[m->n].stream = own;
		m->all[m->n++].submitted = orion_stream_submitted(own);
	}
}

static void mark_begin(struct marks *m, CUcontext ctx)
{
	*m = (struct marks){.ctx = ctx};
	if (orion_busy_streams > 0 &&
		(ctx != NULL || orion_driver.ctx_get_current(&m->ctx) == CUDA_SUCCESS)) {
		orion_stream_each(mark_stream, m);
		mark_own(m);
	}
}

static CUresult mark_end(const struct marks *m, CUresult r)
{
	for (uint32_t i = 0; r == CUDA_SUCCESS && i < m->n; i++) {
		orion_stream_done(m->all[i].stream, m->all[i].submitted);
	}
	return r;
}

static CUresult (*next_cuCtxSynchronize)(void);
static CUresult hook_cuCtxSynchronize(void)
{
	struct marks m;

	mark_begin(&m, NULL);
	return mark_end(&m, next_cuCtxSynchronize());
}

static CUresult (*next_cuCtxSynchronize_v2)(CUcontext ctx);
static CUresult hook_cuCtxSynchronize_v2(CUcontext ctx)
{
	struct marks m;

	mark_begin(&m, ctx);
	return mark_end(&m, next_cuCtxSynchronize_v2(ctx));
}

/* Captures. */
static CUresult begun(CUresult r)
{
	if (r == CUDA_SUCCESS) {
		orion_captures++;
	}
	return r;
}

/* An invalid capture has ended, too. */
static CUresult ended(CUresult r)
{
	if ((r == CUDA_SUCCESS || r == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
		    r == CUDA_ERROR_STREAM_CAPTURE_UNJOINED) &&
		atomic_fetch_sub(&orion_captures, 1) <= 0) {
		orion_captures++; /* it began before we were there */
	}
	return r;
}

#define CAPTURE_HOOK(symbol, parameters, arguments, note)                                          \
	static CUresult(*next_##symbol) parameters;                                                \
	static CUresult hook_##symbol parameters                                                   \
	{                                                                                          \
		return note(next_##symbol arguments);                                              \
	}
#define TO_GRAPH_PARAMETERS                                                                        \
	(CUstream stream, CUgraph graph, const CUgraphNode *deps,                                  \
		const struct CUgraphEdgeData *edges, size_t n_deps, int mode)
CAPTURE_HOOK(cuStreamBeginCapture, (CUstream stream), (stream), begun)
CAPTURE_HOOK(cuStreamBeginCapture_ptsz, (CUstream stream), (stream), begun)
CAPTURE_HOOK(cuStreamBeginCapture_v2, (CUstream stream, int mode), (stream, mode), begun)
CAPTURE_HOOK(cuStreamBeginCapture_v2_ptsz, (CUstream stream, int mode), (stream, mode), begun)
CAPTURE_HOOK(cuStreamBeginCaptureToGraph, TO_GRAPH_PARAMETERS,
	(stream, graph, deps, edges, n_deps, mode), begun)
CAPTURE_HOOK(cuStreamBeginCaptureToGraph_ptsz, TO_GRAPH_PARAMETERS,
	(stream, graph, deps, edges, n_deps, mode), begun)
CAPTURE_HOOK(cuStreamEndCapture, (CUstream stream, CUgraph *ret), (stream, ret), ended)
CAPTURE_HOOK(cuStreamEndCapture_ptsz, (CUstream stream, CUgraph *ret), (stream, ret), ended)

/* Ends of lives. */
static CUresult (*next_cuStreamDestroy_v2)(CUstream stream);
static CUresult hook_cuStreamDestroy_v2(CUstream stream)
{
	orion_stream_forget(stream);
	return next_cuStreamDestroy_v2(stream);
}

static void forget_context(CUcontext ctx)
{
	orion_record_forget();
	orion_scheduler_forget_context(ctx);
	orion_partition_forget_context(ctx);
	orion_stream_forget_context(ctx);
	rbt_kernels_forget(orion_known(), NULL);
}

static CUresult (*next_cuCtxDestroy_v2)(CUcontext ctx);
static CUresult hook_cuCtxDestroy_v2(CUcontext ctx)
{
	forget_context(ctx);
	return next_cuCtxDestroy_v2(ctx);
}

/* A device's primary context, since the functions that end it do not name it, and how many of those
 * who retain it are known. */
#define N_DEVICES 64
static struct {
	_Atomic(CUcontext) ctx;
	_Atomic int n_retained;
} primaries[N_DEVICES];

void orion_primaries_find(void)
{
	for (CUdevice i = 0; i < N_DEVICES; i++) {
		unsigned flags;
		int is_active = 0;
		CUcontext ctx;

		/* (Without cuInit() this is an error, and there is none.) */
		if (orion_driver.primary_state(i, &flags, &is_active) == CUDA_SUCCESS &&
			is_active != 0 && orion_driver.primary_retain(&ctx, i) == CUDA_SUCCESS) {
			orion_driver.primary_release(i);
			primaries[i].ctx = ctx;
			primaries[i].n_retained = 1; /* at least */
		}
	}
}

static void forget_primary(CUdevice device)
{
	CUcontext ctx = primaries[device].ctx;

	primaries[device].n_retained = 0;
	if (ctx != NULL) {
		forget_context(ctx);
	}
}

/* Only the last one who releases a context ends it. Until then other threads may be using what
 * would be forgotten. What is forgotten too early is found again. */
static void release_primary(CUdevice device)
{
	_Atomic int *n_retained = &primaries[device].n_retained;
	int n = *n_retained;

	while (n > 1 && !atomic_compare_exchange_weak(n_retained, &n, n - 1)) {
	}
	if (n <= 1) {
		forget_primary(device);
	}
}

static CUresult (*next_cuDevicePrimaryCtxRetain)(CUcontext *ret, CUdevice device);
static CUresult hook_cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice device)
{
	CUresult r = next_cuDevicePrimaryCtxRetain(ret, device);

	if (r == CUDA_SUCCESS && device >= 0 && device < N_DEVICES) {
		primaries[device].ctx = *ret;
		primaries[device].n_retained++;
	}
	return r;
}

#define PRIMARY_HOOK(symbol, note)                                                                 \
	static CUresult (*next_##symbol)(CUdevice device);                                         \
	static CUresult hook_##symbol(CUdevice device)                                             \
	{                                                                                          \
		if (device >= 0 && device < N_DEVICES) {                                           \
			note(device);                                                              \
		}                                                                                  \
		return next_##symbol(device);                                                      \
	}
PRIMARY_HOOK(cuDevicePrimaryCtxRelease, release_primary)
PRIMARY_HOOK(cuDevicePrimaryCtxRelease_v2, release_primary)
PRIMARY_HOOK(cuDevicePrimaryCtxReset, forget_primary)
PRIMARY_HOOK(cuDevicePrimaryCtxReset_v2, forget_primary)

static CUresult (*next_cuModuleUnload)(CUmodule module);
static CUresult hook_cuModuleUnload(CUmodule module)
{
	rbt_kernels_forget(orion_known(), module);
	return next_cuModuleUnload(module);
}

static CUresult (*next_cuLibraryUnload)(CUlibrary library);
static CUresult hook_cuLibraryUnload(CUlibrary library)
{
	rbt_kernels_forget(orion_known(), library);
	return next_cuLibraryUnload(library);
}

static CUresult (*next_cuGraphExecDestroy)(CUgraphExec exec);
static CUresult hook_cuGraphExecDestroy(CUgraphExec exec)
{
	rbt_kernels_forget_graph(orion_known(), exec);
	return next_cuGraphExecDestroy(exec);
}

const struct orion_hook orion_hooks[] = {
#define STREAM_CALL(symbol, parameters, arguments, stream, submits, is_own) ORION_HOOK(symbol),
#include "cuda/streams.inc"
#undef STREAM_CALL
	ORION_HOOK(cuStreamSynchronize),
	ORION_HOOK(cuStreamSynchronize_ptsz),
	ORION_HOOK(cuStreamQuery),
	ORION_HOOK(cuStreamQuery_ptsz),
	ORION_HOOK(cuMemcpy),
	ORION_HOOK(cuMemcpyHtoD_v2),
	ORION_HOOK(cuMemcpyDtoH_v2),
	ORION_HOOK(cuMemcpyDtoD_v2),
	ORION_HOOK(cuMemcpyPeer),
	ORION_HOOK(cuMemcpy2D_v2),
	ORION_HOOK(cuMemcpy3D_v2),
	ORION_HOOK(cuMemcpy3DPeer),
	ORION_HOOK(cuMemsetD8_v2),
	ORION_HOOK(cuMemsetD16_v2),
	ORION_HOOK(cuMemsetD32_v2),
	ORION_HOOK(cuMemsetD2D8_v2),
	ORION_HOOK(cuMemsetD2D16_v2),
	ORION_HOOK(cuMemsetD2D32_v2),
	ORION_HOOK(cuCtxSynchronize),
	ORION_HOOK(cuCtxSynchronize_v2),
	ORION_HOOK(cuStreamBeginCapture),
	ORION_HOOK(cuStreamBeginCapture_ptsz),
	ORION_HOOK(cuStreamBeginCapture_v2),
	ORION_HOOK(cuStreamBeginCapture_v2_ptsz),
	ORION_HOOK(cuStreamBeginCaptureToGraph),
	ORION_HOOK(cuStreamBeginCaptureToGraph_ptsz),
	ORION_HOOK(cuStreamEndCapture),
	ORION_HOOK(cuStreamEndCapture_ptsz),
	{0},
};

const struct orion_hook orion_life_hooks[] = {
	ORION_HOOK(cuStreamDestroy_v2),
	ORION_HOOK(cuCtxDestroy_v2),
	ORION_HOOK(cuDevicePrimaryCtxRetain),
	ORION_HOOK(cuDevicePrimaryCtxRelease),
	ORION_HOOK(cuDevicePrimaryCtxRelease_v2),
	ORION_HOOK(cuDevicePrimaryCtxReset),
	ORION_HOOK(cuDevicePrimaryCtxReset_v2),
	ORION_HOOK(cuModuleUnload),
	ORION_HOOK(cuLibraryUnload),
	ORION_HOOK(cuGraphExecDestroy),
	{0},
};
