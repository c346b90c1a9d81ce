/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user may do.
 */
#ifndef RBT_DAEMON_PEERS_RIGHTS_H
#define RBT_DAEMON_PEERS_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

#include "proto/treatment.h"

struct daemon;
struct peer;
struct program;
struct ucred;

/* The group whose members may do what root may. */
struct admins {
	char group[32];
	bool has_gid;
	gid_t gid;
};

/* Looks up the group whose members may do what root may. May block. */
void rights_resolve(struct daemon *d, const char *group);
/* Whether the peer of a connected socket is root or of that group. */
bool rights_is_admin(const struct daemon *d, int fd, const struct ucred *cred);
/* Whether the peer may act on programs of `owner`. */
bool may_touch(const struct peer *peer, uid_t owner);
/* As with nice: above normal only for root, the daemon's own user and the group. */
bool may_raise(const struct peer *peer, unsigned priority);
/* Whether these limits are above the configuration's, and above the limits that the program had:
 * that is a privilege. */
bool limits_take_more(
	const struct daemon *d, const struct rbt_limits *than, const struct rbt_limits *limits);
/* A program's own limits as far as they count now: without a right to them, none above the
 * configuration's. */
struct rbt_limits limits_in_force(const struct daemon *d, const struct program *p);

#endif
