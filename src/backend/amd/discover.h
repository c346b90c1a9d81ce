/* SPDX-License-Identifier: Apache-2.0 */
/* The functions behind the backend's table that look, and change nothing. */
#ifndef RBT_BACKEND_AMD_DISCOVER_H
#define RBT_BACKEND_AMD_DISCOVER_H

#include "backend/amd/sysfs.h"
#include "backend/backend.h"

int rbt_amd_probe(struct rbt_device_info *ret);
int rbt_amd_discover(pid_t pid, int pidfd, struct rbt_record **ret, size_t *ret_n);

/* Whether a record's task is one of these queues: the id alone may be another queue's by now. */
bool rbt_amd_task_is_in(const struct rbt_record *rec, const struct rbt_task *task,
	const struct rbt_amd_queue *queues, size_t n);
/* The same by looking at the process: 0, -ENOENT or -errno. */
int rbt_amd_find_task(const struct rbt_record *rec, const struct rbt_task *task);

/* Fills in the GPU's number, and what tells its tasks from others', of a record that came from the
 * program itself. 0 or -errno. */
int rbt_amd_complete(struct rbt_record *rec, pid_t pid);

#endif
