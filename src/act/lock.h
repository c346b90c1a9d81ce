/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU lock, on the GPU's device node. Only its holder sets short slices (sched/rule.h). The
 * kernel frees the lock when its holder dies. This file needs only libc, because the shim uses it.
 */
#ifndef RBT_ACT_LOCK_H
#define RBT_ACT_LOCK_H

#include <stdbool.h>

/* Takes the lock of the GPU whose node is open as `fd`, or checks that it is held already. The lock
 * lasts as long as `fd` stays open. Returns 0, -EBUSY if another scheduler has it, or -errno. */
int rbt_gpu_lock(int fd);

/*
 * A scheduler that cannot get the lock sets a mark on the node, which lasts as long as `fd` stays
 * open. The mark tells the lock's holder that it has company, so it stays at default slices: beside
 * a neighbour at the default slice, a task at 1 µs gets no GPU time. Returns 0 or -errno.
 */
int rbt_gpu_mark(int fd);

/* Whether another open file description has set a mark on the node. False if that cannot be found
 * out. */
bool rbt_gpu_is_marked(int fd);

#endif
