/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_SOFTGPU_SERVE_SERVER_H
#define RBT_SOFTGPU_SERVE_SERVER_H

#include <stdbool.h>

#include "softgpu/serve/link.h"

/*
 * The device server of a session: runs until its last connection has been gone for a while, then
 * removes its socket, and the whole directory if `private`. Takes ownership of `listener`, and of
 * the process: closes every other file. Returns an exit status.
 */
int server_run(const char *dir, bool private, const struct link_config *config, int listener);

#endif
