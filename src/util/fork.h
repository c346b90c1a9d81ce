/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork(), for a process that holds files of strangers. Whoever closes such a file last may wait for
 * ever, and a new process has a copy of each of our files until it has closed them. So nobody may
 * close such a file for good before all new processes have.
 */
#ifndef RBT_UTIL_FORK_H
#define RBT_UTIL_FORK_H

#include <stdbool.h>
#include <sys/types.h>

/* As fork(), but for its errors: -errno. -EAGAIN too when too many are not apart yet. */
pid_t rbt_fork(void);

/* In the new process: it has no copy left of a file that it was not meant to have. */
void rbt_fork_is_apart(void);

/* Whether that is so of all new processes, those that have ended included. */
bool rbt_forks_are_apart(void);

#endif
