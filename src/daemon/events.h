/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the events of sched/event.h: INIT and DESTROY from the difference of two records of a
 * client, WORK from the board readings that the accounts take, SCHEDULE from the questions of core
 * and gate.
 *
 * A program that submits has a WORK event every 10 to 250 ms (pace.h), and one when it ends.
 */
#ifndef RBT_DAEMON_EVENTS_H
#define RBT_DAEMON_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/record.h"
#include "daemon/metrics/account.h"
#include "daemon/pace.h"
#include "sched/event.h"

struct client;
struct daemon;
struct program;

struct events {
	uint64_t last_task;
	const struct rbt_event_reader *policy; /* NULL: none */
	uint64_t round_ns;                     /* boards are not looked at for WORK events before */
	uint64_t next_ns;                      /* the loop wakes for that then */
};

/* A task that has had its INIT. */
struct known_task {
	uint64_t id, created_ns;
	uint64_t used_ns;     /* by its program, before the task was made */
	struct rbt_task task; /* as its client's record has it */
	bool is_named;        /* by the record that is being taken */
};

/* In struct client. */
struct client_tasks {
	struct known_task *list; /* owned; in order of their ids */
	uint32_t n;
};

/* Of struct account_counts, what is told. */
struct work_counts {
	uint64_t n[RBT_BOARD_KINDS], n_syncs, n_gaps;
};

/* In struct program: what has been told of its work. */
struct program_work {
	struct work_counts counts;
	uint64_t at_ns, busy_ns;
	uint64_t board_count; /* rbt_board_count() when all was told */
	struct pace pace;
};

/* After the client's record was put or replaced. */
void events_take_record(struct daemon *d, struct program *p, struct client *h);
/* Before the client goes. */
void events_end_client(struct daemon *d, struct program *p, struct client *h);
/* After the program's account was brought up to date. is_last: the program ends. Returns false if
 * there is something to be told that is not due yet. */
bool events_take_work(struct daemon *d, struct program *p, bool is_last);
/* Whether WORK events are read. */
bool events_want_work(const struct daemon *d);
/* Whether it is too soon for the program's next WORK event. */
bool events_are_too_soon(const struct program *p, uint64_t now_ns);
/* When the loop is to look at the boards next, if nothing happens; UINT64_MAX: not at all. */
uint64_t events_next(const struct daemon *d);
/* The program, which was idle, submits. */
void events_woke(struct daemon *d, const struct program *p, uint64_t now_ns);
/* admit() of struct rbt_sched_ops: ctx is the daemon, owner a program. */
bool events_admit(void *ctx, void *owner);

/* Asks about a compute task that has never run. False, and nothing asked, if there is no such task
 * or its GPU is unknown. */
bool events_admit_first(
	struct daemon *d, struct program *p, uint32_t client, uint32_t handle, bool *ret_yes);

/* From now on `policy` (borrowed) reads events, in place of the one before. It gets an INIT of each
 * task there is. What the one before has said ends. NULL: none reads them. */
void events_set_policy(struct daemon *d, const struct rbt_event_reader *policy);
/* With RUBATO_DEBUG=work, WORK events are logged while no policy reads events. */
void events_debug(struct daemon *d);

#endif
