/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

#include <errno.h>

const struct rbt_backend *const rbt_backends[] = {
	&rbt_backend_nvidia,
	&rbt_backend_amd,
	NULL,
};

int rbt_backends_discover(pid_t pid, int pidfd, struct rbt_record **ret, size_t *ret_n)
{
	int error = -ENXIO;

	for (const struct rbt_backend *const *b = rbt_backends; *b != NULL; b++) {
		int r = (*b)->discover(pid, pidfd, ret, ret_n);
		if (r == 0) {
			return 0;
		}
		error = r != -ENXIO && r != -ENODEV ? r : error;
	}
	return error;
}

const struct rbt_backend *rbt_backend_by_id(uint32_t id)
{
	for (size_t i = 0; rbt_backends[i] != NULL; i++) {
		if ((uint32_t)rbt_backends[i]->id == id) {
			return rbt_backends[i];
		}
	}
	return NULL;
}
