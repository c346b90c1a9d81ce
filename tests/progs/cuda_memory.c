/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of all kinds, copied in all directions. */
#include <unistd.h>

#include "cuda_api.h"
#include "cuda_kernels.h"

#define N 4096

static int soft;
static void *affine;

static void fill(uint8_t *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525 + 1013904223;
		p[i] = (uint8_t)(seed >> 13);
	}
}

static void test_lines(void)
{
	static uint8_t in[N], out[N];
	uint64_t a, b;

	MUST(cu.cuMemAlloc_v2(&a, N));
	MUST(cu.cuMemAlloc_v2(&b, N));
	fill(in, N, 1);
	OK(cu.cuMemcpyHtoD_v2(a, in, N));
	OK(cu.cuMemcpyDtoD_v2(b, a, N));
	OK(cu.cuMemcpyDtoH_v2(out, b, N));
	CHECK(memcmp(in, out, N) == 0);
	/* Odd sizes and places. */
	memset(out, 0, N);
	OK(cu.cuMemcpyDtoD_v2(a + 1, b + 3, 101));
	OK(cu.cuMemcpyDtoH_v2(out, a, N));
	CHECK(memcmp(out + 1, in + 3, 101) == 0 && out[0] == in[0] && out[102] == in[102]);
	/* By address alone. */
	memset(out, 0, N);
	OK(cu.cuMemcpy((uint64_t)(uintptr_t)out, b, N));
	CHECK(memcmp(in, out, N) == 0);
	fill(in, N, 2);
	OK(cu.cuMemcpy(b, (uint64_t)(uintptr_t)in, N));
	OK(cu.cuMemcpy((uint64_t)(uintptr_t)out, b, N));
	CHECK(memcmp(in, out, N) == 0);
	OK(cu.cuMemcpyAsync((uint64_t)(uintptr_t)out, b, N, NULL));
	OK(cu.cuMemcpyHtoD_v2(a, in, 0));
	/* Past the end, and freed. */
	CHECK_INT(cu.cuMemcpyHtoD_v2(a, in, (size_t)1 << 40), 1);
	OK(cu.cuMemFree_v2(a));
	OK(cu.cuMemFree_v2(b));
	CHECK_INT(cu.cuMemFree_v2(b), 1);
	OK(cu.cuMemFree_v2(0));
}

static void test_fills(void)
{
	uint64_t a;
	uint32_t words[64];
	uint16_t halves[128];
	uint8_t bytes[256];

	MUST(cu.cuMemAlloc_v2(&a, 256));
	OK(cu.cuMemsetD32_v2(a, 0xdeadbeef, 64));
	OK(cu.cuMemcpyDtoH_v2(words, a, 256));
	CHECK(words[0] == 0xdeadbeef && words[63] == 0xdeadbeef);
	OK(cu.cuMemsetD16_v2(a + 2, 0x1234, 10));
	OK(cu.cuMemcpyDtoH_v2(halves, a, 256));
	CHECK(halves[0] == 0xbeef && halves[1] == 0x1234 && halves[10] == 0x1234 &&
		halves[11] == 0xdead);
	OK(cu.cuMemsetD8_v2(a + 5, 7, 3));
	OK(cu.cuMemcpyDtoH_v2(bytes, a, 256));
	CHECK(bytes[4] == 0x34 && bytes[5] == 7 && bytes[7] == 7 && bytes[8] == 0x34);
	OK(cu.cuMemsetD2D8_v2(a, 32, 9, 4, 8));
	OK(cu.cuMemcpyDtoH_v2(bytes, a, 256));
	CHECK(bytes[0] == 9 && bytes[3] == 9 && bytes[4] != 9 && bytes[224] == 9 &&
		bytes[227] == 9);
	CHECK_INT(cu.cuMemsetD32_v2(a + 2, 0, 1), 1);
	CHECK_INT(cu.cuMemsetD16_v2(a + 1, 0, 1), 1);
	OK(cu.cuMemsetD8_v2(a, 0, 0));
	OK(cu.cuMemFree_v2(a));
}

