/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "softgpu/cuda/front.h"
#include "softgpu/serve/gpu_link.h"
#include "softgpu/session/session.h"
#include "util/fd.h"

int front_world_connect(void)
{
	char dir[SESSION_MAX_PATH], path[SESSION_MAX_PATH + sizeof(SOCKET_NAME) + 1];
	ssize_t n = readlink(SESSION_LINK, dir, sizeof(dir) - 1);

	if (n <= 0) {
		return -ENOENT;
	}
	dir[n] = '\0';
	snprintf(path, sizeof(path), "%s/%s", dir, SOCKET_NAME);
	return rbt_connect(path, 0);
}
