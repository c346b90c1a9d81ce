/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: a directory with the device server's socket, in which programs share one set of fake
 * GPUs.
 *
 *   device.sock, device.lock, device.log   the server's
 *   run/         RUBATO_RUNTIME_DIR of the session's owner
 *   users/UID/   the same for any other user who works in the session: a program that drops
 * privileges runs `rubato-softgpu exec -- …` again, which gives it its own
 *
 * The directory is mode 0711: a program that drops privileges still reaches the socket, and nobody
 * can list it.
 */
#ifndef RBT_SOFTGPU_SESSION_SESSION_H
#define RBT_SOFTGPU_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "softgpu/serve/link.h"

#define SESSION_ENV      "RUBATO_SOFTGPU"
#define SESSION_MAX_PATH 90 /* what a socket address leaves */

/* A link that only the supervisor answers: it tells a process in which session it is, device server
 * or not. */
#define SESSION_LINK "/dev/nvidia-softgpu"

struct session {
	char dir[SESSION_MAX_PATH];
	bool private; /* made for one command, removed after it */
	int sock;     /* to the server; -1 */
	struct link_welcome welcome;
};

/* Makes a fresh directory (dir NULL) or takes, or makes, the named one. 0 or -errno. */
int session_open(struct session *s, const char *dir);

/* Whether this process is in a session already: its directory is stored. 0 or -ENOENT. */
int session_current(char *dir, size_t size);

/* Connects to the session's server and starts one with `config` if there is none; fills sock and
 * welcome. */
int session_join(struct session *s, const struct link_config *config);

/* Sets RUBATO_SOFTGPU, RUBATO_RUNTIME_DIR, making the latter, and LD_LIBRARY_PATH for the libcuda
 * front. 0 or -errno. */
int session_export(const char *dir);

/* Removes the directory and what is in it; never follows a link. */
void session_remove(const char *dir);

#endif
