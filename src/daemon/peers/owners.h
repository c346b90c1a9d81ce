/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of user numbers that belong to another user (subordinate ids).
 */
#ifndef RBT_DAEMON_PEERS_OWNERS_H
#define RBT_DAEMON_PEERS_OWNERS_H

#include <stddef.h>
#include <sys/types.h>

struct daemon;

struct owner {
	uid_t first, last; /* the range */
	uid_t uid;         /* the user that it belongs to */
};

struct owners {
	struct owner *list; /* owned */
	size_t n;
};

/* May block. */
void owners_read(struct daemon *d);
/* The user that the number belongs to; by default, the number itself. */
uid_t owners_find(const struct daemon *d, uid_t uid);
void owners_forget(struct daemon *d);

#endif
