/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs work in a process of its own that may hang or crash: above all, reading the memory of other
 * users' programs, and closing their files.
 */
#ifndef RBT_UTIL_ASIDE_H
#define RBT_UTIL_ASIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Forks a process that calls fn and ends. It has standard files, its end of a SOCK_SEQPACKET pair
 * and no other file of ours. It has no signal handlers or mask, and ends when we end. Our end of
 * the pair is in *ret_sock. Returns its pid, or -errno.
 */
pid_t rbt_aside_start(void (*fn)(int sock, void *data), void *data, int *ret_sock);

/*
 * The same, with n more files for the process, at most RBT_ASIDE_MAX_KEPT. They are borrowed, must
 * be 3 or above, and are sorted by this call. In the new process they have the numbers from
 * RBT_ASIDE_KEPT on, in that order.
 */
#define RBT_ASIDE_KEPT     3
#define RBT_ASIDE_MAX_KEPT 256
pid_t rbt_aside_start_with(
	void (*fn)(int sock, void *data), void *data, int *keep, size_t n, int *ret_sock);

/* Kills and reaps the process, within 20 ms. False: it hangs in the kernel, and must still be
 * reaped (lost.h). */
bool rbt_aside_end(pid_t pid);

#endif
