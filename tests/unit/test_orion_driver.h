/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver for the scheduler's tests, and the stand-in before it: a GPU that runs one kernel after
 * the other, in the order of their launches, each for as long as its grid says. A synchronisation
 * sleeps until then.
 */
#ifndef RBT_TESTS_TEST_ORION_DRIVER_H
#define RBT_TESTS_TEST_ORION_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"

/* What the program has got from the stand-in: trampolines. */
CUresult world_launch(CUstream stream, uint32_t duration_us);
CUresult world_synchronize(CUstream stream);
CUresult world_copy(void);
CUresult world_begin_capture(CUstream stream);
CUresult world_end_capture(CUstream stream);
CUresult world_stream_create(CUstream *ret, unsigned flags);
CUresult world_stream_destroy(CUstream stream);
CUresult world_destroy_other_context(void);

/* A function as a program gets it, and the driver's own. */
void *world_function(const char *symbol);
void *world_driver(const char *symbol);

/* When the GPU will have done all that it was given. */
uint64_t world_idle_at_ns(void);
/* On which stream the last launch was; how many there were. */
CUstream world_last_stream(void);
uint32_t world_n_launches(void);
/* From now on launches return this. */
void world_fail(CUresult result);
/* Launches are. */
bool world_is_intercepted(void);

#endif
