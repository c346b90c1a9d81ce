/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's two threads: one takes notifications from the kernel, one takes answers from the
 * device server. They only relay. If the server dies, calls on fake nodes fail with EIO and
 * everything else goes on.
 */
#ifndef RBT_SOFTGPU_SESSION_RELAY_H
#define RBT_SOFTGPU_SESSION_RELAY_H

#include "softgpu/session/session.h"

/* Starts both threads; they run for the life of the process. Listener and session are borrowed. 0
 * or -errno. */
int relay_start(int listener, struct session *session);

/* Whether the device server is still running. */
bool relay_is_connected(void);

#endif
