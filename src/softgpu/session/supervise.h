/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_SOFTGPU_SESSION_SUPERVISE_H
#define RBT_SOFTGPU_SESSION_SUPERVISE_H

#include "softgpu/session/session.h"

/*
 * Runs argv in the session and returns its exit status as a shell would (128 + signal, 127, 126).
 *
 * There are three processes: this one, which waits; the supervisor, which is its child and the
 * parent of the command, and serves the command and all its descendants until the last of them has
 * ended, even after this process has returned; and the command.
 */
int supervise(struct session *session, char *const argv[]);

#endif
