/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The less usual forms of copies and fills; what can be asked of streams and captures; and the
 * forms of all calls for programs whose default stream is each thread's own. usage: cuda_forms
 */
#include <stdbool.h>

#include "cuda_api.h"
#include "cuda_kernels.h"

enum {
	INVALID_VALUE = 1,
	INVALID_HANDLE = 400,
	ILLEGAL_STATE = 401,
	CAPTURE_UNSUPPORTED = 900,
};
enum { GLOBAL, THREAD_LOCAL, RELAXED }; /* modes of capture */

#define WORDS 64

static void *affine;
static bool soft;
static uint32_t host[WORDS];

static void read_back(uint64_t data)
{
	memset(host, 0, sizeof(host));
	OK(cu.cuMemcpyDtoH_v2(host, data, sizeof(host)));
}

static void launch(void *s, uint64_t data, uint32_t mul, uint32_t add)
{
	uint32_t turns = 0;
	void *params[] = {&data, &mul, &add, &turns};

	OK(cu.cuLaunchKernel(affine, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
}

static void test_fills(void)
{
	uint64_t data = cuda_api_zeros(WORDS);

	OK(cu.cuMemsetD16Async(data, 0xabcd, 3, NULL));
	read_back(data);
	CHECK(host[0] == 0xabcdabcd && host[1] == 0xabcd && host[2] == 0);
	CHECK_INT(cu.cuMemsetD16Async(data + 1, 0, 1, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuMemsetD16Async(0, 0, 1, NULL), INVALID_VALUE);
	/* Two rows of 16 bytes, of a pitch of 32. */
	OK(cu.cuMemsetD32_v2(data, 0, WORDS));
	OK(cu.cuMemsetD2D16_v2(data, 32, 0x1234, 8, 2));
	read_back(data);
	CHECK(host[0] == 0x12341234 && host[3] == 0x12341234 && host[4] == 0 && host[7] == 0);
	CHECK(host[8] == 0x12341234 && host[11] == 0x12341234 && host[12] == 0 && host[16] == 0);
	OK(cu.cuMemsetD32_v2(data, 0, WORDS));
	OK(cu.cuMemsetD2D32_v2(data, 32, 0xfeedf00d, 4, 2));
	read_back(data);
	CHECK(host[0] == 0xfeedf00d && host[3] == 0xfeedf00d && host[4] == 0);
	CHECK(host[8] == 0xfeedf00d && host[12] == 0 && host[16] == 0);
	OK(cu.cuMemsetD32_v2(data, 0, WORDS));
	OK(cu.cuMemsetD2D8Async(data, 32, 0x5a, 5, 2, NULL));
	read_back(data);
	CHECK(host[0] == 0x5a5a5a5a && host[1] == 0x5a && host[2] == 0 && host[8] == 0x5a5a5a5a);
	CHECK_INT(cu.cuMemsetD2D16_v2(data + 1, 32, 0, 8, 2), INVALID_VALUE);
	CHECK_INT(cu.cuMemsetD2D32_v2(data + 2, 32, 0, 4, 2), INVALID_VALUE);
	CHECK_INT(cu.cuMemsetD2D32_v2(data, 8, 0, 4, 2), INVALID_VALUE); /* rows overlap */
	CHECK_INT(cu.cuMemsetD2D8Async(0, 32, 0, 4, 2, NULL), INVALID_VALUE);
	OK(cu.cuMemFree_v2(data));
}

static void test_copy_rows(void)
{
	uint64_t data = cuda_api_zeros(WORDS);
	const uint32_t in[4] = {1, 2, 3, 4};
	/* At any byte, which cuMemcpy2D() may refuse on some devices. */
	struct memcpy2d copy = {.src_type = 1,
		.src_host = in,
		.src_pitch = 8,
		.dst_type = 2,
		.dst_device = data,
		.dst_pitch = 13,
		.dst_x = 1,
		.width = 8,
		.height = 2};

	OK(cu.cuMemcpy2DUnaligned_v2(&copy));
	read_back(data);
	const unsigned char *bytes = (unsigned char *)host;
	CHECK(memcmp(bytes + 1, in, 8) == 0 && memcmp(bytes + 14, in + 2, 8) == 0);
	CHECK(bytes[0] == 0 && bytes[9] == 0 && bytes[13] == 0 && bytes[22] == 0);
	copy.dst_pitch = 8; /* less than a row */
	CHECK_INT(cu.cuMemcpy2DUnaligned_v2(&copy), INVALID_VALUE);
	CHECK_INT(cu.cuMemcpy2DUnaligned_v2(NULL), INVALID_VALUE);
	OK(cu.cuMemFree_v2(data));
}

static void test_streams(void *context)
{
	void *s, *t, *got = NULL, *green = &green;
	unsigned long long ids[4] = {0};
	int device = -1;
	float ms = -1;
	void *events[2];

	MUST(cu.cuStreamCreate(&s, 0));
	MUST(cu.cuStreamCreate(&t, NON_BLOCKING));
	void *const streams[] = {NULL, STREAM_PER_THREAD, s, t};
	for (int i = 0; i < 4; i++) {
		OK(cu.cuStreamGetId(streams[i], &ids[i]));
		for (int j = 0; j < i; j++) {
			CHECK(ids[i] != ids[j]);
		}
		OK(cu.cuStreamGetCtx(streams[i], &got));
		CHECK(got == context);
		got = NULL;
		OK(cu.cuStreamGetCtx_v2(streams[i], &got, &green));
		CHECK(got == context && green == NULL);
		OK(cu.cuStreamGetDevice(streams[i], &device));
		CHECK_INT(device, 0);
	}
	CHECK_INT(cu.cuStreamGetId(s, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuStreamGetCtx(s, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuStreamGetDevice(s, NULL), INVALID_VALUE);
	for (int i = 0; i < 2; i++) {
		MUST(cu.cuEventCreate(&events[i], 0));
		OK(cu.cuEventRecord(events[i], s));
	}
	OK(cu.cuEventSynchronize(events[1]));
	OK(cu.cuEventElapsedTime_v2(&ms, events[0], events[1]));
	CHECK(ms >= 0 && ms < 60000);
	CHECK_INT(cu.cuEventElapsedTime_v2(NULL, events[0], events[1]), INVALID_HANDLE);
	OK(cu.cuEventDestroy_v2(events[0]));
	OK(cu.cuEventDestroy_v2(events[1]));
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuStreamDestroy_v2(t));
}

/* After its fill, which makes data[1] 7, what doubles that; and the first word becomes 15. */
static void capture_more(void *s, void *graph, void *fill, uint64_t data)
{
	void *captured = NULL, *exec = NULL;

	OK(cu.cuStreamBeginCaptureToGraph(s, graph, &fill, NULL, 1, RELAXED));
	launch(s, data + 4, 2, 0);
	OK(cu.cuStreamEndCapture(s, &captured));
	CHECK(captured == graph);
	OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cu.cuGraphLaunch(exec, s));
	OK(cu.cuStreamSynchronize(s));
	read_back(data);
	CHECK(host[0] == 15 && host[1] == 14);
	CHECK_INT(cu.cuStreamBeginCaptureToGraph(s, NULL, NULL, NULL, 0, RELAXED), INVALID_VALUE);
	CHECK_INT(cu.cuStreamBeginCaptureToGraph(NULL, graph, NULL, NULL, 0, RELAXED),
		CAPTURE_UNSUPPORTED);
	CHECK_INT(cu.cuStreamBeginCapture(NULL), CAPTURE_UNSUPPORTED);
	OK(cu.cuGraphExecDestroy(exec));
}

/* A thread's mode is exchanged for the one that it had. */
static void test_capture_mode(void)
{
	int mode = RELAXED;

	OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
	CHECK_INT(mode, GLOBAL);
	mode = GLOBAL;
	OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
	CHECK_INT(mode, RELAXED);
	/* The number is not checked. */
	mode = 7;
	OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
	CHECK_INT(mode, GLOBAL);
	OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
	if (soft) { /* hardware's driver crashes */
		CHECK_INT(cu.cuThreadExchangeStreamCaptureMode(NULL), INVALID_VALUE);
	}
}

static void test_capture_info(void)
{
	uint64_t data = cuda_api_zeros(WORDS);
	void *s, *graph = NULL, *captured = NULL, *nodes[3], *const *deps = NULL;
	const struct edge *edges = NULL;
	unsigned long long id = 0, again = 0;
	int status = -1;
	size_t n = 99;

	MUST(cu.cuStreamCreate(&s, NON_BLOCKING));
	OK(cu.cuStreamGetCaptureInfo(s, &status, &id));
	CHECK_INT(status, 0);
	CHECK_INT(cu.cuStreamGetCaptureInfo(s, NULL, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuStreamUpdateCaptureDependencies(s, NULL, 0, 1), ILLEGAL_STATE);
	/* The first form: a global capture, during which this thread may not allocate. */
	OK(cu.cuStreamBeginCapture(s));
	launch(s, data, 1, 5);
	OK(cu.cuStreamGetCaptureInfo(s, &status, &id));
	CHECK(status == 1 && id != 0);
	OK(cu.cuStreamGetCaptureInfo_v2(s, &status, &again, &captured, &deps, &n));
	CHECK(status == 1 && again == id && captured != NULL && n == 1);
	nodes[0] = deps[0];
	launch(s, data, 1, 10);
	OK(cu.cuStreamGetCaptureInfo_v3(s, &status, &again, &captured, &deps, &edges, &n));
	CHECK_INT(n, 1);
	CHECK(deps[0] != nodes[0]);
	/* An array beside the dependencies, of plain edges. */
	CHECK(edges != NULL);
	CHECK(edges == NULL || (edges[0].from_port == 0 && edges[0].to_port == 0));
	nodes[1] = deps[0];
	/* The next comes after the first alone; then after that and the second. */
	OK(cu.cuStreamUpdateCaptureDependencies(s, &nodes[0], 1, 1));
	OK(cu.cuMemsetD32Async(data + 4, 7, 1, s));
	OK(cu.cuStreamGetCaptureInfo_v2(s, &status, NULL, NULL, &deps, &n));
	nodes[2] = deps[0];
	OK(cu.cuStreamUpdateCaptureDependencies_v2(s, &nodes[1], NULL, 1, 0));
	OK(cu.cuStreamGetCaptureInfo_v2(s, &status, NULL, NULL, NULL, &n));
	CHECK_INT(n, 2);
	CHECK_INT(cu.cuStreamUpdateCaptureDependencies(s, NULL, 1, 0), INVALID_VALUE);
	CHECK_INT(cu.cuStreamUpdateCaptureDependencies(s, &nodes[1], 1, 7), INVALID_VALUE);
	OK(cu.cuStreamEndCapture(s, &graph));
	CHECK(graph == captured);
	n = 4;
	void *before[4] = {0};
	OK(cu.cuGraphNodeGetDependencies(nodes[2], before, &n));
	CHECK(n == 1 && before[0] == nodes[0]);
	capture_more(s, graph, nodes[2], data);
	OK(cu.cuGraphDestroy(graph));
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuMemFree_v2(data));
}

/*
 * The forms for threads' own default streams. Their parameters are those of the others, all of
 * them words: such calls can be made from a table. No stream in one of them means the thread's own.
 */
typedef uintptr_t w;
typedef int any_fn(w, w, w, w, w, w, w, w, w, w, w);

static any_fn *per_thread(const char *name, int version)
{
	void *fn = NULL, *other = NULL;
	int status = -1;

	/* The forms for threads came with CUDA 7. */
	if (version < 7000) {
		version = 7000;
	}
	OK(cu.cuGetProcAddress_v2(name, &fn, version, 2, &status));
	OK(cu.cuGetProcAddress_v2(name, &other, version, 1, &status));
	if (fn == NULL || fn == other) {
		fprintf(stderr, "no form of %s %d for threads\n", name, version);
		CHECK(false);
		fn = other;
	}
	return (any_fn *)(uintptr_t)fn;
}

#define PT(name, version, ...) call(per_thread(name, version), (const w[11]){__VA_ARGS__})
#define P(x)                   ((w)(x))

static int call(any_fn *fn, const w a[11])
{
	return fn(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
}

static size_t n_captured(void)
{
	unsigned long long id;
	size_t n = 0;
	int status = -1;
	void *graph = NULL;

	OK(cu.cuStreamGetCaptureInfo_v2(STREAM_PER_THREAD, &status, &id, &graph, NULL, NULL));
	CHECK_INT(status, 1);
	OK(cu.cuGraphGetNodes(graph, NULL, &n));
	return n;
}

/* While the thread's own stream is captured, what is given to it becomes a node. */
#define CAPTURED(name, version, ...)                                                               \
	do {                                                                                       \
		size_t before = n_captured();                                                      \
		OK(PT(name, version, __VA_ARGS__));                                                \
		CHECK_INT(n_captured(), before + 1);                                               \
	} while (0)

static void nothing(void *user)
{
}

static void capture_work(uint64_t data)
{
	static uint32_t from[WORDS];
	uint64_t other = data + 128;
	uint32_t mul = 1, add = 1, turns = 0;
	void *params[] = {&data, &mul, &add, &turns};
	struct memcpy2d rows = {.src_type = 2,
		.src_device = data,
		.src_pitch = 16,
		.dst_type = 2,
		.dst_device = other,
		.dst_pitch = 16,
		.width = 8,
		.height = 2};
	struct memcpy3d slices = {.src_type = 2,
		.src_device = data,
		.src_pitch = 16,
		.src_height = 2,
		.dst_type = 2,
		.dst_device = other,
		.dst_pitch = 16,
		.dst_height = 2,
		.width = 8,
		.height = 2,
		.depth = 1};
	struct launch_config config = {.grid = {1, 1, 1}, .block = {1, 1, 1}};

	CAPTURED("cuMemcpyHtoDAsync", 3020, data, P(from), 16, 0);
	CAPTURED("cuMemcpyDtoHAsync", 3020, P(from), data, 16, 0);
	CAPTURED("cuMemcpyDtoDAsync", 3020, other, data, 16, 0);
	CAPTURED("cuMemcpyAsync", 4000, other, data, 16, 0);
	CAPTURED("cuMemcpy2DAsync", 3020, P(&rows), 0);
	CAPTURED("cuMemcpy3DAsync", 3020, P(&slices), 0);
	CAPTURED("cuMemsetD8Async", 3020, data, 1, 4, 0);
	CAPTURED("cuMemsetD16Async", 3020, data, 1, 4, 0);
	CAPTURED("cuMemsetD32Async", 3020, data, 1, 4, 0);
	CAPTURED("cuMemsetD2D8Async", 3020, data, 16, 1, 4, 2, 0);
	CAPTURED("cuMemsetD2D16Async", 3020, data, 16, 1, 4, 2, 0);
	CAPTURED("cuMemsetD2D32Async", 3020, data, 16, 1, 4, 2, 0);
	CAPTURED("cuLaunchKernel", 4000, P(affine), 1, 1, 1, 1, 1, 1, 0, 0, P(params), 0);
	CAPTURED("cuLaunchCooperativeKernel", 9000, P(affine), 1, 1, 1, 1, 1, 1, 0, 0, P(params));
	CAPTURED("cuLaunchKernelEx", 11060, P(&config), P(affine), P(params), 0);
	CAPTURED("cuLaunchHostFunc", 10000, 0, P(nothing), 0);
}

/* Calls that wait for the thread's own stream, and launches of graphs, are refused while it is
 * captured. */
static void refuse_calls(uint64_t data, void *exec)
{
	static const struct {
		const char *name;
		int version;
		bool takes_copy;
	} waits[] = {{"cuStreamSynchronize", 2000, false}, {"cuStreamQuery", 2000, false},
		{"cuMemcpyHtoD", 3020, true}, {"cuMemcpy", 4000, true}};
	static uint32_t from[4];

	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		void *graph = &graph;

		OK(PT("cuStreamBeginCapture", 10010, 0, RELAXED));
		CHECK_INT(waits[i].takes_copy
				  ? PT(waits[i].name, waits[i].version, data, P(from), 16)
				  : PT(waits[i].name, waits[i].version, 0),
			CAPTURE_UNSUPPORTED);
		CHECK(PT("cuStreamEndCapture", 10000, 0, P(&graph)) != 0);
		CHECK(graph == NULL);
	}
	OK(PT("cuStreamBeginCapture", 10010, 0, RELAXED));
	CHECK_INT(PT("cuGraphLaunch", 10000, P(exec), 0), CAPTURE_UNSUPPORTED);
	CHECK(PT("cuStreamEndCapture", 10000, 0, P(&(void *){NULL})) != 0);
}

static void test_per_thread_capture(uint64_t data)
{
	void *graph = NULL, *inner, *inner_exec, *exec, *node, *deps[1] = {NULL};
	unsigned long long id = 0;
	int status = -1;
	size_t n = 0;

	OK(cu.cuGraphCreate(&inner, 0));
	OK(cu.cuGraphAddEmptyNode(&node, inner, NULL, 0));
	OK(cu.cuGraphInstantiateWithFlags(&inner_exec, inner, 0));
	OK(PT("cuStreamIsCapturing", 10000, 0, P(&status)));
	CHECK_INT(status, 0);
	OK(PT("cuStreamBeginCapture", 10010, 0, RELAXED));
	OK(PT("cuStreamIsCapturing", 10000, 0, P(&status)));
	CHECK_INT(status, 1);
	capture_work(data);
	OK(PT("cuStreamGetCaptureInfo", 10010, 0, P(&status), P(&id)));
	CHECK(status == 1 && id != 0);
	OK(PT("cuStreamGetCaptureInfo", 11030, 0, P(&status), 0, P(&graph), 0, P(&n)));
	CHECK(graph != NULL && n == 1);
	n = 0;
	OK(PT("cuStreamGetCaptureInfo", 12030, 0, P(&status), 0, 0, 0, 0, P(&n)));
	CHECK_INT(n, 1);
	OK(PT("cuStreamUpdateCaptureDependencies", 11030, 0, 0, 0, 1));
	OK(PT("cuStreamUpdateCaptureDependencies", 12030, 0, 0, 0, 0, 1));
	OK(PT("cuStreamGetCaptureInfo", 11030, 0, P(&status), 0, 0, 0, P(&n)));
	CHECK_INT(n, 0);
	OK(PT("cuStreamEndCapture", 10000, 0, P(&graph)));
	OK(PT("cuGraphInstantiateWithParams", 12000, P(&exec), P(graph),
		P(&(struct instantiate_params){0})));
	OK(PT("cuGraphUpload", 11010, P(exec), 0));
	OK(PT("cuGraphLaunch", 10000, P(exec), 0));
	OK(PT("cuStreamSynchronize", 2000, 0));
	OK(cu.cuGraphExecDestroy(exec));
	/* Into a graph that is there, and in the first form. */
	OK(PT("cuStreamBeginCaptureToGraph", 12030, 0, P(graph), P(deps), 0, 0, RELAXED));
	OK(cu.cuStreamIsCapturing(STREAM_PER_THREAD, &status));
	CHECK_INT(status, 1);
	OK(PT("cuStreamEndCapture", 10000, 0, P(&graph)));
	OK(cu.cuGraphDestroy(graph));
	OK(PT("cuStreamBeginCapture", 10000, 0));
	OK(cu.cuStreamIsCapturing(STREAM_PER_THREAD, &status));
	CHECK_INT(status, 1);
	OK(PT("cuStreamEndCapture", 10000, 0, P(&graph)));
	OK(cu.cuGraphDestroy(graph));
	refuse_calls(data, inner_exec);
	OK(cu.cuGraphExecDestroy(inner_exec));
	OK(cu.cuGraphDestroy(inner));
}

/* Asked by name through the per-thread form, other forms are per-thread unless said otherwise. Of
 * the software GPU alone: NVIDIA's header makes that form, not its library. */
static void test_per_thread_names(void)
{
	void *plain = NULL, *own = NULL, *got = NULL;
	int status = -1;

	OK(cu.cuGetProcAddress_v2("cuStreamQuery", &plain, 12080, 1, &status));
	OK(cu.cuGetProcAddress_v2("cuStreamQuery", &own, 12080, 2, &status));
	OK(PT("cuGetProcAddress", 12000, P("cuStreamQuery"), P(&got), 12080, 0, P(&status)));
	CHECK(got == own && status == 0);
	OK(PT("cuGetProcAddress", 12000, P("cuStreamQuery"), P(&got), 12080, 1, P(&status)));
	CHECK(got == plain && status == 0);
	OK(PT("cuGetProcAddress", 12000, P("cuNoSuchCall"), P(&got), 12080, 0, P(&status)));
	CHECK(got == NULL && status == 1);
}

static void test_per_thread_queries(void *context)
{
	unsigned long long id = 0, own_id = 1;
	void *got = NULL, *green = &green;
	unsigned flags = 99;
	int value = -1;

	OK(cu.cuStreamGetId(STREAM_PER_THREAD, &own_id));
	OK(PT("cuStreamGetId", 12000, 0, P(&id)));
	CHECK(id == own_id);
	OK(PT("cuStreamGetFlags", 5050, 0, P(&flags)));
	CHECK_INT(flags, 0);
	OK(PT("cuStreamGetPriority", 5050, 0, P(&value)));
	CHECK_INT(value, 0);
	OK(PT("cuStreamGetCtx", 9020, 0, P(&got)));
	CHECK(got == context);
	OK(PT("cuStreamGetCtx", 12050, 0, P(&got), P(&green)));
	CHECK(got == context && green == NULL);
	OK(PT("cuStreamGetDevice", 12080, 0, P(&value)));
	CHECK_INT(value, 0);
	OK(PT("cuStreamQuery", 2000, 0));
}

static _Atomic int n_callbacks;

static void on_callback(void *s, int status, void *user)
{
	n_callbacks += status == 0 && user == &n_callbacks;
}

/* What a capture does not take: done, in order, on the thread's own stream. */
static void test_per_thread_work(uint64_t data, void *context)
{
	const struct location device = {1, 0};
	w device_word = 0;
	uint64_t fresh = 0, managed = 0;
	void *event, *pool;

	memcpy(&device_word, &device, sizeof(device));
	MUST(cu.cuEventCreate(&event, 0));
	OK(PT("cuMemAllocAsync", 11020, P(&fresh), 64, 0));
	OK(PT("cuMemFreeAsync", 11020, fresh, 0));
	OK(cu.cuDeviceGetDefaultMemPool(&pool, 0));
	OK(PT("cuMemAllocFromPoolAsync", 11020, P(&fresh), 64, P(pool), 0));
	OK(PT("cuMemsetD32Async", 3020, fresh, 3, 16, 0));
	OK(PT("cuMemcpyPeerAsync", 4000, data, P(context), fresh, P(context), 64, 0));
	OK(PT("cuEventRecord", 2000, P(event), 0));
	OK(PT("cuStreamWaitEvent", 3020, 0, P(event), 0));
	OK(PT("cuStreamAddCallback", 5000, 0, P(on_callback), P(&n_callbacks), 0));
	OK(PT("cuMemFreeAsync", 11020, fresh, 0));
	OK(PT("cuStreamSynchronize", 2000, 0));
	CHECK_INT(n_callbacks, 1);
	OK(cu.cuEventQuery(event));
	read_back(data);
	CHECK(host[0] == 3 && host[15] == 3);
	OK(PT("cuEventRecordWithFlags", 11010, P(event), 0, 0));
	OK(cu.cuEventSynchronize(event));
	OK(cu.cuMemAllocManaged(&managed, 4096, 1));
	OK(PT("cuMemPrefetchAsync", 8000, managed, 4096, 0, 0));
	OK(PT("cuMemPrefetchAsync", 12020, managed, 4096, device_word, 0, 0));
	OK(PT("cuStreamAttachMemAsync", 6000, 0, managed, 0, 1));
	CHECK_INT(PT("cuStreamAttachMemAsync", 6000, 0, data, 0, 1), INVALID_VALUE);
	OK(PT("cuStreamSynchronize", 2000, 0));
	OK(cu.cuMemFree_v2(managed));
	OK(cu.cuEventDestroy_v2(event));
}

/* The synchronous ones. */
static void test_per_thread_copies(uint64_t data, void *context)
{
	uint32_t in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8] = {0};
	uint64_t other = data + 128;
	struct memcpy2d rows = {.src_type = 2,
		.src_device = data,
		.src_pitch = 16,
		.dst_type = 1,
		.dst_host = out,
		.dst_pitch = 8,
		.width = 8,
		.height = 2};
	struct memcpy3d slices = {.src_type = 2,
		.src_device = data,
		.src_reserved = context,
		.src_pitch = 16,
		.src_height = 2,
		.dst_type = 2,
		.dst_device = other,
		.dst_reserved = context,
		.dst_pitch = 16,
		.dst_height = 2,
		.width = 16,
		.height = 2,
		.depth = 1};

	OK(PT("cuMemcpyHtoD", 3020, data, P(in), sizeof(in)));
	OK(PT("cuMemcpyDtoD", 3020, other, data, sizeof(in)));
	OK(PT("cuMemcpyDtoH", 3020, P(out), other, sizeof(out)));
	CHECK(memcmp(in, out, sizeof(in)) == 0);
	OK(PT("cuMemcpy2D", 3020, P(&rows)));
	CHECK(out[0] == 1 && out[1] == 2 && out[2] == 5 && out[3] == 6);
	memset(out, 0, sizeof(out));
	OK(PT("cuMemcpy2DUnaligned", 3020, P(&rows)));
	CHECK(out[0] == 1 && out[1] == 2 && out[2] == 5 && out[3] == 6);
	static const struct {
		const char *name;
		int version;
	} peers[] = {{"cuMemcpy3D", 3020}, {"cuMemcpy3DPeer", 4000}, {"cuMemcpy3DPeerAsync", 4000}};
	for (size_t i = 0; i < 3; i++) {
		OK(PT("cuMemsetD8", 3020, other, 0, sizeof(in)));
		if (i == 0) {
			slices.src_reserved = slices.dst_reserved = NULL;
		} else {
			slices.src_reserved = slices.dst_reserved = context;
		}
		OK(PT(peers[i].name, peers[i].version, P(&slices), 0));
		OK(PT("cuMemcpy", 4000, P(out), other, sizeof(out)));
		CHECK(memcmp(in, out, sizeof(in)) == 0);
	}
}

static void test_per_thread_fills(uint64_t data, void *context)
{
	uint64_t other = data + 128;
	uint32_t out[8] = {0};

	OK(PT("cuMemsetD16", 3020, other, 0x0101, 2));
	OK(PT("cuMemsetD32", 3020, other + 4, 7, 1));
	OK(PT("cuMemcpyPeer", 4000, data, P(context), other, P(context), 8));
	OK(PT("cuMemcpyDtoH", 3020, P(out), data, 8));
	CHECK(out[0] == 0x01010101 && out[1] == 7);
	OK(PT("cuMemsetD2D8", 3020, data, 16, 1, 4, 2));
	OK(PT("cuMemsetD2D16", 3020, data + 4, 16, 2, 2, 2));
	OK(PT("cuMemsetD2D32", 3020, data + 8, 16, 3, 1, 2));
	OK(PT("cuMemcpyDtoH", 3020, P(out), data, sizeof(out)));
	for (int row = 0; row < 2; row++) {
		const uint32_t *words = out + row * 4;
		CHECK(words[0] == 0x01010101 && words[1] == 0x00020002 && words[2] == 3);
	}
}

int main(void)
{
	void *context, *module;

	soft = cuda_api_start(&context) != 0;
	MUST(cu.cuModuleLoadData(&module, test_ptx));
	affine = cuda_api_function(module, "affine");
	TEST(test_fills());
	TEST(test_copy_rows());
	TEST(test_streams(context));
	TEST(test_capture_info());
	TEST(test_capture_mode());
	uint64_t data = cuda_api_zeros(WORDS);
	if (soft) {
		TEST(test_per_thread_names());
	}
	TEST(test_per_thread_queries(context));
	TEST(test_per_thread_work(data, context));
	TEST(test_per_thread_copies(data, context));
	TEST(test_per_thread_fills(data, context));
	TEST(test_per_thread_capture(data));
	OK(cu.cuCtxDestroy_v2(context));
	return check_result();
}
