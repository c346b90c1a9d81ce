/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records that were received and not taken in yet. A program that makes and destroys tasks quickly
 * sends many records, and only the last one of each client counts. So the records that wait on a
 * connection are received together, and the devices are told once.
 */
#ifndef RBT_DAEMON_PEERS_WAITING_H
#define RBT_DAEMON_PEERS_WAITING_H

#include "backend/record.h"

struct daemon;
struct peer;

/* The last record of one client. */
struct waiting {
	struct peer *peer; /* NULL: none waits */
	struct rbt_record rec;
	unsigned n_taken; /* clients that were changed or dropped in this round */
};

/* Keeps a record in place of the same client's earlier one; another client's record is taken in
 * first. Takes ownership of *rec. 0, or -errno as program_put_record(). */
int waiting_put(struct daemon *d, struct peer *peer, struct rbt_record *rec);
/* Takes in the record that waits, if there is one. The same. */
int waiting_take(struct daemon *d);
/* Before the peer goes. */
void waiting_forget(struct daemon *d, const struct peer *peer);

#endif
