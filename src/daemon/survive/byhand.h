/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What users have said of processes, in memory and on disk.
 */
#ifndef RBT_DAEMON_SURVIVE_BYHAND_H
#define RBT_DAEMON_SURVIVE_BYHAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "proto/treatment.h"

struct daemon;
struct program;

/* What users have said of a process. It holds until the process ends or runs another program;
 * byhand.c. */
struct said {
	pid_t pid;
	uint64_t start_time;
	uint64_t said_ns; /* when they last did */
	bool has_treat;   /* how to treat it: then no rule is for it */
	struct rbt_treatment treat;
	uint32_t granted;
	bool is_suspended;
	uint64_t resume_at_ns; /* 0: until resumed */
	bool is_wanted;        /* it was said to a daemon before us; its tasks are to be found */
	LIST_ENTRY(said) link;
};

struct byhand {
	LIST_HEAD(, said) said;
	bool is_lost; /* the file could not be written, and that was said */
};

struct said *byhand_find(const struct daemon *d, pid_t pid, uint64_t start_time);
/* A user has said something, and it was done; is_treat: how the program is to be treated, rather
 * than that it is suspended or resumed. The program may have been let go of since. */
void byhand_note(struct daemon *d, pid_t pid, uint64_t start_time, bool is_treat);
/* A program has come, or come back: what was said of it holds. True: also how it is treated. */
bool byhand_apply(struct daemon *d, struct program *p);
/* It is another program by now. */
void byhand_forget(struct daemon *d, const struct program *p);
/* Whether programs are still to be found that were spoken of to a daemon before us. */
bool byhand_is_wanting(const struct daemon *d);
void byhand_write(struct daemon *d);
/* At the start. */
void byhand_read(struct daemon *d);
void byhand_finish(struct daemon *d);

#endif
