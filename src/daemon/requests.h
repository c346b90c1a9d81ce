/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_DAEMON_REQUESTS_H
#define RBT_DAEMON_REQUESTS_H

#include <stddef.h>

struct daemon;
struct peer;

/* Handles a request of a tool, and sends the reply. */
void request_handle(
	struct daemon *d, struct peer *peer, const void *buf, size_t size, int *fds, size_t n_fds);

#endif
