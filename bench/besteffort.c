/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A best-effort program: keeps kernels that fill the whole chip in flight and counts those that
 * are done. With --burst N it is launch-bound instead: N kernels of one block each are one unit
 * of work. With --copy-mib it runs no kernels, but copies a block of that size to the device and
 * back, from and to pinned memory, again and again.
 *
 * Driven by lines on standard input, answered by one line of JSON each:
 *   go      calibrates (once; not with --steps) and starts; answers with the work in a kernel, to
 *           compare two such programs
 *   pause   stops submitting and waits for what is in flight
 *   count   kernels done so far, the time, and the longest since the last answer that none was
 *           done; answers also while the device is taken away
 *   check   pauses, then says how many threads have a wrong result; or how many bytes
 *   quit    (or end of file)
 */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_min.h"
#include "util/time.h"

#define MAX_DEPTH 1024

struct worker {
	struct cuda cuda;
	struct cuda_spin spin;
	unsigned depth, burst;
	double kernel_us;
	size_t block_bytes;       /* 0: kernels */
	unsigned char *from, *to; /* pinned */
	uint64_t block;           /* on the device */
	void *events[MAX_DEPTH];
	atomic_ullong n_done, done_ns, longest_ns;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool wanted, running; /* under the lock */
};

/* Waits until there is something to do. */
static void await_go(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->running = false;
	pthread_cond_broadcast(&w->changed);
	while (!w->wanted) {
		pthread_cond_wait(&w->changed, &w->lock);
	}
	if (w->spin.steps == 0) {
		/* Batches of eight, as in the stream, where launches overlap with kernels. */
		cuda_spin_calibrate(&w->spin, 8, 8 * w->kernel_us);
	}
	atomic_store(&w->done_ns, rbt_now_ns());
	w->running = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static bool is_wanted(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	bool wanted = w->wanted;

	pthread_mutex_unlock(&w->lock);
	return wanted;
}

/* The other thread may have set it just after this one took the time. */
static uint64_t since_done_ns(const struct worker *w, uint64_t now_ns)
{
	uint64_t done_ns = atomic_load(&w->done_ns);

	return now_ns > done_ns ? now_ns - done_ns : 0;
}

static void finish_one(struct worker *w, uint64_t i)
{
	assert(w->depth > 0);
	CUDA_DO(&w->cuda, cuEventSynchronize, w->events[i % w->depth]);
	atomic_fetch_add_explicit(&w->n_done, 1, memory_order_relaxed);

	uint64_t now_ns = rbt_now_ns(), took_ns = since_done_ns(w, now_ns);

	if (took_ns > atomic_load(&w->longest_ns)) {
		atomic_store(&w->longest_ns, took_ns);
	}
	atomic_store(&w->done_ns, now_ns);
}

static void open_blocks(struct worker *w)
{
	CUDA_DO(&w->cuda, cuMemAllocHost_v2, (void **)&w->from, w->block_bytes);
	CUDA_DO(&w->cuda, cuMemAllocHost_v2, (void **)&w->to, w->block_bytes);
	CUDA_DO(&w->cuda, cuMemAlloc_v2, &w->block, w->block_bytes);
	for (size_t i = 0; i < w->block_bytes; i++) {
		w->from[i] = (unsigned char)(i % 251 + 1);
	}
	w->spin.steps = 1; /* the work in a block is always the same */
}

static void submit(struct worker *w)
{
	for (unsigned i = 0; w->block_bytes == 0 && i < w->burst; i++) {
		cuda_spin_launch(&w->spin);
	}
	if (w->block_bytes == 0) {
		return;
	}
	CUDA_DO(&w->cuda, cuMemcpyHtoDAsync_v2, w->block, w->from, w->block_bytes, w->cuda.stream);
	CUDA_DO(&w->cuda, cuMemcpyDtoHAsync_v2, w->to, w->block, w->block_bytes, w->cuda.stream);
}

static size_t count_wrong(struct worker *w)
{
	size_t n = 0;

	if (w->block_bytes == 0) {
		return cuda_spin_count_wrong(&w->spin);
	}
	for (size_t i = 0; i < w->block_bytes && atomic_load(&w->n_done) > 0; i++) {
		n += w->to[i] != w->from[i];
	}
	return n;
}

static void *work(void *data)
{
	struct worker *w = data;
	uint64_t n_launched = 0, n_finished = 0;

	CUDA_DO(&w->cuda, cuCtxSetCurrent, w->cuda.context);
	for (;;) {
		await_go(w);
		while (is_wanted(w)) {
			if (n_launched - n_finished == w->depth) {
				finish_one(w, n_finished++);
			}
			submit(w);
			CUDA_DO(&w->cuda, cuEventRecord, w->events[n_launched++ % w->depth],
				w->cuda.stream);
		}
		while (n_finished != n_launched) {
			finish_one(w, n_finished++);
		}
	}
	return NULL;
}

static void set_wanted(struct worker *w, bool wanted)
{
	pthread_mutex_lock(&w->lock);
	w->wanted = wanted;
	pthread_cond_broadcast(&w->changed);
	while (w->running != wanted) {
		pthread_cond_wait(&w->changed, &w->lock);
	}
	pthread_mutex_unlock(&w->lock);
}

static void tell_count(struct worker *w)
{
	unsigned long long longest_ns = atomic_exchange(&w->longest_ns, 0), now_ns = rbt_now_ns(),
			   since_ns = since_done_ns(w, now_ns);

	atomic_store(&w->done_ns, now_ns);
	printf("{\"count\": %llu, \"now_ns\": %llu, \"longest_ns\": %llu}\n",
		atomic_load(&w->n_done), now_ns, longest_ns > since_ns ? longest_ns : since_ns);
}

static void obey(struct worker *w, const char *line)
{
	if (strcmp(line, "count\n") == 0) {
		tell_count(w);
	} else if (strcmp(line, "go\n") == 0) {
		set_wanted(w, true);
		printf("{\"unit\": %u}\n", w->spin.steps);
	} else if (strcmp(line, "pause\n") == 0) {
		set_wanted(w, false);
		printf("{\"ok\": true}\n");
	} else if (strcmp(line, "check\n") == 0) {
		set_wanted(w, false);
		printf("{\"wrong_threads\": %zu}\n", count_wrong(w));
	} else {
		printf("{\"error\": \"unknown command\"}\n");
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const char *const names[] = {
		"--burst", "--depth", "--kernel-us", "--steps", "--copy-mib", NULL};
	static struct worker w = {
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	pthread_t thread;
	char line[256];

	bench_options_check(argc, argv, names);
	w.depth = (unsigned)bench_option(argc, argv, "--depth", MAX_DEPTH, 16);
	w.burst = (unsigned)bench_option(argc, argv, "--burst", 10000, 1);
	w.kernel_us = (double)bench_option(argc, argv, "--kernel-us", 10000000, 300);
	cuda_open(&w.cuda);
	cuda_spin_init(&w.spin, &w.cuda,
		w.burst > 1 ? 1 : (unsigned)w.cuda.sm_count * CUDA_SPIN_FULL_SM_BLOCKS);
	w.spin.steps = (uint32_t)bench_option(argc, argv, "--steps", UINT32_MAX, 0);
	w.block_bytes = (size_t)bench_option(argc, argv, "--copy-mib", 4096, 0) << 20;
	if (w.block_bytes > 0) {
		open_blocks(&w);
	}
	for (unsigned i = 0; i < w.depth; i++) {
		CUDA_DO(&w.cuda, cuEventCreate, &w.events[i], CUDA_EVENT_DISABLE_TIMING);
	}
	if (pthread_create(&thread, NULL, work, &w) != 0) {
		fprintf(stderr, "besteffort: cannot start a thread\n");
		return 1;
	}
	bench_ready(&w.cuda, "besteffort", w.kernel_us);
	while (fgets(line, sizeof(line), stdin) != NULL && strcmp(line, "quit\n") != 0) {
		obey(&w, line);
	}
	/* The worker may wait for a device that was taken away: leave without it. */
	_exit(0);
}
