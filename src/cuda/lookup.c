/* SPDX-License-Identifier: Apache-2.0 */
/* Calls by name, for programs and runtimes that look them up instead of linking. */
#include <string.h>

#include "cuda/common.h"

/* The newest form that is not newer than the requested version. */
static const struct rbt_cuda_name *find(
	const struct rbt_cuda_name *names, size_t n, const char *name, int version, bool *ret_known)
{
	const struct rbt_cuda_name *best = NULL;

	*ret_known = false;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(names[i].name, name) == 0) {
			*ret_known = true;
			if (names[i].version <= version) {
				best = &names[i];
			}
		}
	}
	return best;
}

CUresult rbt_cuda_look_up(const struct rbt_cuda_name *names, size_t n, const char *symbol,
	void **ret_fn, int version, uint64_t flags, bool per_thread, int *ret_status)
{
	bool known;

	if (symbol == NULL || symbol[0] == '\0' || ret_fn == NULL ||
		(flags & ~(uint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM |
				     CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)) != 0 ||
		flags == 3) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ||
		     (per_thread && flags != CU_GET_PROC_ADDRESS_LEGACY_STREAM);
	const struct rbt_cuda_name *name = find(names, n, symbol, version, &known);
	void (*fn)(void) = name == NULL ? NULL : name->fn;

	if (name != NULL && per_thread && name->per_thread != NULL) {
		fn = name->per_thread;
	}
	memcpy(ret_fn, &fn, sizeof(fn));
	*ret_status = fn != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
		      : known    ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				 : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}
