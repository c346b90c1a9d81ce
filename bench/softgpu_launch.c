/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch costs a program on the software GPU, beside what waking another process costs at
 * all: batches of an empty kernel launched and synchronised, and of futex round trips between two
 * processes, in turns, so that both meet the same machine. Run inside a session:
 *   rubato-softgpu exec -- bench/softgpu_launch
 * Prints medians and their ratio.
 */
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda_min.h"
#include "median.h"
#include "util/time.h"

#define BATCH   256
#define BATCHES 41

struct pair {
	atomic_uint ball; /* odd: the other's */
};

static void futex(atomic_uint *word, int op, unsigned value)
{
	syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static void await(struct pair *pair, unsigned odd)
{
	unsigned seen;

	while (((seen = atomic_load(&pair->ball)) & 1) != odd) {
		futex(&pair->ball, FUTEX_WAIT, seen);
	}
}

static void pass(struct pair *pair)
{
	atomic_fetch_add(&pair->ball, 1);
	futex(&pair->ball, FUTEX_WAKE, 1);
}

static void play(struct pair *pair)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		await(pair, 1);
		pass(pair);
	}
}

static double trip_ns(struct pair *pair)
{
	uint64_t start_ns = rbt_now_ns();

	for (int i = 0; i < BATCH; i++) {
		pass(pair);
		await(pair, 0);
	}
	return (double)(rbt_now_ns() - start_ns) / BATCH;
}

static double launch_ns(struct cuda *cuda)
{
	uint64_t start_ns = rbt_now_ns();

	for (int i = 0; i < BATCH; i++) {
		CUDA_DO(cuda, cuLaunchKernel, cuda->nothing, 1, 1, 1, 32, 1, 1, 0, cuda->stream,
			NULL, NULL);
		CUDA_DO(cuda, cuStreamSynchronize, cuda->stream);
	}
	return (double)(rbt_now_ns() - start_ns) / BATCH;
}

int main(void)
{
	static double trips[BATCHES], launches[BATCHES];
	static struct cuda cuda;
	struct pair *pair =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (pair == MAP_FAILED) {
		return 1;
	}
	pid_t other = fork();
	if (other == 0) {
		play(pair);
	}
	cuda_open(&cuda);
	for (int i = 0; i < BATCHES; i++) {
		trips[i] = trip_ns(pair);
		launches[i] = launch_ns(&cuda);
	}
	kill(other, SIGKILL);
	double trip = median(trips, BATCHES), launch = median(launches, BATCHES);
	printf("futex round trip between two processes  %8.2f us\n", trip / 1e3);
	printf("empty launch and synchronise            %8.2f us, %.2f round trips (goal: at most 2)\n",
		launch / 1e3, launch / trip);
	return 0;
}
