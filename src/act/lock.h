/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a GPU, on its device node: only its holder sets slices that are shorter than the
 * driver's (sched/rule.h). The kernel frees it when its holder dies. Needs nothing but libc: the
 * shim has it too.
 */
#ifndef RBT_ACT_LOCK_H
#define RBT_ACT_LOCK_H

#include <stdbool.h>

/* Takes the lock of the GPU whose node is open as `fd`, for as long as that stays open, or makes
 * sure of it. 0, -EBUSY if another scheduler has it, or -errno. */
int rbt_gpu_lock(int fd);

/*
 * A scheduler that is refused the lock leaves a mark on the node, for as long as `fd` stays open.
 * So the lock's holder knows of its company and stays at default slices: beside a neighbour at the
 * driver's slice, a task at 1 µs gets nothing. 0 or -errno.
 */
int rbt_gpu_mark(int fd);

/* Whether another open description than this has left a mark on the node. False when that cannot
 * be told. */
bool rbt_gpu_is_marked(int fd);

#endif
