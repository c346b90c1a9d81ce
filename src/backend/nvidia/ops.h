/* SPDX-License-Identifier: Apache-2.0 */
/* The functions behind the backend's table that live in other files than ops.c. */
#ifndef RBT_BACKEND_NVIDIA_OPS_H
#define RBT_BACKEND_NVIDIA_OPS_H

#include "backend/backend.h"

int rbt_nv_probe(struct rbt_device_info *ret);
int rbt_nv_discover(pid_t pid, int pidfd, struct rbt_record **ret, size_t *ret_n);
int rbt_nv_complete(struct rbt_record *rec, pid_t pid);
/* What is said to be a task's own slice, and cannot be, becomes the driver's for its kind. */
void rbt_nv_check_own_timeslice(struct rbt_task *task);

#endif
