/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/ring.h"

#include <errno.h>
#include <string.h>

static struct rbt_wire_area *head_of(uint8_t *area)
{
	return (struct rbt_wire_area *)(void *)area;
}

static void copy_in(uint8_t *area, uint64_t at, const void *from, size_t size)
{
	uint8_t *ring = area + RBT_WIRE_HEADER;
	size_t place = at % RBT_WIRE_REQUESTS;
	size_t first = size < RBT_WIRE_REQUESTS - place ? size : RBT_WIRE_REQUESTS - place;

	memcpy(ring + place, from, first);
	memcpy(ring, (const uint8_t *)from + first, size - first);
}

static void copy_out(const uint8_t *area, uint64_t at, void *to, size_t size)
{
	const uint8_t *ring = area + RBT_WIRE_HEADER;
	size_t place = at % RBT_WIRE_REQUESTS;
	size_t first = size < RBT_WIRE_REQUESTS - place ? size : RBT_WIRE_REQUESTS - place;

	memcpy(to, ring + place, first);
	memcpy((uint8_t *)to + first, ring, size - first);
}

/*
 * A sleeper stores its mark and then reads the state; the other side stores the state and then
 * reads the mark. The fence between store and load makes one of the two see the other.
 */
static void say_sleeps(uint32_t *mark, bool sleeps)
{
	__atomic_store_n(mark, sleeps, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static bool take_sleeps(uint32_t *mark)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(mark, __ATOMIC_RELAXED) != 0 &&
	       __atomic_exchange_n(mark, 0, __ATOMIC_RELAXED) != 0;
}

void rbt_wire_guest_init(struct rbt_wire_guest *g, void *area)
{
	*g = (struct rbt_wire_guest){.area = area};
}

int rbt_wire_guest_has_room(const struct rbt_wire_guest *g, uint32_t size)
{
	/* Acquire: the worker's reads of this place are over before we write it again. */
	uint64_t head = __atomic_load_n(&head_of(g->area)->head, __ATOMIC_ACQUIRE);

	if (head > g->tail || g->tail - head > RBT_WIRE_REQUESTS) {
		return -EPROTO;
	}
	return RBT_WIRE_REQUESTS - (g->tail - head) >= size;
}

bool rbt_wire_guest_put(struct rbt_wire_guest *g, const struct rbt_wire_call *call)
{
	struct rbt_wire_area *area = head_of(g->area);

	copy_in(g->area, g->tail, call, call->size);
	g->tail += call->size;
	if (call->flags & RBT_WIRE_QUEUED) {
		__atomic_store_n(&area->last_ticket, call->ticket, __ATOMIC_RELAXED);
	}
	/* Release: the worker sees the call, and its ticket, before the position. */
	__atomic_store_n(&area->tail, g->tail, __ATOMIC_RELEASE);
	return take_sleeps(&area->worker_sleeps);
}

bool rbt_wire_guest_is_answered(const struct rbt_wire_guest *g, uint64_t sequence)
{
	/* Acquire: the answer is read after its number. */
	return __atomic_load_n(&head_of(g->area)->answered, __ATOMIC_ACQUIRE) == sequence;
}

int rbt_wire_guest_answer(const struct rbt_wire_guest *g, uint64_t sequence,
	struct rbt_wire_answer *answer, size_t room)
{
	struct rbt_wire_answer a;

	memcpy(&a, g->area + RBT_WIRE_ANSWER_AT, sizeof(a));
	if (a.sequence != sequence || a.size < sizeof(a) || a.size > room ||
		a.size > RBT_WIRE_MAX_CALL || a.size % RBT_WIRE_ALIGN != 0) {
		return -EPROTO;
	}
	*answer = a;
	memcpy(answer + 1, g->area + RBT_WIRE_ANSWER_AT + sizeof(a), a.size - sizeof(a));
	return 0;
}

void rbt_wire_guest_sleeps(struct rbt_wire_guest *g, bool sleeps)
{
	say_sleeps(&head_of(g->area)->guest_sleeps, sleeps);
}

void rbt_wire_host_init(struct rbt_wire_host *h, void *area)
{
	*h = (struct rbt_wire_host){.area = area};
}

static int pending(const struct rbt_wire_host *h, uint64_t *ret)
{
	/* Acquire: calls are read after the position. */
	uint64_t tail = __atomic_load_n(&head_of(h->area)->tail, __ATOMIC_ACQUIRE);

	if (tail < h->head || tail - h->head > RBT_WIRE_REQUESTS) {
		return -EPROTO;
	}
	*ret = tail - h->head;
	return 0;
}

int rbt_wire_host_has_call(const struct rbt_wire_host *h)
{
	uint64_t bytes;
	int r = pending(h, &bytes);

	return r < 0 ? r : bytes > 0;
}

int rbt_wire_host_take(struct rbt_wire_host *h, struct rbt_wire_call *ret_call)
{
	struct rbt_wire_call head;
	uint64_t bytes;

	if (pending(h, &bytes) < 0 || bytes < sizeof(head)) {
		return -EPROTO;
	}
	copy_out(h->area, h->head, &head, sizeof(head));
	if (head.size < sizeof(head) || head.size > bytes || head.size > RBT_WIRE_MAX_CALL ||
		head.size % RBT_WIRE_ALIGN != 0) {
		return -EPROTO;
	}
	copy_out(h->area, h->head + sizeof(head), ret_call + 1, head.size - sizeof(head));
	*ret_call = head; /* the checked copy: the guest may have changed the other */
	return 0;
}

bool rbt_wire_host_done(struct rbt_wire_host *h, uint32_t size)
{
	struct rbt_wire_area *area = head_of(h->area);

	h->head += size;
	__atomic_store_n(&area->head, h->head, __ATOMIC_RELEASE);
	return take_sleeps(&area->guest_sleeps);
}

void rbt_wire_host_answer(struct rbt_wire_host *h, const struct rbt_wire_answer *answer)
{
	memcpy(h->area + RBT_WIRE_ANSWER_AT, answer, answer->size);
	/* Release: the guest sees the answer before its number. */
	__atomic_store_n(&head_of(h->area)->answered, answer->sequence, __ATOMIC_RELEASE);
}

void rbt_wire_host_sleeps(struct rbt_wire_host *h, bool sleeps)
{
	say_sleeps(&head_of(h->area)->worker_sleeps, sleeps);
}

uint64_t rbt_wire_last_ticket(const void *area)
{
	return __atomic_load_n(
		&((const struct rbt_wire_area *)area)->last_ticket, __ATOMIC_ACQUIRE);
}
