/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board: one page of shared memory per program, mapped by that program and the daemon alone.
 * The program counts its submissions there; the daemon reads them. A program can lie only about
 * itself: the daemon copies the values, bounds them, and trusts them no further.
 *
 * Each thread that submits has a slot, which is one cache line, so that counting is a plain store
 * that no other core competes for. When the slots are used up, further threads share slot 0, with
 * atomic additions.
 *
 * Each cache line has one writer. Times are CLOCK_MONOTONIC in ns; 0: unknown.
 *
 * A submission reads no clock, unless the daemon has read since the last one (its tick differs),
 * or the slot's tick is 0. When a synchronisation returns, it leaves its time and the slot's count
 * at that moment. So:
 * - last_ns of a slot whose count has not changed since is exact: its last synchronisation returned
 *   at that time.
 * - last_ns of another slot is a time at which it was active. If its counters have changed since a
 *   reading, it was active after that reading, too.
 * src/board/board.c turns both into "last active".
 *
 * A synchronisation sets the slot's tick to 0 to learn the time of the next submission, and so the
 * gap between the two. In a loop that launches and waits, doing so each time would be the greater
 * part of the shim's cost. So there it is done for one synchronisation in RBT_BOARD_GAP_SAMPLE, at
 * random, which then counts for as many.
 *
 * There are four layouts, which agree in all that they share. `features` tells them apart, and not
 * the version, because a daemon takes no board of another version, and programs keep the library
 * that they were started with.
 *   1  all slots are slots, and lengths of requests are counted in request_times.
 *   2  HAS_LENGTHS: the last slots make room for the lengths of requests.
 *   3  HAS_GATE: the program asks about new tasks, and the daemon answers (gate.h).
 *   4  HAS_PARK: the program reads `parking` (park.h). COUNTS_CALLS: it counts its driver calls.
 */
#ifndef RBT_BOARD_LAYOUT_H
#define RBT_BOARD_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "util/hist.h"

#define RBT_BOARD_MAGIC   0x64726f42u /* "Bord" */
#define RBT_BOARD_VERSION 2u
#define RBT_BOARD_SIZE    4096u
#define RBT_BOARD_SLOTS   56u /* slot 0 is shared by threads without a slot of their own */
#define RBT_BOARD_THREADS 43u /* slots in use, if there is room for the lengths of requests */
#define RBT_BOARD_GAPS    16u
#define RBT_BOARD_TIMES   32u
#define RBT_BOARD_GATES   4u /* tasks that can be asked about at a time */

/* Bits of `features`. */
enum {
	RBT_BOARD_HAS_LENGTHS = 1,
	RBT_BOARD_HAS_GATE = 2,
	RBT_BOARD_HAS_PARK = 4,
	RBT_BOARD_COUNTS_CALLS = 8,
};

/* Bits of `parking`. MOVES: the driver takes the program's memory away or brings it back. WAKES:
 * each call of the program wakes the daemon. */
enum { RBT_BOARD_MOVES = 1, RBT_BOARD_WAKES = 2 };

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
	_Atomic uint32_t in_sync;  /* synchronisations under way */
	_Atomic uint32_t tick;     /* the daemon's, at the last submission with a time; or 0 */
	_Atomic uint32_t n_polls;  /* queries that were answered "not ready yet" */
	_Atomic uint32_t n_synced; /* rbt_board_total() when a synchronisation last returned */
};

/* The lengths of requests, as in struct rbt_hist. */
struct rbt_board_lengths {
	_Atomic uint32_t n[RBT_HIST_BUCKETS];
	_Atomic uint64_t max_ns;
};

/* See gate.h. */
struct rbt_board_answer {
	_Atomic uint64_t task, until_ns;
};

struct rbt_board {
	/* Written once, before the daemon maps the board. */
	uint32_t magic, version, size, n_slots;
	uint32_t features; /* RBT_BOARD_HAS_* */
	uint8_t pad0[44];

	/* Written by the daemon. */
	_Atomic uint32_t tick; /* changes with each reading; 0: no daemon reads */
	/* A futex. RBT_BOARD_ASLEEP: the daemon sleeps until the program's next submission, which
	 * sets the futex to 0 and wakes the daemon; the tick changes too, so that a submission has
	 * only one word to check. RBT_BOARD_AWAITS_END: until the last open request has ended.
	 * RBT_BOARD_AWAITS_SYNC: until a synchronisation returns, or a request begins or ends. */
	_Atomic uint32_t asleep;
	uint8_t reserved1[8]; /* older libraries read these bytes, which must stay 0 */
	/* When the program's neighbours were last taken off for it; 0: it is not asked when its
	 * next packet is done. See done_ns. */
	_Atomic uint64_t cleared_ns;
	_Atomic uint32_t parking; /* with HAS_PARK: RBT_BOARD_MOVES, RBT_BOARD_WAKES */
	uint8_t pad1[36];

