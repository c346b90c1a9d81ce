/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspecting a process can hang the inspector. Reading memory that is mapped from a file system in
 * user space waits until that file system answers, perhaps for ever, and the waiting process cannot
 * be killed. So inspections run in child processes, and this table remembers the processes whose
 * inspection hung. Such a process is not inspected again for a while, nor as long as a child still
 * hangs in it. If a user has several of them, none of that user's processes is inspected.
 */
#ifndef RBT_UTIL_LOST_H
#define RBT_UTIL_LOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The longest time that an inspection may take. */
#define RBT_INSPECT_S 5

/* The inspected process. */
struct rbt_inspected {
	pid_t pid; /* 0: no particular process */
	uint64_t start_time;
	uid_t uid;
};

#define RBT_MAX_LOST 16
/* Inspections that hung. All zeroes: none. */
struct rbt_lost {
	struct {
		pid_t child; /* the inspector, which still hangs; 0: it has ended */
		struct rbt_inspected at;
		uint64_t until_ns; /* no new inspection before this time */
	} looks[RBT_MAX_LOST];
};

/* An inspector of `at` was killed. It still hangs if child is not 0. `at` is not inspected again
 * for rest_ns. */
void rbt_lost_note(struct rbt_lost *l, pid_t child, struct rbt_inspected at, uint64_t now_ns,
	uint64_t rest_ns);
/* Whether a process must not be inspected, because of itself or of others of its user. */
bool rbt_lost_is_shunned(const struct rbt_lost *l, struct rbt_inspected who, uint64_t now_ns);
/* Reaps inspectors that have ended. Returns whether so many hang that no more may be started. */
bool rbt_lost_are_too_many(struct rbt_lost *l);

#endif
