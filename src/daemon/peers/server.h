/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket and its connections.
 */
#ifndef RBT_DAEMON_PEERS_SERVER_H
#define RBT_DAEMON_PEERS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "daemon/loop.h"
#include "proto/treatment.h"

struct program;
struct user;

/* A connection: a shim inside a program, or a tool. */
struct peer {
	struct source source;
	struct source porter; /* through which its messages come for now; -1: none */
	pid_t porter_pid;
	uint64_t heard_ns; /* when its porter last said something */
	pid_t pid;
	int pidfd; /* of the process that connected; -errno: not to be had */
	uid_t uid;
	struct user *user;
	uint64_t spent_ns;      /* crowd.c: of the daemon's time */
	uint64_t not_before_ns; /* crowd.c: the peer is put off until then */
	bool is_paused;
	LIST_ENTRY(peer) paused;
	bool is_admin;              /* root, or of the group that may raise */
	struct program *program;    /* the one it speaks for; NULL for tools */
	struct program *attached;   /* the one that this tool attached, and may still change */
	unsigned answer_priority;   /* of the program that a tool last reniced */
	struct rbt_treatment asked; /* what a shim wants for its program */
	bool is_older;              /* a shim of version 0.1.0 */
	bool policy_waits;          /* for the result of a load */
	bool is_tracing;            /* trace.c: it reads events */
	uint32_t policy_load;       /* the load that it has made or joined; 0: none */
	LIST_ENTRY(peer) entries;
};

struct control_server {
	struct source listener;
	bool is_deaf; /* no fd was left for a connection: the listener is not watched */
	LIST_HEAD(, peer) peers;
};

/* 0 or -errno. */
int server_start(struct daemon *d);
/* The same when the socket was removed; connections stay. */
int server_restart(struct daemon *d);
void server_stop(struct daemon *d);
/* Before the daemon ends unasked: false if a peer has connected in the meantime. */
bool server_close_door(struct daemon *d);
/* Listens again, if it had to stop. */
void server_listen_again(struct daemon *d);
void peer_destroy(struct daemon *d, struct peer *peer);
/* Takes the messages that wait on the connection: one, or several records. The peer may be gone
 * afterwards. */
void peer_listen(struct daemon *d, struct peer *peer);
/* Handles a message of that size, or the connection's end or error. Takes the files. Returns
 * whether another message may be taken in the same round; otherwise, the peer may be gone. */
bool peer_take(
	struct daemon *d, struct peer *peer, ssize_t size, const void *buf, int *fds, size_t n_fds);

#endif
