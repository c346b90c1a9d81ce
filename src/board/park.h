/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a program that counts its driver calls and a daemon that parks it while it is idle:
 *
 *   program, before each driver call       daemon
 *   n_calls + 1                            parking |= WAKES
 *   WAKES in parking? then wake            n_calls as before? then park, else give it up
 *
 * Both sides write first and read afterwards, and all four accesses are sequentially consistent.
 * So for each call, the program sees WAKES, or the daemon sees the call, or both. The program never
 * waits here: it goes on into the driver, which makes it wait while the program is parked.
 */
#ifndef RBT_BOARD_PARK_H
#define RBT_BOARD_PARK_H

#include <stdbool.h>

#include "board/layout.h"

/* The program's side, as the stand-in's entries do it (cuda/exports.S). Returns whether to wake the
 * daemon. */
static inline bool rbt_park_enter(struct rbt_board *b)
{
	atomic_fetch_add(&b->n_calls, 1);
	return (atomic_load(&b->parking) & RBT_BOARD_WAKES) != 0;
}

/* The daemon's side. Whether the program makes these calls at all. */
static inline bool rbt_park_counts(const struct rbt_board *b)
{
	return (*(const volatile uint32_t *)&b->features & RBT_BOARD_COUNTS_CALLS) != 0;
}

/* Whether the program's memory stays charged while the driver moves it. */
static inline bool rbt_park_keeps(const struct rbt_board *b)
{
	return (*(const volatile uint32_t *)&b->features & RBT_BOARD_HAS_PARK) != 0;
}

static inline uint64_t rbt_park_calls(const struct rbt_board *b)
{
	return atomic_load(&b->n_calls);
}

/* From now on each call wakes the daemon. False, and nothing is set, if there was a call since
 * n_calls was read. */
static inline bool rbt_park_begin(struct rbt_board *b, uint64_t n_calls)
{
	atomic_fetch_or(&b->parking, RBT_BOARD_WAKES);
	if (atomic_load(&b->n_calls) == n_calls) {
		return true;
	}
	atomic_fetch_and(&b->parking, ~(uint32_t)RBT_BOARD_WAKES);
	return false;
}

static inline void rbt_park_end(struct rbt_board *b)
{
	atomic_fetch_and(&b->parking, ~(uint32_t)RBT_BOARD_WAKES);
}

/* The driver begins, or has ended, to take the program's memory away and to bring it back. */
static inline void rbt_park_moves(struct rbt_board *b, bool moves)
{
	if (moves) {
		atomic_fetch_or(&b->parking, RBT_BOARD_MOVES);
	} else {
		atomic_fetch_and(&b->parking, ~(uint32_t)RBT_BOARD_MOVES);
	}
}

#endif
