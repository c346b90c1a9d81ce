/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspects processes, which may take for ever: their memory may be of a file system in user space,
 * or be filled by its owner. So a child process, the inspector (util/aside.h), does it, one for all
 * queries. If it takes too long, it is given up, and the inspected program is left alone for a
 * minute. For one thread.
 */
#ifndef RBT_CLI_INSPECT_H
#define RBT_CLI_INSPECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/backend.h"

/* A running program's tasks, from outside, with whichever backend knows it: up to one record per
 * client, as rbt_backend.discover. -ETIME: inspecting programs of that user takes too long. */
int inspect_tasks(pid_t pid, struct rbt_record **ret, size_t *ret_n);

/* The command line with spaces; or [its name] if there is none or it cannot be read. 0 or
 * -errno. */
int inspect_command(pid_t pid, char *buf, size_t size);

/* The processor time that inspections have cost so far. */
uint64_t inspect_cpu_ns(void);

#endif
