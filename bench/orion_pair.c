/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads of one process on a GPU: one makes requests of 50 small kernels, the other one keeps
 * long kernels in flight. Prints one line of JSON per measurement, for each way to share the GPU:
 * the requests' service times, and the other thread's rate.
 *
 * usage: orion_pair LIBRARY [--requests N] [--rounds N] [--sms N]
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_min.h"
#include "util/time.h"

#define REQUEST_KERNELS 50u
#define REQUEST_US      540.0
#define REQUEST_BLOCKS  32u
#define BUSY            0.11 /* the part of the time that requests take alone */
#define DEPTH           16u
#define MAX_REQUESTS    20000u
#define SETTLE_MS       100u

/* Blocks per SM that the long kernel has, of which CUDA_SPIN_FULL_SM_BLOCKS run at a time. */
static const struct {
	const char *name;
	unsigned sm_blocks;
	double kernel_us;
} kinds[] = {
	{"0.3 ms, short blocks", 16 * CUDA_SPIN_FULL_SM_BLOCKS, 300},
	{"1.2 ms, persistent", CUDA_SPIN_FULL_SM_BLOCKS, 1200},
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const struct mode {
	const char *name;
	bool has_scheduler, has_partition, has_context;
	const char *policy;
} modes[] = {
	{.name = "one stream"},
	{.name = "a context each", .has_context = true},
	{.name = "priorities", .has_scheduler = true, .policy = "priority"},
	{.name = "held", .has_scheduler = true, .policy = "hold"},
	{.name = "partition", .has_scheduler = true, .has_partition = true, .policy = "priority"},
	{.name = "held, partition", .has_scheduler = true, .has_partition = true, .policy = "hold"},
};
#define N_MODES (sizeof(modes) / sizeof(modes[0]))

static struct {
	int (*start)(int);
	void (*stop)(void);
	void (*set_client)(int);
} orion;

struct neighbour {
	struct cuda cuda[2]; /* in the common context, in one of its own */
	struct cuda_spin spin[N_KINDS][2];
	void *events[2][DEPTH];
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool wanted, running; /* under the lock */
	_Atomic unsigned kind, context;
	atomic_ullong n_done;
};

static void sleep_until(uint64_t until_ns)
{
	uint64_t now_ns = rbt_now_ns();

	if (until_ns > now_ns + 100000) {
		uint64_t ns = until_ns - now_ns - 100000;
		nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / RBT_NS_PER_S),
				  .tv_nsec = (long)(ns % RBT_NS_PER_S)},
			NULL);
	}
	while (rbt_now_ns() < until_ns) {
	}
}

static bool is_wanted(struct neighbour *n)
{
	pthread_mutex_lock(&n->lock);
	bool wanted = n->wanted;

	pthread_mutex_unlock(&n->lock);
	return wanted;
}

static void work_once(struct neighbour *n)
{
	const unsigned at = n->context;
	struct cuda *cuda = &n->cuda[at];
	uint64_t n_launched = 0, n_finished = 0;

	CUDA_DO(cuda, cuCtxSetCurrent, cuda->context);
	while (is_wanted(n) || n_finished != n_launched) {
		if (n_launched - n_finished == DEPTH || !is_wanted(n)) {
			CUDA_DO(cuda, cuEventSynchronize, n->events[at][n_finished++ % DEPTH]);
			atomic_fetch_add(&n->n_done, 1);
			continue;
		}
		cuda_spin_launch(&n->spin[n->kind][at]);
		CUDA_DO(cuda, cuEventRecord, n->events[at][n_launched++ % DEPTH], cuda->stream);
	}
}

static void *work(void *data)
{
	struct neighbour *n = data;

	orion.set_client(1);
	for (;;) {
		pthread_mutex_lock(&n->lock);
		n->running = false;
		pthread_cond_broadcast(&n->changed);
		while (!n->wanted) {
			pthread_cond_wait(&n->changed, &n->lock);
		}
		n->running = true;
		pthread_cond_broadcast(&n->changed);
		pthread_mutex_unlock(&n->lock);
		work_once(n);
	}
	return NULL;
}

static void set_wanted(struct neighbour *n, bool wanted)
{
	pthread_mutex_lock(&n->lock);
	n->wanted = wanted;
	pthread_cond_broadcast(&n->changed);
	while (n->running != wanted) {
		pthread_cond_wait(&n->changed, &n->lock);
	}
	pthread_mutex_unlock(&n->lock);
}

