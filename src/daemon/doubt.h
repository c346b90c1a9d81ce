/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doubt: whether a program that was let back does run. A device may overlook it, until it is
 * roused; who was once roused at work is overlooked no more. That takes as long as a suspend and a
 * resume. So it is done to each a few times when it has begun to work; then to those alone who do
 * nothing that their boards would show, for longer and longer times while that is so (what they
 * submitted may be long). Of whom nothing is known, all is doubted, now and then.
 */
#ifndef RBT_DAEMON_DOUBT_H
#define RBT_DAEMON_DOUBT_H

#include <stdbool.h>
#include <stdint.h>

#include "board/board.h"

/* Zeroed at first. */
struct doubt {
	bool has_worked;    /* when it was last on */
	unsigned n_early;   /* roused for that */
	uint64_t since_ns;  /* first let back */
	uint64_t on_ns;     /* last let back; 0: taken off since, or never let back */
	uint64_t moved_ns;  /* last let back, roused, or found to have moved */
	uint64_t still_ns;  /* on, all together, since it had */
	uint64_t after_ns;  /* and after so much of that it is roused; 0: not said yet */
	uint64_t roused_ns; /* 0: never */
	uint64_t
		look_ns; /* when to look whether it runs; 0: no more until it is off and on again */
	struct rbt_board_progress seen; /* as of moved_ns */
};

/* `now` is what its board says now; NULL: it has none. */
void doubt_taken_off(struct doubt *t, const struct rbt_board_progress *now, uint64_t now_ns);

/* What it says by now is no news. */
void doubt_new_board(struct doubt *t, const struct rbt_board_progress *now);

/* Those below return whether it is to be roused now. */
bool doubt_let_back(struct doubt *t, const struct rbt_board_progress *now, uint64_t now_ns);
/* Not before look_ns. */
bool doubt_look(struct doubt *t, const struct rbt_board_progress *now, uint64_t now_ns);

#endif
