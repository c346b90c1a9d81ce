/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device server inside the process, for the libcuda front: its socket is one end of a pair, its
 * device a thread. Replaces the front's world.c and rm.c.
 */
#ifndef RBT_TESTS_TEST_CUDA_WORLD_H
#define RBT_TESTS_TEST_CUDA_WORLD_H

#include <stdbool.h>

/* The device stands still, or goes on. */
void cuda_world_pause(bool paused);
/* The server goes, as in a crash. */
void cuda_world_kill(void);
/* What RM was told last: contexts there are, and bytes of memory. */
int cuda_world_contexts(void);
unsigned long long cuda_world_memory(void);
/* The next so many requests are answered with this error. */
void cuda_world_fail(int count, int error);

#endif
