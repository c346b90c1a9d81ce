/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, contexts, modules and launches, as an ordinary program uses them.
 * usage: cuda_basic KERNELS */
#include <unistd.h>

#include "cuda_api.h"
#include "cuda_kernels.h"

static const char *kernels;
static int soft;

static void test_devices(void)
{
	unsigned char uuid[16] = {0};
	char name[128] = "", bus[32] = "";
	const char *text = NULL;
	int n = 0, value = 0, same = -1;
	size_t total = 0;

	OK(cu.cuDriverGetVersion(&value));
	CHECK(value >= 12000);
	OK(cu.cuDeviceGetCount(&n));
	CHECK(n >= 1);
	OK(cu.cuDeviceGetName(name, sizeof(name), 0));
	CHECK(name[0] != '\0');
	OK(cu.cuDeviceGetUuid_v2(uuid, 0));
	OK(cu.cuDeviceTotalMem_v2(&total, 0));
	CHECK(total >= 1 << 20);
	OK(cu.cuDeviceGetPCIBusId(bus, sizeof(bus), 0));
	OK(cu.cuDeviceGetByPCIBusId(&same, bus));
	CHECK_INT(same, 0);
	OK(cu.cuDeviceGetAttribute(&value, 10, 0));
	CHECK_INT(value, 32);
	OK(cu.cuDeviceGetAttribute(&value, 75, 0));
	CHECK(value >= 7);
	OK(cu.cuDeviceGetAttribute(&value, 16, 0));
	CHECK(value >= 1);
	for (int i = 1; i < 130; i++) {
		OK(cu.cuDeviceGetAttribute(&value, i, 0));
	}
	OK(cu.cuGetErrorName(700, &text));
	CHECK(text != NULL && strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS") == 0);
	OK(cu.cuGetErrorString(2, &text));
	CHECK(text != NULL && text[0] != '\0');
}

static void test_contexts(void *first)
{
	void *current = NULL, *second, *popped = NULL, *primary, *again;
	unsigned flags = 0;
	int device = -1, active = -1;

	OK(cu.cuCtxGetCurrent(&current));
	CHECK(current == first);
	OK(cu.cuCtxCreate_v2(&second, 0, 0));
	OK(cu.cuCtxGetCurrent(&current));
	CHECK(current == second && second != first);
	OK(cu.cuCtxGetDevice(&device));
	CHECK_INT(device, 0);
	OK(cu.cuCtxPopCurrent_v2(&popped));
	CHECK(popped == second);
	OK(cu.cuCtxGetCurrent(&current));
	CHECK(current == first);
	OK(cu.cuCtxPushCurrent_v2(second));
	OK(cu.cuCtxDestroy_v2(second));
	OK(cu.cuCtxGetCurrent(&current));
	CHECK(current == first);
	OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
	CHECK_INT(active, 0);
	OK(cu.cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cu.cuDevicePrimaryCtxRetain(&again, 0));
	CHECK(primary == again && primary != first);
	OK(cu.cuDevicePrimaryCtxRelease_v2(0));
	OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
	CHECK_INT(active, 1);
	OK(cu.cuDevicePrimaryCtxRelease_v2(0));
	OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
	CHECK_INT(active, 0);
	OK(cu.cuCtxSetCurrent(first));
}

static void test_vector_add(void)
{
	enum { N = 1000 };
	void *module = cuda_api_module(kernels, "classic");
	void *add = cuda_api_function(module, "vector_add");
	static float a[N], b[N], out[N];
	uint64_t da, db, dout;
	unsigned n = N;
	int wrong = 0;

	for (int i = 0; i < N; i++) {
		a[i] = (float)i;
		b[i] = 2 * (float)i;
	}
	MUST(cu.cuMemAlloc_v2(&da, sizeof(a)));
	MUST(cu.cuMemAlloc_v2(&db, sizeof(b)));
	MUST(cu.cuMemAlloc_v2(&dout, sizeof(out)));
	OK(cu.cuMemcpyHtoD_v2(da, a, sizeof(a)));
	OK(cu.cuMemcpyHtoD_v2(db, b, sizeof(b)));
	void *params[] = {&da, &db, &dout, &n};
	OK(cu.cuLaunchKernel(add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
	OK(cu.cuCtxSynchronize());
	OK(cu.cuMemcpyDtoH_v2(out, dout, sizeof(out)));
	for (int i = 0; i < N; i++) {
		wrong += out[i] != 3 * (float)i;
	}
	CHECK_INT(wrong, 0);
	OK(cu.cuMemFree_v2(da));
	OK(cu.cuMemFree_v2(db));
	OK(cu.cuMemFree_v2(dout));
	OK(cu.cuModuleUnload(module));
}

/* Parameters one by one, as a buffer, and by the extended call. */
static void test_parameters(void *module)
{
	void *mixed = cuda_api_function(module, "mixed");
	uint8_t a = 0xab;
	uint16_t b = 0x1234;
	uint32_t c = 0x56789abc, got[3];
	uint64_t out;
	size_t offset = 0, size = 0;
	struct {
		uint8_t a;
		uint64_t out;
		uint16_t b;
		uint32_t c;
	} packed = {.a = a, .b = b, .c = c};
	size_t packed_size = sizeof(packed);
	void *extra[] = {(void *)1, &packed, (void *)2, &packed_size, (void *)0};
	struct launch_config config = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
	struct launch_attribute attribute = {.id = 8, .value.flag = 0}; /* a priority */

	MUST(cu.cuMemAlloc_v2(&out, sizeof(got)));
	packed.out = out;
	void *params[] = {&a, &out, &b, &c};
	for (int form = 0; form < 3; form++) {
		OK(cu.cuMemsetD8_v2(out, 0, sizeof(got)));
		if (form == 0) {
			OK(cu.cuLaunchKernel(mixed, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
		} else if (form == 1) {
			OK(cu.cuLaunchKernel(mixed, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
		} else {
			config.attributes = &attribute;
			config.n_attributes = 1;
			OK(cu.cuLaunchKernelEx(&config, mixed, params, NULL));
		}
		OK(cu.cuMemcpyDtoH_v2(got, out, sizeof(got)));
		CHECK_INT(got[0], a);
		CHECK_INT(got[1], b);
		CHECK_INT(got[2], c);
	}
	OK(cu.cuFuncGetParamInfo(mixed, 1, &offset, &size));
	CHECK_INT(offset, 8);
	CHECK_INT(size, 8);
	OK(cu.cuFuncGetParamInfo(mixed, 3, &offset, NULL));
	CHECK_INT(offset, 20);
	CHECK_INT(cu.cuFuncGetParamInfo(mixed, 4, &offset, &size), 1);
	OK(cu.cuMemFree_v2(out));
}

static void test_variables(void *module)
{
	void *tables = cuda_api_function(module, "tables");
	uint32_t got[4], word = 5;
	uint64_t out, table, factor, none = 1;
	size_t size = 0;
	void *params[] = {&out};

	OK(cu.cuModuleGetGlobal_v2(&table, &size, module, "table"));
	CHECK_INT(size, 16);
	OK(cu.cuModuleGetGlobal_v2(&factor, &size, module, "factor"));
	CHECK_INT(size, 4);
	CHECK_INT(cu.cuModuleGetGlobal_v2(&none, &size, module, "nobody"), 500);
	CHECK_INT(none, 0);
	MUST(cu.cuMemAlloc_v2(&out, sizeof(got)));
	OK(cu.cuLaunchKernel(tables, 1, 1, 1, 4, 1, 1, 0, NULL, params, NULL));
	OK(cu.cuMemcpyDtoH_v2(got, out, sizeof(got)));
	CHECK(got[0] == 30 && got[1] == 60 && got[2] == 90 && got[3] == 120);
	OK(cu.cuMemcpyDtoH_v2(got, table, sizeof(got)));
	CHECK(got[0] == 0 && got[1] == 1 && got[2] == 2 && got[3] == 3);
	OK(cu.cuMemcpyHtoD_v2(table + 4, &word, 4));
	OK(cu.cuMemcpyHtoD_v2(factor, &word, 4));
	OK(cu.cuLaunchKernel(tables, 1, 1, 1, 4, 1, 1, 0, NULL, params, NULL));
	OK(cu.cuMemcpyDtoH_v2(got, out, sizeof(got)));
	CHECK(got[0] == 0 && got[1] == 25 && got[2] == 10 && got[3] == 15);
	OK(cu.cuMemFree_v2(out));
}

static void test_functions(void *module)
{
	void *last_word = cuda_api_function(module, "last_word"), *of = NULL;
	const char *name = NULL;
	uint64_t out;
	uint32_t got = 0, offset = (64u << 10) - 4;
	void *params[] = {&out, &offset};
	int value = 0, grid = 0, block = 0, blocks = 0, sms = 0;

	MUST(cu.cuMemAlloc_v2(&out, 4));
	OK(cu.cuFuncGetName(&name, last_word));
	CHECK(name != NULL && strcmp(name, "last_word") == 0);
	OK(cu.cuFuncGetModule(&of, last_word));
	CHECK(of == module);
	OK(cu.cuFuncGetAttribute(&value, 0, last_word));
	CHECK_INT(value, 1024);
	OK(cu.cuFuncGetAttribute(&value, 8, last_word));
	CHECK_INT(value, 48 << 10);
	/* More shared memory must be asked for. */
	CHECK_INT(cu.cuLaunchKernel(last_word, 1, 1, 1, 1, 1, 1, 64u << 10, NULL, params, NULL), 1);
	OK(cu.cuFuncSetAttribute(last_word, 8, 64 << 10));
	OK(cu.cuLaunchKernel(last_word, 1, 1, 1, 1, 1, 1, 64u << 10, NULL, params, NULL));
	OK(cu.cuMemcpyDtoH_v2(&got, out, 4));
	CHECK_INT(got, 77);
	OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, last_word, 256, 0));
	CHECK_INT(blocks, 8);
	OK(cu.cuOccupancyMaxPotentialBlockSize(&grid, &block, last_word, NULL, 0, 0));
	CHECK(block > 0 && grid > 0);
	/* As many blocks as fit run together; one more does not. */
	void *nothing = cuda_api_function(module, "nothing");
	OK(cu.cuDeviceGetAttribute(&sms, 16, 0));
	OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 1024, 0));
	OK(cu.cuLaunchCooperativeKernel(
		nothing, (unsigned)(sms * blocks), 1, 1, 1024, 1, 1, 0, NULL, NULL));
	CHECK_INT(cu.cuLaunchCooperativeKernel(
			  nothing, (unsigned)(sms * blocks) + 1, 1, 1, 1024, 1, 1, 0, NULL, NULL),
		720);
	OK(cu.cuCtxSynchronize());
	OK(cu.cuMemFree_v2(out));
}

static void test_libraries(void)
{
	void *library, *kernel, *function, *second, *first = NULL;
	uint64_t out, table, other;
	uint32_t got[4];
	size_t size = 0;
	void *params[] = {&out};

	OK(cu.cuLibraryLoadData(&library, test_ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cu.cuLibraryGetKernel(&kernel, library, "tables"));
	CHECK_INT(cu.cuLibraryGetKernel(&function, library, "nobody"), 500);
	OK(cu.cuKernelGetFunction(&function, kernel));
	OK(cu.cuLibraryGetGlobal(&table, &size, library, "table"));
	CHECK_INT(size, 16);
	MUST(cu.cuMemAlloc_v2(&out, sizeof(got)));
	OK(cu.cuLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, NULL, params, NULL));
	OK(cu.cuMemcpyDtoH_v2(got, out, sizeof(got)));
	CHECK_INT(got[3], 120);
	/* The kernel itself is as good, and each context has variables of its own. */
	OK(cu.cuCtxGetCurrent(&first));
	OK(cu.cuCtxCreate_v2(&second, 0, 0));
	OK(cu.cuLibraryGetGlobal(&other, &size, library, "table"));
	MUST(cu.cuMemAlloc_v2(&out, sizeof(got)));
	OK(cu.cuLaunchKernel(kernel, 1, 1, 1, 4, 1, 1, 0, NULL, params, NULL));
	OK(cu.cuMemcpyDtoH_v2(got, out, sizeof(got)));
	CHECK_INT(got[3], 120);
	OK(cu.cuCtxDestroy_v2(second));
	OK(cu.cuCtxSetCurrent(first));
	OK(cu.cuLibraryUnload(library));
}

static void test_jit(void)
{
	char error[512] = "none", info[64] = "none";
	int options[] = {5, 6, 3, 4};
	void *values[] = {error, (void *)sizeof(error), info, (void *)sizeof(info)};
	void *module = NULL, *link, *image;
	size_t size;

	CHECK_INT(cu.cuModuleLoadDataEx(&module,
			  ".version 7.0\n.target sm_70\n.address_size 64\nnonsense", 4, options,
			  values),
		218);
	CHECK(error[0] != '\0' && strcmp(error, "none") != 0);
	CHECK(module == NULL);
	values[1] = (void *)sizeof(error);
	values[3] = (void *)sizeof(info);
	OK(cu.cuModuleLoadDataEx(&module, test_ptx, 4, options, values));
	OK(cu.cuModuleUnload(module));
	OK(cu.cuLinkCreate_v2(0, NULL, NULL, &link));
	OK(cu.cuLinkAddData_v2(
		link, 1, (void *)(uintptr_t)test_ptx, sizeof(test_ptx), "test", 0, NULL, NULL));
	OK(cu.cuLinkComplete(link, &image, &size));
	OK(cu.cuModuleLoadData(&module, image));
	OK(cu.cuLinkDestroy(link));
	cuda_api_function(module, "affine");
	OK(cu.cuModuleUnload(module));
}

/* What was compiled for hardware, and who asks for NVIDIA's tables, is told why not. */
static void test_refusals(void)
{
	static const uint32_t cubin[] = {0x464c457f, 2, 0, 0};
	static const uint32_t fatbin[] = {0xba55ed50, 0x100001, 0, 0};
	static const uint32_t wrapper[] = {0x466243b1, 1, 0, 0};
	static const unsigned char id[16] = {1, 2, 3};
	const void *table = id;
	void *module = NULL;

	CHECK_INT(cu.cuModuleLoadData(&module, cubin), 209);
	CHECK_INT(cu.cuModuleLoadData(&module, fatbin), 209);
	CHECK_INT(cu.cuModuleLoadData(&module, wrapper), 209);
	CHECK_INT(cu.cuGetExportTable(&table, id), 500);
	CHECK_INT(cu.cuGetExportTable(&table, id), 500);
	CHECK(module == NULL && table == NULL);
}

static void test_names(void)
{
	void *fn = &fn, *second;
	int status = -1;

	OK(cu.cuGetProcAddress_v2("cuMemAlloc", &fn, 12000, 0, &status));
	CHECK(fn != NULL && status == 0);
	OK(cu.cuGetProcAddress_v2("cuNoSuchThing", &fn, 12000, 0, &status));
	CHECK(fn == NULL);
	CHECK_INT(status, 1);
	OK(cu.cuGetProcAddress_v2("cuGraphLaunch", &fn, 9000, 0, &status));
	CHECK(fn == NULL);
	CHECK_INT(status, 2);
	CHECK_INT(cu.cuGetProcAddress("cuNoSuchThing", &fn, 11030, 0), 500);
	OK(cu.cuGetProcAddress_v2("cuLaunchKernel", &fn, 12000, 1, &status));
	OK(cu.cuGetProcAddress_v2("cuLaunchKernel", &second, 12000, 2, &status));
	CHECK(fn != second);
	/* A form as old as the caller. */
	OK(cu.cuGetProcAddress_v2("cuStreamBeginCapture", &fn, 10000, 0, &status));
	OK(cu.cuGetProcAddress_v2("cuStreamBeginCapture", &second, 10010, 0, &status));
	CHECK(fn != NULL && second != NULL && fn != second);
	/* The macro of this name for CUDA 12 is no form of it: that has a name of its own. */
	OK(cu.cuGetProcAddress_v2("cuGraphInstantiate", &fn, 11000, 0, &status));
	OK(cu.cuGetProcAddress_v2("cuGraphInstantiate", &second, 12000, 0, &status));
	CHECK(fn != NULL && fn == second);
	if (soft) { /* hardware's driver crashes */
		CHECK_INT(cu.cuGetProcAddress_v2(NULL, &fn, 12000, 0, &status), 1);
	}
}

int main(int argc, char **argv)
{
	void *context, *module;

	if (argc < 2) {
		return 2;
	}
	kernels = argv[1];
	soft = cuda_api_start(&context);
	TEST(test_devices());
	TEST(test_contexts(context));
	TEST(test_vector_add());
	MUST(cu.cuModuleLoadData(&module, test_ptx));
	TEST(test_parameters(module));
	TEST(test_variables(module));
	TEST(test_functions(module));
	TEST(test_libraries());
	TEST(test_jit());
	TEST(test_names());
	if (soft) {
		TEST(test_refusals());
	}
	OK(cu.cuModuleUnload(module));
	OK(cu.cuCtxDestroy_v2(context));
	return check_result();
}
