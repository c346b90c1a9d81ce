/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the decision core is told, and when it is asked.
 */
#ifndef RBT_DAEMON_SCHEDULE_H
#define RBT_DAEMON_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "board/board.h"
#include "board/waiter.h"
#include "sched/core.h"

struct daemon;
struct program;

/* Programs with an open request, whose end is looked for. */
struct hints {
	uint32_t n;
	bool has_changed; /* the core is to be told */
	uint64_t poll_ns; /* when to poll next; UINT64_MAX: not at all */
};

struct schedule {
	struct rbt_sched *core;
	struct rbt_board_waiter *waiter;
	struct rbt_sched_config config;
	struct hints hints;
	bool any_seen; /* accounting.c: a program may have a first submission to account for */
};

/* In struct program: its board. */
struct board_reader {
	struct rbt_board *board; /* NULL: the program's activity is unknown */
	struct rbt_board_reader watch;
	bool is_new;                   /* the core has not heard of it */
	uint32_t gaps[RBT_BOARD_GAPS]; /* as the core knows them */
	uint64_t edge_gap_ns;          /* the gap that the core has seen for itself; 0: none */
};

/* In struct program: the request that it has announced on its board. */
struct program_request {
	bool is_open;     /* as its board says */
	bool is_hinted;   /* as the core was told */
	bool awaits_end;  /* the board wakes the daemon when the program's requests have ended */
	bool awaits_sync; /* and when a synchronisation returns */
	uint64_t deadline_ns; /* 0: none */
	uint64_t hinted_ns;   /* since when is_hinted */
};

/* In struct program: what the core was told of it, and what has become of its decisions. */
struct program_sched {
	struct rbt_sched_prog *prog; /* NULL: the core does not know the program yet */
	struct rbt_sched_params params;
	struct rbt_policy_output output; /* of the policy */
	/* As of when the core was last told: by then the state file names the program. */
	uint32_t interleave;
	uint64_t no_turns_until_ns; /* the driver refused to suspend the program */
	enum rbt_denial denial;     /* of the decision that was last carried out */
	bool is_pending;            /* apply.c: a decision is to be carried out */
	LIST_ENTRY(program) pending;
};

/* 0 or -errno. */
int schedule_start(struct daemon *d);
/* Takes another configuration. */
int schedule_configure(struct daemon *d, const struct rbt_sched_config *config);
void schedule_stop(struct daemon *d);
/* Tells the core what has changed about a program, if anything. 0 or -errno. */
int schedule_tell(struct daemon *d, struct program *p);
/* Before the program goes. */
void schedule_forget(struct daemon *d, struct program *p);
/* Before its board goes. */
void schedule_forget_board(struct daemon *d, struct program *p);
/* After the GPUs' locks or marks have changed. */
void schedule_tell_gpus(struct daemon *d);
/* The name of the policy in force. */
const char *schedule_policy(const struct daemon *d);
/* Whether programs of this priority take turns under it. */
bool schedule_takes_turns(const struct daemon *d, unsigned priority);
/* When the core is to be asked next, if nothing happens; UINT64_MAX: never. */
uint64_t schedule_next(const struct daemon *d);
/* Tells the core which programs have woken, and asks it if that time has come. */
void schedule_run(struct daemon *d);
/* The core does what is due, and counts up to now. */
void schedule_tick(struct daemon *d);

#endif
