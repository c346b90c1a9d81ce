/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the backend's table that are in other files than ops.c. */
#ifndef RBT_BACKEND_NVIDIA_OPS_H
#define RBT_BACKEND_NVIDIA_OPS_H

#include "backend/backend.h"

int rbt_nv_probe(struct rbt_device_info *ret);
int rbt_nv_gpu_memory(uint32_t gpu, uint64_t *ret_bytes);
int rbt_nv_discover(pid_t pid, int pidfd, struct rbt_record **ret, size_t *ret_n);
int rbt_nv_complete(struct rbt_record *rec, pid_t pid);
/* Replaces an own slice that cannot be true by the driver's for this kind of task. */
void rbt_nv_check_own_timeslice(struct rbt_task *task);

#endif
