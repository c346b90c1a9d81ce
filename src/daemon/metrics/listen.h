/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_DAEMON_METRICS_LISTEN_H
#define RBT_DAEMON_METRICS_LISTEN_H

#define METRICS_LISTENERS 2

/*
 * Listening sockets for what metrics_check() has found to be right, and is not "none". Fewer than
 * METRICS_LISTENERS leave the others negative. A socket that is left over at the path is replaced;
 * anything else that is there is not. 0 or -errno.
 */
int metrics_listen(const char *at, int ret_fds[METRICS_LISTENERS]);

#endif
