/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells a service manager that the daemon is ready, reloads, stops, or is alive: one datagram each
 * to $NOTIFY_SOCKET, as described in sd_notify(3). Without that variable, nothing happens.
 */
#ifndef RBT_DAEMON_NOTIFY_H
#define RBT_DAEMON_NOTIFY_H

#include <stdint.h>

/* Takes the manager's address out of the environment, so that no child speaks for the daemon. */
void notify_init(void);
void notify_ready(const char *status);
void notify_reloading(void);
void notify_stopping(void);
void notify_alive(void);
/* The longest time between two notify_alive(); 0: none is wanted. */
uint64_t notify_alive_every_ns(void);

#endif
