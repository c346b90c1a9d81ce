/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a memory limit adds to an allocation, and to its free: calls for memory of the GPU, which
 * are counted, against the same calls for memory of the host, which are not, in alternating batches
 * of one run. The driver is the unit tests': it accepts everything and takes no time, so that what
 * is timed is the library, with its system calls.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/unit/test_shim_world.h"
#include "median.h"
#include "util/time.h"

#define BATCH       1000
#define ROUNDS      101
#define HOST_MEMORY 0x003e

static double alloc_ns(uint32_t hclass)
{
	struct nv_memory_params p = {.size = 1 << 21};
	uint64_t start_ns = rbt_now_ns();

	for (uint32_t i = 0; i < BATCH; i++) {
		struct nv_alloc64 a = {.root = CLIENT,
			.parent = DEVICE,
			.object = 0x5c100000u + i,
			.hclass = hclass,
			.params = (uintptr_t)&p,
			.params_size = sizeof(p)};

		if (rbt_shim_call(world.device_fd, NV_IOCTL_ALLOC64, &a) != 0 || a.status != 0) {
			fprintf(stderr, "memory: an allocation was refused\n");
			exit(1);
		}
	}
	return (double)(rbt_now_ns() - start_ns) / BATCH;
}

static double free_ns(void)
{
	uint64_t start_ns = rbt_now_ns();

	for (uint32_t i = 0; i < BATCH; i++) {
		rm_free(CLIENT, 0x5c100000u + i);
	}
	return (double)(rbt_now_ns() - start_ns) / BATCH;
}

int main(void)
{
	static double host[2][ROUNDS], gpu[2][ROUNDS], more[2][ROUNDS];
	static const char *const names[] = {"alloc", "free"};

	strcpy(world.dir, "/tmp/rubato-bench-memory-XXXXXX");
	if (mkdtemp(world.dir) == NULL) {
		return 1;
	}
	world_start("8", NULL, "1");
	setenv("RUBATO_TREAT_MEMORY", "20G", 1);
	make_client(CLIENT, 1);
	for (int i = 0; i < ROUNDS; i++) {
		host[0][i] = alloc_ns(HOST_MEMORY);
		host[1][i] = free_ns();
		gpu[0][i] = alloc_ns(NV_CLASS_MEMORY_LOCAL);
		gpu[1][i] = free_ns();
	}
	for (int k = 0; k < 2; k++) {
		for (int i = 0; i < ROUNDS; i++) {
			more[k][i] = gpu[k][i] - host[k][i];
		}
		printf("{\"call\": \"%s\", \"host_memory_ns\": %.0f, \"gpu_memory_ns\": %.0f, "
		       "\"more_ns\": %.0f}\n",
			names[k], median(host[k], ROUNDS), median(gpu[k], ROUNDS),
			median(more[k], ROUNDS));
	}
	world_remove();
	return 0;
}
