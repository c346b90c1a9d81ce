/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of the applied state since it was last asked for, over all of a program's holds.
 */
#ifndef RBT_DAEMON_EDGE_H
#define RBT_DAEMON_EDGE_H

struct client;
struct program;

struct edge {
	unsigned was, is;    /* RBT_IS_*, of any client: then and now */
	unsigned gone, back; /* of a client that was not so then, and of one that is not so now */
};
/* At the end of a round: until the next one, this is "then". */
struct edge edge_take(struct program *p);
/* Before a client goes. */
void edge_release(struct program *p, struct client *h);

#endif
