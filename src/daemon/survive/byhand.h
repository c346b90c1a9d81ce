/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renices and suspends that users ordered, in memory and on disk (the by-hand file).
 */
#ifndef RBT_DAEMON_SURVIVE_BYHAND_H
#define RBT_DAEMON_SURVIVE_BYHAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "daemon/queues.h"
#include "proto/treatment.h"

struct daemon;
struct program;

/* What users ordered for a process. It holds until the process ends or runs another program; see
 * byhand.c. */
struct said {
	pid_t pid;
	uint64_t start_time;
	uint64_t said_ns; /* when the last order came */
	bool has_treat;   /* its treatment was ordered, so no rule applies */
	struct rbt_treatment treat;
	uint32_t granted;
	bool is_suspended;
	uint64_t resume_at_ns; /* 0: until it is resumed */
	struct queue_orders queues;
	/* ordered of a former daemon; the program's tasks are still to be found */
	bool is_wanted;
	LIST_ENTRY(said) entries;
};

struct byhand {
	LIST_HEAD(, said) said;
	bool is_lost; /* the file could not be written, and that was said */
};

struct said *byhand_find(const struct daemon *d, pid_t pid, uint64_t start_time);
/* Notes that a user's order was carried out. is_treat: it was a renice, rather than a suspend or
 * resume. The daemon may have dropped the program since. */
void byhand_note(struct daemon *d, pid_t pid, uint64_t start_time, bool is_treat);
/* Applies earlier orders to a program that has come, or come back. Returns true if they include its
 * treatment. */
bool byhand_apply(struct daemon *d, struct program *p);
/* Forgets the orders for a process that runs another program by now. */
void byhand_forget(struct daemon *d, const struct program *p);
/* Whether there are orders for programs that are still to be found. */
bool byhand_is_wanting(const struct daemon *d);
/* The program must be found again, if users ordered something for it. */
void byhand_want(struct daemon *d, const struct program *p);
void byhand_write(struct daemon *d);
/* Reads the file, at the start of the daemon. */
void byhand_read(struct daemon *d);
void byhand_finish(struct daemon *d);

#endif
