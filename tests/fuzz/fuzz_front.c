/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libcuda front's argument checks. The input is a program: each call has a number and its
 * arguments, which are pointers that are NULL or good, handles that live, have ended or are of
 * another kind, and sizes and addresses of any value. Whatever it is, each call returns, no memory
 * is touched that is not the program's, and the front goes on working.
 *
 * The device is a thread of this process; a context that fails, and all it has, is made anew.
 */
#include <stdlib.h>
#include <string.h>

#include "../progs/cuda_kernels.h"
#include "fuzz_front.h"

#define MAX_CALLS 16
#define RUNS      1000 /* of one context */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_input in;
struct fuzz_objects have;
uint8_t *buffer;
unsigned n_objects;
static unsigned n_runs;

void fuzz_context(unsigned n)
{
	CUcontext ctx = NULL;
	size_t bytes;
	unsigned flags;
	int a, b;

	switch (n % 12) {
	case 0:
		keep(have.contexts, cuCtxCreate_v2(out(&ctx), small(), (int)small() / 8), ctx);
		break;
	case 1:
		(void)cuCtxDestroy_v2(HANDLE(CUcontext, contexts));
		break;
	case 2:
		(void)cuCtxPushCurrent_v2(HANDLE(CUcontext, contexts));
		break;
	case 3:
		(void)cuCtxPopCurrent_v2(out(&ctx));
		break;
	case 4:
		(void)cuCtxGetLimit(out(&bytes), (int)small());
		(void)cuCtxSetLimit((int)small(), number());
		break;
	case 5:
		(void)cuCtxGetDevice(out(&a));
		(void)cuCtxGetStreamPriorityRange(out(&a), out(&b));
		break;
	case 6:
		(void)cuDeviceGetAttribute(out(&a), (int)small(), (int)small() / 8);
		(void)cuDeviceGetName(out(buffer), (int)small(), (int)small() / 8);
		break;
	case 7:
		(void)cuDeviceGetPCIBusId(out(buffer), (int)small(), 0);
		(void)cuDevicePrimaryCtxGetState((int)small() / 8, out(&flags), out(&a));
		break;
	case 8:
		keep(have.contexts, cuDevicePrimaryCtxRetain(out(&ctx), (int)small() / 8), ctx);
		break;
	case 9:
		(void)cuDevicePrimaryCtxRelease_v2((int)small() / 8);
		break;
	case 10:
		(void)cuCtxSetCurrent(HANDLE(CUcontext, contexts));
		break;
	default:
		(void)cuCtxSynchronize();
		break;
	}
}

static void keep_address(CUresult r, CUdeviceptr a)
{
	if (r == CUDA_SUCCESS) {
		have.addresses[1 + n_objects++ % (N_SLOTS - 1)] = a;
	}
}

static void free_host(void)
{
	void *p = have.hosts[byte() % N_SLOTS];

	if (cuMemFreeHost(byte() < 200 ? p : buffer) == CUDA_SUCCESS) {
		for (int i = 0; i < N_SLOTS; i++) {
			have.hosts[i] = have.hosts[i] == p ? NULL : have.hosts[i];
		}
	}
}

static void copy_host(unsigned n)
{
	size_t size = 0;
	void *p = host(&size);

	switch (n) {
	case 5:
		(void)cuMemcpyHtoD_v2(address(), p, size);
		break;
	case 6:
		(void)cuMemcpyDtoH_v2(p, address(), size);
		break;
	default:
		(void)cuMemcpyHtoDAsync_v2(address(), p, size, stream());
		break;
	}
}

void fuzz_memory(unsigned n)
{
	CUdeviceptr a = 0;
	size_t size = 0, other;
	void *p = NULL;
	int attribute = (int)small();
	void *data[] = {out(buffer)};

	switch (n % 16) {
	case 0:
	case 1:
		keep_address(cuMemAlloc_v2(out(&a), n & 1 ? number() : small() + 1), a);
		break;
	case 2:
		(void)cuMemFree_v2(address());
		break;
	case 3:
		keep(have.hosts, cuMemHostAlloc(out(&p), number() % (1 << 20), small()), p);
		break;
	case 4:
		free_host();
		break;
	case 5:
	case 6:
	case 7:
		copy_host(n % 16);
		break;
	case 8:
		(void)cuMemcpyDtoDAsync_v2(address(), address(), number(), stream());
		break;
	case 9:
		(void)cuMemsetD32Async(address(), small(), number(), stream());
		(void)cuMemsetD2D16Async(address(), number(), 7, number(), number(), stream());
		break;
	case 10:
		(void)cuPointerGetAttribute(out(buffer), attribute, address());
		(void)cuPointerGetAttributes(small() % 2, out(&attribute), out(data), address());
		break;
	case 11:
		(void)cuMemGetAddressRange_v2(out(&a), out(&size), address());
		(void)cuMemGetInfo_v2(out(&size), out(&other));
		break;
	case 12:
		keep_address(
			cuMemAllocPitch_v2(out(&a), out(&size), number(), number(), small()), a);
		break;
	case 13:
		keep_address(cuMemAllocAsync(out(&a), number(), stream()), a);
		break;
	case 14:
		(void)cuMemFreeAsync(address(), stream());
		break;
	default:
		(void)cuMemHostRegister_v2(out(buffer), number() % BUFFER, small());
		(void)cuMemHostUnregister(out(buffer));
		(void)cuMemHostGetDevicePointer_v2(out(&a), have.hosts[byte() % N_SLOTS], 0);
		break;
	}
}

