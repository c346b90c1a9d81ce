/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiling: the durations of all launches of the process, held or not. Two events around each cost
 * a few microseconds.
 */
#ifndef RBT_ORION_RECORD_H
#define RBT_ORION_RECORD_H

#include <stdbool.h>

#include "cuda/abi.h"

struct rbt_kernel;

struct orion_recording {
	CUevent start, end; /* start is NULL: not recorded */
	struct rbt_kernel *kernel;
};

bool orion_record_is_on(void);
void orion_record_begin(void);
/* Waits for the launches that are under way. */
void orion_record_finish(void);

/* Around a launch. */
void orion_record_start(struct orion_recording *r, CUstream stream, struct rbt_kernel *kernel);
void orion_record_end(const struct orion_recording *r, CUstream stream);
/* A context ends, and so do its events; or its end will not be seen. */
void orion_record_forget(void);
/* In a forked child: nothing is profiled. */
void orion_record_forked(void);

#endif
