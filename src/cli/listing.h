/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every program on the GPUs, from the daemons that can be reached and, for the others, from
 * outside.
 */
#ifndef RBT_CLI_LISTING_H
#define RBT_CLI_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/protocol.h"

struct listed {
	pid_t pid;
	uid_t uid;
	bool managed;  /* some daemon has it */
	bool attached; /* from outside, rather than started by `rubato run` */
	bool held_back;
	bool suspended;
	bool waiting;   /* for its turn, or for the end of a reserve */
	bool has_turns; /* `turns` is known */
	bool has_account;
	bool has_memory;
	int error; /* why its tasks could not be looked at; 0 when they were */
	unsigned priority;
	uint64_t wanted_us, suspended_left_ms, memory_bytes;
	struct rbt_program_turns turns;
	struct rbt_program_account account;
	char note[128];
	char command[512];
	size_t n_tasks;
	const struct rbt_task_state *tasks; /* borrowed for the call */
};

/* Calls fn once a program, ordered by pid within each source.
 * Stops at a non-zero return and returns it. */
int listing_each(int (*fn)(const struct listed *l, void *data), void *data);

#endif
