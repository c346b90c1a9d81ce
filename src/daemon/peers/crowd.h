/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crowd: all peers together, which share the daemon's files and its time.
 */
#ifndef RBT_DAEMON_PEERS_CROWD_H
#define RBT_DAEMON_PEERS_CROWD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "daemon/loop.h"

struct peer;

/* The user that files and time are charged to; crowd.c's own. */
struct user;

struct crowd {
	struct source source; /* the epoll set of all peers */
	struct source timer;  /* of paused peers */
	struct peer
		*speaker; /* sent the message that is being handled; NULL: none, or gone since */
	struct user *speaking_user;
	uint64_t spoke_ns;
	uint32_t max_fds, n_fds; /* all there are, and how many users have */
	LIST_HEAD(, user) users;
	LIST_HEAD(, peer) paused;
};

/* 0 or -errno. */
int crowd_start(struct daemon *d);
void crowd_stop(struct daemon *d);
/* NULL: no memory. Stays while something is charged to it. */
struct user *user_obtain(struct daemon *d, uid_t uid);
/* 0, or -EDQUOT when that is too much, which has been said. */
int user_charge(struct daemon *d, struct user *u, uint32_t n_fds);
void user_discharge(struct daemon *d, struct user *u, uint32_t n_fds);
/* Whether another line about the user may be written to the log. */
bool user_may_be_named(struct user *u);
/* The same of any trouble that may come again and again; *said_ns is zero at first. */
bool line_is_due(uint64_t *said_ns);
/* Charges for a new connection: 0 or -EDQUOT. */
#define RBT_FDS_PER_PEER 2
int crowd_admit(struct daemon *d, struct peer *peer);
/* Listens to the peer, at once or when its user's time has come. 0 or -errno. */
int crowd_welcome(struct daemon *d, struct peer *peer);
/* Undoes both, and forgets the peer. */
void crowd_forget(struct daemon *d, struct peer *peer);
/* As watch(), in the set of peers. */
int crowd_watch(struct daemon *d, struct source *s);
void crowd_unwatch(struct daemon *d, struct source *s); /* without closing it */
/* Does not listen to the peer for that long. */
void crowd_put_off(struct daemon *d, struct peer *peer, uint64_t for_ns);
/* A message of this peer is handled from now on. */
void crowd_speaks(struct daemon *d, struct peer *peer);
/* The message has been handled: its time is charged. */
void crowd_spoke(struct daemon *d);

#endif
