/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices in one program: each with its own memory, and copies between them. */
#include "cuda_api.h"
#include "cuda_kernels.h"

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
	OK(cu.cuCtxDestroy_v2(second));
	CHECK_INT(read_word(first, a), 16);
	OK(cu.cuCtxDestroy_v2(first));
	return check_result();
}
