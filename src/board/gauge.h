/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For devices whose queues can be read: the agent (or, for attached programs, the hand) polls a
 * program's queues and writes the result to a slot of its own on the program's board. So the daemon
 * need not know the source. A queue with work looks like a thread that waits for the device; an
 * empty one, like a synchronisation that has returned.
 *
 * A program that does not announce its requests has one while its queues have work. The length is
 * right to within one poll; requests with less than a poll between them count as one.
 *
 * Atomic stores only: no system call, nothing that can fail.
 */
#ifndef RBT_BOARD_GAUGE_H
#define RBT_BOARD_GAUGE_H

#include <stdbool.h>
#include <stdint.h>

#include "board/layout.h"

/* The result of one poll. */
struct rbt_gauge {
	bool is_active;                /* a queue has work */
	uint64_t n_pending;            /* packets that wait or run */
	uint64_t n_launches, n_copies; /* new since the last poll */
	bool has_moved;                /* the device has taken packets since the last poll */
};

/* What the poller remembers between polls; zeroed at first, and when the polls have paused. */
struct rbt_gauge_state {
	uint64_t polled_ns;   /* the last poll; 0: there was none */
	bool was_active;      /* at that poll */
	uint64_t since_ns;    /* when it became active; 0: unknown */
	uint64_t done_for_ns; /* the board's cleared_ns that was answered last */
};

/* Returns true if the daemon sleeps until this happens, or waits for the end of it: then the caller
 * must wake the futex b->asleep. */
bool rbt_gauge_put(struct rbt_board *b, struct rbt_board_slot *slot, struct rbt_gauge_state *state,
	const struct rbt_gauge *g, uint64_t now_ns);

/* Adds one queue's pointers to the sum. Pointers beyond the ring are nonsense and count as no
 * work. */
enum rbt_gauge_kind { RBT_GAUGE_PACKETS, RBT_GAUGE_WORDS, RBT_GAUGE_COPIES };
struct rbt_gauge_queue {
	uint64_t seen, read; /* its write and read pointers at the last poll */
	bool is_known;
};
void rbt_gauge_add(struct rbt_gauge *g, struct rbt_gauge_queue *q, enum rbt_gauge_kind kind,
	uint64_t ring_bytes, uint64_t wptr, uint64_t rptr);

#endif
