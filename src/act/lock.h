/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a GPU: only its holder sets slices that are shorter than the driver's.
 */
#ifndef RBT_ACT_LOCK_H
#define RBT_ACT_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/* The GPU's lock: an fd that holds it, or -EBUSY when another scheduler does, or -errno. */
int rbt_gpu_lock(uint32_t backend_id, uint32_t gpu);

/*
 * Who is refused the lock leaves a mark on the node for as long as it wants it, so that the holder
 * knows of the company it has and stays at default slices: beside a neighbour at the driver's
 * slice, a task at 1 µs gets nothing. An fd that keeps the mark, or -errno.
 */
int rbt_gpu_mark(uint32_t backend_id, uint32_t gpu);

/* Whether anybody but this open description has left a mark on the
 * lock's node. False when it cannot be told. */
bool rbt_gpu_is_marked(int lock_fd);

#endif
