/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program has had since it was known. Sums alone: no clock, no I/O, and nothing that could
 * fail. accounting.c feeds it from the decision core, the hand's answers and the board.
 *
 * Time used is what the core says the program had, as far as the core follows when it is idle. It
 * does so only where that matters to somebody. A program that was never seen to be idle between two
 * looks is therefore judged by a sample, as old Unix did with processes: idle at the moment of
 * looking, it is taken to have been idle since the last.
 */
#ifndef RBT_DAEMON_METRICS_ACCOUNT_H
#define RBT_DAEMON_METRICS_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "board/board.h"
#include "proto/protocol.h"
#include "sched/core.h"

/* What a board has counted. */
struct account_counts {
	uint64_t n_submissions, n_requests, n_late, request_ns;
	uint32_t request_times[RBT_BOARD_TIMES];
};

struct account {
	uint64_t since_ns;
	uint64_t sampled_ns;         /* used_ns is up to date for then */
	uint64_t on_ns, reserved_ns; /* as the core had them then */
	uint64_t used_ns;            /* of a program whose idleness is known */
	uint64_t off_ns;             /* since when it is off, having wanted the GPU; 0: not so */
	bool has_board;              /* or had one */
	uint64_t n_preemptions;      /* see struct rbt_program_account */
	uint64_t n_suspends;
	struct rbt_hist off, suspend, resume;
	struct account_counts past;        /* of boards that have been replaced */
	struct account_counts first, last; /* of this one: at first, and at the last look */
	struct rbt_board_watch watch;
};

/* What became of a program since the last sample, for whoever adds up GPUs. */
struct account_step {
	uint64_t used_ns, reserved_ns;
};

void account_start(struct account *a, uint64_t now_ns);

/* A new board, which is looked at for the first time; the old one's last look has been made. */
void account_begin_board(struct account *a, struct rbt_board *board, uint64_t now_ns);

/*
 * Brings it up to date. stats: the core's, as of now_ns. is_known: idleness is known. board may be
 * NULL. What has been added since the last time comes back.
 */
struct account_step account_sample(struct account *a, const struct rbt_sched_stats *stats,
	bool is_known, struct rbt_board *board, uint64_t now_ns);

/* Its decision has been carried out: whether it was off in turns or for a reserve before, and is
 * now. True when it is let on again after having been off. */
bool account_set_off(
	struct account *a, bool was_off, bool is_off, bool is_wanting, uint64_t now_ns);

/* All of it but what only the caller knows. */
void account_fill(
	const struct account *a, bool is_known, uint64_t now_ns, struct rbt_program_account *ret);

#endif
