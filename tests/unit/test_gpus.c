/* SPDX-License-Identifier: Apache-2.0 */
/* The index of each GPU: given out once, densely, and to no more GPUs than there is room for. */
#include <errno.h>
#include <string.h>

#include "backend/gpus.h"
#include "check.h"

static void test_index(void)
{
	struct rbt_gpu_table t = {0};

	CHECK_INT(rbt_gpu_find(&t, RBT_BACKEND_NVIDIA, 0), -ENOENT);
	CHECK_INT(rbt_gpu_index(&t, RBT_BACKEND_NVIDIA, 5), 0);
	CHECK_INT(rbt_gpu_index(&t, RBT_BACKEND_AMD, 5), 1);
	CHECK_INT(rbt_gpu_index(&t, RBT_BACKEND_NVIDIA, 200), 2);
	/* The same again, in whatever order. */
	CHECK_INT(rbt_gpu_index(&t, RBT_BACKEND_AMD, 5), 1);
	CHECK_INT(rbt_gpu_index(&t, RBT_BACKEND_NVIDIA, 5), 0);
	CHECK_INT(rbt_gpu_find(&t, RBT_BACKEND_NVIDIA, 200), 2);
	CHECK_INT(rbt_gpu_find(&t, RBT_BACKEND_AMD, 200), -ENOENT);
	CHECK_INT(t.n, 3);
	struct rbt_gpu gpu = rbt_gpu_of_index(&t, 1);
	CHECK(gpu.backend == RBT_BACKEND_AMD && gpu.minor == 5);
	CHECK_INT(rbt_gpu_of_index(&t, 3).backend, 0);
	CHECK_INT(rbt_gpu_of_index(&t, UINT32_MAX).backend, 0);
}

static void test_full(void)
{
	struct rbt_gpu_table t = {0};

	for (uint32_t i = 0; i < RBT_MAX_GPUS; i++) {
		CHECK_INT(rbt_gpu_index(&t, i % 2 + 1, i / 2), (int)i);
	}
	struct rbt_gpu_table before = t;
	CHECK_INT(rbt_gpu_index(&t, RBT_BACKEND_AMD, 99), -ENOSPC);
	CHECK_INT(rbt_gpu_index(&t, RBT_BACKEND_NVIDIA, UINT32_MAX), -ENOSPC);
	CHECK(memcmp(&before, &t, sizeof(t)) == 0);
	CHECK_INT(rbt_gpu_index(&t, RBT_BACKEND_AMD, 15), 31);
}

static void test_sort(void)
{
	static const struct rbt_gpu seen[] = {{RBT_BACKEND_AMD, 1}, {RBT_BACKEND_NVIDIA, 10},
		{RBT_BACKEND_AMD, 0}, {RBT_BACKEND_NVIDIA, 2}};
	static const char *const names[] = {"2", "10", "amd0", "amd1"};
	struct rbt_gpu_table t = {0};
	uint32_t order[RBT_MAX_GPUS];
	char name[RBT_GPU_NAME_MAX];

	for (size_t i = 0; i < 4; i++) {
		rbt_gpu_index(&t, seen[i].backend, seen[i].minor);
	}
	rbt_gpus_sort(&t, order);
	for (size_t i = 0; i < 4; i++) {
		CHECK(strcmp(rbt_gpu_name(rbt_gpu_of_index(&t, order[i]), name), names[i]) == 0);
	}
	CHECK(strcmp(rbt_gpu_name((struct rbt_gpu){RBT_BACKEND_AMD, UINT32_MAX}, name),
		      "amd4294967295") == 0);
}

int main(void)
{
	test_index();
	test_full();
	test_sort();
	return check_result();
}
