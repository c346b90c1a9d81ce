/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board: one page of shared memory a program, mapped by that program and the daemon alone. The
 * program counts what it gives the GPU to do; the daemon reads. A program can lie only about
 * itself: the daemon copies, bounds what it copied, and trusts none of it further.
 *
 * Each thread that submits has a slot, a cache line of its own, so that counting is a plain store
 * which no other core wants. Threads beyond those share slot 0, with atomic additions.
 *
 * Who writes what is in one line of cache each. Times are CLOCK_MONOTONIC in ns, 0 unknown.
 *
 * A submission takes no clock, unless the daemon has looked since the last one (its tick differs),
 * or the slot's tick is 0. A synchronisation that returns leaves its time, and how much the slot
 * had counted then. So:
 *   last_ns of a slot that has counted no more   is exact: when its last synchronisation returned
 *   last_ns of another                           is a time at which it was active; if its counters
 *                                                have changed since a look, it was active after
 *                                                that too
 * src/board/board.c turns both into "last active".
 *
 * The slot's tick is set to 0 by a synchronisation that wants to know when the next submission is
 * made, for the gap between the two. In a loop that launches and waits that would be each, and what
 * it takes the greater part of all that is added to it: there it is one in RBT_BOARD_GAP_SAMPLE, by
 * chance, which then counts for as many.
 */
#ifndef RBT_BOARD_LAYOUT_H
#define RBT_BOARD_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define RBT_BOARD_MAGIC   0x64726f42u /* "Bord" */
#define RBT_BOARD_VERSION 2u
#define RBT_BOARD_SIZE    4096u
#define RBT_BOARD_SLOTS   56u /* slot 0 is shared by all who have none of their own */
#define RBT_BOARD_GAPS    16u
#define RBT_BOARD_TIMES   32u

enum { RBT_BOARD_ASLEEP = 1, RBT_BOARD_AWAITS_END = 2, RBT_BOARD_AWAITS_SYNC = 3 };

enum rbt_board_kind {
	RBT_BOARD_LAUNCH,
	RBT_BOARD_GRAPH,
	RBT_BOARD_COPY,
	RBT_BOARD_MEMSET,
	RBT_BOARD_KINDS,
};

struct rbt_board_slot {
	_Atomic uint64_t n[RBT_BOARD_KINDS]; /* submissions */
	_Atomic uint64_t n_syncs;            /* synchronisations that have returned */
	_Atomic uint64_t last_ns;
	_Atomic uint32_t in_sync;  /* synchronisations that have not */
	_Atomic uint32_t tick;     /* the daemon's at the last submission that took a clock, or 0 */
	_Atomic uint32_t n_polls;  /* questions that were answered "not ready yet" */
	_Atomic uint32_t n_synced; /* rbt_board_total() when a synchronisation last returned */
};

struct rbt_board {
	/* Written once, before anybody else sees it. */
	uint32_t magic, version, size, n_slots;
	uint8_t pad0[48];

	/* The daemon's. */
	_Atomic uint32_t tick; /* changes when it looks; 0: nobody does */
	/* A futex: RBT_BOARD_ASLEEP while the daemon sleeps until the program's next submission,
	 * which sets it to 0 and wakes it. The tick changes with it, so that a submission has one
	 * thing to look at. RBT_BOARD_AWAITS_END: until the last open request has ended.
	 * RBT_BOARD_AWAITS_SYNC: until a synchronisation returns, or a request is told. */
	_Atomic uint32_t asleep;
	uint8_t reserved1[56]; /* older libraries read the first 8 bytes, which must stay 0 */

	/* The program's, seldom written. */
	_Atomic uint32_t n_used;        /* slots [0, n_used) may have been in use */
	_Atomic uint32_t requests_open; /* told by the program: begun and not ended */
	uint8_t reserved2[16];          /* older libraries write counters here */
	_Atomic uint64_t n_requests;    /* told by the program: ended */
	_Atomic uint64_t n_late;        /* of these, after their deadline */
	_Atomic uint64_t request_ns;    /* of these, all together */
	_Atomic uint64_t deadline_ns;   /* the earliest of those that are open; 0: none */
	_Atomic uint64_t n_pending;     /* packets in its queues, where those can be read */

	/* How long the program paused between the return of a synchronisation and its next
	 * submission: below 16 us, below 32 us, and so on; the last is all above. */
	_Atomic uint32_t gaps[RBT_BOARD_GAPS];

	/* How long requests took: below 1 us, 2 us, and so on. */
	_Atomic uint32_t request_times[RBT_BOARD_TIMES];
	uint8_t pad2[128];

	struct rbt_board_slot slots[RBT_BOARD_SLOTS];
};

#define RBT_BOARD_GAP_UNIT_NS  16000u
#define RBT_BOARD_GAP_SAMPLE   8u
#define RBT_BOARD_TIME_UNIT_NS 1000u

static_assert(sizeof(struct rbt_board_slot) == 64, "board");
static_assert(offsetof(struct rbt_board_slot, n_syncs) == 32, "board");
static_assert(offsetof(struct rbt_board_slot, in_sync) == 48, "board");
static_assert(offsetof(struct rbt_board_slot, tick) == 52, "board");
static_assert(offsetof(struct rbt_board_slot, n_polls) == 56, "board");
static_assert(offsetof(struct rbt_board_slot, n_synced) == 60, "board");
static_assert(offsetof(struct rbt_board, tick) == 64, "board");
static_assert(offsetof(struct rbt_board, asleep) == 68, "board");
static_assert(offsetof(struct rbt_board, n_used) == 128, "board");
static_assert(offsetof(struct rbt_board, n_requests) == 152, "board");
static_assert(offsetof(struct rbt_board, deadline_ns) == 176, "board");
static_assert(offsetof(struct rbt_board, gaps) == 192, "board");
static_assert(offsetof(struct rbt_board, request_times) == 256, "board");
static_assert(offsetof(struct rbt_board, slots) == 512, "board");
static_assert(sizeof(struct rbt_board) == RBT_BOARD_SIZE, "board");
static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic uint32_t) == 4, "board");

/* All that a slot has counted, but synchronisations. Each counter only grows: who has read that
 * they come to as much as before knows that none of them has changed. */
static inline uint64_t rbt_board_total(const struct rbt_board_slot *s)
{
	static_assert(RBT_BOARD_KINDS == 4, "all of them");

	/* Not a loop, whose end is guessed wrong where it is seldom come by. */
	return atomic_load_explicit(&s->n[0], memory_order_relaxed) +
	       atomic_load_explicit(&s->n[1], memory_order_relaxed) +
	       atomic_load_explicit(&s->n[2], memory_order_relaxed) +
	       atomic_load_explicit(&s->n[3], memory_order_relaxed) +
	       atomic_load_explicit(&s->n_polls, memory_order_relaxed);
}

/* In which of n classes, each twice as wide as the one before, a duration falls. */
static inline unsigned rbt_board_bucket(uint64_t ns, uint64_t unit_ns, unsigned n)
{
	uint64_t units = ns / unit_ns;
	unsigned bits = units == 0 ? 0 : 64u - (unsigned)__builtin_clzll(units);

	return bits < n ? bits : n - 1;
}

#endif
