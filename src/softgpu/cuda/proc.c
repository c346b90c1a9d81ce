/* SPDX-License-Identifier: Apache-2.0 */
/* Calls by name, for programs and runtimes that look them up instead of linking. */
#include <string.h>

#include "cuda/names.h"
#include "softgpu/cuda/front.h"

struct name {
	const char *name;
	int version; /* of CUDA, that brought this form */
	void (*fn)(void);
	void (*per_thread)(void); /* NULL: the same */
};

/* Unsupported calls: the same function for all. */
CUresult front_absent(void);

#define NAME(name, version, symbol) {#name, version, (void (*)(void))(symbol), NULL},
#define NAME_PT(name, version, symbol, per_thread)                                                 \
	{#name, version, (void (*)(void))(symbol), (void (*)(void))(per_thread)},
#define NAME_ABSENT(name, version, symbol) {#name, version, (void (*)(void))front_absent, NULL},
/* Sorted by name, then by version. */
static const struct name names[] = {FRONT_NAMES(NAME, NAME_PT, NAME_ABSENT)};

#define N_NAMES (sizeof(names) / sizeof(names[0]))

/* The newest form that is not newer than the requested version. */
static const struct name *find(const char *name, int version, bool *ret_known)
{
	const struct name *best = NULL;

	*ret_known = false;
	for (size_t i = 0; i < N_NAMES; i++) {
		if (strcmp(names[i].name, name) == 0) {
			*ret_known = true;
			if (names[i].version <= version) {
				best = &names[i];
			}
		}
	}
	return best;
}

static CUresult look_up(const char *symbol, void **ret_fn, int version, uint64_t flags,
	bool per_thread, int *ret_status)
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
	const struct name *name = find(symbol, version, &known);
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

CUresult cuGetProcAddress_v2(
	const char *symbol, void **ret_fn, int version, uint64_t flags, int *ret_status)
{
	int status = CU_GET_PROC_ADDRESS_SUCCESS;
	CUresult r = look_up(symbol, ret_fn, version, flags, false, &status);

	if (r == CUDA_SUCCESS && ret_status != NULL) {
		*ret_status = status;
	}
	return r;
}

CUresult cuGetProcAddress_v2_ptsz(
	const char *symbol, void **ret_fn, int version, uint64_t flags, int *ret_status)
{
	int status = CU_GET_PROC_ADDRESS_SUCCESS;
	CUresult r = look_up(symbol, ret_fn, version, flags, true, &status);

	if (r == CUDA_SUCCESS && ret_status != NULL) {
		*ret_status = status;
	}
	return r;
}

/* The form until CUDA 12: a missing name is an error. */
CUresult cuGetProcAddress(const char *symbol, void **ret_fn, int version, uint64_t flags)
{
	int status = CU_GET_PROC_ADDRESS_SUCCESS;
	CUresult r = look_up(symbol, ret_fn, version, flags, false, &status);

	return r == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_ERROR_NOT_FOUND
									  : r;
}
