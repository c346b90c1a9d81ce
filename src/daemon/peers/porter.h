/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Porters: processes that receive messages with files, and close files that strangers have sent.
 */
#ifndef RBT_DAEMON_PEERS_PORTER_H
#define RBT_DAEMON_PEERS_PORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/types.h>

struct daemon;
struct peer;
struct user;

/* Connections that wait for a process to close them. */
#define DOOMED_MAX 256

struct porters {
	LIST_HEAD(, child) children; /* porter.c's own */
	int doomed[DOOMED_MAX];
	size_t n_doomed;
};

/* Has a process receive what the connection brings. 0, also when no process can be had just now, or
 * -errno when the peer is to go. */
int porter_call(struct daemon *d, struct peer *peer);
/* Takes one message that the porter has passed on. Returns as peer_take(). */
bool porter_take(struct daemon *d, struct peer *peer);
/* Before the peer goes. */
void porter_dismiss(struct daemon *d, struct peer *peer);
/* Closes a socket that strangers could write to, and sets it to -1. */
void porter_close(struct daemon *d, int *fd);
/* Ends porters that hang. */
void porter_tick(struct daemon *d);
bool porter_needs_tick(const struct daemon *d);
/* Whether one of the user's porters is left. */
bool porter_has_user(const struct daemon *d, const struct user *user);
/* A process of the daemon was killed, and hangs. */
void porter_lose(struct daemon *d, pid_t pid);
void porter_stop(struct daemon *d);

#endif
