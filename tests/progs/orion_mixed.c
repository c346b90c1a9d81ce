/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orion_mixed LIBRARY CLIENTS CALLS SEED [stop]
 *
 * Threads that are clients of the scheduler in LIBRARY ("-": none) make random calls, each on a
 * buffer of its own: launches, graphs, copies and fills, on the default stream, a blocking stream
 * and one that does not block. The kernel is affine(), so that the result tells calls that were
 * lost, repeated or in the wrong order. Prints what was wrong, or how many calls there were. With
 * "stop", the scheduler is stopped and started all the time.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "cuda_api.h"
#include "cuda_kernels.h"
#include "rubato/orion.h"

#define N_WORDS 64

struct client {
	pthread_t thread;
	int idx;
	unsigned long n_calls, n_done;
	uint64_t random;
	const char *wrong;
	void *blocking, *free_running, *event, *function;
	uint64_t memory;
	uint32_t *pinned;
	uint32_t model[N_WORDS];
	void *exec; /* a graph that adds and multiplies */
};

static struct {
	int (*start)(int);
	void (*stop)(void);
	void (*set_client)(int);
	void (*wait_for_all)(int);
	int (*stats)(int, struct rubato_orion_stats *);
} orion;
static void *context;
static _Atomic bool is_over;

static uint32_t random_below(struct client *c, uint32_t n)
{
	c->random = c->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(c->random >> 33) % n;
}

static void apply(struct client *c, uint32_t mul, uint32_t add)
{
	for (int i = 0; i < N_WORDS; i++) {
		c->model[i] = c->model[i] * mul + add;
	}
}

static int launch(struct client *c, void *stream, uint32_t mul, uint32_t add, uint32_t turns)
{
	void *params[] = {&c->memory, &mul, &add, &turns};

	return cu.cuLaunchKernel(c->function, 1, 1, 1, N_WORDS, 1, 1, 0, stream, params, NULL);
}

/* A stream whose order towards the default stream CUDA keeps. */
static void *ordered_stream(struct client *c)
{
	return random_below(c, 2) == 0 ? NULL : c->blocking;
}

static int do_launch(struct client *c)
{
	uint32_t mul = random_below(c, 100) * 2 + 1, add = random_below(c, 1000);

	apply(c, mul, add);
	return launch(c, ordered_stream(c), mul, add, random_below(c, 50));
}

static int do_fill(struct client *c)
{
	uint32_t value = random_below(c, 1000000);

	for (int i = 0; i < N_WORDS; i++) {
		c->model[i] = value;
	}
	return random_below(c, 2) == 0
		       ? cu.cuMemsetD32_v2(c->memory, value, N_WORDS)
		       : cu.cuMemsetD32Async(c->memory, value, N_WORDS, ordered_stream(c));
}

static int do_write(struct client *c)
{
	uint32_t words[N_WORDS];

	for (int i = 0; i < N_WORDS; i++) {
		words[i] = c->model[i] = random_below(c, 1000000);
	}
	return cu.cuMemcpyHtoD_v2(c->memory, words, sizeof(words));
}

static int do_read(struct client *c)
{
	uint32_t words[N_WORDS];
	int r = 0;

	if (random_below(c, 2) == 0) {
		r = cu.cuMemcpyDtoH_v2(words, c->memory, sizeof(words));
	} else {
		void *stream = ordered_stream(c);
		r = cu.cuMemcpyDtoHAsync_v2(c->pinned, c->memory, sizeof(words), stream);
		r = r != 0 ? r : cu.cuStreamSynchronize(stream);
		memcpy(words, c->pinned, sizeof(words));
	}
	if (r == 0 && memcmp(words, c->model, sizeof(words)) != 0) {
		c->wrong = "memory";
	}
	return r;
}

static int do_graph(struct client *c)
{
	apply(c, 3, 7);
	return cu.cuGraphLaunch(c->exec, ordered_stream(c));
}

/* To the stream that does not block and back, with events. */
static int do_detour(struct client *c)
{
	int r = cu.cuEventRecord(c->event, NULL);

	r = r != 0 ? r : cu.cuStreamWaitEvent(c->free_running, c->event, 0);
	apply(c, 5, 11);
	r = r != 0 ? r : launch(c, c->free_running, 5, 11, 3);
	r = r != 0 ? r : cu.cuEventRecord(c->event, c->free_running);
	return r != 0 ? r : cu.cuStreamWaitEvent(NULL, c->event, 0);
}

static int do_wait(struct client *c)
{
	switch (random_below(c, 4)) {
	case 0:
		return cu.cuStreamSynchronize(NULL);
	case 1:
		return cu.cuCtxSynchronize();
	case 2:
		if (orion.wait_for_all != NULL) {
			orion.wait_for_all(0);
		}
		return 0;
	default: {
		int r = cu.cuStreamQuery(NULL);
		return r == 600 ? 0 : r;
	}
	}
}

static int step(struct client *c)
{
	uint32_t kind = random_below(c, 100);

	return kind < 60   ? do_launch(c)
	       : kind < 68 ? do_graph(c)
	       : kind < 76 ? do_fill(c)
	       : kind < 84 ? do_detour(c)
	       : kind < 88 ? do_write(c)
	       : kind < 96 ? do_read(c)
			   : do_wait(c);
}

