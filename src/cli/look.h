/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking into processes, which may take for ever: memory may be of a file system in user space, or
 * filled by its owner, when they please. So another process looks
 * (util/aside.h), one for all questions, and is given up when it takes too long; who it was looking
 * at is left alone for a minute then. For one thread.
 */
#ifndef RBT_CLI_LOOK_H
#define RBT_CLI_LOOK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/backend.h"

/* A running program's tasks, from outside, with whichever backend knows it: up to one record per
 * client, as rbt_backend.discover. -ETIME when looking into its user's programs takes too long. */
int look_tasks(pid_t pid, struct rbt_record **ret, size_t *ret_n);

/* Its command line with spaces; or [its name] when there is none or it cannot be read. 0 or -errno.
 */
int look_command(pid_t pid, char *buf, size_t size);

/* The time of the CPU that looking has cost so far. */
uint64_t look_cpu_ns(void);

#endif
