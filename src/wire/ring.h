/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ends of an area (layout.h). Nothing here sleeps or rings: functions say when the caller
 * should. Each end keeps its own positions in private memory and reads the other's from the area,
 * where they are checked: the other side can write anything there at any time.
 */
#ifndef RBT_WIRE_RING_H
#define RBT_WIRE_RING_H

#include <stdbool.h>

#include "wire/layout.h"

/* For loops that wait for the other side. */
static inline void rbt_wire_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* The guest's end: one thread. */
struct rbt_wire_guest {
	uint8_t *area;
	uint64_t tail, sequence;
};

void rbt_wire_guest_init(struct rbt_wire_guest *g, void *area);

/* Whether a call of this size fits now. -EPROTO: the worker's position is impossible. */
int rbt_wire_guest_has_room(const struct rbt_wire_guest *g, uint32_t size);

/*
 * Puts a call (head and arguments, head->size bytes) into the ring. There must be room. Returns
 * whether the worker sleeps and must be rung.
 */
bool rbt_wire_guest_put(struct rbt_wire_guest *g, const struct rbt_wire_call *call);

/* Whether the call of this sequence is answered. */
bool rbt_wire_guest_is_answered(const struct rbt_wire_guest *g, uint64_t sequence);

/*
 * Copies the answer to the call of this sequence, which is_answered. `room` is at least
 * sizeof(*answer). -EPROTO: it is malformed or larger than `room`.
 */
int rbt_wire_guest_answer(const struct rbt_wire_guest *g, uint64_t sequence,
	struct rbt_wire_answer *answer, size_t room);

/* Says that the guest is about to sleep (true) or awake. Check the condition again after true. */
void rbt_wire_guest_sleeps(struct rbt_wire_guest *g, bool sleeps);

/* The worker's end: one thread. */
struct rbt_wire_host {
	uint8_t *area;
	uint64_t head;
};

void rbt_wire_host_init(struct rbt_wire_host *h, void *area);

/* Whether there is a call. -EPROTO: the guest's position is impossible. */
int rbt_wire_host_has_call(const struct rbt_wire_host *h);

/*
 * Copies the next call, of up to RBT_WIRE_MAX_CALL bytes, and checks its head. Its place in the
 * ring is the guest's again only after rbt_wire_host_done(). -EPROTO: it is malformed.
 */
int rbt_wire_host_take(struct rbt_wire_host *h, struct rbt_wire_call *ret_call);

/* The call that was taken is done. Returns whether the guest sleeps and must be rung. */
bool rbt_wire_host_done(struct rbt_wire_host *h, uint32_t size);

/* Writes an answer of answer->size bytes, at most RBT_WIRE_MAX_CALL. rbt_wire_host_done() follows.
 *  */
void rbt_wire_host_answer(struct rbt_wire_host *h, const struct rbt_wire_answer *answer);

void rbt_wire_host_sleeps(struct rbt_wire_host *h, bool sleeps);

/* The last ticket that the guest has put into this area. Another thread than the end's may ask. */
uint64_t rbt_wire_last_ticket(const void *area);

#endif
