/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orion_torch LIBRARY C10
 *
 * Two clients that share memory as PyTorch's threads do: a block that one thread frees while its
 * kernels still run is given to the next thread that asks for one, if both use the same stream. C10
 * has PyTorch's current streams (fake_c10.c). Without streams of their own, the clients would write
 * into each other's memory. Needs two GPUs.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "cuda_api.h"
#include "cuda_kernels.h"

#define N_WORDS  128
#define N_BLOCKS 4
#define ROUNDS   300
#define TURNS    400 /* long enough for the other client to come while a kernel runs */

struct stream {
	int8_t device_type, device;
	int64_t id;
};
static struct stream (*get_current)(int8_t);
static void (*set_current)(struct stream);
static void (*set_client)(int);
static void *contexts[2], *function; /* the function is of the first GPU */

/* An allocator. Blocks without a stream were never used. */
static struct {
	uint64_t memory;
	int64_t stream;
	bool is_used;
} blocks[N_BLOCKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t take(void)
{
	const int64_t stream = get_current(0).id;
	int found = -1;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < N_BLOCKS; i++) {
		if (!blocks[i].is_used &&
			(blocks[i].stream == stream || (found < 0 && blocks[i].stream == -1))) {
			found = i;
		}
	}
	if (found >= 0) {
		blocks[found].is_used = true;
		blocks[found].stream = stream;
	}
	pthread_mutex_unlock(&lock);
	return found >= 0 ? blocks[found].memory : 0;
}

static void give(uint64_t memory)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < N_BLOCKS; i++) {
		if (blocks[i].memory == memory) {
			blocks[i].is_used = false;
		}
	}
	pthread_mutex_unlock(&lock);
}

static void launch(uint64_t memory, uint32_t mul, uint32_t add)
{
	void *stream = (void *)(intptr_t)get_current(0).id;
	uint32_t turns = TURNS;
	void *params[] = {&memory, &mul, &add, &turns};

	CHECK_INT(cu.cuLaunchKernel(function, 1, 1, 1, N_WORDS, 1, 1, 0, stream, params, NULL), 0);
}

/* Multiplied by zero, so that what another client has left does not matter. */
static int count_wrong(uint32_t value)
{
	uint32_t words[N_WORDS];
	uint64_t memory = take();
	int wrong = 0;

	if (memory == 0) {
		return 1;
	}
	launch(memory, 0, value);
	CHECK_INT(cu.cuMemcpyDtoHAsync_v2(
			  words, memory, sizeof(words), (void *)(intptr_t)get_current(0).id),
		0);
	CHECK_INT(cu.cuStreamSynchronize((void *)(intptr_t)get_current(0).id), 0);
	for (int i = 0; i < N_WORDS; i++) {
		wrong += words[i] != value;
	}
	launch(memory, 0, value);
	give(memory); /* its kernel still runs */
	return wrong;
}

/* The thread has used both GPUs, and gets another client. */
static void leave_both(int client)
{
	set_client(client);
	for (int8_t i = 1; i >= 0; i--) {
		CHECK_INT(cu.cuCtxSetCurrent(contexts[i]), 0);
		CHECK_INT(cu.cuStreamSynchronize(NULL), 0);
		CHECK(get_current(i).id != 0);
	}
	set_client(-1);
	CHECK(get_current(0).id == 0 && get_current(1).id == 0);
}

static void *work(void *data)
{
	const int client = *(int *)data;
	int wrong = 0;

	set_client(client);
	CHECK_INT(cu.cuCtxSetCurrent(contexts[0]), 0);
	CHECK_INT(get_current(0).id, 0);
	for (int i = 0; i < ROUNDS; i++) {
		wrong += count_wrong((uint32_t)(client + 1) * 1000 + (uint32_t)i);
	}
	CHECK_INT(wrong, 0);
	CHECK(get_current(0).id != 0);
	/* A stream of the program's choice stays, also when the client changes. */
	const struct stream adopted = get_current(0);
	set_client(-1);
	CHECK_INT(get_current(0).id, 0);
	set_current((struct stream){1, 0, 77});
	set_client(client);
	CHECK_INT(get_current(0).id, 77);
	set_current(adopted);
	set_client(client);
	CHECK_INT(get_current(0).id, adopted.id);
	set_current((struct stream){1, 0, 0});
	leave_both(client);
	return NULL;
}

static void *find(void *lib, const char *name)
{
	void *found = lib != NULL ? dlsym(lib, name) : NULL;

	if (found == NULL) {
		printf("%s\n", dlerror());
		exit(1);
	}
	return found;
}

int main(int argc, char **argv)
{
	static int clients[2] = {0, 1};
	pthread_t threads[2];
	void *module;

	if (argc != 3) {
		fputs("usage: orion_torch LIBRARY C10\n", stderr);
		return 2;
	}
	void *lib = dlopen(argv[1], RTLD_NOW), *c10 = dlopen(argv[2], RTLD_NOW);
	int (*start)(int) = (int (*)(int))(uintptr_t)find(lib, "orion_start_scheduler");
	void (*stop)(void) = (void (*)(void))(uintptr_t)find(lib, "orion_stop_scheduler");
	set_client = (void (*)(int))(uintptr_t)find(lib, "orion_set_client_idx");
	get_current = (struct stream(*)(int8_t))(uintptr_t)find(
		c10, "_ZN3c104cuda20getCurrentCUDAStreamEa");
	set_current = (void (*)(struct stream))(uintptr_t)find(
		c10, "_ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE");
	if (start(2) != 0) {
		return 1;
	}
	cuda_api_open();
	CHECK_INT(cu.cuInit(0), 0);
	CHECK_INT(cu.cuDevicePrimaryCtxRetain(&contexts[0], 0), 0);
	CHECK_INT(cu.cuDevicePrimaryCtxRetain(&contexts[1], 1), 0);
	CHECK_INT(cu.cuCtxSetCurrent(contexts[0]), 0);
	CHECK_INT(cu.cuModuleLoadData(&module, test_ptx), 0);
	CHECK_INT(cu.cuModuleGetFunction(&function, module, "affine"), 0);
	for (int i = 0; i < N_BLOCKS; i++) {
		CHECK_INT(cu.cuMemAlloc_v2(&blocks[i].memory, N_WORDS * sizeof(uint32_t)), 0);
		blocks[i].stream = i < 2 ? 0 : -1; /* two were used and freed before */
	}
	for (int i = 0; i < 2; i++) {
		pthread_create(&threads[i], NULL, work, &clients[i]);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
	}
	stop();
	return check_result();
}
