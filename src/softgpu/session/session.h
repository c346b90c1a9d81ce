/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: a directory with the device server's socket, in which programs share one set of fake
 * GPUs.
 *
 *   device.sock, device.lock, device.log   of the server
 *   run/         RUBATO_RUNTIME_DIR of the session's owner
 *   users/UID/   the same for every other user in the session: a program that drops privileges
 *                runs `rubato-softgpu exec -- …` again, which sets its own
 *
 * The directory has mode 0711: a program that drops privileges can still reach the socket, but
 * cannot list the directory.
 */
#ifndef RBT_SOFTGPU_SESSION_SESSION_H
#define RBT_SOFTGPU_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "softgpu/serve/link.h"

#define SESSION_ENV      "RUBATO_SOFTGPU"
#define SESSION_MAX_PATH 90 /* leaves room in a socket address */

/* A link that only the supervisor answers: it tells a process its session, even if there is no
 * device server. */
#define SESSION_LINK "/dev/nvidia-softgpu"

struct session {
	char dir[SESSION_MAX_PATH];
	bool private; /* made for one command, removed after it */
	int sock;     /* to the server; -1 */
	struct link_welcome welcome;
};

/* Makes a new directory (dir NULL), or opens or makes the named one. 0 or -errno. */
int session_open(struct session *s, const char *dir);

/* Whether this process is in a session already; stores its directory. 0 or -ENOENT. */
int session_current(char *dir, size_t size);

/* Connects to the session's server, which is started with `config` if there is none; fills sock and
 * welcome. */
int session_join(struct session *s, const struct link_config *config);

/* Sets RUBATO_SOFTGPU, RUBATO_RUNTIME_DIR (and makes that directory), and LD_LIBRARY_PATH for the
 * libcuda front. 0 or -errno. */
int session_export(const char *dir);

/* Removes the directory and its contents; never follows a link. */
void session_remove(const char *dir);

#endif
