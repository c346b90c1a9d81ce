/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of a program. It consists of sums: no clock, no I/O, and nothing that can fail.
 * accounting.c feeds it from the decision core, the hand's replies and the board.
 *
 * Time used is the time on the GPU according to the core, which leaves idle time out only if it
 * follows the program's idleness. The core does that only if another program benefits. A program
 * that was never seen idle between two samples is therefore judged by the samples, as old Unix did
 * with processes: if it is idle at a sample, the whole time since the last sample counts as idle.
 */
#ifndef RBT_DAEMON_METRICS_ACCOUNT_H
#define RBT_DAEMON_METRICS_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "board/board.h"
#include "proto/protocol.h"
#include "sched/core.h"

/* Counts from a board. */
struct account_counts {
	uint64_t n_submissions, n_requests, n_late;
	uint64_t n[RBT_BOARD_KINDS], n_syncs, n_gaps;
	bool announces;          /* its requests are told by the program itself */
	struct rbt_hist request; /* max_ns: of the board's whole life */
};

struct account {
	uint64_t since_ns;
	uint64_t sampled_ns; /* used_ns includes all time until then */
	/* the core's values at that time; waited_ns: it was busy, and kept off */
	uint64_t on_ns, waited_ns, reserved_ns;
	uint64_t used_ns; /* if the program's idleness is known */
	/* since when it is kept off although it wants the GPU; 0: it is not */
	uint64_t off_ns;
	bool has_board;         /* has a board now, or had one */
	uint64_t n_preemptions; /* see struct rbt_program_account */
	uint64_t n_suspends;
	struct rbt_hist off, suspend, resume;
	/* The first submission of the present request, until its neighbours are off; 0: none, or
	 * nothing was taken off for it. And the core's counts at that time. */
	uint64_t seen_ns, n_displaced, n_let_on;
	/* When its neighbours were off, until its next packet is done; 0: not measured. */
	uint64_t cleared_ns;
	struct rbt_hist seen_to_off, off_to_done; /* see struct rbt_program_account */
	struct account_counts past;               /* of boards that were replaced */
	struct account_counts first, last; /* of this board: its first and its last reading */
	struct rbt_board_reader watch;
};

/* What a sample added, for the sums per GPU. */
struct account_step {
	uint64_t used_ns, reserved_ns;
};

void account_start(struct account *a, uint64_t now_ns);

/* Starts a new board with its first reading. The old board's last reading must have been taken. */
void account_begin_board(struct account *a, struct rbt_board *board, uint64_t now_ns);

/*
 * Updates the account and returns what was added since the last sample. stats: the core's, as of
 * now_ns. is_known: the program's idleness is known. board may be NULL.
 */
struct account_step account_sample(struct account *a, const struct rbt_sched_stats *stats,
	bool is_known, struct rbt_board *board, uint64_t now_ns);

/* The counts of all its boards. */
void account_sum(const struct account *a, struct account_counts *ret);

/* Notes a decision that was carried out: whether the program was kept off before, and whether it is
 * now. Returns true if it may run again after having been kept off. */
bool account_set_off(
	struct account *a, bool was_off, bool is_off, bool is_wanting, uint64_t now_ns);

/*
 * The way of a request to the device. account_seen(): its first submission was seen, and the core
 * lets the program run at once; stats are the core's from before it was told. account_cleared():
 * decisions were carried out by now_ns; stats are the core's of now. If that has taken programs off
 * for this one, the time counts, and is left on the board (which may be NULL) for the poller.
 * account_sample() finds its answer.
 */
void account_seen(struct account *a, const struct rbt_sched_stats *stats, uint64_t seen_ns);
void account_cleared(struct account *a, const struct rbt_sched_stats *stats,
	struct rbt_board *board, uint64_t now_ns);

/* Fills in everything except the fields that only the caller knows. */
void account_fill(
	const struct account *a, bool is_known, uint64_t now_ns, struct rbt_program_account *ret);

#endif
