/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every library that answers the driver interface has in common: the software GPU's
 * libcuda.so.1 and the guest's. Each has a table of its functions, made from cuda/names.h.
 */
#ifndef RBT_CUDA_COMMON_H
#define RBT_CUDA_COMMON_H

#include <stdbool.h>

#include "cuda/abi.h"

struct rbt_cuda_name {
	const char *name;
	int version; /* of CUDA, that brought this form */
	void (*fn)(void);
	void (*per_thread)(void); /* NULL: the same */
};

/* For FRONT_NAMES of cuda/names.h. */
#define RBT_CUDA_NAME(name, version, symbol) {#name, version, (void (*)(void))(symbol), NULL},
#define RBT_CUDA_NAME_PT(name, version, symbol, per_thread)                                        \
	{#name, version, (void (*)(void))(symbol), (void (*)(void))(per_thread)},

/*
 * cuGetProcAddress(): the newest form of the function that is not newer than `version`. `names` is
 * sorted by name, then by version. *ret_fn is NULL if there is none; *ret_status tells why.
 */
CUresult rbt_cuda_look_up(const struct rbt_cuda_name *names, size_t n, const char *symbol,
	void **ret_fn, int version, uint64_t flags, bool per_thread, int *ret_status);

/* cuGetErrorName() and cuGetErrorString(). */
CUresult rbt_cuda_error_name(int result, const char **ret_name);
CUresult rbt_cuda_error_text(int result, const char **ret_text);

#endif
