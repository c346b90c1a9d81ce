/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that do not travel (cuda/calls.txt). They are there, so that programs that link them
 * start, and return CUDA_ERROR_NOT_SUPPORTED whatever the arguments are.
 */
#include "cuda/guest_names.h"
#include "remote/guest/guest.h"

CUresult guest_refused(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

#define NOTHING(name, version, symbol)
#define NOTHING_PT(name, version, symbol, per_thread)
#define ABSENT(name, version, symbol)                                                              \
	CUresult symbol(void) __attribute__((alias("guest_refused"), visibility("default")));
GUEST_NAMES(NOTHING, NOTHING_PT, ABSENT)
