/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/gpus.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

int rbt_gpu_find(const struct rbt_gpu_table *table, uint32_t backend, uint32_t minor)
{
	for (uint32_t i = 0; i < table->n; i++) {
		if (table->gpus[i].backend == backend && table->gpus[i].minor == minor) {
			return (int)i;
		}
	}
	return -ENOENT;
}

int rbt_gpu_index(struct rbt_gpu_table *table, uint32_t backend, uint32_t minor)
{
	int index = rbt_gpu_find(table, backend, minor);

	if (index >= 0) {
		return index;
	}
	if (table->n == RBT_MAX_GPUS) {
		return -ENOSPC;
	}
	table->gpus[table->n] = (struct rbt_gpu){.backend = backend, .minor = minor};
	return (int)table->n++;
}

struct rbt_gpu rbt_gpu_of_index(const struct rbt_gpu_table *table, uint32_t index)
{
	return index < table->n ? table->gpus[index] : (struct rbt_gpu){0};
}

static bool is_before(struct rbt_gpu a, struct rbt_gpu b)
{
	return a.backend != b.backend ? a.backend < b.backend : a.minor < b.minor;
}

void rbt_gpus_sort(const struct rbt_gpu_table *table, uint32_t ret[RBT_MAX_GPUS])
{
	for (uint32_t i = 0; i < table->n; i++) {
		uint32_t at = i;

		while (at > 0 && is_before(table->gpus[i], table->gpus[ret[at - 1]])) {
			ret[at] = ret[at - 1];
			at--;
		}
		ret[at] = i;
	}
}

const char *rbt_gpu_name(struct rbt_gpu gpu, char buf[RBT_GPU_NAME_MAX])
{
	snprintf(buf, RBT_GPU_NAME_MAX, gpu.backend == RBT_BACKEND_AMD ? "amd%u" : "%u", gpu.minor);
	return buf;
}
