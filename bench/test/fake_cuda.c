/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda.so.1 for testing the benchmark programs and scripts where there is no GPU: the calls of
 * cuda_min.h, with the two kernels computed at launch and device time by the clock. The byte in the
 * file $FAKE_CUDA_STATE stands for what the neighbour is: 'd'efault, 'b'est-effort or 's'uspended.
 * The latency program's waits are longer beside it; the best-effort program's last while it is
 * suspended. $FAKE_CUDA_LOSE drops that launch.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cuda_min.h"
#include "util/time.h"

#define DEFAULT_DELAY_NS     (1500 * RBT_NS_PER_US)
#define BEST_EFFORT_DELAY_NS (100 * RBT_NS_PER_US)

#define FAKE_CALL(name, args) __attribute__((visibility("default"))) int name args;
CUDA_CALLS(FAKE_CALL)

struct fake_event {
	uint64_t done_ns;
};

static uint64_t busy_until_ns, n_launched;
static unsigned n_captured;
static bool capturing;
static uint64_t captured_states;
static uint32_t captured_steps;
static unsigned captured_threads;

static char read_state(void)
{
	static char state = 'd';
	const char *path = getenv("FAKE_CUDA_STATE");
	int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	char c;

	if (fd >= 0) {
		if (read(fd, &c, 1) == 1) { /* empty while being rewritten */
			state = c;
		}
		close(fd);
	}
	return state;
}

static void wait_ns(uint64_t until_ns)
{
	bool is_latency = strcmp(program_invocation_short_name, "latency") == 0;

	while (!is_latency && read_state() == 's') {
		usleep(1000);
	}
	if (is_latency && until_ns > rbt_now_ns()) {
		char state = read_state();

		until_ns += state == 'd' ? DEFAULT_DELAY_NS : 0;
		until_ns += state == 'b' ? BEST_EFFORT_DELAY_NS : 0;
	}
	while (rbt_now_ns() < until_ns) {
		usleep(20);
	}
}

static void run_spin(uint64_t states, uint32_t steps, unsigned n_threads)
{
	const char *lose = getenv("FAKE_CUDA_LOSE");
	uint32_t *x = (uint32_t *)(uintptr_t)states;
	uint64_t now_ns = rbt_now_ns();

	if (lose == NULL || strtoull(lose, NULL, 10) != ++n_launched) {
		uint32_t mul = 1, add = 0;

		for (uint32_t i = 0; i < steps; i++) {
			mul *= 1664525u;
			add = add * 1664525u + 1013904223u;
		}
		for (unsigned i = 0; i < n_threads; i++) {
			x[i] = mul * x[i] + add;
		}
	}
	busy_until_ns = (busy_until_ns > now_ns ? busy_until_ns : now_ns) + 2000 + steps * 2ull;
}

int cuInit(unsigned flags)
{
	return 0;
}

int cuDriverGetVersion(int *ret)
{
	*ret = 13000;
	return 0;
}

int cuGetErrorName(int result, const char **ret)
{
	*ret = "FAKE_ERROR";
	return 0;
}

int cuDeviceGet(int *ret, int ordinal)
{
	*ret = ordinal;
	return 0;
}

int cuDeviceGetName(char *buf, int size, int device)
{
	snprintf(buf, (size_t)size, "fake GPU");
	return 0;
}

int cuDeviceGetAttribute(int *ret, int attribute, int device)
{
	*ret = 2;
	return 0;
}

int cuDevicePrimaryCtxRetain(void **ret, int device)
{
	*ret = &busy_until_ns;
	return 0;
}

int cuCtxCreate_v2(void **ret, unsigned flags, int device)
{
	*ret = &busy_until_ns;
	return 0;
}

int cuCtxSetCurrent(void *context)
{
	return 0;
}

int cuModuleLoadData(void **ret, const void *image)
{
	*ret = NULL;
	return strstr(image, ".entry spin") == NULL;
}

int cuModuleGetFunction(void **ret, void *module, const char *name)
{
	*ret = (void *)(uintptr_t)name;
	return 0;
}

int cuMemAlloc_v2(uint64_t *ret, size_t size)
{
	*ret = (uint64_t)(uintptr_t)calloc(1, size);
	return *ret == 0;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size)
{
	memcpy((void *)(uintptr_t)to, from, size);
	return 0;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size)
{
	memcpy(to, (const void *)(uintptr_t)from, size);
	return 0;
}

int cuMemAllocHost_v2(void **ret, size_t size)
{
	*ret = calloc(1, size);
	return *ret == NULL;
}

/* Some 50 GB/s, after whatever is in the stream. */
static int copy(void *to, const void *from, size_t size)
{
	uint64_t now_ns = rbt_now_ns();

	memcpy(to, from, size);
	busy_until_ns = (busy_until_ns > now_ns ? busy_until_ns : now_ns) + size / 50;
	return 0;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream)
{
	return copy((void *)(uintptr_t)to, from, size);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream)
{
	return copy(to, (const void *)(uintptr_t)from, size);
}

int cuStreamCreate(void **ret, unsigned flags)
{
	*ret = &busy_until_ns;
	return 0;
}

int cuStreamSynchronize(void *stream)
{
	wait_ns(busy_until_ns);
	return 0;
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
	capturing = true;
	return 0;
}

int cuStreamEndCapture(void *stream, void **ret_graph)
{
	capturing = false;
	*ret_graph = &n_captured;
	return 0;
}

int cuGraphInstantiateWithFlags(void **ret, void *graph, unsigned long long flags)
{
	*ret = graph;
	return 0;
}

int cuGraphLaunch(void *exec, void *stream)
{
	for (unsigned i = 0; i < n_captured; i++) {
		run_spin(captured_states, captured_steps, captured_threads);
	}
	return 0;
}

int cuEventCreate(void **ret, unsigned flags)
{
	*ret = calloc(1, sizeof(struct fake_event));
	return *ret == NULL;
}

int cuEventRecord(void *event, void *stream)
{
	((struct fake_event *)event)->done_ns = busy_until_ns;
	return 0;
}

int cuEventSynchronize(void *event)
{
	wait_ns(((struct fake_event *)event)->done_ns);
	return 0;
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
	unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream,
	void **params, void **extra)
{
	if (strcmp(function, "nothing") == 0) {
		return 0;
	}
	uint64_t states = *(uint64_t *)params[0];
	uint32_t steps = *(uint32_t *)params[1];

	if (capturing) {
		captured_states = states;
		captured_steps = steps;
		captured_threads = grid_x * block_x;
		n_captured++;
	} else {
		run_spin(states, steps, grid_x * block_x);
	}
	return 0;
}
