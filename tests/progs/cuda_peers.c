/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices in one program: each with its own memory, and copies between them. */
#include "cuda_api.h"
#include "cuda_kernels.h"

enum {
	INVALID_VALUE = 1,
	INVALID_CONTEXT = 201,
	PEER_ACCESS_UNSUPPORTED = 217,
	PEER_ACCESS_NOT_ENABLED = 705,
};
#define ACCESS_SUPPORTED 2 /* of CUdevice_P2PAttribute */

static uint64_t make(void **ret_context, int device, uint32_t value)
{
	uint64_t data;

	MUST(cu.cuCtxCreate_v2(ret_context, 0, device));
	MUST(cu.cuMemAlloc_v2(&data, 64));
	OK(cu.cuMemcpyHtoD_v2(data, &value, 4));
	return data;
}

static uint32_t read_word(void *context, uint64_t data)
{
	uint32_t got = 0;

	OK(cu.cuCtxSetCurrent(context));
	OK(cu.cuMemcpyDtoH_v2(&got, data, 4));
	return got;
}

static void launch(uint64_t data)
{
	void *module;
	uint32_t mul = 3, add = 1, turns = 0;
	void *params[] = {&data, &mul, &add, &turns};

	MUST(cu.cuModuleLoadData(&module, test_ptx));
	OK(cu.cuLaunchKernel(
		cuda_api_function(module, "affine"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

/* Devices may not reach each other's memory; then that is said. Current: `second`. */
static void test_access(void *first, void *second)
{
	int can = -1, value = -1;

	OK(cu.cuDeviceCanAccessPeer(&can, 1, 0));
	OK(cu.cuDeviceGetP2PAttribute(&value, ACCESS_SUPPORTED, 1, 0));
	CHECK_INT(value, can);
	CHECK_INT(cu.cuDeviceGetP2PAttribute(&value, 99, 1, 0), INVALID_VALUE);
	CHECK_INT(cu.cuDeviceGetP2PAttribute(NULL, ACCESS_SUPPORTED, 1, 0), INVALID_VALUE);
	OK(cu.cuCtxSetCurrent(second));
	CHECK_INT(cu.cuCtxEnablePeerAccess(first, 7), INVALID_VALUE);
	CHECK_INT(cu.cuCtxEnablePeerAccess(second, 0), PEER_ACCESS_UNSUPPORTED);
	CHECK_INT(cu.cuCtxDisablePeerAccess(first), PEER_ACCESS_NOT_ENABLED);
	CHECK_INT(cu.cuCtxEnablePeerAccess(first, 0), can ? 0 : PEER_ACCESS_UNSUPPORTED);
	CHECK_INT(cu.cuCtxDisablePeerAccess(first), can ? 0 : PEER_ACCESS_NOT_ENABLED);
}

/* Two rows of two words, 16 bytes apart, from one device to the other. */
static void test_rows(uint64_t a, void *first, uint64_t b, void *second)
{
	const uint32_t in[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	uint32_t out[8] = {0};
	struct memcpy3d copy = {.src_type = 2,
		.src_device = a,
		.src_reserved = first,
		.src_pitch = 16,
		.src_height = 2,
		.dst_type = 2,
		.dst_device = b,
		.dst_reserved = second,
		.dst_pitch = 16,
		.dst_height = 2,
		.width = 8,
		.height = 2,
		.depth = 1};

	OK(cu.cuCtxSetCurrent(first));
	OK(cu.cuMemcpyHtoD_v2(a, in, sizeof(in)));
	for (int is_async = 0; is_async < 2; is_async++) {
		OK(cu.cuCtxSetCurrent(second));
		OK(cu.cuMemsetD32_v2(b, 9, 8));
		OK(cu.cuCtxSynchronize());
		OK(cu.cuCtxSetCurrent(first));
		OK(is_async ? cu.cuMemcpy3DPeerAsync(&copy, NULL) : cu.cuMemcpy3DPeer(&copy));
		OK(cu.cuCtxSynchronize());
		OK(cu.cuCtxSetCurrent(second));
		OK(cu.cuMemcpyDtoH_v2(out, b, sizeof(out)));
		CHECK(out[0] == 1 && out[1] == 2 && out[2] == 9 && out[3] == 9);
		CHECK(out[4] == 5 && out[5] == 6 && out[6] == 9 && out[7] == 9);
	}
	copy.dst_reserved = NULL;
	CHECK_INT(cu.cuMemcpy3DPeer(&copy), INVALID_CONTEXT);
	CHECK_INT(cu.cuMemcpy3DPeerAsync(&copy, NULL), INVALID_CONTEXT);
	OK(cu.cuCtxSetCurrent(first));
	OK(cu.cuMemcpyHtoD_v2(a, &(uint32_t){16}, 4));
	OK(cu.cuCtxSetCurrent(second));
}

int main(void)
{
	char first_bus[32] = "", second_bus[32] = "";
	void *first, *second;
	int n = 0;

	cuda_api_open();
	MUST(cu.cuInit(0));
	MUST(cu.cuDeviceGetCount(&n));
	if (n < 2) {
		printf("skipped: one device\n");
		return 77;
	}
	OK(cu.cuDeviceGetPCIBusId(first_bus, sizeof(first_bus), 0));
	OK(cu.cuDeviceGetPCIBusId(second_bus, sizeof(second_bus), 1));
	CHECK(strcmp(first_bus, second_bus) != 0);
	uint64_t a = make(&first, 0, 5), b = make(&second, 1, 7);

	launch(b);
	CHECK_INT(read_word(second, b), 22);
	CHECK_INT(read_word(first, a), 5);
	launch(a);
	OK(cu.cuMemcpyPeer(b, second, a, first, 4));
	CHECK_INT(read_word(second, b), 16);
	test_access(first, second);
	test_rows(a, first, b, second);
	OK(cu.cuCtxDestroy_v2(second));
	CHECK_INT(read_word(first, a), 16);
	OK(cu.cuCtxDestroy_v2(first));
	return check_result();
}
