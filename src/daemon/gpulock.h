/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The locks of the GPUs, as far as they can be had.
 */
#ifndef RBT_DAEMON_GPULOCK_H
#define RBT_DAEMON_GPULOCK_H

#include <stdint.h>

#include "backend/gpus.h"
#include "sched/core.h"

struct daemon;

struct gpulocks {
	int fds[RBT_MAX_GPUS];      /* -1: not held */
	int marks[RBT_MAX_GPUS];    /* our marks, where another daemon holds the lock; -1: none */
	struct rbt_sched_gpus gpus; /* as the core is told */
};

void gpulock_init(struct daemon *d);
/* Takes the locks that are wanted; if another daemon has one, leaves a mark. */
void gpulock_take(struct daemon *d, uint32_t wanted);
/* Gives back the locks that are not wanted, and takes our marks away. */
void gpulock_drop(struct daemon *d, uint32_t wanted);
/* Looks whether others have left or taken away their marks; sets d->dirty if so. */
void gpulock_check(struct daemon *d);

#endif