static double request_us(struct cuda_spin *spin)
{
	uint64_t since_ns = rbt_now_ns();

	for (unsigned i = 0; i < REQUEST_KERNELS; i++) {
		cuda_spin_launch(spin);
	}
	CUDA_DO(spin->cuda, cuStreamSynchronize, spin->cuda->stream);
	return (double)(rbt_now_ns() - since_ns) / 1000;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Requests at random times. spin: NULL for none, for as long as they would take. */
static void measure(struct cuda_spin *spin, struct neighbour *n, unsigned requests,
	const char *kind, const char *mode)
{
	static double us[MAX_REQUESTS];
	uint64_t since_ns = rbt_now_ns(), next_ns = since_ns, before = n->n_done;

	for (unsigned i = 0; i < requests; i++) {
		double gap = -log(1 - (double)rand() / ((double)RAND_MAX + 1));
		next_ns += (uint64_t)(gap * REQUEST_US * 1000 / BUSY);
		sleep_until(next_ns);
		us[i] = spin != NULL ? request_us(spin) : 0;
	}
	double seconds = (double)(rbt_now_ns() - since_ns) / 1e9;
	qsort(us, requests, sizeof(us[0]), compare);
	printf("{\"kind\": \"%s\", \"mode\": \"%s\", \"p50_us\": %.1f, \"p99_us\": %.1f, "
	       "\"rate\": %.1f}\n",
		kind, mode, us[requests / 2], us[requests * 99 / 100],
		(double)(n->n_done - before) / seconds);
	fflush(stdout);
}

static void set_mode(const struct mode *m, const char *sms)
{
	if (!m->has_scheduler) {
		return;
	}
	setenv("RUBATO_ORION_POLICY", m->policy, 1);
	if (m->has_partition) {
		setenv("RUBATO_ORION_PARTITION", sms, 1);
	} else {
		unsetenv("RUBATO_ORION_PARTITION");
	}
	if (orion.start(2) != 0) {
		exit(1);
	}
}

static void settle(void)
{
	sleep_until(rbt_now_ns() + SETTLE_MS * RBT_NS_PER_MS);
}

static void measure_kind(struct cuda_spin *spin, struct neighbour *n, unsigned kind,
	unsigned requests, const char *sms)
{
	n->kind = kind;
	n->context = 0;
	measure(spin, n, requests, kinds[kind].name, "alone");
	set_wanted(n, true);
	settle();
	measure(NULL, n, requests / 2, kinds[kind].name, "best effort alone");
	set_wanted(n, false);
	for (unsigned m = 0; m < N_MODES; m++) {
		set_mode(&modes[m], sms);
		n->context = modes[m].has_context;
		set_wanted(n, true);
		settle();
		measure(spin, n, requests, kinds[kind].name, modes[m].name);
		set_wanted(n, false);
		orion.stop();
	}
}

static void load(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW);

	if (lib == NULL) {
		fprintf(stderr, "orion_pair: %s\n", dlerror());
		exit(1);
	}
	*(void **)&orion.start = dlsym(lib, "orion_start_scheduler");
	*(void **)&orion.stop = dlsym(lib, "orion_stop_scheduler");
	*(void **)&orion.set_client = dlsym(lib, "orion_set_client_idx");
	/* It must come before the driver's library. */
	if (orion.start(2) != 0) {
		exit(1);
	}
	orion.stop();
}

/* Both threads use the default stream, so that one is all there is without a scheduler. */
static void open_neighbour(struct neighbour *n, const struct cuda *cuda)
{
	n->cuda[0] = *cuda;
	cuda_open_context(cuda, &n->cuda[1]);
	for (unsigned c = 0; c < 2; c++) {
		CUDA_DO(cuda, cuCtxSetCurrent, n->cuda[c].context);
		n->cuda[c].stream = NULL;
		for (unsigned i = 0; i < DEPTH; i++) {
			CUDA_DO(cuda, cuEventCreate, &n->events[c][i], CUDA_EVENT_DISABLE_TIMING);
		}
		for (unsigned k = 0; k < N_KINDS; k++) {
			struct cuda_spin *spin = &n->spin[k][c];
			cuda_spin_init(
				spin, &n->cuda[c], (unsigned)cuda->sm_count * kinds[k].sm_blocks);
			if (c == 0) {
				cuda_spin_calibrate(spin, 8, 8 * kinds[k].kernel_us);
			}
			spin->steps = n->spin[k][0].steps;
		}
	}
	CUDA_DO(cuda, cuCtxSetCurrent, cuda->context);
}

static size_t count_wrong(struct neighbour *n)
{
	size_t wrong = 0;

	for (unsigned c = 0; c < 2; c++) {
		CUDA_DO(&n->cuda[c], cuCtxSetCurrent, n->cuda[c].context);
		for (unsigned k = 0; k < N_KINDS; k++) {
			wrong += cuda_spin_count_wrong(&n->spin[k][c]);
		}
	}
	return wrong;
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"--requests", "--rounds", "--sms", NULL};
	static struct neighbour n = {
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	struct cuda cuda;
	struct cuda_spin spin;
	pthread_t thread;
	char sms[16];

	if (argc < 2) {
		fprintf(stderr,
			"usage: orion_pair LIBRARY [--requests N] [--rounds N] [--sms N]\n");
		return 2;
	}
	bench_options_check(argc - 1, argv + 1, names);
	unsigned requests =
		(unsigned)bench_option(argc - 1, argv + 1, "--requests", MAX_REQUESTS, 400);
	unsigned rounds = (unsigned)bench_option(argc - 1, argv + 1, "--rounds", 100, 3);
	snprintf(sms, sizeof(sms), "%u",
		(unsigned)bench_option(argc - 1, argv + 1, "--sms", 9999, 72));
	load(argv[1]);
	orion.set_client(0);
	cuda_open(&cuda);
	cuda.stream = NULL;
	open_neighbour(&n, &cuda);
	cuda_spin_init(&spin, &cuda, REQUEST_BLOCKS);
	cuda_spin_calibrate(&spin, REQUEST_KERNELS, REQUEST_US);
	if (pthread_create(&thread, NULL, work, &n) != 0) {
		fprintf(stderr, "orion_pair: cannot start a thread\n");
		return 1;
	}
	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned kind = 0; kind < N_KINDS; kind++) {
			measure_kind(&spin, &n, kind, requests, sms);
		}
	}
	printf("{\"wrong_threads\": %zu}\n", count_wrong(&n) + cuda_spin_count_wrong(&spin));
	fflush(stdout);
	_Exit(0);
}
