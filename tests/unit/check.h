/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks for unit tests that need nothing but libc. A failed check says where and goes on; the
 * test's exit code tells the rest: `return check_result();` at the end of main.
 */
#ifndef RBT_TESTS_CHECK_H
#define RBT_TESTS_CHECK_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

/* Runs before each check; a test program may define it, to tell where it crashed. */
#ifndef CHECK_AT
#define CHECK_AT() ((void)0)
#endif

static unsigned check_count, check_failures;

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		CHECK_AT();                                                                        \
		check_count++;                                                                     \
		if (!(cond)) {                                                                     \
			check_failures++;                                                          \
			fprintf(stderr, "%s:%d: %s: failed: %s\n", __FILE__, __LINE__, __func__,   \
				#cond);                                                            \
		}                                                                                  \
	} while (0)

#define CHECK_INT(actual, expected)                                                                \
	do {                                                                                       \
		CHECK_AT();                                                                        \
		int64_t actual_ = (int64_t)(actual), expected_ = (int64_t)(expected);              \
		check_count++;                                                                     \
		if (actual_ != expected_) {                                                        \
			check_failures++;                                                          \
			fprintf(stderr, "%s:%d: %s: %s is %" PRId64 ", not %" PRId64 "\n",         \
				__FILE__, __LINE__, __func__, #actual, actual_, expected_);        \
		}                                                                                  \
	} while (0)

static inline int check_result(void)
{
	fprintf(stderr, "%u checks, %u failed\n", check_count, check_failures);
	return check_failures > 0 || check_count == 0;
}

#endif
