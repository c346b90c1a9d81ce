/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork(), for a process that holds files of other users. The last close of such a file may hang,
 * and a new process has a copy of each of our files until it has closed them. So such a file may be
 * closed for good only after all new processes have closed their copies.
 */
#ifndef RBT_UTIL_FORK_H
#define RBT_UTIL_FORK_H

#include <stdbool.h>
#include <sys/types.h>

/* Like fork(), but returns -errno on failure. Also returns -EAGAIN if too many new processes have
 * not called rbt_fork_is_apart() yet. */
pid_t rbt_fork(void);

/* Called by the new process after it has closed every file that is not meant for it. */
void rbt_fork_is_apart(void);

/* Whether all new processes have called rbt_fork_is_apart() or have ended. */
bool rbt_forks_are_apart(void);

#endif
