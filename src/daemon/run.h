/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs: the processes of one `rubato run`, which share a memory limit. A run that has a limit has a
 * ledger (board/ledger.h), which the daemon passes to each of its processes. The processes count in
 * it themselves, also while there is no daemon. The daemon changes the limit, and gives back what
 * processes had that have ended or called exec.
 *
 * A new daemon gets the ledger from the first process of the run that connects.
 */
#ifndef RBT_DAEMON_RUN_H
#define RBT_DAEMON_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "board/ledger.h"
#include "proto/protocol.h"

struct daemon;
struct program;

struct run {
	char name[RBT_RUN_NAME_MAX];
	uid_t uid;
	uint64_t limit; /* bytes on each GPU; 0: none */
	int fd;         /* of the ledger; -1: the run has never had a limit */
	struct rbt_ledger *ledger;
	bool needs_audit;
	bool needs_look; /* a slot's process is not connected, or has not got the ledger yet */
	LIST_ENTRY(run) entries;
};

struct runs {
	LIST_HEAD(, run) list;
};

/* A program's place in its run. */
struct program_run {
	struct run *run; /* NULL: its shim has told of none */
	int slot;        /* of the ledger; negative: it has none */
};

/* The program's shim has told of its run. fd is the ledger that the program has, or -1; it is
 * borrowed. 0 or -errno: -EBADMSG if it is no ledger. */
int run_join(struct daemon *d, struct program *p, const struct rbt_msg_run *msg, int fd);
/* The program is gone, or its shim does not speak for it any more. */
void run_leave(struct daemon *d, struct program *p);

/* The program's treatment has changed. By a renice, the run's limit changes with it; otherwise the
 * run's limit stays, and the program has it. */
void run_renice(struct daemon *d, struct program *p);
void run_follow(struct program *p);

void run_tick(struct daemon *d);
bool run_needs_tick(const struct daemon *d);

/* Whether the program's shim keeps a limit. */
bool run_is_bound(const struct program *p);

void run_fill(const struct program *p, struct rbt_program_memory *ret);

/* Before the daemon ends. */
void run_finish(struct daemon *d);

#endif
