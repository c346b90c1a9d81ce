/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a service manager wants to know: that we are ready, reload, stop, and are alive. One
 * datagram each to $NOTIFY_SOCKET, as described in sd_notify(3); without one, nothing happens.
 */
#ifndef RBT_DAEMON_NOTIFY_H
#define RBT_DAEMON_NOTIFY_H

#include <stdint.h>

/* Takes the manager's address out of the environment, so that no child speaks for us. */
void notify_init(void);
void notify_ready(const char *status);
void notify_reloading(void);
void notify_stopping(void);
void notify_alive(void);
/* How often that is to be said, at least; 0: not at all. */
uint64_t notify_alive_every_ns(void);

#endif
