/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms for programs whose default stream is each thread's own: stream 0 means that one. (Those
 * of the synchronous copies are in copy_api.c, that of cuLaunchKernelEx in launch.c.)
 */
#include "softgpu/cuda/front.h"

static CUstream own(CUstream stream)
{
	return stream == NULL ? CU_STREAM_PER_THREAD : stream;
}

#define PER_THREAD(name, params, args)                                                             \
	CUresult name##_ptsz params                                                                \
	{                                                                                          \
		return name args;                                                                  \
	}

/* clang-format off */
PER_THREAD(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t n, CUstream s),
	(to, from, n, own(s)))
PER_THREAD(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t n, CUstream s),
	(to, from, n, own(s)))
PER_THREAD(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s),
	(to, from, n, own(s)))
PER_THREAD(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s),
	(to, from, n, own(s)))
PER_THREAD(cuMemcpyPeerAsync, (CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
	CUcontext from_ctx, size_t n, CUstream s), (to, to_ctx, from, from_ctx, n, own(s)))
PER_THREAD(cuMemcpy2DAsync_v2, (const struct CUDA_MEMCPY2D *p, CUstream s), (p, own(s)))
PER_THREAD(cuMemcpy3DAsync_v2, (const struct CUDA_MEMCPY3D *p, CUstream s), (p, own(s)))
PER_THREAD(cuMemcpy3DPeerAsync, (const struct CUDA_MEMCPY3D *p, CUstream s), (p, own(s)))
PER_THREAD(cuMemsetD8Async, (CUdeviceptr to, unsigned char v, size_t n, CUstream s),
	(to, v, n, own(s)))
PER_THREAD(cuMemsetD16Async, (CUdeviceptr to, unsigned short v, size_t n, CUstream s),
	(to, v, n, own(s)))
PER_THREAD(cuMemsetD32Async, (CUdeviceptr to, unsigned v, size_t n, CUstream s),
	(to, v, n, own(s)))
PER_THREAD(cuMemsetD2D8Async, (CUdeviceptr to, size_t pitch, unsigned char v, size_t width,
	size_t height, CUstream s), (to, pitch, v, width, height, own(s)))
PER_THREAD(cuMemsetD2D16Async, (CUdeviceptr to, size_t pitch, unsigned short v, size_t width,
	size_t height, CUstream s), (to, pitch, v, width, height, own(s)))
PER_THREAD(cuMemsetD2D32Async, (CUdeviceptr to, size_t pitch, unsigned v, size_t width,
	size_t height, CUstream s), (to, pitch, v, width, height, own(s)))
PER_THREAD(cuMemAllocAsync, (CUdeviceptr *ret, size_t n, CUstream s), (ret, n, own(s)))
PER_THREAD(cuMemAllocFromPoolAsync, (CUdeviceptr *ret, size_t n, CUmemoryPool pool, CUstream s),
	(ret, n, pool, own(s)))
PER_THREAD(cuMemFreeAsync, (CUdeviceptr address, CUstream s), (address, own(s)))
PER_THREAD(cuMemPrefetchAsync, (CUdeviceptr address, size_t n, CUdevice device, CUstream s),
	(address, n, device, own(s)))
PER_THREAD(cuMemPrefetchAsync_v2, (CUdeviceptr address, size_t n, struct CUmemLocation location,
	unsigned flags, CUstream s), (address, n, location, flags, own(s)))
PER_THREAD(cuStreamGetPriority, (CUstream s, int *ret), (own(s), ret))
PER_THREAD(cuStreamGetFlags, (CUstream s, unsigned *ret), (own(s), ret))
PER_THREAD(cuStreamGetId, (CUstream s, unsigned long long *ret), (own(s), ret))
PER_THREAD(cuStreamGetCtx, (CUstream s, CUcontext *ret), (own(s), ret))
PER_THREAD(cuStreamGetCtx_v2, (CUstream s, CUcontext *ret, void **green), (own(s), ret, green))
PER_THREAD(cuStreamGetDevice, (CUstream s, CUdevice *ret), (own(s), ret))
PER_THREAD(cuStreamWaitEvent, (CUstream s, CUevent event, unsigned flags), (own(s), event, flags))
PER_THREAD(cuStreamAddCallback, (CUstream s, CUstreamCallback callback, void *user, unsigned flags),
	(own(s), callback, user, flags))
PER_THREAD(cuStreamAttachMemAsync, (CUstream s, CUdeviceptr address, size_t n, unsigned flags),
	(own(s), address, n, flags))
PER_THREAD(cuStreamQuery, (CUstream s), (own(s)))
PER_THREAD(cuStreamSynchronize, (CUstream s), (own(s)))
PER_THREAD(cuStreamBeginCapture, (CUstream s), (own(s)))
PER_THREAD(cuStreamBeginCapture_v2, (CUstream s, int mode), (own(s), mode))
PER_THREAD(cuStreamBeginCaptureToGraph, (CUstream s, CUgraph graph, const CUgraphNode *deps,
	const struct CUgraphEdgeData *edges, size_t n, int mode),
	(own(s), graph, deps, edges, n, mode))
PER_THREAD(cuStreamEndCapture, (CUstream s, CUgraph *ret), (own(s), ret))
PER_THREAD(cuStreamIsCapturing, (CUstream s, int *ret), (own(s), ret))
PER_THREAD(cuStreamGetCaptureInfo, (CUstream s, int *status, unsigned long long *id),
	(own(s), status, id))
PER_THREAD(cuStreamGetCaptureInfo_v2, (CUstream s, int *status, unsigned long long *id,
	CUgraph *graph, const CUgraphNode **deps, size_t *n), (own(s), status, id, graph, deps, n))
PER_THREAD(cuStreamGetCaptureInfo_v3, (CUstream s, int *status, unsigned long long *id,
	CUgraph *graph, const CUgraphNode **deps, const struct CUgraphEdgeData **edges, size_t *n),
	(own(s), status, id, graph, deps, edges, n))
PER_THREAD(cuStreamUpdateCaptureDependencies, (CUstream s, CUgraphNode *deps, size_t n,
	unsigned flags), (own(s), deps, n, flags))
PER_THREAD(cuStreamUpdateCaptureDependencies_v2, (CUstream s, CUgraphNode *deps,
	const struct CUgraphEdgeData *edges, size_t n, unsigned flags),
	(own(s), deps, edges, n, flags))
PER_THREAD(cuEventRecord, (CUevent event, CUstream s), (event, own(s)))
PER_THREAD(cuEventRecordWithFlags, (CUevent event, CUstream s, unsigned flags),
	(event, own(s), flags))
PER_THREAD(cuLaunchKernel, (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
	unsigned by, unsigned bz, unsigned shared, CUstream s, void **params, void **extra),
	(f, gx, gy, gz, bx, by, bz, shared, own(s), params, extra))
PER_THREAD(cuLaunchCooperativeKernel, (CUfunction f, unsigned gx, unsigned gy, unsigned gz,
	unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void **params),
	(f, gx, gy, gz, bx, by, bz, shared, own(s), params))
PER_THREAD(cuLaunchHostFunc, (CUstream s, CUhostFn fn, void *user), (own(s), fn, user))
PER_THREAD(cuGraphInstantiateWithParams, (CUgraphExec *ret, CUgraph graph,
	struct CUDA_GRAPH_INSTANTIATE_PARAMS *params), (ret, graph, params))
PER_THREAD(cuGraphUpload, (CUgraphExec exec, CUstream s), (exec, own(s)))
PER_THREAD(cuGraphLaunch, (CUgraphExec exec, CUstream s), (exec, own(s)))
/* clang-format on */