static void test_rows(void)
{
	static uint8_t in[64 * 32], out[64 * 32];
	uint64_t a;
	size_t pitch = 0;
	int wrong = 0;

	MUST(cu.cuMemAllocPitch_v2(&a, &pitch, 64, 32, 4));
	CHECK(pitch >= 64 && pitch % 4 == 0);
	fill(in, sizeof(in), 3);
	struct memcpy2d to = {.src_type = 1,
		.src_host = in,
		.src_pitch = 64,
		.dst_type = 2,
		.dst_device = a,
		.dst_pitch = pitch,
		.width = 64,
		.height = 32};
	OK(cu.cuMemcpy2D_v2(&to));
	/* A part: 20 bytes from column 4, 10 rows from row 2, to column 1 of row 3. */
	struct memcpy2d from = {.src_type = 2,
		.src_device = a,
		.src_pitch = pitch,
		.src_x = 4,
		.src_y = 2,
		.dst_type = 1,
		.dst_host = out,
		.dst_pitch = 64,
		.dst_x = 1,
		.dst_y = 3,
		.width = 20,
		.height = 10};
	OK(cu.cuMemcpy2D_v2(&from));
	for (int y = 0; y < 10; y++) {
		wrong += memcmp(out + (y + 3) * 64 + 1, in + (y + 2) * 64 + 4, 20) != 0;
	}
	CHECK_INT(wrong, 0);
	CHECK(out[0] == 0 && out[3 * 64] == 0 && out[3 * 64 + 21] == 0 && out[13 * 64 + 1] == 0);
	from.width = pitch + 1;
	CHECK_INT(cu.cuMemcpy2D_v2(&from), 1);
	OK(cu.cuMemFree_v2(a));
}

static void test_slices(void)
{
	enum { X = 8, Y = 6, Z = 4 };
	static uint8_t in[X * Y * Z], out[X * Y * Z];
	uint64_t a;

	MUST(cu.cuMemAlloc_v2(&a, sizeof(in)));
	fill(in, sizeof(in), 4);
	struct memcpy3d to = {.src_type = 1,
		.src_host = in,
		.src_pitch = X,
		.src_height = Y,
		.dst_type = 2,
		.dst_device = a,
		.dst_pitch = X,
		.dst_height = Y,
		.width = X,
		.height = Y,
		.depth = Z};
	OK(cu.cuMemcpy3D_v2(&to));
	struct memcpy3d from = {.src_type = 2,
		.src_device = a,
		.src_pitch = X,
		.src_height = Y,
		.src_x = 1,
		.src_y = 2,
		.src_z = 1,
		.dst_type = 1,
		.dst_host = out,
		.dst_pitch = X,
		.dst_height = Y,
		.width = 3,
		.height = 2,
		.depth = 2};
	OK(cu.cuMemcpy3D_v2(&from));
	CHECK(out[0] == in[(1 * Y + 2) * X + 1] && out[2] == in[(1 * Y + 2) * X + 3]);
	CHECK(out[X] == in[(1 * Y + 3) * X + 1]);
	CHECK(out[X * Y] == in[(2 * Y + 2) * X + 1] && out[3] == 0 && out[2 * X] == 0);
	OK(cu.cuMemFree_v2(a));
}

