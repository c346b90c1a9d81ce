/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch costs: an empty kernel, launched in batches that are drained every 1024, and
 * launched and synchronised one by one. Prints one line of JSON with the median over batches;
 * bench/overhead runs it with and without the preloaded library.
 */
#include <stdio.h>

#include "cuda_min.h"
#include "median.h"
#include "util/time.h"

#define BATCH       1024
#define MAX_BATCHES 4096

static void launch(struct cuda *cuda)
{
	CUDA_DO(cuda, cuLaunchKernel, cuda->nothing, 1, 1, 1, 32, 1, 1, 0, cuda->stream, NULL,
		NULL);
}

static double time_batch_ns(struct cuda *cuda, int sync_each)
{
	uint64_t start_ns = rbt_now_ns();

	for (int i = 0; i < BATCH; i++) {
		launch(cuda);
		if (sync_each) {
			CUDA_DO(cuda, cuStreamSynchronize, cuda->stream);
		}
	}
	CUDA_DO(cuda, cuStreamSynchronize, cuda->stream);
	return (double)(rbt_now_ns() - start_ns) / BATCH;
}

static double median_ns(struct cuda *cuda, int sync_each, uint64_t duration_ns)
{
	static double batches[MAX_BATCHES];
	uint64_t end_ns = rbt_now_ns() + duration_ns;
	int n = 0;

	do {
		batches[n++] = time_batch_ns(cuda, sync_each);
	} while (n < MAX_BATCHES && rbt_now_ns() < end_ns);
	return median(batches, (size_t)n);
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"--ms", NULL};
	static struct cuda cuda;

	bench_options_check(argc, argv, names);
	uint64_t duration_ns = bench_option(argc, argv, "--ms", 100000, 300) * RBT_NS_PER_MS;

	cuda_open(&cuda);
	median_ns(&cuda, 0, 200 * RBT_NS_PER_MS); /* warm: clocks, caches, lazy loading */
	double launch_ns = median_ns(&cuda, 0, duration_ns);
	double launch_sync_ns = median_ns(&cuda, 1, duration_ns);

	printf("{\"launch_ns\": %.1f, \"launch_sync_ns\": %.1f}\n", launch_ns, launch_sync_ns);
	return 0;
}
