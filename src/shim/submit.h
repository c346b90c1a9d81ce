/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting what a program gives the GPU to do. The counters are on the program's board
 * (board/layout.h), which is private memory until a daemon is there to share it with.
 *
 * Nothing here waits, and nothing can fail: what cannot be counted is not counted.
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
	/* A board is a page, and begins where one does. */
	return (struct rbt_board *)((uintptr_t)s & ~(uintptr_t)(RBT_BOARD_SIZE - 1));
}

/*
 * A submission, before the driver is called: about a nanosecond. False in the rare case that there
 * is more to do: then shim_count_rest() must follow. In two, so that what calls both can jump to
 * the driver in the usual case, without having kept its arguments from a call.
 */
static inline bool shim_count(uint32_t kind)
{
	struct rbt_board_slot *s = shim_own.slot;

	if (__builtin_expect(s == NULL, 0)) {
		return false;
	}
	/* This thread alone writes here: no addition need be atomic. */
	uint64_t n = atomic_load_explicit(&s->n[kind], memory_order_relaxed);
	atomic_store_explicit(&s->n[kind], n + 1, memory_order_relaxed);
	/* Acquired: a new tick may stand for a daemon that has gone to sleep. */
	uint32_t tick = atomic_load_explicit(&shim_board_of(s)->tick, memory_order_acquire);
	return atomic_load_explicit(&s->tick, memory_order_relaxed) == tick;
}

void shim_count_rest(uint32_t kind);

/* Something to do every now and then, with the time: each thread's synchronisations call it when
 * they return, about once a millisecond. Programs at work may make no other call that we see. */
void shim_sync_also(void (*fn)(uint64_t now_ns));
#define SHIM_ALSO_NS 1000000u

/* submit.c's, for what follows: how many synchronisations each slot's owner is in. */
extern _Atomic uint32_t shim_in_sync[RBT_BOARD_SLOTS] __attribute__((visibility("hidden")));
__attribute__((cold)) void shim_sync_end_rest(uint32_t depth);
__attribute__((cold)) void shim_sync_also_now(uint64_t now_ns);
/* Whoever sleeps in this way. */
__attribute__((cold)) void shim_wake(struct rbt_board *b, uint32_t way);

/*
 * Whether the next submission is to tell how long the gap before it was. All are, until a gap is of
 * the shortest class, as in a loop that launches and waits; then one in RBT_BOARD_GAP_SAMPLE, at
 * random, so that no loop can hide one of its gaps between them; until a longer gap is found.
 * (Marsaglia's xorshift, which stays at 0, and never comes to it.)
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

/* Around a call that waits for the GPU. What begin answers is for end. */
uint32_t shim_sync_begin(void);

/* Inline, so that it is with the code that the real function returns to. What is between that and
 * the next launch is what a program that waits for each of its launches has to wait for. */
static inline void shim_sync_end(uint32_t depth)
{
	struct shim_own *own = &shim_own;
	struct rbt_board_slot *s = own->slot;

	/* A depth that is not ours any more: in a child that was forked in the midst of it. No
	 * tick: nobody looks, or no submission has been made since the last one returned. */
	if (__builtin_expect(s == NULL || own->sync_depth != depth + 1, 0)) {
		shim_sync_end_rest(depth);
		return;
	}
	if (__builtin_expect(atomic_load_explicit(&s->tick, memory_order_relaxed) == 0, 0)) {
		shim_sync_end_rest(depth);
		return;
	}
	uint64_t now_ns = shim_clock_now_ns();
	uint64_t n_syncs = atomic_load_explicit(&s->n_syncs, memory_order_relaxed);
	uint32_t total = (uint32_t)rbt_board_total(s);

	/* look_at_slot() in board.c reads these the other way round. */
	atomic_store_explicit(&s->last_ns, now_ns, memory_order_release);
	/* Once for what was submitted, however often that is waited for. */
	bool is_new = atomic_load_explicit(&s->n_synced, memory_order_relaxed) != total;
	if (__builtin_expect(is_new, 1) && __builtin_expect(shim_asks_for_gap(own), 0)) {
		atomic_store_explicit(&s->tick, 0, memory_order_relaxed);
	}
	atomic_store_explicit(&s->n_synced, total, memory_order_release);
	own->sync_depth = depth;
	struct rbt_board *b = shim_board_of(s);
	atomic_store_explicit(&shim_in_sync[s - b->slots], depth, memory_order_relaxed);
	atomic_store_explicit(&s->in_sync, depth, memory_order_release);
	/* Last: who has seen this one counted, and waits for the next, has not seen it go on. */
	atomic_store_explicit(&s->n_syncs, n_syncs + 1, memory_order_release);
	/* In the line that the next submission looks at anyway. No barrier: see board.h. */
	uint32_t asleep = atomic_load_explicit(&b->asleep, memory_order_relaxed);
	if (__builtin_expect(asleep == RBT_BOARD_AWAITS_SYNC, 0)) {
		shim_wake(b, RBT_BOARD_AWAITS_SYNC);
	}
	if (__builtin_expect(now_ns - own->also_ns >= SHIM_ALSO_NS, 0)) {
		shim_sync_also_now(now_ns);
	}
}

/* The driver has answered that something is not ready yet: the program polls instead of waiting. Or
 * it is about to do, or has done, something on the GPU by itself. */
void shim_count_poll(void);

/* A request, as told by the program (rubato/rubato.h). */
void shim_request_begin(uint64_t deadline_ns);
void shim_request_end(void);

/* The program counts from now on: the daemon shall have its board. */
void shim_submit_enable(void);
bool shim_submit_enabled(void);

/* A slot for a thread of ours, which does not submit itself; NULL when there is none. */
struct rbt_board_slot *shim_board_claim(uint32_t tid);

/* Puts the board, with what was counted so far, into memory that can be shared: an fd to send, the
 * caller's to close, or -errno. Every connection gets a new one, so that none has to be kept. */
int shim_board_share(void);

/* Nobody looks at the board any more. */
void shim_board_unshare(void);

#endif
