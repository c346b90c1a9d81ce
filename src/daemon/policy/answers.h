/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's side of the messages of proto/policy.h. */
#ifndef RBT_DAEMON_POLICY_ANSWERS_H
#define RBT_DAEMON_POLICY_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct daemon;
struct peer;

/* Whether a message of this type is handled here. */
bool policy_handles(uint32_t type);
/* Handles it and answers. The files are borrowed. */
void policy_handle(struct daemon *d, struct peer *peer, const void *buf, size_t size,
	const int *fds, size_t n_fds);

#endif
