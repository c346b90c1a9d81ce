/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker and a hostile guest: calls with any numbers, handles, addresses and sizes. The driver is
 * a fake one that touches all memory which it is given, so that memory outside of the call and of
 * what guest and worker share is found by the sanitizer.
 */
#include <stdlib.h>
#include <string.h>

#include "remote/worker/worker.h"
#include "require.h"
#include "wire/ring.h"

#define SHARED_BYTES 8192u
#define MAX_CALLS    16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct worker worker;
static struct worker_driver driver;
static struct worker_buffers buffers;
static uint8_t *shared, *area;
static volatile uint8_t sink;

static void read_all(const void *at, size_t size)
{
	const uint8_t *p = at;

	for (size_t i = 0; at != NULL && i < size; i++) {
		sink ^= p[i];
	}
}

static void write_all(void *at, size_t size)
{
	if (at != NULL) {
		memset(at, 0x11, size);
	}
}

/* For functions whose arguments are handles and numbers. Arguments are in registers or above the
 * return address, so that a function without any can stand for all of them. */
static CUresult fake(void)
{
	return (sink & 1) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult to_device(CUdeviceptr to, const void *from, size_t size)
{
	read_all(from, size);
	return CUDA_SUCCESS;
}

static CUresult to_device_async(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
	return to_device(to, from, size);
}

static CUresult to_host(void *to, CUdeviceptr from, size_t size)
{
	write_all(to, size);
	return CUDA_SUCCESS;
}

static CUresult to_host_async(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	return to_host(to, from, size);
}

static CUresult copy_3d(const struct CUDA_MEMCPY3D *p)
{
	for (size_t z = 0; p->WidthInBytes > 0 && z < p->Depth; z++) {
		for (size_t y = 0; y < p->Height && y < 1000; y++) {
			size_t from = ((p->srcZ + z) * p->srcHeight + p->srcY + y) * p->srcPitch +
				      p->srcXInBytes;
			size_t to = ((p->dstZ + z) * p->dstHeight + p->dstY + y) * p->dstPitch +
				    p->dstXInBytes;

			if (p->srcMemoryType == CU_MEMORYTYPE_HOST) {
				read_all((const uint8_t *)p->srcHost + from, p->WidthInBytes);
			}
			if (p->dstMemoryType == CU_MEMORYTYPE_HOST) {
				write_all((uint8_t *)p->dstHost + to, p->WidthInBytes);
			}
		}
		if (z > 1000) {
			break;
		}
	}
	return CUDA_SUCCESS;
}

static CUresult copy_3d_async(const struct CUDA_MEMCPY3D *p, CUstream stream)
{
	return copy_3d(p);
}

static CUresult load(CUmodule *ret, const void *image)
{
	read_all(image, image != NULL ? strlen(image) : 0);
	if (ret != NULL) {
		*ret = (CUmodule)(void *)shared;
	}
	return CUDA_SUCCESS;
}

static CUresult make_stream(CUstream *ret, unsigned flags)
{
	if (ret != NULL) {
		*ret = (CUstream)(void *)(shared + flags % 64);
	}
	return CUDA_SUCCESS;
}

static CUresult make_graph(CUgraph *ret, unsigned flags)
{
	if (ret != NULL) {
		*ret = (CUgraph)(void *)(shared + flags % 64);
	}
	return CUDA_SUCCESS;
}

static CUresult get_nodes(CUgraph graph, CUgraphNode *ret, size_t *n)
{
	for (size_t i = 0; ret != NULL && n != NULL && i < *n; i++) {
		ret[i] = (CUgraphNode)(void *)(shared + i % 64);
	}
	return CUDA_SUCCESS;
}

static CUresult get_name(char *name, int size, CUdevice device)
{
	write_all(name, size > 0 ? (size_t)size : 0);
	return CUDA_SUCCESS;
}

static CUresult launch(CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e,
	unsigned g, unsigned shared_bytes, CUstream stream, void **params, void **extra)
{
	REQUIRE(params == NULL);
	if (extra != NULL) {
		read_all(extra[1], *(size_t *)extra[3]);
	}
	return CUDA_SUCCESS;
}

static CUresult param_info(CUfunction f, size_t i, size_t *offset, size_t *size)
{
	if (i >= 4 || offset == NULL || size == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	*offset = i * 8;
	*size = 8;
	return CUDA_SUCCESS;
}

static CUresult pin(void *p, size_t size, unsigned flags)
{
	read_all(p, size);
	return CUDA_SUCCESS;
}

static void make_driver(void)
{
#define FAKE(symbol, per_thread, number, params, waits)                                            \
	driver.symbol = (CUresult(*) params)(void (*)(void))fake;                                  \
	driver.symbol##_per_thread = driver.symbol;
	RBT_REMOTE_CALLS(FAKE)
	driver.cuMemcpyHtoD_v2 = driver.cuMemcpyHtoD_v2_per_thread = to_device;
	driver.cuMemcpyHtoDAsync_v2 = driver.cuMemcpyHtoDAsync_v2_per_thread = to_device_async;
	driver.cuMemcpyDtoH_v2 = driver.cuMemcpyDtoH_v2_per_thread = to_host;
	driver.cuMemcpyDtoHAsync_v2 = driver.cuMemcpyDtoHAsync_v2_per_thread = to_host_async;
	driver.cuMemcpy3D_v2 = driver.cuMemcpy3D_v2_per_thread = copy_3d;
	driver.cuMemcpy3DPeer = driver.cuMemcpy3DPeer_per_thread = copy_3d;
	driver.cuMemcpy3DAsync_v2 = driver.cuMemcpy3DAsync_v2_per_thread = copy_3d_async;
	driver.cuMemcpy3DPeerAsync = driver.cuMemcpy3DPeerAsync_per_thread = copy_3d_async;
	driver.cuModuleLoadData = load;
	driver.cuModuleLoadFatBinary = load;
	driver.cuStreamCreate = make_stream;
	driver.cuGraphCreate = make_graph;
	driver.cuGraphGetNodes = driver.cuGraphGetRootNodes = get_nodes;
	driver.cuDeviceGetName = get_name;
	driver.cuLaunchKernel = driver.cuLaunchKernel_per_thread = launch;
	driver.cuFuncGetParamInfo = param_info;
	driver.cuMemHostRegister_v2 = pin;
	/* These would keep what is made for them. */
	driver.cuLaunchHostFunc = driver.cuLaunchHostFunc_per_thread = NULL;
	driver.cuStreamAddCallback = driver.cuStreamAddCallback_per_thread = NULL;
	driver.cuGraphAddHostNode = NULL;
	driver.cuGraphHostNodeSetParams = NULL;
	driver.cuGraphExecHostNodeSetParams = NULL;
}

struct input {
	const uint8_t *data;
	size_t size;
};

static uint64_t take(struct input *in, size_t bytes)
{
	uint64_t value = 0;

	bytes = bytes < in->size ? bytes : in->size;
	memcpy(&value, in->data, bytes);
	in->data += bytes;
	in->size -= bytes;
	return value;
}

/* One argument: a number, a handle that may exist, an address that may be shared, a block. */
static void put_argument(struct rbt_wire_writer *w, struct input *in)
{
	uint64_t kind = take(in, 1), n;

	switch (kind % 8) {
	case 0:
		rbt_wire_put(w, take(in, 1));
		break;
	case 1:
		rbt_wire_put(w, take(in, 8));
		break;
	case 2:
		n = take(in, 1);
		rbt_wire_put(w, (n % RBT_HANDLE_KINDS) << 56 | 1ull << 32 | n / 16);
		break;
	case 3:
		rbt_wire_put(w, (uintptr_t)shared + take(in, 2));
		break;
	case 4:
		rbt_wire_put(w, RBT_WIRE_NULL);
		break;
	case 5:
		n = take(in, 1);
		n = n < in->size ? n : in->size;
		rbt_wire_put_block(w, in->data, n);
		take(in, 0);
		in->data += n;
		in->size -= n;
		break;
	case 6:
		rbt_wire_put_block(w, "text", 5);
		break;
	default:
		n = (take(in, 1) + 1) * 8;
		void *room = rbt_wire_put_room(w, n);

		if (room != NULL) {
			memset(room, 0, n);
		}
		break;
	}
}

static void start(void)
{
	make_driver();
	shared = malloc(SHARED_BYTES);
	area = aligned_alloc(64, RBT_WIRE_AREA);
	buffers.call = malloc(RBT_WIRE_MAX_CALL);
	buffers.answer = malloc(RBT_WIRE_MAX_CALL);
	buffers.scratch = aligned_alloc(16, SERVED_SCRATCH);
	REQUIRE(shared != NULL && area != NULL && buffers.call != NULL && buffers.answer != NULL &&
		buffers.scratch != NULL);
	worker = (struct worker){.sock = -1, .printed = -1, .driver = &driver};
	pthread_mutex_init(&worker.lock, NULL);
	REQUIRE(rbt_handles_init(&worker.handles, 1024) == 0);
	REQUIRE(worker_map_add(&worker, (uintptr_t)shared, SHARED_BYTES) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rbt_wire_call *call;
	struct input in = {data, size};
	struct rbt_wire_guest guest;
	struct rbt_wire_host host;
	int r = 1;

	if (call == NULL) {
		start();
		call = malloc(RBT_WIRE_MAX_CALL);
		REQUIRE(call != NULL);
	}
	/* One message of the connection first; files are never sent. */
	size_t message = take(&in, 1) % 64;

	message = message < in.size ? message : in.size;
	REQUIRE(worker_message(&worker, in.data, message, NULL, 0) < 0);
	in.data += message;
	in.size -= message;
	struct worker_channel *ch = &worker.channels[0];

	ch->worker = &worker;
	ch->guest_bell = -1;
	ch->done = 0;
	memset(area, 0, RBT_WIRE_HEADER);
	rbt_wire_guest_init(&guest, area);
	rbt_wire_host_init(&host, area);
	for (int i = 0; i < MAX_CALLS && in.size > 0 && r == 1; i++) {
		struct rbt_wire_writer w = {.buffer = (uint8_t *)(call + 1), .room = 65536};
		uint16_t number = (uint16_t)take(&in, 1);
		unsigned n = (unsigned)take(&in, 1) % 24;
		uint16_t flags = (uint16_t)(n >> 3);

		for (unsigned k = 0; k < n; k++) {
			put_argument(&w, &in);
		}
		*call = (struct rbt_wire_call){.size = (uint32_t)(sizeof(*call) + w.size),
			.number = number,
			.flags = flags,
			.sequence = (uint64_t)i + 1};
		(void)rbt_wire_guest_put(&guest, call);
		r = worker_step(ch, &host, &buffers);
	}
	for (uint32_t i = 0; i < worker.handles.n; i++) {
		rbt_handles_remove(&worker.handles,
			(uint64_t)worker.handles.kinds[i] << 56 |
				(uint64_t)worker.handles.entries[i].generation << 32 | i);
	}
	return 0;
}
