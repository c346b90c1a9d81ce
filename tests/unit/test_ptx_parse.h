/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_TESTS_PTX_PARSE_H
#define RBT_TESTS_PTX_PARSE_H

#include "check.h"
#include "test_ptx_verify.h"

/* NULL after saying why; what is accepted must keep the promises of ir.h. */
static inline struct rbt_ptx_module *ptx_parse(const char *text, size_t size)
{
	struct rbt_ptx_module *module = NULL;
	struct rbt_ptx_error error;
	const char *wrong;

	if (rbt_ptx_parse(text, size, &module, &error) < 0) {
		fprintf(stderr, "%s\n", error.text);
		return NULL;
	}
	wrong = ptx_verify(module);
	if (wrong != NULL) {
		fprintf(stderr, "%s\n", wrong);
		CHECK(wrong == NULL);
	}
	return module;
}

#endif
