/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_DAEMON_METRICS_LISTEN_H
#define RBT_DAEMON_METRICS_LISTEN_H

#define METRICS_LISTENERS 2

/*
 * Opens listening sockets for an address that metrics_check() accepts and that is not "none". If
 * there are fewer than METRICS_LISTENERS, the others are negative. A stale socket at the path is
 * replaced, any other file is not. Returns 0 or -errno.
 */
int metrics_listen(const char *at, int ret_fds[METRICS_LISTENERS]);

#endif
