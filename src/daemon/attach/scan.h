/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan: a process that searches for programs without a shim and reports them. It lives for one
 * scan. Reading the memory of a large program takes 60 ms, or up to a second if its handles are
 * hard to find; a query of the user database may take longer. Turns go on meanwhile. It is a
 * process rather than a thread because it reads the memory of untrusted programs: if that kills it,
 * the daemon survives.
 */
#ifndef RBT_DAEMON_ATTACH_SCAN_H
#define RBT_DAEMON_ATTACH_SCAN_H

#include <stdint.h>
#include <sys/types.h>

#include "daemon/attach/rules.h"
#include "util/lost.h"
#include "util/rankgroup.h"

enum scan_verdict {
	SCAN_SEEN,    /* the process still exists; no inspection was due */
	SCAN_NOTHING, /* nothing to do: no rule matches, or a shim speaks for it */
	SCAN_RULE,    /* a rule has matched */
	SCAN_SAID,    /* no rule matches, but a user gave a former daemon an order for it */
	/* its inspection begins and another report follows; if none does, it killed the scan */
	SCAN_INSPECTS,
	SCAN_DONE, /* the end of the scan; not about a process */
};

/* One packet per process. n_records messages of type ATTACH follow, each with its device file. */
struct scan_report {
	uint32_t verdict; /* enum scan_verdict */
	int32_t pid;
	uint64_t start_time;
	uint32_t uid;
	uint32_t n_files; /* control nodes that it has open */
	uint32_t rule;    /* SCAN_RULE: the rule's number, from 0 */
	int32_t error;    /* SCAN_RULE, SCAN_SAID: 0, or why its tasks were not found */
	uint32_t n_records;
	uint64_t cpu_ns; /* SCAN_DONE: the cost of the scan without the inspections */
	uint32_t group_is_shared;
	char group[RBT_GROUP_NAME_MAX]; /* empty: no group */
};

/* One inspection takes at most RBT_INSPECT_S, and everything else at most this. A scan that takes
 * longer is killed. */
#define SCAN_WALK_S 30

/* Returns which process the report is about. */
static inline struct rbt_inspected scan_inspected(const struct scan_report *report)
{
	return (struct rbt_inspected){report->pid, report->start_time, report->uid};
}

struct daemon;
/* Runs in a child process (util/aside.h): visits every process, sends its findings on `sock`, and
 * returns. `data` is the struct daemon as of the fork, and is only read. */
void scan_run(int sock, void *data);

#endif
