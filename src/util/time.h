/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_UTIL_TIME_H
#define RBT_UTIL_TIME_H

#include <stdint.h>
#include <time.h>

#define RBT_NS_PER_US 1000ull
#define RBT_NS_PER_MS 1000000ull
#define RBT_NS_PER_S  1000000000ull

static inline uint64_t rbt_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * RBT_NS_PER_S + (uint64_t)ts.tv_nsec;
}

#endif