/* Rows and slices of device memory, anywhere; of ordinary memory, what the buffer has. */
void fuzz_rows(unsigned n)
{
	struct CUDA_MEMCPY3D c = {.srcXInBytes = number(),
		.srcY = number(),
		.srcZ = number(),
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = address(),
		.srcPitch = number(),
		.srcHeight = number(),
		.dstXInBytes = number(),
		.dstY = number(),
		.dstZ = number(),
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = address(),
		.dstPitch = number(),
		.dstHeight = number(),
		.WidthInBytes = number(),
		.Height = number(),
		.Depth = number() % 64};
	struct CUDA_MEMCPY2D r = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = c.srcDevice,
		.srcXInBytes = c.srcXInBytes,
		.srcPitch = c.srcPitch,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = buffer,
		.WidthInBytes = c.WidthInBytes % 65,
		.Height = c.Height % 64,
		.dstPitch = 64};

	/* Now and then not the device's: arrays, and what is nothing. */
	if (byte() < 20) {
		c.srcMemoryType = c.dstMemoryType = r.srcMemoryType = (int)small() % 2 * 3;
	}
	if (n % 2 == 0) {
		(void)cuMemcpy3DAsync_v2(byte() < 20 ? NULL : &c, stream());
	} else {
		(void)cuMemcpy2D_v2(byte() < 20 ? NULL : &r);
	}
}

/* Captures end with the input: they would be in the next one's way. */
static void end_captures(void)
{
	CUgraph graph;

	for (int i = 0; i < N_SLOTS; i++) {
		graph = NULL;
		if (front_is(have.streams[i], FRONT_STREAM) &&
			((CUstream)have.streams[i])->capture != NULL) {
			(void)cuStreamEndCapture(have.streams[i], &graph);
			(void)cuGraphDestroy(graph);
		}
	}
	graph = NULL;
	(void)cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph);
	(void)cuGraphDestroy(graph);
}

/* A current context that works, with a module in it. */
static void prepare(void)
{
	CUcontext ctx = NULL;
	CUmodule module;
	CUfunction f;
	CUdeviceptr a;
	CUstream s;

	if (buffer == NULL) {
		buffer = malloc(BUFFER);
		if (buffer == NULL || cuInit(0) != CUDA_SUCCESS) {
			abort();
		}
	}
	memset(buffer, 0, BUFFER);
	while (cuCtxPopCurrent_v2(&ctx) == CUDA_SUCCESS) {
	}
	/* Now and then anew: what inputs left behind would pile up. */
	if (++n_runs % RUNS != 0 && cuCtxPushCurrent_v2(have.contexts[0]) == CUDA_SUCCESS &&
		front_enter(&ctx) == CUDA_SUCCESS && front_is(have.modules[0], FRONT_MODULE) &&
		front_is(have.streams[0], FRONT_STREAM)) {
		return;
	}
	(void)cuCtxPopCurrent_v2(&ctx);
	for (int i = 0; i < N_SLOTS; i++) {
		(void)cuCtxDestroy_v2(have.contexts[i]);
	}
	(void)cuDevicePrimaryCtxReset_v2(0);
	for (int i = 0; i < N_SLOTS; i++) {
		discard(have.graphs[i]);
		discard(have.execs[i]);
		discard(have.libraries[i]);
	}
	memset(&have, 0, sizeof(have));
	if (cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS ||
		cuModuleLoadData(&module, test_ptx) != CUDA_SUCCESS ||
		cuModuleGetFunction(&f, module, "affine") != CUDA_SUCCESS ||
		cuMemAlloc_v2(&a, BUFFER) != CUDA_SUCCESS ||
		cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
		abort(); /* a front that worked before must go on working */
	}
	have.contexts[0] = ctx;
	have.modules[0] = module;
	have.functions[0] = f;
	have.addresses[0] = a;
	have.streams[0] = s;
	n_objects = 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	in.data = data;
	in.size = size;
	prepare();
	for (int i = 0; i < MAX_CALLS && in.size > 0; i++) {
		unsigned n = byte();

		switch (n % 8) {
		case 0:
			fuzz_context(n / 8);
			break;
		case 1:
			fuzz_memory(n / 8);
			break;
		case 2:
			fuzz_module(n / 8);
			break;
		case 3:
			fuzz_launch(n / 8);
			break;
		case 4:
			fuzz_stream(n / 8);
			break;
		case 5:
			fuzz_graph(n / 8);
			break;
		case 6:
			fuzz_rows(n / 8);
			break;
		default:
			fuzz_name();
			break;
		}
	}
	end_captures();
	return 0;
}