static int capture(struct client *c)
{
	void *graph = NULL;
	int r = cu.cuStreamBeginCapture_v2(c->free_running, 1);

	r = r != 0 ? r : launch(c, c->free_running, 3, 7, 2);
	r = r != 0 ? r : cu.cuStreamEndCapture(c->free_running, &graph);
	r = r != 0 ? r : cu.cuGraphInstantiateWithFlags(&c->exec, graph, 0);
	return r != 0 ? r : cu.cuGraphDestroy(graph);
}

static int prepare(struct client *c)
{
	void *module;
	int r = cu.cuCtxSetCurrent(context);

	r = r != 0 ? r : cu.cuModuleLoadData(&module, test_ptx);
	r = r != 0 ? r : cu.cuModuleGetFunction(&c->function, module, "affine");
	r = r != 0 ? r : cu.cuMemAlloc_v2(&c->memory, sizeof(c->model));
	r = r != 0 ? r : cu.cuMemHostAlloc((void **)&c->pinned, sizeof(c->model), 0);
	r = r != 0 ? r : cu.cuStreamCreate(&c->blocking, 0);
	r = r != 0 ? r : cu.cuStreamCreate(&c->free_running, 1);
	r = r != 0 ? r : cu.cuEventCreate(&c->event, 2);
	r = r != 0 ? r : cu.cuMemsetD32_v2(c->memory, 0, N_WORDS);
	return r != 0 ? r : capture(c);
}

static int finish(struct client *c)
{
	int r = do_read(c);

	r = r != 0 ? r : cu.cuStreamDestroy_v2(c->blocking);
	r = r != 0 ? r : cu.cuStreamDestroy_v2(c->free_running);
	r = r != 0 ? r : cu.cuEventDestroy_v2(c->event);
	return r != 0 ? r : cu.cuMemFree_v2(c->memory);
}

static void *run(void *data)
{
	struct client *c = data;

	if (orion.set_client != NULL) {
		orion.set_client(c->idx);
	}
	int r = prepare(c);
	for (; r == 0 && c->wrong == NULL && c->n_done < c->n_calls; c->n_done++) {
		r = step(c);
	}
	r = r != 0 ? r : finish(c);
	if (r != 0 && c->wrong == NULL) {
		static _Thread_local char text[64];
		snprintf(text, sizeof(text), "result %d", r);
		c->wrong = strdup(text);
	}
	return NULL;
}

static void *stop_and_start(void *data)
{
	const int n = *(int *)data;

	while (!is_over) {
		orion.stop();
		orion.stop();
		if (orion.start(n) != 0) {
			printf("cannot start again\n");
			exit(1);
		}
	}
	return NULL;
}

static void open_scheduler(const char *path, int n)
{
	void *lib = dlopen(path, RTLD_NOW);

	if (lib == NULL) {
		printf("%s\n", dlerror());
		exit(1);
	}
	orion.start = (int (*)(int))(uintptr_t)dlsym(lib, "orion_start_scheduler");
	orion.stop = (void (*)(void))(uintptr_t)dlsym(lib, "orion_stop_scheduler");
	orion.set_client = (void (*)(int))(uintptr_t)dlsym(lib, "orion_set_client_idx");
	orion.wait_for_all = (void (*)(int))(uintptr_t)dlsym(lib, "block");
	orion.stats = (int (*)(int, struct rubato_orion_stats *))(uintptr_t)dlsym(
		lib, "rubato_orion_stats");
	if (orion.start(n) != 0) {
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static struct client clients[RUBATO_ORION_MAX_CLIENTS];
	struct rubato_orion_stats stats;
	unsigned long n_done = 0, n_held = 0, n_partitioned = 0;
	pthread_t stopper;
	int status = 0;

	if (argc < 5) {
		fputs("usage: orion_mixed LIBRARY|- CLIENTS CALLS SEED [stop]\n", stderr);
		return 2;
	}
	int n = atoi(argv[2]);
	const bool has_scheduler = strcmp(argv[1], "-") != 0, stops = argc > 5;
	if (has_scheduler) {
		open_scheduler(argv[1], n);
	}
	cuda_api_open();
	/* The primary context, because only that one can have a partition. */
	if (cu.cuInit(0) != 0 || cu.cuDevicePrimaryCtxRetain(&context, 0) != 0) {
		printf("no context\n");
		return 1;
	}
	for (int i = 0; i < n; i++) {
		clients[i].idx = i;
		clients[i].n_calls = strtoul(argv[3], NULL, 10) / (unsigned long)n;
		clients[i].random = strtoul(argv[4], NULL, 10) * 1000 + (uint64_t)i;
		pthread_create(&clients[i].thread, NULL, run, &clients[i]);
	}
	if (stops) {
		pthread_create(&stopper, NULL, stop_and_start, &n);
	}
	for (int i = 0; i < n; i++) {
		pthread_join(clients[i].thread, NULL);
		n_done += clients[i].n_done;
		if (clients[i].wrong != NULL) {
			printf("client %d, call %lu: %s\n", i, clients[i].n_done, clients[i].wrong);
			status = 1;
		}
		if (has_scheduler && orion.stats(i, &stats) == 0) {
			n_held += stats.held;
			n_partitioned += stats.partitioned;
		}
	}
	is_over = true;
	if (stops) {
		pthread_join(stopper, NULL);
	}
	if (has_scheduler) {
		orion.stop();
	}
	printf("%lu calls, %lu held, %lu partitioned\n", n_done, n_held, n_partitioned);
	return status;
}
