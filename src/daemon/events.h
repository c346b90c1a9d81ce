/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the events of sched/event.h: INIT and DESTROY from the difference of two records of a
 * client, WORK from the board readings that the accounts take, SCHEDULE from the core's question.
 */
#ifndef RBT_DAEMON_EVENTS_H
#define RBT_DAEMON_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/record.h"
#include "daemon/metrics/account.h"
#include "sched/event.h"

struct client;
struct daemon;
struct program;

struct events {
	uint64_t last_task;
	const struct rbt_event_reader *policy; /* NULL: none */
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

/* In struct program: what has been told of its work. */
struct program_work {
	struct account_counts counts;
	uint64_t at_ns, used_ns;
};

/* After the client's record was put or replaced. */
void events_take_record(struct daemon *d, struct program *p, struct client *h);
/* Before the client goes. */
void events_end_client(struct daemon *d, struct program *p, struct client *h);
/* After the program's account was brought up to date. */
void events_take_work(struct daemon *d, struct program *p);
/* admit() of struct rbt_sched_ops: ctx is the daemon, owner a program. */
bool events_admit(void *ctx, void *owner);

/* From now on `policy` (borrowed) reads events, in place of the one before. It gets an INIT of each
 * task there is. What the one before has said ends. NULL: none reads them. */
void events_set_policy(struct daemon *d, const struct rbt_event_reader *policy);

#endif
