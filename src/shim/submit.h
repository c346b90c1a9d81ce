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

/* This thread's; NULL until it has one, and for those that share. In the library that is loaded
 * with the program, so that there is room for it: one that comes later might find none. */
extern __thread struct rbt_board_slot *shim_slot
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

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
	struct rbt_board_slot *s = shim_slot;

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

/* Around a call that waits for the GPU. What begin answers is for end. */
uint32_t shim_sync_begin(void);
void shim_sync_end(uint32_t depth);

/* Something to do every now and then, with the time: synchronisations call it when they return.
 * Programs at work may make no other call that we see. */
void shim_sync_also(void (*fn)(uint64_t now_ns));

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
