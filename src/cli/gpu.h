/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs as users know them: each vendor counts its own from 0. NVIDIA's are called by their number,
 * AMD's amd0, amd1…, as in metrics.
 */
#ifndef RBT_CLI_GPU_H
#define RBT_CLI_GPU_H

#include <stdint.h>
#include <stdio.h>

#include "backend/record.h"

#define GPU_NAME_MAX 16
/* Of each vendor; their GPUs in one row, first NVIDIA's, then AMD's. */
#define GPU_SLOTS_EACH 32u
#define GPU_SLOTS      (2 * GPU_SLOTS_EACH)

/* GPU_SLOTS when it has none. */
static inline uint32_t gpu_slot(uint32_t backend, uint32_t gpu)
{
	if (gpu >= GPU_SLOTS_EACH) {
		return GPU_SLOTS;
	}
	return backend == RBT_BACKEND_AMD ? GPU_SLOTS_EACH + gpu : gpu;
}

static inline uint32_t gpu_number(uint32_t slot)
{
	return slot % GPU_SLOTS_EACH;
}

static inline const char *gpu_name(uint32_t slot, char buf[GPU_NAME_MAX])
{
	snprintf(buf, GPU_NAME_MAX, slot < GPU_SLOTS_EACH ? "%u" : "amd%u", gpu_number(slot));
	return buf;
}

#endif
