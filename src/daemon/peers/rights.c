/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights, as with nice(1): users may lower their own programs. Everything else is for root and for
 * the members of a group. In a user's own daemon, that user may do everything, because only their
 * own programs compete there.
 *
 * A peer's groups are those that the kernel has for it (SO_PEERGROUPS), as with files. The user
 * database is not asked, because it may be a server that does not answer.
 */
#include "daemon/peers/rights.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "sched/class.h"
#include "util/log.h"

void rights_resolve(struct daemon *d, const char *group)
{
	const struct group *gr = getgrnam(group);

	d->admins.has_gid = gr != NULL;
	d->admins.gid = gr != NULL ? gr->gr_gid : 0;
	if (gr == NULL && d->options.is_system) {
		rbt_debug("there is no group %s: root alone may raise programs", group);
	}
}

/* Whether the socket's peer had the group as a supplementary group when it connected. */
static bool has_group(int fd, gid_t wanted)
{
	gid_t few[64], *groups = few, *many = NULL;
	socklen_t size = sizeof(few);
	bool found = false;

	int r = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size);
	/* If there are more groups, the kernel says how much room they need. */
	if (r < 0 && errno == ERANGE && (many = malloc(size)) != NULL) {
		groups = many;
		r = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size);
	}
	for (size_t i = 0; r == 0 && i < size / sizeof(gid_t); i++) {
		found = found || groups[i] == wanted;
	}
	free(many);
	return found;
}

bool rights_is_admin(const struct daemon *d, int fd, const struct ucred *cred)
{
	return cred->uid == 0 ||
	       (d->admins.has_gid && (cred->gid == d->admins.gid || has_group(fd, d->admins.gid)));
}

bool may_touch(const struct peer *peer, uid_t owner)
{
	return peer->is_admin || peer->uid == owner;
}

bool may_raise(const struct peer *peer, unsigned priority)
{
	return peer->is_admin || peer->uid == geteuid() ||
	       rbt_class_of(priority) != RBT_CLASS_LATENCY;
}

bool limits_take_more(
	const struct daemon *d, const struct rbt_limits *than, const struct rbt_limits *limits)
{
	static const struct rbt_limits none = {0};
	struct rbt_limits all = rbt_sched_limits(d->sched.core, &none);
	struct rbt_limits old = rbt_sched_limits(d->sched.core, than);
	struct rbt_limits now = rbt_sched_limits(d->sched.core, limits);

	return (now.max_reserve_ms > all.max_reserve_ms &&
		       now.max_reserve_ms > old.max_reserve_ms) ||
	       (now.min_share_permille > all.min_share_permille &&
		       now.min_share_permille > old.min_share_permille);
}

struct rbt_limits limits_in_force(const struct daemon *d, const struct program *p)
{
	static const struct rbt_limits none = {0};
	struct rbt_limits own = p->treat.limits;
	struct rbt_limits all = rbt_sched_limits(d->sched.core, &none);
	struct rbt_limits now = rbt_sched_limits(d->sched.core, &own);

	/* The configuration may have changed since the user gave the order. */
	if ((p->rights.granted & RBT_TREAT_BIT(MAX_RESERVE)) == 0 &&
		now.max_reserve_ms > all.max_reserve_ms) {
		own.max_reserve_ms = 0;
	}
	if ((p->rights.granted & RBT_TREAT_BIT(MIN_SHARE)) == 0 &&
		now.min_share_permille > all.min_share_permille) {
		own.min_share_permille = 0;
	}
	return own;
}
