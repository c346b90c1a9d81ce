/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch costs: an empty kernel, launched in batches that are drained every 768, and
 * launched and synchronised one by one. Where what programs get is not the driver's own function,
 * that is measured too, in turns of 32 launches: what the machine does in between touches both
 * alike. Prints one line of JSON with medians over batches, of the differences too; bench/overhead
 * runs it with and without the preloaded library.
 */
#include <stdbool.h>
#include <stdio.h>

#include "cuda_min.h"
#include "median.h"
#include "util/time.h"

#define CHUNK       32 /* launches */
#define ROUNDS      6  /* of four chunks, two of each */
#define MAX_BATCHES 4096

static void launch(const struct cuda *cuda)
{
	CUDA_DO(cuda, cuLaunchKernel, cuda->nothing, 1, 1, 1, 32, 1, 1, 0, cuda->stream, NULL,
		NULL);
}

static uint64_t time_chunk_ns(const struct cuda *cuda, bool sync_each)
{
	uint64_t start_ns = rbt_now_ns();

	for (int i = 0; i < CHUNK; i++) {
		launch(cuda);
		if (sync_each) {
			CUDA_DO(cuda, cuStreamSynchronize, cuda->stream);
		}
	}
	return rbt_now_ns() - start_ns;
}

/* Of a launch in one batch: what programs get, and the driver's own (or both the same). */
struct batch {
	double ns, driver_ns;
};

static struct batch time_batch(const struct cuda *cuda, const struct cuda *driver, bool sync_each)
{
	uint64_t sum_ns[2] = {0};

	for (int i = 0; i < 4 * ROUNDS; i++) {
		/* One, two, two, one: a queue that fills makes the later launches slower. */
		bool is_drivers = (i % 4 == 1 || i % 4 == 2);
		sum_ns[is_drivers] += time_chunk_ns(is_drivers ? driver : cuda, sync_each);
	}
	CUDA_DO(cuda, cuStreamSynchronize, cuda->stream);
	const double n = 2.0 * ROUNDS * CHUNK;
	return (struct batch){(double)sum_ns[0] / n, (double)sum_ns[1] / n};
}

/* Of what programs get, of the driver's own, and of how much more the first takes. */
struct cost {
	double ns, driver_ns, added_ns;
};

static struct cost measure(
	const struct cuda *cuda, const struct cuda *driver, bool sync_each, uint64_t for_ns)
{
	static double ns[MAX_BATCHES], driver_ns[MAX_BATCHES], added_ns[MAX_BATCHES];
	uint64_t end_ns = rbt_now_ns() + for_ns;
	size_t n = 0;

	do {
		/* In turns first and second: whoever comes second finds caches warm. */
		struct batch b = n % 2 == 0 ? time_batch(cuda, driver, sync_each)
					    : time_batch(driver, cuda, sync_each);
		ns[n] = n % 2 == 0 ? b.ns : b.driver_ns;
		driver_ns[n] = n % 2 == 0 ? b.driver_ns : b.ns;
		added_ns[n] = ns[n] - driver_ns[n];
		n++;
	} while (n < MAX_BATCHES && rbt_now_ns() < end_ns);
	return (struct cost){median(ns, n), median(driver_ns, n), median(added_ns, n)};
}

static void print_cost(const char *name, const struct cost *cost, bool has_driver)
{
	printf("\"%s_ns\": %.1f", name, cost->ns);
	if (has_driver) {
		printf(", \"driver_%s_ns\": %.1f, \"added_%s_ns\": %.1f", name, cost->driver_ns,
			name, cost->added_ns);
	}
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"--ms", NULL};
	static struct cuda cuda, driver;

	bench_options_check(argc, argv, names);
	uint64_t for_ns = bench_option(argc, argv, "--ms", 100000, 300) * RBT_NS_PER_MS;

	cuda_open(&cuda);
	bool has_driver = cuda_drivers_own(&cuda, &driver);
	const struct cuda *other = has_driver ? &driver : &cuda;
	measure(&cuda, other, false, 200 * RBT_NS_PER_MS); /* warm: clocks, caches, lazy loading */
	struct cost launch = measure(&cuda, other, false, for_ns);
	struct cost launch_sync = measure(&cuda, other, true, for_ns);

	printf("{");
	print_cost("launch", &launch, has_driver);
	printf(", ");
	print_cost("launch_sync", &launch_sync, has_driver);
	printf("}\n");
	return 0;
}
