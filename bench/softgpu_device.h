/* SPDX-License-Identifier: Apache-2.0 */
/* The software GPU's device as a library, without processes: rows of softgpu.c's table. */
#ifndef RBT_BENCH_SOFTGPU_DEVICE_H
#define RBT_BENCH_SOFTGPU_DEVICE_H

#include <stdint.h>
#include <time.h>

/* Of this thread, so that what else the machine does counts little. */
static inline uint64_t cpu_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Kernels through rings, an empty launch, and memory when idle; 0, or 1 when a goal is missed. */
int bench_device(const char *directory);
/* A second table: what an urgent kernel waits, and what the others lose, by mechanism. */
void bench_mechanisms(void);

#endif
