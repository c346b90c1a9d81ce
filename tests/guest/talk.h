/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests' program in a guest and the tests' worker on the host say to each other: one call
 * at a time in memory that both see. */
#ifndef RBT_TESTS_GUEST_TALK_H
#define RBT_TESTS_GUEST_TALK_H

#include <stdint.h>

enum talk_op {
	TALK_ECHO = 1, /* result: value + 1 */
	TALK_SUM,      /* result: the sum of the bytes at address */
	TALK_FILL,     /* sets the bytes at address to value */
	TALK_COUNT,    /* result: how often the worker was woken */
};

struct talk {
	uint32_t state; /* 0, 1: a call, 2: its result */
	uint32_t op;
	uint64_t address, size, value;
	uint64_t result;
};

static inline uint64_t talk_sum(const unsigned char *at, uint64_t size)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < size; i++) {
		sum += at[i];
	}
	return sum;
}

#endif
