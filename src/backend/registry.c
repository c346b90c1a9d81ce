/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

const struct rbt_backend *const rbt_backends[] = {
	&rbt_backend_nvidia,
	&rbt_backend_amd,
	NULL,
};

const struct rbt_backend *rbt_backend_by_id(uint32_t id)
{
	for (size_t i = 0; rbt_backends[i] != NULL; i++) {
		if ((uint32_t)rbt_backends[i]->id == id) {
			return rbt_backends[i];
		}
	}
	return NULL;
}
