/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One number for each GPU of a machine. Each vendor counts its own GPUs from 0, so that only
 * backend and minor number together name a GPU. A table gives each of them an index, the next free
 * one, when the GPU is first seen. The index stays the GPU's own for as long as the table lives.
 * Arrays and sets of GPUs go by index. Records, messages and users go by backend and minor number.
 */
#ifndef RBT_BACKEND_GPUS_H
#define RBT_BACKEND_GPUS_H

#include <stdint.h>

#include "backend/record.h"
#include "util/limits.h"

struct rbt_gpu {
	uint32_t backend; /* enum rbt_backend_id; 0: no GPU */
	uint32_t minor;
};

/* Zeroed at first. */
struct rbt_gpu_table {
	uint32_t n;
	struct rbt_gpu gpus[RBT_MAX_GPUS];
};

/* The GPU's index, a new one if it has none. -ENOSPC: RBT_MAX_GPUS others have one. */
int rbt_gpu_index(struct rbt_gpu_table *table, uint32_t backend, uint32_t minor);
/* The GPU's index; -ENOENT if it has none. */
int rbt_gpu_find(const struct rbt_gpu_table *table, uint32_t backend, uint32_t minor);
/* The GPU with this index; backend 0 if no GPU has it. */
struct rbt_gpu rbt_gpu_of_index(const struct rbt_gpu_table *table, uint32_t index);

/* The indices in the order in which users read them: by backend, then by minor number. */
void rbt_gpus_sort(const struct rbt_gpu_table *table, uint32_t ret[RBT_MAX_GPUS]);

/* What users call a GPU: NVIDIA's "0", "1"…, AMD's "amd0", "amd1"… Returns buf. */
#define RBT_GPU_NAME_MAX 16
const char *rbt_gpu_name(struct rbt_gpu gpu, char buf[RBT_GPU_NAME_MAX]);

#endif