	/* Written by the program, seldom. */
	_Atomic uint32_t n_used;        /* slots [0, n_used) may have been in use */
	_Atomic uint32_t requests_open; /* told by the program: begun and not ended */
	uint8_t reserved2[16];          /* older libraries write counters here */
	_Atomic uint64_t n_requests;    /* ended; told by the program, or seen in its queues */
	_Atomic uint64_t n_late;        /* of these, after their deadline */
	_Atomic uint64_t request_ns;    /* their total length */
	_Atomic uint64_t deadline_ns;   /* the earliest deadline of open requests; 0: none */
	_Atomic uint64_t n_pending;     /* packets in its queues, if those can be read */

	/* Pauses between the return of a synchronisation and the next submission: below 16 us,
	 * below 32 us, and so on; the last counts all that are longer. */
	_Atomic uint32_t gaps[RBT_BOARD_GAPS];

	/* Lengths of requests: below 1 us, below 2 us, and so on. Without HAS_LENGTHS only. */
	_Atomic uint32_t request_times[RBT_BOARD_TIMES];
	/* When a read pointer of its queues was first seen to have moved after done_for_ns, which
	 * is a value of cleared_ns. done_for_ns is written last. */
	_Atomic uint64_t done_ns, done_for_ns;
	_Atomic uint32_t announces; /* the program has told of a request */
	/* With HAS_GATE. The program expects an answer, and waits for it. */
	_Atomic uint32_t expects_gate;
	_Atomic uint64_t asks[RBT_BOARD_GATES]; /* tasks; 0: none */
	_Atomic uint64_t n_calls; /* with COUNTS_CALLS: driver calls that have begun */

	/* Written by the daemon. With HAS_GATE. */
	struct rbt_board_answer answers[RBT_BOARD_GATES];

	union {
		struct rbt_board_slot slots[RBT_BOARD_SLOTS];
		struct {
			struct rbt_board_slot in_use[RBT_BOARD_THREADS];
			struct rbt_board_lengths lengths; /* with HAS_LENGTHS */
		};
	};
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
static_assert(offsetof(struct rbt_board, cleared_ns) == 80, "board");
static_assert(offsetof(struct rbt_board, parking) == 88, "board");
static_assert(offsetof(struct rbt_board, n_used) == 128, "board");
static_assert(offsetof(struct rbt_board, n_requests) == 152, "board");
static_assert(offsetof(struct rbt_board, deadline_ns) == 176, "board");
static_assert(offsetof(struct rbt_board, gaps) == 192, "board");
static_assert(offsetof(struct rbt_board, request_times) == 256, "board");
static_assert(offsetof(struct rbt_board, done_ns) == 384, "board");
static_assert(offsetof(struct rbt_board, expects_gate) == 404, "board");
static_assert(offsetof(struct rbt_board, asks) == 408, "board");
static_assert(offsetof(struct rbt_board, n_calls) == 440, "board");
static_assert(offsetof(struct rbt_board, answers) == 448, "board");
static_assert(offsetof(struct rbt_board, slots) == 512, "board");
static_assert(offsetof(struct rbt_board, lengths) == 512 + RBT_BOARD_THREADS * 64, "board");
static_assert(
	sizeof(struct rbt_board_lengths) <= (RBT_BOARD_SLOTS - RBT_BOARD_THREADS) * 64, "board");
static_assert(sizeof(struct rbt_board) == RBT_BOARD_SIZE, "board");
static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic uint32_t) == 4, "board");

/* The sum of a slot's counters, without synchronisations. Each counter only grows: if the sum is
 * the same as before, none of them has changed. */
static inline uint64_t rbt_board_total(const struct rbt_board_slot *s)
{
	static_assert(RBT_BOARD_KINDS == 4, "all of them");

	/* Not a loop: in code that seldom runs, the branch at its end is predicted wrongly. */
	return atomic_load_explicit(&s->n[0], memory_order_relaxed) +
	       atomic_load_explicit(&s->n[1], memory_order_relaxed) +
	       atomic_load_explicit(&s->n[2], memory_order_relaxed) +
	       atomic_load_explicit(&s->n[3], memory_order_relaxed) +
	       atomic_load_explicit(&s->n_polls, memory_order_relaxed);
}

/* The index among n buckets, each twice as wide as the one before. */
static inline unsigned rbt_board_bucket(uint64_t ns, uint64_t unit_ns, unsigned n)
{
	uint64_t units = ns / unit_ns;
	unsigned bits = units == 0 ? 0 : 64u - (unsigned)__builtin_clzll(units);

	return bits < n ? bits : n - 1;
}

/* Counts a request that has taken this long. Any number of threads may do so. */
static inline void rbt_board_add_length(struct rbt_board *b, uint64_t took_ns)
{
	uint64_t max_ns = atomic_load_explicit(&b->lengths.max_ns, memory_order_relaxed);

	atomic_fetch_add_explicit(&b->request_ns, took_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&b->lengths.n[rbt_hist_bucket(took_ns)], 1, memory_order_relaxed);
	while (took_ns > max_ns &&
		!atomic_compare_exchange_weak_explicit(&b->lengths.max_ns, &max_ns, took_ns,
			memory_order_relaxed, memory_order_relaxed)) {
	}
}

#endif
