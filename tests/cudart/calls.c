/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the runtime interface with checked results. The argument is the library's name:
 * libcudart.so.9.0, .11.0, .12 or .13. It is declared from public documentation, and from nothing
 * of ours.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/check.h"

#define N 256

static void *library;
static int version; /* 9, 11, 12, 13 */

/* Every call goes through here; the arguments are integers and pointers. */
#define CALL(name, ...) (((int (*)())find(#name))(__VA_ARGS__))
#pragma GCC diagnostic ignored "-Wstrict-prototypes"

static void (*find(const char *name))(void)
{
	void (*fn)(void) = NULL;

	*(void **)&fn = dlsym(library, name);
	if (fn == NULL) {
		fprintf(stderr, "%s is missing\n", name);
		exit(1);
	}
	return fn;
}

/* A number of CUDA 10.1 and newer, as this version tells it. */
static int told(int error, int old)
{
	return version == 9 ? old : error;
}

static const char ptx[] =
	".version 6.0\n.target sm_70\n.address_size 64\n.visible .global .align 4 .u32 there = 5;\n"
	".visible .entry fill(.param .u64 to, .param .u32 value)\n{\n\t.reg .b32 %r<4>;\n"
	"\t.reg .b64 %d<4>;\n\tld.param.u64 %d1, [to];\n\tld.param.u32 %r1, [value];\n"
	"\tmov.u32 %r2, %tid.x;\n\tmul.wide.u32 %d2, %r2, 4;\n\tadd.s64 %d3, %d1, %d2;\n"
	"\tst.global.u32 [%d3], %r1;\n\tret;\n}\n";

struct wrapper {
	uint32_t magic, version;
	const void *data;
	void *more;
} wrapper = {0x466243b1, 1, ptx, NULL};

struct dim {
	unsigned x, y, z;
};

typedef void **(*register_fn)(void *);
typedef int (*launch_fn)(const void *, struct dim, struct dim, void **, size_t, void *);

static char host_fill, host_there, host_bad;

static int launch(const void *host, unsigned block, void **params, void *stream)
{
	return ((launch_fn)find("cudaLaunchKernel"))(
		host, (struct dim){1, 1, 1}, (struct dim){block, 1, 1}, params, 0, stream);
}

static void **add(void *image, const void *host, const char *name)
{
	void **handle = ((register_fn)find("__cudaRegisterFatBinary"))(image);

	CALL(__cudaRegisterFunction, handle, host, name, name, -1, NULL, NULL, NULL, NULL, NULL);
	return handle;
}

static void test_launches(void)
{
	unsigned *at = NULL, seen[N], value = 7;
	void **handle = add(&wrapper, &host_fill, "fill"), *stream = NULL;
	void *params[] = {&at, &value};

	CALL(__cudaRegisterVar, handle, &host_there, "there", "there", 0, (size_t)4, 0, 0);
	CHECK_INT(CALL(cudaMalloc, &at, sizeof(seen)), 0);
	CHECK_INT(launch(&host_fill, N, params, NULL), 0);
	CHECK_INT(CALL(cudaMemcpy, seen, at, sizeof(seen), 2), 0);
	CHECK(seen[0] == 7 && seen[N - 1] == 7);
	CHECK_INT(CALL(cudaStreamCreateWithFlags, &stream, 1u), 0);
	value = 8;
	CHECK_INT(launch(&host_fill, N, params, stream), 0);
	CHECK_INT(CALL(cudaStreamSynchronize, stream), 0);
	CHECK_INT(CALL(cudaStreamQuery, stream), 0);
	CHECK_INT(CALL(cudaMemcpyAsync, seen, at, sizeof(seen), 4, stream), 0);
	CHECK_INT(CALL(cudaStreamSynchronize, stream), 0);
	CHECK(seen[0] == 8 && seen[N - 1] == 8);
	CHECK_INT(CALL(cudaStreamDestroy, stream), 0);
	CHECK_INT(CALL(cudaMemcpyFromSymbol, &value, &host_there, (size_t)4, (size_t)0, 2), 0);
	CHECK_INT(value, 5);
	CHECK_INT(CALL(cudaMemcpyFromSymbol, &value, &host_there, (size_t)8, (size_t)0, 2),
		told(1, 11));
	CHECK_INT(CALL(cudaMemcpyFromSymbol, &value, &host_fill, (size_t)4, (size_t)0, 2), 13);
	CHECK_INT(launch(&host_there, 1, params, NULL), told(98, 8));
	CHECK_INT(launch(&host_fill, 5000, params, NULL), 9);
	CHECK_INT(CALL(cudaFree, at), 0);
	CHECK_INT(CALL(cudaGetLastError), 9);
	CHECK_INT(CALL(cudaGetLastError), 0);
	CALL(__cudaUnregisterFatBinary, handle);
	CHECK_INT(launch(&host_fill, 1, params, NULL), told(98, 8));
}

