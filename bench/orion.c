/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the scheduler inside a process costs, with a driver that does next to nothing: a launch of
 * the high-priority client, of a thread without a client, and of a best-effort client; and how soon
 * a held launch goes on after the high-priority client has waited for its work.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "../tests/unit/test_orion_driver.h"
#include "median.h"
#include "rubato/orion.h"
#include "util/time.h"

#define BATCH  2000
#define ROUNDS 101
#define ENDS   201

typedef CUresult launch_fn(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
	unsigned, CUstream, void **, void **);

static double time_batch_ns(launch_fn *launch, CUstream stream)
{
	uint64_t since_ns = rbt_now_ns();

	for (int i = 0; i < BATCH; i++) {
		launch((CUfunction)(uintptr_t)16, 0, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
	}
	return (double)(rbt_now_ns() - since_ns) / BATCH;
}

static void measure(const char *name, int client, CUstream stream)
{
	launch_fn *plain = (launch_fn *)(uintptr_t)world_driver("cuLaunchKernel");
	launch_fn *through = (launch_fn *)(uintptr_t)world_function("cuLaunchKernel");
	static double plain_ns[ROUNDS], added_ns[ROUNDS];

	orion_set_client_idx(client);
	for (int i = 0; i < ROUNDS; i++) {
		plain_ns[i] = time_batch_ns(plain, stream);
		added_ns[i] = time_batch_ns(through, stream) - plain_ns[i];
		world_synchronize(stream);
	}
	printf("{\"launch\": \"%s\", \"plain_ns\": %.1f, \"added_ns\": %.1f}\n", name,
		median(plain_ns, ROUNDS), median(added_ns, ROUNDS));
	orion_set_client_idx(-1);
}

static _Atomic uint64_t made_ns;
static _Atomic int round_wanted;

static void *best_effort(void *data)
{
	orion_set_client_idx(1);
	for (int i = 1; i <= ENDS; i++) {
		while (round_wanted < i) {
			nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
		}
		world_launch(NULL, 0);
		made_ns = rbt_now_ns();
	}
	return NULL;
}

/* From the end of the high-priority work on the GPU to the return of the best-effort launch. */
static void measure_end(void)
{
	static double us[ENDS];
	pthread_t thread;

	pthread_create(&thread, NULL, best_effort, NULL);
	orion_set_client_idx(0);
	for (int i = 0; i < ENDS; i++) {
		made_ns = 0;
		world_launch(NULL, 3000);
		uint64_t end_ns = world_idle_at_ns();
		round_wanted = i + 1;
		world_synchronize(NULL);
		while (made_ns == 0) {
			nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
		}
		us[i] = made_ns > end_ns ? (double)(made_ns - end_ns) / 1000 : 0;
	}
	pthread_join(thread, NULL);
	double middle = median(us, ENDS);
	printf("{\"best-effort goes on after\": \"high-priority work\", \"median_us\": %.1f, "
	       "\"p90_us\": %.1f}\n",
		middle, us[ENDS * 9 / 10]);
}

int main(void)
{
	CUstream stream;

	world_stream_create(&stream, CU_STREAM_NON_BLOCKING);
	if (orion_start_scheduler(2) != 0) {
		return 1;
	}
	measure("high-priority, a stream of its own", 0, stream);
	measure("high-priority, default stream", 0, NULL);
	measure("no client", -1, NULL);
	measure("best-effort, alone", 1, stream);
	measure_end();
	orion_stop_scheduler();
	return 0;
}
