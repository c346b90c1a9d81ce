/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_UTIL_TIME_H
#define RBT_UTIL_TIME_H

#include <stdint.h>
#include <time.h>

#define RBT_NS_PER_US 1000ull
#define RBT_NS_PER_MS 1000000ull
#define RBT_NS_PER_S  1000000000ull

static inline uint64_t rbt_clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * RBT_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static inline uint64_t rbt_now_ns(void)
{
	return rbt_clock_ns(CLOCK_MONOTONIC);
}

/* The processor time that this thread has used. */
static inline uint64_t rbt_cpu_ns(void)
{
	return rbt_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

#endif