/* None of these is loaded, and none crashes. */
static void test_bad_images(void)
{
	static struct {
		uint32_t magic;
		uint16_t version, header;
		uint64_t size;
	} huge = {0xba55ed50, 1, 16, 1ull << 31}, small = {0xba55ed50, 1, 3, 64},
	  empty = {0xba55ed50, 1, 16, 0};
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct wrapper bad[] = {{1, 1, ptx, NULL}, {0x466243b1, 1, NULL, NULL},
		{0x466243b1, 1, (void *)64, NULL}, {0x466243b1, 1, &huge, NULL},
		{0x466243b1, 1, &small, NULL}, {0x466243b1, 1, &empty, NULL},
		{0x466243b1, 1,
			"\x7f"
			"ELF, but short",
			NULL},
		{0x466243b1, 1, "this is no program", NULL}, {0x466243b1, 1, page, NULL}};

	memset(page, 'x', 4096);
	munmap(page + 4096, 4096);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		void **handle = add(&bad[i], &host_bad, "fill");

		CHECK(launch(&host_bad, 1, NULL, NULL) != 0);
		CHECK(CALL(cudaGetLastError) != 0);
		CALL(__cudaUnregisterFatBinary, handle);
	}
	void **none = add(NULL, &host_bad, "fill");
	CHECK(launch(&host_bad, 1, NULL, NULL) != 0);
	CALL(__cudaUnregisterFatBinary, none);
	CHECK(CALL(cudaGetLastError) != 0);
	munmap(page, 4096);
}

static void test_memory(void)
{
	unsigned char seen[N], *host = NULL, *at = NULL;
	size_t free_bytes = 0, total = 0, pitch = 0;
	unsigned char attributes[128];

	CHECK_INT(CALL(cudaMalloc, &at, (size_t)N), 0);
	CHECK_INT(CALL(cudaMemset, at, 0x5a, (size_t)N), 0);
	CHECK_INT(CALL(cudaMemcpy, seen, at, (size_t)N, 2), 0);
	CHECK(seen[0] == 0x5a && seen[N - 1] == 0x5a);
	CHECK_INT(CALL(cudaMemcpy, seen, at, (size_t)N, 17), 21);
	CHECK_INT(CALL(cudaPointerGetAttributes, attributes, at), 0);
	CHECK_INT(*(int *)attributes, 2); /* device memory, in all layouts */
	CHECK_INT(CALL(cudaPointerGetAttributes, attributes, seen), version == 9 ? 11 : 0);
	CHECK_INT(CALL(cudaFree, at), 0);
	CHECK_INT(CALL(cudaFree, NULL), 0);
	CHECK(CALL(cudaFree, (void *)1234) != 0);
	CHECK_INT(CALL(cudaMallocHost, &host, (size_t)N), 0);
	memset(host, 3, N);
	CHECK_INT(CALL(cudaPointerGetAttributes, attributes, host), 0);
	CHECK_INT(*(int *)attributes, 1);
	CHECK_INT(CALL(cudaFreeHost, host), 0);
	CHECK_INT(CALL(cudaMemGetInfo, &free_bytes, &total), 0);
	CHECK(free_bytes > 0 && free_bytes <= total);
	CHECK_INT(CALL(cudaMalloc, &at, (size_t)1 << 50), 2);
	CHECK_INT(CALL(cudaMallocPitch, &at, &pitch, (size_t)10, (size_t)4), 0);
	memset(seen, 9, sizeof(seen));
	CHECK_INT(CALL(cudaMemcpy2D, at, pitch, seen, (size_t)16, (size_t)10, (size_t)4, 1), 0);
	memset(seen, 0, sizeof(seen));
	CHECK_INT(CALL(cudaMemcpy2D, seen, (size_t)16, at, pitch, (size_t)10, (size_t)4, 2), 0);
	CHECK(seen[57] == 9 && seen[58] == 0);
	CHECK_INT(CALL(cudaMemcpy2D, seen, (size_t)1, at, pitch, (size_t)10, (size_t)4, 2), 12);
	CHECK_INT(CALL(cudaFree, at), 0);
	CHECK_INT(CALL(cudaIpcGetMemHandle, seen, seen), told(801, 71));
	(void)CALL(cudaGetLastError);
}

