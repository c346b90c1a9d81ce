/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemGetInfo and cuDeviceTotalMem tell a program how much memory there is, and many programs size
 * themselves by it. For a program with a memory limit they tell the limit, if that is less than
 * what the GPU, or its MIG instance, has.
 */
#ifndef RBT_SHIM_SIZES_H
#define RBT_SHIM_SIZES_H

#include <stdbool.h>
#include <stdint.h>

/* The function that takes the place of one of these functions, or `real`. */
void *shim_sizes_wrap(const char *symbol, void *real);

/* Says whom to ask: shim_memory_state(). Until then, the driver's own numbers count. */
typedef bool shim_sizes_fn(uint32_t pci, uint64_t *ret_limit, uint64_t *ret_used);
void shim_sizes_ask(shim_sizes_fn *fn);

#endif
