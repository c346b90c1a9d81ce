/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that looks for programs that nobody has spoken for, and what it reports. It lives for
 * one look: reading a large program's memory takes 60 ms, up to a second when its handles hide, and
 * a user database may take longer; meanwhile turns go on. A process rather than a thread, for what
 * it reads is strangers' memory: should that be its end, it is not ours.
 */
#ifndef RBT_DAEMON_ATTACH_SCAN_H
#define RBT_DAEMON_ATTACH_SCAN_H

#include <stdint.h>
#include <sys/types.h>

#include "daemon/attach/rules.h"
#include "util/lost.h"
#include "util/rankgroup.h"

enum scan_verdict {
	SCAN_SEEN,    /* it is still there; nothing was due */
	SCAN_NOTHING, /* nothing is to be done: no rule, or it speaks for itself */
	SCAN_RULE,    /* a rule has matched */
	SCAN_SAID,    /* none has, but users have spoken of it to a daemon before ours */
	SCAN_LOOKS,   /* it is looked at now, and another report follows; else that was our end */
	SCAN_DONE,    /* of no program: that was all */
};

/* One packet a program; n_records messages of type ATTACH follow, each with its device fd. */
struct scan_report {
	uint32_t verdict; /* enum scan_verdict */
	int32_t pid;
	uint64_t start_time;
	uint32_t uid;
	uint32_t n_files; /* control nodes it has open */
	uint32_t rule;    /* SCAN_RULE: which, from 0 */
	int32_t error;    /* SCAN_RULE, SCAN_SAID: why its tasks were not found; 0 */
	uint32_t n_records;
	uint64_t cpu_ns; /* SCAN_DONE: what the walk has cost, without what was looked into */
	uint32_t group_is_shared;
	char group[RBT_GROUP_NAME_MAX]; /* empty: none */
};

/* Nobody is looked at for longer than RBT_LOOK_S, and nothing else takes longer than this: then it
 * is our end. */
#define SCAN_WALK_S 30

/* Whom it is of. */
static inline struct rbt_looked scan_looked(const struct scan_report *report)
{
	return (struct rbt_looked){report->pid, report->start_time, report->uid};
}

struct daemon;
/* In a process of its own (util/aside.h): looks at every process, says what it finds on `sock`, and
 * returns. `data` is the daemon's model at the fork, struct daemon; only read. */
void scan_run(int sock, void *data);

#endif
