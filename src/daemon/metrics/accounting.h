/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounts of programs and GPUs are kept.
 */
#ifndef RBT_DAEMON_METRICS_ACCOUNTING_H
#define RBT_DAEMON_METRICS_ACCOUNTING_H

#include <stdbool.h>
#include <stdint.h>

#include "board/board.h"
#include "proto/protocol.h"
#include "sched/core.h"

struct daemon;
struct edge;
struct program;

/* What the programs on a GPU have had, ended programs included: sums over programs. */
struct gpu_account {
	bool had_programs, had_known;
	uint64_t used_ns; /* of programs whose idleness is known */
	uint64_t reserved_ns;
	uint64_t n_switches; /* times that a program that was kept off was let on */
};

void accounting_start(struct program *p);
/* Before the program goes, while the core still knows it. */
void accounting_end(struct daemon *d, struct program *p);
/* Before a new board takes the place of the one it has, if any. */
void accounting_begin_board(struct daemon *d, struct program *p, struct rbt_board *board);
/* After decisions for the program have been carried out. */
void accounting_applied(
	struct daemon *d, struct program *p, const struct edge *edge, uint64_t now_ns);
/* A program has become busy, and the core was told; stats are the core's from before that. */
void accounting_seen(
	struct daemon *d, struct program *p, const struct rbt_sched_stats *stats, uint64_t seen_ns);
/* The programs that were to be taken off are off. */
void accounting_cleared(struct daemon *d, uint64_t now_ns);
/* Whether programs are to be sampled now and then. */
bool accounting_needs_tick(const struct daemon *d);
void accounting_tick(struct daemon *d);
/* Each time the loop has woken: brings the accounts of programs up to date whose work a policy is
 * to hear of now (events.h). */
void accounting_follow(struct daemon *d);
/* Brings all accounts up to date. */
void accounting_refresh(struct daemon *d);
void accounting_fill(struct daemon *d, struct program *p, struct rbt_program_account *ret);
void accounting_fill_turns(struct daemon *d, struct program *p, struct rbt_program_turns *ret);
void accounting_fill_reserve(struct daemon *d, struct program *p, struct rbt_program_reserve *ret);
/* The reason why nothing is reserved for the program, to be read by people; empty if it has a
 * reserve, or would have none anyway. */
const char *accounting_reserve_note(struct daemon *d, struct program *p);

#endif
