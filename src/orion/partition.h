/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitions: best-effort kernels on some of the SMs (RUBATO_ORION_PARTITION).
 *
 * A stream of a green context never blocks, so it cannot take the default stream's place. Instead,
 * only kernels go there: each of them is put behind the stream that has the default stream's place,
 * and that stream behind the kernel. All other calls, and calls that are not seen, find the order
 * that they would find without a partition.
 */
#ifndef RBT_ORION_PARTITION_H
#define RBT_ORION_PARTITION_H

#include "cuda/abi.h"

struct orion_stream;

/*
 * `s` has the place of a best-effort client's default stream, and a kernel is about to be launched.
 * Returns the stream to launch it on, and then orion_partition_leave() must follow; NULL: there is
 * no partition.
 */
CUstream orion_partition_enter(struct orion_stream *s);
void orion_partition_leave(struct orion_stream *s);

/* The primary context is about to be released: a green context would keep it alive. */
void orion_partition_forget_context(CUcontext ctx);

#endif
