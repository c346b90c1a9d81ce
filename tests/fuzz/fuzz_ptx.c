/* SPDX-License-Identifier: Apache-2.0 */
/* PTX comes from programs: whatever it is, a message or a module that keeps what ir.h promises. */
#include <stdlib.h>
#include <string.h>

#include "../unit/test_ptx_verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *null;
	struct rbt_ptx_module *module = NULL;
	struct rbt_ptx_error error;
	char *copy = malloc(size > 0 ? size : 1);
	int r;

	if (null == NULL) {
		null = fopen("/dev/null", "w");
	}
	if (copy == NULL || null == NULL) {
		free(copy);
		return 0;
	}
	/* Of its exact size: a read past the end is seen. */
	memcpy(copy, data, size);
	r = rbt_ptx_parse(copy, size, &module, &error);
	free(copy);
	if (r < 0) {
		if (error.text[0] == '\0' || module != NULL) {
			abort();
		}
		return 0;
	}
	if (ptx_verify(module) != NULL) {
		fprintf(stderr, "%s\n", ptx_verify(module));
		abort();
	}
	rbt_ptx_dump(module, null);
	rbt_ptx_module_destroy(module);
	return 0;
}
