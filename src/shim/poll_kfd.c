/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue is active while its write pointer is ahead of its read pointer. The runtime keeps both in
 * the program's memory. They are read, never written, and with a system call that returns an error
 * where a load would fault: the program may have unmapped them.
 */
#include <errno.h>
#include <stddef.h>

#include "shim/kfd.h"
#include "shim/shim.h"
#include "shim/submit.h"

bool shim_kfd_can_poll(void)
{
	static const uint64_t word = 1;
	uint64_t copy = 0;

	return shim_sys_peek(&copy, &word, sizeof(copy)) == 0 && copy == word;
}

/* Addresses to read, two words per queue. */
static size_t plan(struct shim_kfd *k)
{
	size_t n = 0;

	for (uint32_t id = 0; id < k->n_used; id++) {
		const struct shim_queue *q = &k->queues[id];
		/* The packets of a queue that is held do not make the program busy. */
		if (!q->used || q->held || q->wptr_at == 0 || q->rptr_at == 0) {
			continue;
		}
		k->poll.from[2 * n] = (struct iovec){(void *)(uintptr_t)q->wptr_at, 8};
		k->poll.from[2 * n + 1] = (struct iovec){(void *)(uintptr_t)q->rptr_at, 8};
		k->poll.queue[n++] = (uint16_t)id;
	}
	return n;
}

static enum rbt_gauge_kind gauge_kind(uint32_t type)
{
	return type == KFD_QUEUE_COMPUTE_AQL ? RBT_GAUGE_PACKETS
	       : type == KFD_QUEUE_COMPUTE   ? RBT_GAUGE_WORDS
					     : RBT_GAUGE_COPIES;
}

static void put(struct shim_kfd *k, const struct rbt_gauge *g, uint64_t now_ns)
{
	struct rbt_board *b = shim_board_of(k->slot);

	if (rbt_gauge_put(b, k->slot, &k->gauge, g, now_ns)) {
		shim_sys_futex_wake(&b->asleep);
	}
}

void shim_kfd_poll(struct shim *s, uint64_t now_ns)
{
	struct shim_kfd *k = &s->kfd;
	struct rbt_gauge g = {0};
	size_t n = plan(k);

	if (k->slot == NULL && k->can_poll) {
		k->slot = shim_board_claim(shim_sys_gettid());
	}
	if (k->slot == NULL) {
		return;
	}
	for (size_t at = 0; at < n;) {
		uint32_t ask = n - at < SHIM_PEEK_MAX / 2 ? 2 * (uint32_t)(n - at) : SHIM_PEEK_MAX;
		uint32_t words =
			shim_sys_peek_words(&k->poll.values[2 * at], &k->poll.from[2 * at], ask);
		for (size_t i = at; i < at + words / 2; i++) {
			struct shim_queue *q = &k->queues[k->poll.queue[i]];
			rbt_gauge_add(&g, &q->gauge, gauge_kind(q->type), q->own.ring_size,
				k->poll.values[2 * i], k->poll.values[2 * i + 1]);
		}
		/* A pointer that cannot be read ends the call: that queue is skipped. */
		at += words / 2 + (words < ask);
	}
	put(k, &g, now_ns);
}

void shim_kfd_stop_polling(struct shim *s, uint64_t now_ns)
{
	s->kfd.gauge = (struct rbt_gauge_state){0};
	if (s->kfd.slot != NULL) {
		put(&s->kfd, &(struct rbt_gauge){0}, now_ns);
		s->kfd.slot = NULL;
	}
}
