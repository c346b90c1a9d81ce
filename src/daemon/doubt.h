/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doubt: whether a resumed program does run. A device may overlook a resumed program until it is
 * kicked, and does not overlook a program that was once kicked while it worked. Rousing costs as
 * much as a suspend and a resume. So each program is kicked a few times when it has begun to work.
 * Afterwards it is kicked only if its board shows no progress, after longer and longer times while
 * that is so, because a single submission may take long. A program without a board is kicked now
 * and then.
 */
#ifndef RBT_DAEMON_DOUBT_H
#define RBT_DAEMON_DOUBT_H

#include <stdbool.h>
#include <stdint.h>

#include "board/board.h"

/* Zeroed at first. */
struct doubt {
	bool has_worked;    /* when it last was on the GPU */
	unsigned n_early;   /* times that it was kicked for having worked */
	uint64_t since_ns;  /* first resumed */
	uint64_t on_ns;     /* last resumed; 0: suspended since, or never resumed */
	uint64_t moved_ns;  /* last resumed, kicked, or found to make progress */
	uint64_t still_ns;  /* time on the GPU without progress, in all */
	uint64_t after_ns;  /* still_ns after which it is kicked; 0: not set yet */
	uint64_t kicked_ns; /* 0: never */
	uint64_t check_ns;  /* when to check whether it runs; 0: not before its next resume */
	struct rbt_board_progress seen; /* as of moved_ns */
};

/* `now` is what its board says now; NULL: it has no board. */
void doubt_taken_off(struct doubt *t, const struct rbt_board_progress *now, uint64_t now_ns);

/* Progress up to now is no news. */
void doubt_new_board(struct doubt *t, const struct rbt_board_progress *now);

/* These return whether the program is to be kicked now. */
bool doubt_let_back(struct doubt *t, const struct rbt_board_progress *now, uint64_t now_ns);
/* Not before check_ns. */
bool doubt_check(struct doubt *t, const struct rbt_board_progress *now, uint64_t now_ns);

#endif
