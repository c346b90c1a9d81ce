/* SPDX-License-Identifier: Apache-2.0 */
/* A helper process (rubato-park) at work on one program, or on the programs of one group. */
#ifndef RBT_DAEMON_PARK_JOB_H
#define RBT_DAEMON_PARK_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "daemon/loop.h"
#include "proto/park.h"

struct daemon;
struct parked;

struct park_job {
	struct source socket; /* first: the helper's reports */
	pid_t helper;
	enum rbt_park_goal goal;
	uint64_t begun_ns, deadline_ns;
	bool has_ended; /* the helper has said so */
	bool is_cancelled;
	int result; /* a CUresult, or -errno */
	size_t n;
	pid_t pids[RBT_PARK_MAX];
	LIST_ENTRY(park_job) entries;
};

/* Starts a helper for these programs: 0 or -errno. */
int job_start(struct daemon *d, enum rbt_park_goal goal, struct parked *const *list, size_t n);
/* The helper gives the job up before its next call, if it still can. */
void job_cancel(struct park_job *job);
/* Forgets the job; its helper goes on. */
void job_destroy(struct daemon *d, struct park_job *job);

#endif
