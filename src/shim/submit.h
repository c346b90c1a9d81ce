/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts a program's submissions. The counters are on the program's board (board/layout.h), which
 * is private memory until there is a daemon to share it with.
 *
 * Nothing here waits or fails: if something cannot be counted, it is not counted.
 */
#ifndef RBT_SHIM_SUBMIT_H
#define RBT_SHIM_SUBMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "board/board.h"
#include "shim/clock.h"
#include "shim/own.h"

static inline struct rbt_board *shim_board_of(struct rbt_board_slot *s)
{
	/* A board is one page, aligned to a page. */
	return (struct rbt_board *)((uintptr_t)s & ~(uintptr_t)(RBT_BOARD_SIZE - 1));
}

/*
 * Counts a submission, before the driver is called: about a nanosecond. False in the rare case that
 * there is more to do: then shim_count_slow() must follow. They are two functions so that the
 * caller can usually jump to the driver without having saved its arguments for a call.
 */
static inline bool shim_count(uint32_t kind)
{
	struct rbt_board_slot *s = shim_own.slot;

	if (__builtin_expect(s == NULL, 0)) {
		return false;
	}
	/* Only this thread writes here, so the addition need not be atomic. */
	uint64_t n = atomic_load_explicit(&s->n[kind], memory_order_relaxed);
	atomic_store_explicit(&s->n[kind], n + 1, memory_order_relaxed);
	/* An acquire: a new tick may mean that the daemon has gone to sleep. */
	uint32_t tick = atomic_load_explicit(&shim_board_of(s)->tick, memory_order_acquire);
	return atomic_load_explicit(&s->tick, memory_order_relaxed) == tick;
}

void shim_count_slow(uint32_t kind);

/* Registers a function for occasional work: each thread calls it when a synchronisation returns,
 * with the time, about once a millisecond. Busy programs may make no other call that the shim
 * sees. */
void shim_sync_also(void (*fn)(uint64_t now_ns));
#define SHIM_ALSO_NS 1000000u

/* submit.c's, for the inline code below: how many synchronisations each slot's owner is in. */
extern _Atomic uint32_t shim_in_sync[RBT_BOARD_THREADS] __attribute__((visibility("hidden")));
__attribute__((cold)) void shim_sync_end_slow(uint32_t depth);
__attribute__((cold)) void shim_sync_also_now(uint64_t now_ns);
/* Wakes a daemon that sleeps in this way. */
__attribute__((cold)) void shim_wake(struct rbt_board *b, uint32_t way);

/*
 * Whether to measure the gap before the next submission. All gaps are measured until one is of the
 * shortest class, as in a loop that launches and waits. Then one in RBT_BOARD_GAP_SAMPLE is, at
 * random, so that no loop can hide a gap between samples; until a longer gap is found. (Marsaglia's
 * xorshift, which stays at 0 and never reaches it.)
 */
static inline bool shim_asks_for_gap(struct shim_own *own)
{
	uint32_t x = own->random;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	own->random = x;
	return x % RBT_BOARD_GAP_SAMPLE == 0;
}

/* To be called before and after a call that waits for the GPU. The result of begin is passed to
 * end. */
uint32_t shim_sync_begin(void);

/* Inline, so that it is in the same code that the real function returns to: a program that waits
 * for each of its launches waits for this code, too. */
static inline void shim_sync_end(uint32_t depth)
{
	struct shim_own *own = &shim_own;
	struct rbt_board_slot *s = own->slot;

	/* The depth differs in a child that was forked during the call. Tick 0: no daemon reads, or
	 * there was no submission since the last return. */
	if (__builtin_expect(s == NULL || own->sync_depth != depth + 1, 0)) {
		shim_sync_end_slow(depth);
		return;
	}
	if (__builtin_expect(atomic_load_explicit(&s->tick, memory_order_relaxed) == 0, 0)) {
		shim_sync_end_slow(depth);
		return;
	}
	uint64_t now_ns = shim_clock_now_ns();
	uint64_t n_syncs = atomic_load_explicit(&s->n_syncs, memory_order_relaxed);
	uint32_t total = (uint32_t)rbt_board_total(s);

	/* read_slot() in board.c reads these in the opposite order. */
	atomic_store_explicit(&s->last_ns, now_ns, memory_order_release);
	/* Counted once per submitted work, however often the program waits for it. */
	bool is_new = atomic_load_explicit(&s->n_synced, memory_order_relaxed) != total;
	if (__builtin_expect(is_new, 1) && __builtin_expect(shim_asks_for_gap(own), 0)) {
		atomic_store_explicit(&s->tick, 0, memory_order_relaxed);
	}
	atomic_store_explicit(&s->n_synced, total, memory_order_release);
	own->sync_depth = depth;
	struct rbt_board *b = shim_board_of(s);
	atomic_store_explicit(&shim_in_sync[s - b->slots], depth, memory_order_relaxed);
	atomic_store_explicit(&s->in_sync, depth, memory_order_release);
	/* Last: a daemon that has seen this one counted, and waits for the next, does not see it as
	 * under way. */
	atomic_store_explicit(&s->n_syncs, n_syncs + 1, memory_order_release);
	/* On the cache line that the next submission reads anyway. No barrier: see board.h. */
	uint32_t asleep = atomic_load_explicit(&b->asleep, memory_order_relaxed);
	if (__builtin_expect(asleep == RBT_BOARD_AWAITS_SYNC, 0)) {
		shim_wake(b, RBT_BOARD_AWAITS_SYNC);
	}
	if (__builtin_expect(now_ns - own->also_ns >= SHIM_ALSO_NS, 0)) {
		shim_sync_also_now(now_ns);
	}
}

/* The driver has answered "not ready yet": the program polls instead of waiting. Or a call uses the
 * GPU by itself. */
void shim_count_poll(void);

/* An announced request (rubato/rubato.h). */
void shim_request_begin(uint64_t deadline_ns);
void shim_request_end(void);

/* From now on the program counts, and the daemon gets its board. */
void shim_submit_enable(void);
bool shim_submit_enabled(void);

/* A slot for a thread of ours, which does not submit itself; NULL: there is none. */
struct rbt_board_slot *shim_board_claim(uint32_t tid);

/* Moves the board, with its counters, to memory that can be shared. Returns an fd to send, which
 * the caller closes, or -errno. Every connection gets a new one, so none has to be kept. */
int shim_board_share(void);

/* The board, which is made if there is none; NULL: there is no memory for it. */
struct rbt_board *shim_board_obtain(void);

/* The board, which may be private memory; NULL: there is none. */
struct rbt_board *shim_board_peek(void);

/* The connection has ended: no daemon reads the board any more. */
void shim_board_unshare(void);

#endif
