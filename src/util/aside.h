/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that may never end, or be the end of who does it, in a process of its own: looking into
 * strangers' memory, above all, and closing strangers' files.
 */
#ifndef RBT_UTIL_ASIDE_H
#define RBT_UTIL_ASIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Forks a process that calls fn and ends. It has standard files, its end of a SOCK_SEQPACKET pair
 * and no other file of ours, no handler or mask of signals, and ends with us. Our end of the pair
 * is in *ret_sock. Its pid, or -errno.
 */
pid_t rbt_aside_start(void (*fn)(int sock, void *data), void *data, int *ret_sock);

/*
 * The same; the process has n more files of ours, RBT_ASIDE_MAX_KEPT at most. They are borrowed,
 * must be 3 or above, and are sorted by this call. In the new process they have the numbers from
 * RBT_ASIDE_KEPT on, in that order.
 */
#define RBT_ASIDE_KEPT     3
#define RBT_ASIDE_MAX_KEPT 256
pid_t rbt_aside_start_with(
	void (*fn)(int sock, void *data), void *data, int *keep, size_t n, int *ret_sock);

/* Kills and reaps it. False when it hangs in the kernel, where it cannot be waited for: it is still
 * to be reaped then (lost.h). Takes 20 ms at most. */
bool rbt_aside_end(pid_t pid);

#endif
