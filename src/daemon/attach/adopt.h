/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that no user has spoken for are attached by rule.
 */
#ifndef RBT_DAEMON_ATTACH_ADOPT_H
#define RBT_DAEMON_ATTACH_ADOPT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "daemon/attach/rules.h"
#include "daemon/attach/scan.h"
#include "daemon/loop.h"
#include "util/lost.h"

struct program;

#define SIGHTING_LISTS 64
/* A process that had a GPU's control node open when it was last looked at. */
struct sighting {
	pid_t pid;
	uint64_t start_time;
	uint32_t n_files; /* control nodes, when it was looked at */
	unsigned tries;   /* in vain */
	uint64_t next_ns; /* when to look again for tasks; UINT64_MAX: without a reason, not */
	bool is_stale;    /* the rules or the program have changed */
	bool is_seen;     /* in the scan that is under way */
	bool is_said;     /* the reason why it cannot be attached */
	LIST_ENTRY(sighting) entries;
};

struct adoption {
	struct rules rules;
	uint32_t scan_ms;
	bool is_exact;      /* scan_ms is as configured, whatever a scan costs */
	struct source scan; /* the socket of the process that scans */
	struct source timer;
	pid_t scan_pid;            /* 0: no scan is under way */
	struct scan_report report; /* the one whose records are awaited */
	uint32_t n_records;        /* of it, still to come */
	bool is_inspecting;        /* the scan said that it inspects report's process */
	uint64_t heard_ns;         /* when the scan last said something */
	uint64_t not_before_ns;    /* the next scan */
	struct rbt_lost lost;
	LIST_HEAD(, sighting) sightings[SIGHTING_LISTS]; /* by pid */
};

/* 0 or -errno. */
int adopt_start(struct daemon *d);
/* Takes other rules, and scans at once. Takes ownership of what is in *rules. */
void adopt_configure(struct daemon *d, struct rules *rules, uint32_t scan_ms);
void adopt_stop(struct daemon *d);
/* Before the program goes. */
void adopt_released(struct daemon *d, const struct program *p);
struct sighting *adopt_find(const struct daemon *d, pid_t pid, uint64_t start_time);
/* Whether a process that has that many control nodes open now is to be looked at again. */
bool adopt_is_due(
	const struct daemon *d, const struct sighting *k, uint32_t n_files, uint64_t now_ns);

#endif
