/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For devices whose queues can be read: whoever looks at a program's queues now and then writes
 * what it sees on the program's board, in a slot that is its own, so that the daemon need not know
 * where it comes from. A queue with work is a thread that waits for the device; an empty one, a
 * synchronisation that has returned.
 *
 * Atomic stores only: no system call, nothing that can fail.
 */
#ifndef RBT_BOARD_GAUGE_H
#define RBT_BOARD_GAUGE_H

#include <stdbool.h>
#include <stdint.h>

#include "board/layout.h"

/* What one look has found. */
struct rbt_gauge {
	bool is_active;                /* a queue has work */
	uint64_t n_pending;            /* packets that wait, or run */
	uint64_t n_launches, n_copies; /* new since the last look */
};

/* True when the daemon sleeps for this, or waits for its end: then b->asleep is to be woken, as a
 * futex. */
bool rbt_gauge_put(struct rbt_board *b, struct rbt_board_slot *slot, const struct rbt_gauge *g,
	uint64_t now_ns);

/* One queue's pointers into the sum. What is beyond the ring is nonsense, and counts as nothing. */
enum rbt_gauge_kind { RBT_GAUGE_PACKETS, RBT_GAUGE_WORDS, RBT_GAUGE_COPIES };
struct rbt_gauge_queue {
	uint64_t seen; /* its write pointer, at the last look */
	bool is_known;
};
void rbt_gauge_add(struct rbt_gauge *g, struct rbt_gauge_queue *q, enum rbt_gauge_kind kind,
	uint64_t ring_bytes, uint64_t wptr, uint64_t rptr);

#endif
