/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold after every input: the fuzzer reports the input that made it abort. */
#ifndef RBT_TESTS_FUZZ_REQUIRE_H
#define RBT_TESTS_FUZZ_REQUIRE_H

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(cond)                                                                              \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                 \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
