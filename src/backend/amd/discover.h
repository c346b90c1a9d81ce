/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the backend's table that only read. */
#ifndef RBT_BACKEND_AMD_DISCOVER_H
#define RBT_BACKEND_AMD_DISCOVER_H

#include "backend/amd/sysfs.h"
#include "backend/backend.h"

int rbt_amd_probe(struct rbt_device_info *ret);
int rbt_amd_discover(pid_t pid, int pidfd, struct rbt_record **ret, size_t *ret_n);

/* Whether a record's task is among these queues: the id alone may be another queue's by now. */
bool rbt_amd_task_is_in(const struct rbt_record *rec, const struct rbt_task *task,
	const struct rbt_amd_queue *queues, size_t n);
/* The same, by reading the process's queues: 0, -ENOENT or -errno. */
int rbt_amd_find_task(const struct rbt_record *rec, const struct rbt_task *task);

/* Fills in the GPU's number and the tasks' identity in a record that came from the program itself.
 * 0 or -errno. */
int rbt_amd_complete(struct rbt_record *rec, pid_t pid);

#endif
