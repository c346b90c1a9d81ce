/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of the gate (board/gate.h): asks the policy whether a compute task may run for
 * the first time, and writes the answer on the program's board before the program needs it. While
 * the policy refuses, it is asked again every 100 ms, which is how often libcuda tries, and the
 * answer is renewed.
 *
 * A task that is refused here cannot run. It counts as new, and as not there for the core, until
 * the gate opens. A program can ignore the gate, and its task is then left alone for as long as the
 * policy refuses it: the policy's timeout bounds that.
 *
 * If the policy does not ask (asks of struct rbt_sched_policy), nothing is written, except to
 * programs that expect an answer.
 */
#ifndef RBT_DAEMON_GATE_H
#define RBT_DAEMON_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "board/layout.h"

struct client;
struct daemon;
struct program;

struct gates {
	uint64_t next_ns; /* when to ask again; 0: there is nothing to ask */
};

/* What was answered about a task that was never scheduled. */
struct gate_answer {
	uint64_t task; /* rbt_gate_task(); 0: nothing was answered in this place */
	bool is_open;
	uint64_t asked_ns; /* when the policy was last asked */
};

/* In struct program. */
struct program_gate {
	struct gate_answer answers[RBT_BOARD_GATES];
};

/* After a record of the program was taken, or its board. */
void gate_take(struct daemon *d, struct program *p);
/* The program has another board, on which nothing is answered. */
void gate_forget_board(struct program *p);
/* Before the program is released: it may run. */
void gate_release(struct program *p);
/* Another policy is in force, or none: the loop asks it about all. */
void gate_policy_changed(struct daemon *d);

/* When gate_run() has something to do; UINT64_MAX: never. */
uint64_t gate_next(const struct daemon *d);
void gate_run(struct daemon *d);

/* Whether the task is refused its first run. */
bool gate_is_shut(const struct program *p, uint32_t client, uint32_t handle);
/* Whether any task of the program is. */
bool gate_holds_any(const struct program *p);

#endif
