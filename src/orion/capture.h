/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of streams into graphs. What is captured does not run, so it is neither held nor
 * counted, and nothing may be inserted.
 */
#ifndef RBT_ORION_CAPTURE_H
#define RBT_ORION_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>

struct orion_stream;

/* Captures that have begun and not ended, in all threads. */
extern _Atomic int orion_captures;

/* Whether calls on this stream are captured now. */
bool orion_capture_is(const struct orion_stream *s);

/* A capture forbids some driver calls to its thread, or to all threads. Between these two, it does
 * not forbid ours. */
int orion_capture_relax(void);
void orion_capture_restore(int mode);

#endif
