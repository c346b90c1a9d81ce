/* SPDX-License-Identifier: Apache-2.0 */
/* What the guest knows about functions, and parameters of kernels. */
#ifndef RBT_REMOTE_GUEST_LAUNCH_H
#define RBT_REMOTE_GUEST_LAUNCH_H

#include "remote/guest/guest.h"

#define GUEST_MAX_PARAMS 256

struct guest_function {
	struct guest_function *next;
	CUfunction handle;
	uint64_t epoch;
	size_t n, size; /* parameters, and bytes of all of them */
	int max_threads, max_dynamic;
	size_t offsets[GUEST_MAX_PARAMS], sizes[GUEST_MAX_PARAMS];
};

/* Makes calls. What it returns stays. */
CUresult guest_function_get(CUfunction f, const struct guest_function **ret);

/* Puts a kernel's parameters into a call, packed. `f` is NULL if the function is not known. */
CUresult guest_put_params(
	struct guest_call *c, const struct guest_function *f, void **params, void **extra);

#endif