static void test_devices(void)
{
	int count = 0, value = 0, least = 0, greatest = 0;
	static unsigned char prop[2048];

	CHECK_INT(CALL(cudaGetDeviceCount, &count), 0);
	CHECK(count > 0);
	CHECK_INT(CALL(cudaRuntimeGetVersion, &value), 0);
	CHECK_INT(value / 1000, version);
	CHECK_INT(CALL(cudaDriverGetVersion, &value), 0);
	CHECK(value >= 12000);
	CHECK_INT(CALL(cudaSetDevice, count), told(101, 10));
	CHECK_INT(CALL(cudaGetDevice, &value), 0);
	CHECK_INT(value, 0);
	CHECK_INT(CALL(cudaPeekAtLastError), told(101, 10));
	CHECK_INT(CALL(cudaGetLastError), told(101, 10));
	CHECK_INT(CALL(cudaGetLastError), 0);
	memset(prop, 0xee, sizeof(prop));
	CHECK_INT(version == 12 ? CALL(cudaGetDeviceProperties_v2, prop, 0)
				: CALL(cudaGetDeviceProperties, prop, 0),
		0);
	size_t size = version == 9 ? 672 : version == 11 ? 728 : version == 12 ? 1032 : 1008;
	CHECK(prop[size] == 0xee && prop[0] != 0xee);
	/* totalGlobalMem, and warpSize behind it */
	size_t at = version == 9 ? 256 : 288;
	CHECK(*(uint64_t *)(prop + at) >= 1u << 20);
	CHECK_INT(*(int *)(prop + at + 20), 32);
	CHECK_INT(CALL(cudaDeviceGetAttribute, &value, 16, 0), 0);
	CHECK(value > 0);
	CHECK_INT(CALL(cudaDeviceGetStreamPriorityRange, &least, &greatest), 0);
	CHECK(greatest <= least);
	CHECK_INT(CALL(cudaDeviceSynchronize), 0);
	const char *(*name)(int) = (const char *(*)(int))find("cudaGetErrorName");
	CHECK(strcmp(name(told(801, 71)), "cudaErrorNotSupported") == 0);
	CHECK(strcmp(name(2), "cudaErrorMemoryAllocation") == 0);
}

static void test_graphs(void)
{
	void *stream = NULL, *graph = NULL, *exec = NULL, *from = NULL, *to = NULL, *fn = NULL;
	unsigned char *at = NULL, seen[N];
	int status = -1;

	CHECK_INT(CALL(cudaMalloc, &at, (size_t)N), 0);
	CHECK_INT(CALL(cudaStreamCreateWithFlags, &stream, 1u), 0);
	CHECK_INT(CALL(cudaStreamBeginCapture, stream, 0), 0);
	CHECK_INT(CALL(cudaMemsetAsync, at, 0x21, (size_t)N, stream), 0);
	CHECK_INT(CALL(cudaStreamIsCapturing, stream, &status), 0);
	CHECK_INT(status, 1);
	CHECK_INT(CALL(cudaStreamEndCapture, stream, &graph), 0);
	CHECK_INT(CALL(cudaGraphInstantiateWithFlags, &exec, graph, 0ull), 0);
	CHECK_INT(CALL(cudaEventCreateWithFlags, &from, 0u), 0);
	CHECK_INT(CALL(cudaEventCreate, &to), 0);
	CHECK_INT(CALL(cudaEventRecord, from, stream), 0);
	CHECK_INT(CALL(cudaGraphLaunch, exec, stream), 0);
	CHECK_INT(CALL(cudaEventRecord, to, stream), 0);
	CHECK_INT(CALL(cudaEventSynchronize, to), 0);
	float ms = -1;
	CHECK_INT(CALL(cudaEventElapsedTime, &ms, from, to), 0);
	CHECK(ms >= 0);
	CHECK_INT(CALL(cudaMemcpy, seen, at, (size_t)N, 2), 0);
	CHECK(seen[0] == 0x21 && seen[N - 1] == 0x21);
	CHECK_INT(CALL(cudaGraphExecDestroy, exec), 0);
	CHECK_INT(CALL(cudaGraphDestroy, graph), 0);
	CHECK_INT(CALL(cudaEventDestroy, from), 0);
	CHECK_INT(CALL(cudaEventDestroy, to), 0);
	CHECK_INT(CALL(cudaStreamDestroy, stream), 0);
	CHECK_INT(CALL(cudaFree, at), 0);
	CHECK_INT(CALL(cudaGetDriverEntryPoint, "cuMemAlloc", &fn, 0ull,
			  version > 11 ? &status : NULL),
		0);
	CHECK(fn != NULL);
}

static void *other_thread(void *unused)
{
	intptr_t wrong = CALL(cudaGetLastError) != 0;

	wrong += CALL(cudaFree, (void *)1234) == 0;
	wrong += CALL(cudaPeekAtLastError) == 0;
	return (void *)wrong;
}

static void test_threads_and_fork(void)
{
	pthread_t thread;
	void *wrong = NULL;
	int status = -1;

	CHECK(CALL(cudaSetDevice, -1) != 0);
	pthread_create(&thread, NULL, other_thread, NULL);
	pthread_join(thread, &wrong);
	CHECK_INT((intptr_t)wrong, 0);
	CHECK_INT(CALL(cudaGetLastError), told(101, 10));
	pid_t pid = fork();

	if (pid == 0) {
		void *at;

		_exit(CALL(cudaMalloc, &at, (size_t)16)); /* initialisation error */
	}
	waitpid(pid, &status, 0);
	CHECK_INT(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 3);
}

static void test_reset(void)
{
	test_launches();
	CHECK_INT(CALL(cudaDeviceReset), 0);
	test_launches();
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "libcudart.so.12";

	library = dlopen(name, RTLD_NOW);
	if (library == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	version = atoi(strstr(name, ".so.") + 4);
	test_devices();
	test_launches();
	test_bad_images();
	test_memory();
	test_graphs();
	test_threads_and_fork();
	test_reset();
	return check_result();
}
