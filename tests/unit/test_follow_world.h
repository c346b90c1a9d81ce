/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon's model of programs with boards, without the rest of the daemon: for what a policy hears
 * of them, and what that costs.
 */
#ifndef RBT_TESTS_FOLLOW_WORLD_H
#define RBT_TESTS_FOLLOW_WORLD_H

#include "daemon/daemon.h"

#define WORLD_MAX 64

struct world_prog {
	struct program p;
	struct client client;
	struct rbt_holding mine;
	struct rbt_task tasks[4]; /* the last is a compute task, the others copy */
};

struct world {
	struct daemon d;
	struct rbt_sched_policy policy; /* `turns`, with questions if the world has been told so */
	struct rbt_board *boards;       /* shared with children */
	struct world_prog progs[WORLD_MAX];
	unsigned n;
};

/* n programs on one GPU with the priorities priority_of(i); all are busy. */
void world_init(struct world *w, unsigned n, unsigned (*priority_of)(unsigned i), bool asks);
void world_finish(struct world *w);
/* As the program would count it. */
void world_submit(struct world *w, unsigned i, enum rbt_board_kind kind, uint64_t n);
/* When the daemon's loop would wake. */
uint64_t world_next(const struct world *w);
/* What the loop would do then; and every 250 ms. */
void world_run(struct world *w);
void world_tick(struct world *w);

#endif
