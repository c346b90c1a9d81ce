/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that the interface has and this front lacks. They are exported, so that programs that
 * link them start, and return CUDA_ERROR_NOT_SUPPORTED whatever the arguments are.
 */
#include "cuda/abi.h"
#include "cuda/names.h"

CUresult front_absent(void);

CUresult front_absent(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

#define NOTHING(name, version, symbol)
#define NOTHING_PT(name, version, symbol, per_thread)
#define ABSENT(name, version, symbol)                                                              \
	CUresult symbol(void) __attribute__((alias("front_absent"), visibility("default")));
FRONT_NAMES(NOTHING, NOTHING_PT, ABSENT)
