/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of backend.h about parking: see there. */
#ifndef RBT_BACKEND_NVIDIA_PARK_H
#define RBT_BACKEND_NVIDIA_PARK_H

#include "backend/backend.h"

int rbt_nv_may_park(char *why, size_t size);
int rbt_nv_usage(const struct rbt_record *rec, pid_t pid, struct rbt_gpu_usage *list, size_t max);
int rbt_nv_free_memory(uint32_t minor, uint64_t *ret_bytes);

#endif
