/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy that a user has loaded, for the next daemon: object, settings and engine in a file of
 * the runtime directory. The next daemon checks it as it checks any object.
 */
#ifndef RBT_DAEMON_POLICY_KEEP_H
#define RBT_DAEMON_POLICY_KEEP_H

#include "daemon/policy/manager.h"

/* Keeps the policy. If the file cannot be written, the log says so. */
void keep_write(struct daemon *d, const struct policy *p);
/* No policy is kept any more. */
void keep_remove(struct daemon *d);

/* A policy that was kept. The request points into it. */
struct kept {
	char *bytes; /* owned */
	struct policy_request request;
};
/* 0, -ENOENT if none is kept, or -errno if the file is damaged or of another version. */
int keep_read(const struct daemon *d, struct kept *ret);
void keep_finish(struct kept *kept);

/* The same from bytes, which are taken also on failure. */
int keep_decode(char *bytes, size_t size, struct kept *ret);

#endif
