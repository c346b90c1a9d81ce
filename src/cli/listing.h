/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every program on the GPUs: from the daemons that can be reached and, for other programs, from
 * outside.
 */
#ifndef RBT_CLI_LISTING_H
#define RBT_CLI_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/protocol.h"

struct listed {
	pid_t pid;
	uid_t uid;
	bool managed;  /* a daemon manages it */
	bool attached; /* attached, not started by `rubato run` */
	/* Its daemon is in an outer pid namespace. The pid is the daemon's, and /proc here does not
	 * have it. */
	bool is_outside;
	bool held_back;
	bool suspended;
	bool parked;    /* off the GPU with its memory, or on its way */
	bool waiting;   /* for its turn, or for the end of a reserve */
	bool has_turns; /* `turns` is known */
	bool has_account;
	bool has_memory;
	int error; /* why its tasks could not be found; 0: they were */
	unsigned priority;
	uint64_t wanted_us, suspended_left_ms, memory_bytes;
	struct rbt_program_turns turns;
	struct rbt_program_account account;
	struct rbt_program_guest guest;
	struct rbt_program_origin origin; /* empty: unknown */
	bool has_reserve;
	struct rbt_program_reserve reserve;
	bool has_treat;
	struct rbt_treatment treat; /* how it is to be treated */
	bool has_limits;
	struct rbt_program_memory memory; /* its limit */
	struct rbt_place place;           /* empty strings: unknown, or none */
	bool is_older;                    /* its shim is of version 0.1.0 */
	char note[128];
	char command[512];
	size_t n_tasks;
	const struct rbt_task_state *tasks; /* borrowed for the call */
};

/* Calls fn once per program, ordered by pid within each source. Stops at a non-zero return value
 * and returns it. */
int listing_each(int (*fn)(const struct listed *l, void *data), void *data);

/* The parts of a listing, for repeated use. fn returns as above. */

/* The programs of the daemon of `uid` behind `sock`, with the parts that `flags` (RBT_LIST_*) ask
 * for. 0, fn's result, or -errno if the daemon no longer answers. */
int listing_daemon(int sock, uid_t uid, uint32_t flags,
	int (*fn)(const struct listed *l, void *data), void *data);
/* Whether the process has a GPU's control node open, and is not one of ours. */
bool listing_uses_gpu(pid_t pid);
/* A program that no daemon knows, from outside: reads the memory of a program over which we have
 * rights. fn is not called if the process turns out to have no tasks. */
int listing_outside(pid_t pid, int (*fn)(const struct listed *l, void *data), void *data);

#endif
