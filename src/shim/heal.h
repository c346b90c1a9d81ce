/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If a daemon was killed together with its hand and its keeper, its changes stay in force, and
 * nobody starts it again. A program that does not find a daemon for a few seconds then starts
 * `rubato ps`, which restarts the daemon (see daemon_heal() in the tools).
 */
#ifndef RBT_SHIM_HEAL_H
#define RBT_SHIM_HEAL_H

#include <stdbool.h>
#include <stdint.h>

struct shim;

/* In the table. All zeroes: the daemon is there, or was not looked for. */
struct shim_heal {
	uint64_t lost_ns;    /* since when there has been no daemon; 0: there is one */
	uint64_t allowed_ns; /* no further attempt to start a command before this time */
};

/* Reads the environment, once, at the program's first contact with a GPU: later the program may
 * change it. */
void shim_heal_configure(void);

/* There was no daemon to connect to. Starts the command if it is due and if nothing speaks against
 * it; the program does not wait for it. Under the lock. */
void shim_heal_consider(struct shim *s, uint64_t now_ns);

/* There is a daemon. */
void shim_heal_found(struct shim *s);

/* Whether it was time to start the command so recently that a daemon should come soon, if only by
 * another program's command. */
bool shim_heal_is_under_way(const struct shim *s, uint64_t now_ns);

#endif