static void launch_affine(void *stream, uint64_t data, uint32_t mul, uint32_t add)
{
	uint32_t turns = 100;
	void *params[] = {&data, &mul, &add, &turns};

	OK(cu.cuLaunchKernel(affine, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

/* Memory that both sides use at one address. */
static void test_host_memory(void)
{
	uint32_t *host, *staged;
	uint64_t device = 0, managed, a;
	unsigned flags = 0;
	void *stream;

	MUST(cu.cuMemHostAlloc((void **)&host, 10000, 2));
	OK(cu.cuMemHostGetDevicePointer_v2(&device, host, 0));
	CHECK_INT(device, (uintptr_t)host);
	OK(cu.cuMemHostGetFlags(&flags, host));
	CHECK((flags & 2) != 0);
	for (uint32_t i = 0; i < 32; i++) {
		host[i] = i;
	}
	launch_affine(NULL, device, 3, 5);
	OK(cu.cuCtxSynchronize());
	CHECK(host[0] == 5 && host[31] == 98 && host[32] == 0);
	/* Asynchronous copies through it, in stream order. */
	MUST(cu.cuStreamCreate(&stream, NON_BLOCKING));
	MUST(cu.cuMemAlloc_v2(&a, 128));
	OK(cu.cuMemcpyHtoDAsync_v2(a, host, 128, stream));
	launch_affine(stream, a, 2, 1);
	OK(cu.cuMemcpyDtoHAsync_v2(host + 64, a, 128, stream));
	OK(cu.cuStreamSynchronize(stream));
	CHECK(host[64] == 11 && host[95] == 197);
	/* And without it. */
	staged = calloc(32, 4);
	OK(cu.cuMemcpyDtoHAsync_v2(staged, a, 128, stream));
	OK(cu.cuStreamSynchronize(stream));
	CHECK(staged[31] == 197);
	OK(cu.cuMemHostRegister_v2(staged, 128, 0));
	CHECK_INT(cu.cuMemHostRegister_v2(staged, 128, 0), 712);
	OK(cu.cuMemcpyHtoDAsync_v2(a, staged, 128, stream));
	OK(cu.cuStreamSynchronize(stream));
	OK(cu.cuMemHostUnregister(staged));
	CHECK_INT(cu.cuMemHostUnregister(staged), 713);
	free(staged);
	MUST(cu.cuMemAllocManaged(&managed, 4096, 1));
	((uint32_t *)(uintptr_t)managed)[7] = 4;
	launch_affine(stream, managed, 10, 2);
	OK(cu.cuStreamSynchronize(stream));
	CHECK_INT(((uint32_t *)(uintptr_t)managed)[7], 42);
	OK(cu.cuMemFree_v2(managed));
	OK(cu.cuMemFreeHost(host));
	CHECK_INT(cu.cuMemFreeHost(host), 1);
	OK(cu.cuMemFree_v2(a));
	OK(cu.cuStreamDestroy_v2(stream));
}

static void test_pointers(void *context)
{
	uint64_t a, base = 0, pointer = 0;
	size_t size = 0;
	void *host, *owner = NULL;
	int type = 0, managed = -1, ordinal = -1, stack;
	int attributes[] = {2, 9};
	void *data[] = {&type, &ordinal};

	MUST(cu.cuMemAlloc_v2(&a, 1000));
	MUST(cu.cuMemHostAlloc(&host, 1000, 0));
	OK(cu.cuMemGetAddressRange_v2(&base, &size, a + 500));
	CHECK(base == a && size == 1000);
	CHECK_INT(cu.cuMemGetAddressRange_v2(&base, &size, 64), 500);
	OK(cu.cuPointerGetAttribute(&type, 2, a + 10));
	CHECK_INT(type, 2);
	OK(cu.cuPointerGetAttribute(&owner, 1, a));
	CHECK(owner == context);
	OK(cu.cuPointerGetAttribute(&managed, 8, a));
	CHECK_INT((char)managed, 0);
	OK(cu.cuPointerGetAttribute(&type, 2, (uintptr_t)host));
	CHECK_INT(type, 1);
	OK(cu.cuPointerGetAttribute(&pointer, 3, (uintptr_t)host + 8));
	CHECK(pointer == (uintptr_t)host + 8);
	CHECK_INT(cu.cuPointerGetAttribute(&type, 2, (uintptr_t)&stack), 1);
	OK(cu.cuPointerGetAttributes(2, attributes, data, a));
	CHECK(type == 2 && ordinal == 0);
	OK(cu.cuPointerGetAttributes(2, attributes, data, (uintptr_t)&stack));
	CHECK_INT(type, 0);
	CHECK(ordinal < 0);
	OK(cu.cuMemFree_v2(a));
	OK(cu.cuMemFreeHost(host));
}

static void test_stream_order(void)
{
	uint64_t a, b;
	uint32_t got = 0;
	void *stream;
	size_t before = 0, after = 0, total = 0;

	MUST(cu.cuStreamCreate(&stream, NON_BLOCKING));
	OK(cu.cuMemGetInfo_v2(&before, &total));
	CHECK(before > 0 && before <= total);
	OK(cu.cuMemAllocAsync(&a, 1 << 20, stream));
	OK(cu.cuMemsetD32Async(a, 6, 32, stream));
	launch_affine(stream, a, 7, 0);
	OK(cu.cuMemcpyDtoHAsync_v2(&got, a, 4, stream));
	OK(cu.cuMemFreeAsync(a, stream));
	OK(cu.cuMemAllocAsync(&b, 1 << 20, stream));
	OK(cu.cuStreamSynchronize(stream));
	CHECK_INT(got, 42);
	OK(cu.cuMemFreeAsync(b, stream));
	OK(cu.cuStreamSynchronize(stream));
	OK(cu.cuMemGetInfo_v2(&after, &total));
	if (soft) {
		CHECK_INT(after, before); /* a pool may keep it on hardware */
		CHECK_INT(cu.cuMemFreeAsync(b, stream), 1);
	}
	OK(cu.cuStreamDestroy_v2(stream));
}

/* More than there is, and all that there is, and again. */
static void test_exhaustion(void)
{
	enum { PIECES = 64 };
	uint64_t pieces[PIECES], a;
	size_t total = 0, left = 0;
	int n = 0, r = 0;

	OK(cu.cuMemGetInfo_v2(&left, &total));
	CHECK_INT(cu.cuMemAlloc_v2(&a, total + 1), 2);
	CHECK_INT(cu.cuMemAlloc_v2(&a, SIZE_MAX), 2);
	while (n < PIECES && (r = cu.cuMemAlloc_v2(&pieces[n], left / 16)) == 0) {
		n++;
	}
	CHECK_INT(r, 2);
	CHECK(n >= 14 && n <= 16);
	while (n > 0) {
		OK(cu.cuMemFree_v2(pieces[--n]));
	}
	OK(cu.cuMemGetInfo_v2(&left, &total));
	MUST(cu.cuMemAlloc_v2(&a, left / 2));
	OK(cu.cuMemFree_v2(a));
}

static void test_other_context(void *first)
{
	uint64_t a, b;
	uint32_t in[32], out[32];
	void *second;

	MUST(cu.cuMemAlloc_v2(&a, 128));
	for (uint32_t i = 0; i < 32; i++) {
		in[i] = i;
	}
	OK(cu.cuMemcpyHtoD_v2(a, in, 128));
	launch_affine(NULL, a, 2, 1);
	OK(cu.cuCtxCreate_v2(&second, 0, 0));
	MUST(cu.cuMemAlloc_v2(&b, 128));
	OK(cu.cuMemcpyPeer(b, second, a, first, 128));
	OK(cu.cuMemcpyDtoH_v2(out, b, 128));
	CHECK(out[0] == 1 && out[31] == 63);
	OK(cu.cuCtxDestroy_v2(second));
	OK(cu.cuCtxSetCurrent(first));
	OK(cu.cuMemFree_v2(a));
}

int main(void)
{
	void *context, *module;

	soft = cuda_api_start(&context);
	MUST(cu.cuModuleLoadData(&module, test_ptx));
	affine = cuda_api_function(module, "affine");
	TEST(test_lines());
	TEST(test_fills());
	TEST(test_rows());
	TEST(test_slices());
	TEST(test_host_memory());
	TEST(test_pointers(context));
	TEST(test_stream_order());
	if (soft) {
		TEST(test_exhaustion());
	}
	TEST(test_other_context(context));
	OK(cu.cuCtxDestroy_v2(context));
	return check_result();
}
