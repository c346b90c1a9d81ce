/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounts as Prometheus text. A snapshot is taken for a request, and written piece by piece, as
 * fast as the peer reads. However many programs there are and however slow the peer is, the
 * daemon's loop is never blocked for longer than one piece takes.
 */
#ifndef RBT_DAEMON_METRICS_METRICS_H
#define RBT_DAEMON_METRICS_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/backend.h"
#include "backend/gpus.h"
#include "proto/policy.h"
#include "proto/protocol.h"
#include "sched/class.h"
#include "util/cgroup.h"

struct daemon;

#define METRICS_CLASSES 3u

/* A program at the time of the snapshot. Names are unescaped; they are escaped when written. */
struct metrics_program {
	pid_t pid;
	unsigned priority;
	uint32_t gpus; /* a bit per GPU, by its index in the snapshot */
	bool is_suspended, is_waiting, is_parked;
	bool has_turns;
	char name[64], user[64];
	struct rbt_place place;
	struct rbt_program_guest guest;
	bool has_memory;
	uint64_t memory_bytes, limit_bytes; /* limit 0: none */
	struct rbt_program_turns turns;
	struct rbt_program_account account;
};

struct metrics_gpu {
	struct rbt_gpu gpu;
	char uuid[RBT_GPU_UUID_MAX]; /* empty: not known */
	bool is_used;                /* programs have used it, so the following fields are known */
	bool has_used;               /* the idleness of some of them is known */
	uint64_t used_ns, reserved_ns, n_switches;
	uint32_t n_programs[METRICS_CLASSES]; /* by enum rbt_class */
};

struct metrics_snapshot {
	uint32_t refs;
	uint64_t taken_ns;
	char policy[16];
	struct rbt_msg_policy bpf; /* the policy in eBPF */
	uint64_t n_overruled, n_ejections;
	uint32_t n_gpus;
	struct metrics_gpu gpus[RBT_MAX_GPUS]; /* in the order of rbt_gpus_sort() */
	size_t n_programs;
	struct metrics_program programs[];
};

/* Room for the largest piece: a histogram of one program, with the longest labels. */
#define METRICS_PIECE_MAX 32768u

/* A reader's position. Zeroed at first. */
struct metrics_cursor {
	size_t family; /* index in the table in text.c */
	size_t index;  /* of a program or a GPU */
	bool has_head; /* HELP and TYPE of the family have been written */
};

/* Writes the next piece, which consists of whole lines. Returns its length, or 0 at the end. */
size_t metrics_write(
	const struct metrics_snapshot *s, struct metrics_cursor *c, char buf[METRICS_PIECE_MAX]);

/*
 * Where metrics are served: "none", a socket's absolute path, or a TCP port of the loopback
 * interface. 0 or -EINVAL.
 */
#define METRICS_AT_MAX 108u
int metrics_check(const char *at);

/* Serves metrics at a place that metrics_check() has found to be right, and no longer where they
 * were served before. 0, or -errno when all stays as it was, which has been said. */
int metrics_configure(struct daemon *d, const char *at);
void metrics_stop(struct daemon *d);
/* Whether a connection is open whose time runs out. */
bool metrics_needs_tick(const struct daemon *d);
void metrics_tick(struct daemon *d);

#endif
