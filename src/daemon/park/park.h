/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parked programs: programs that were moved off the GPU together with their memory, by the driver's
 * checkpoint calls. A helper process makes these calls (job.h).
 *
 * The daemon keeps what users ordered, in memory and in a file. Where a program really is, is read
 * from the driver whenever it matters, never remembered: a helper can be killed at any point, and
 * another one goes on.
 */
#ifndef RBT_DAEMON_PARK_PARK_H
#define RBT_DAEMON_PARK_PARK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "backend/backend.h"
#include "daemon/park/job.h"
#include "proto/park.h"

struct daemon;
struct peer;
struct program;

#define PARKED_GPUS 16 /* of one program */
#define PARKED_TEXT 160

/* A program that is parked, or on its way off or back. */
struct parked {
	pid_t pid;
	uint64_t start_time;
	bool is_wanted_off; /* the order: off, or back on the GPU */
	uint64_t until_ns;  /* when it comes back by itself; 0: when it is ordered */
	uint64_t group;     /* of its program, 0: none. A group goes off and comes back together */
	bool is_forced;
	bool is_idle;     /* it was parked because it was idle: its next call brings it back */
	uint64_t n_calls; /* of its board, when it was found idle */
	/* The memory that it had on each GPU when it was parked. n_gpus 0: not known. */
	uint32_t backend, n_gpus;
	struct rbt_gpu_usage gpus[PARKED_GPUS];

	enum rbt_park_phase phase;
	struct park_job *job;   /* under way for it; NULL: none */
	bool is_read;           /* the driver was asked since the daemon started */
	int state;              /* as the driver told it last: enum CUprocessState; -1: unknown */
	bool is_asked;          /* a user wants it back, and it may not be parked at all */
	bool is_no_wait;        /* it comes back only if there is memory now */
	unsigned n_lost;        /* helpers that were killed */
	int error;              /* of the last order; then `text` says why */
	char text[PARKED_TEXT]; /* or for whom it waits */
	uint64_t rss_bytes;     /* when the last job began */
	uint64_t retry_ns;      /* when to look again; 0: now */
	LIST_ENTRY(parked) entries;
};

struct parking {
	LIST_HEAD(, parked) list;
	LIST_HEAD(, park_job) jobs;
};

/* What the last daemon left. */
void park_start(struct daemon *d);
/* Frees everything. Programs stay where they are, and helpers go on. */
void park_stop(struct daemon *d);
/* A tool's message: PARK or PARK_STATE. */
bool park_handles(uint32_t type);
void park_handle(struct daemon *d, struct peer *peer, const void *buf, size_t size);
/* Orders that can be carried out by now. */
void park_tick(struct daemon *d, uint64_t now_ns);
bool park_needs_tick(const struct daemon *d);

/* idle.c: programs that are parked because they are idle, or come back because they are not any
 * more. To be called after each event of the loop. */
void park_idle_run(struct daemon *d);
/* When to look again at the latest; UINT64_MAX: when something happens. */
uint64_t park_idle_next(const struct daemon *d);
/* The program is back, and the time of its idleness begins anew. */
void park_idle_came_back(struct daemon *d, struct program *p, bool has_failed);

/* NULL: it is not parked. */
struct parked *park_find(const struct daemon *d, const struct program *p);
/* Gives the compute tasks of a record the slice that the program had of its own before it was
 * parked, if theirs is shorter. */
void park_keep_slices(const struct program *p, struct rbt_record *rec);
/* One line for `ps`, or "". */
const char *park_note(const struct daemon *d, const struct program *p);
/* The bytes that have to be on the GPUs again. */
uint64_t park_bytes(const struct parked *k);

/* For job.c: a report has come, or the helper is gone. */
void park_reported(struct daemon *d, struct parked *k, const struct rbt_park_report *r);
void park_job_ended(struct daemon *d, struct park_job *job, bool is_lost);

/* file.c */
void park_write(struct daemon *d);
void park_read(struct daemon *d);

#endif
