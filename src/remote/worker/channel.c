/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that do a guest's calls, one per channel. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "remote/worker/hand.h"
#include "remote/worker/worker.h"
#include "util/fd.h"
#include "util/log.h"
#include "wire/ring.h"

/* About 20 µs: a guest's next call often follows at once, and sleeping costs more. */
#define SPINS 500

static void futex(_Atomic uint32_t *word, int op, uint32_t value)
{
	static const struct timespec limit = {.tv_nsec = 10000000};

	(void)syscall(
		SYS_futex, word, op, value, op == FUTEX_WAIT_PRIVATE ? &limit : NULL, NULL, 0);
}

/* Whether the channel still has calls with tickets up to this one. */
static bool is_behind(const struct worker_channel *ch, uint64_t ticket)
{
	const uint8_t *area = ch->area;
	uint64_t done = ch->done;

	return area != NULL && done < ticket && done < rbt_wire_last_ticket(area);
}

/* Waits until all calls with tickets up to this one are done (wire/layout.h). A guest that lies
 * about tickets can make its own worker wait for ever; the end of the connection ends that. */
static void wait_for_order(struct worker_channel *mine, uint64_t ticket)
{
	struct worker *w = mine->worker;

	for (size_t i = 0; i < RBT_LINK_CHANNELS; i++) {
		struct worker_channel *ch = &w->channels[i];

		while (ch != mine && is_behind(ch, ticket)) {
			uint32_t seen = w->progress;

			w->n_waiting++;
			if (is_behind(ch, ticket)) {
				futex(&w->progress, FUTEX_WAIT_PRIVATE, seen);
			}
			w->n_waiting--;
		}
	}
}

static void ticket_done(struct worker_channel *ch, uint64_t ticket)
{
	ch->done = ticket;
	ch->worker->progress++;
	if (ch->worker->n_waiting != 0) {
		futex(&ch->worker->progress, FUTEX_WAKE_PRIVATE, INT_MAX);
	}
}

/* The first error of queued calls comes with the next call that waits, unless that has its own. */
static CUresult with_deferred(struct worker_channel *ch, bool queued, bool waits, CUresult r)
{
	if (queued && ch->deferred == CUDA_SUCCESS) {
		ch->deferred = r;
	} else if (!queued && waits) {
		r = r == CUDA_SUCCESS ? ch->deferred : r;
		ch->deferred = CUDA_SUCCESS;
	}
	return r;
}

static int do_call(struct worker_channel *ch, const struct rbt_wire_call *call,
	const struct worker_buffers *b, struct rbt_wire_answer *ret_answer)
{
	struct served s = {.worker = ch->worker,
		.driver = ch->worker->driver,
		.per_thread = (call->flags & RBT_WIRE_PER_THREAD) != 0,
		.reader = {.buffer = (const uint8_t *)(call + 1),
			.size = call->size - sizeof(*call)},
		.scratch = b->scratch};
	struct rbt_wire_writer w = {.buffer = (uint8_t *)(ret_answer + 1),
		.room = RBT_WIRE_MAX_CALL - sizeof(*ret_answer)};
	static const struct served_call callback = {hand_callback, false};
	const struct served_call *c = call->number < RBT_REMOTE_NUMBERS
					      ? &served_calls[call->number]
				      : call->number == RBT_WIRE_CALLBACK ? &callback
									  : NULL;
	CUresult r = CUDA_ERROR_NOT_SUPPORTED; /* a newer guest's call */

	if (c != NULL && c->fn != NULL) {
		r = c->fn(&s);
		if (!s.malformed) {
			served_answer(&s, &w);
		}
		served_finish(&s);
		if (s.malformed) {
			return -EPROTO;
		}
		r = with_deferred(ch, (call->flags & RBT_WIRE_QUEUED) != 0, c->waits, r);
	}
	size_t printed = c != NULL && c->waits ? worker_take_print(ch->worker, &w) : 0;

	if (w.bad) {
		w.size = printed = 0;
		r = CUDA_ERROR_OUT_OF_MEMORY; /* the answer is larger than an answer can be */
	}
	*ret_answer = (struct rbt_wire_answer){.size = (uint32_t)(sizeof(*ret_answer) + w.size),
		.result = (int32_t)r,
		.sequence = call->sequence,
		.printed = (uint32_t)printed};
	return 0;
}

int worker_step(
	struct worker_channel *ch, struct rbt_wire_host *host, const struct worker_buffers *b)
{
	int r = rbt_wire_host_has_call(host);

	if (r <= 0) {
		return r;
	}
	r = rbt_wire_host_take(host, b->call);
	if (r < 0) {
		return r;
	}
	bool queued = (b->call->flags & RBT_WIRE_QUEUED) != 0;

	if (queued) {
		/* Tickets of this channel grow, so that smaller ones are done. Others may wait for
		 * one that this channel never had, and must not wait for this call, which may wait
		 * for them. */
		ticket_done(ch, b->call->ticket - 1);
	}
	wait_for_order(ch, b->call->after);
	r = do_call(ch, b->call, b, b->answer);
	if (r < 0) {
		return r;
	}
	if (queued) {
		ticket_done(ch, b->call->ticket);
	} else {
		rbt_wire_host_answer(host, b->answer);
	}
	if (rbt_wire_host_done(host, b->call->size)) {
		const uint64_t one = 1;

		(void)!write(ch->guest_bell, &one, sizeof(one));
	}
	return 1;
}

/* Until there is a call, or the channel closes. */
static void sleep_for_call(struct worker_channel *ch, struct rbt_wire_host *host)
{
	struct pollfd p = {.fd = ch->worker_bell, .events = POLLIN};
	uint64_t count;

	for (int i = 0; i < SPINS; i++) {
		if (rbt_wire_host_has_call(host) != 0 || ch->closing) {
			return;
		}
		rbt_wire_pause();
	}
	rbt_wire_host_sleeps(host, true);
	while (rbt_wire_host_has_call(host) == 0 && !ch->closing) {
		if (poll(&p, 1, -1) > 0) {
			(void)!read(p.fd, &count, sizeof(count));
		}
	}
	rbt_wire_host_sleeps(host, false);
}

static int make_buffers(struct worker_buffers *b)
{
	b->call = malloc(RBT_WIRE_MAX_CALL);
	b->answer = malloc(RBT_WIRE_MAX_CALL);
	b->scratch = aligned_alloc(16, SERVED_SCRATCH);
	return b->call != NULL && b->answer != NULL && b->scratch != NULL ? 0 : -ENOMEM;
}

static void free_buffers(struct worker_buffers *b)
{
	free(b->call);
	free(b->answer);
	free(b->scratch);
}

static void *serve(void *data)
{
	struct worker_channel *ch = data;
	struct rbt_wire_host host;
	struct worker_buffers b = {0};
	int r = make_buffers(&b);

	rbt_wire_host_init(&host, ch->area);
	while (r >= 0) {
		r = worker_step(ch, &host, &b);
		if (r == 0) {
			if (ch->closing) {
				break;
			}
			sleep_for_call(ch, &host);
		}
	}
	free_buffers(&b);
	if (r < 0) {
		rbt_error("worker: thread %u of the guest: %s", ch->number,
			r == -EPROTO ? "malformed call" : strerror(-r));
		_exit(1);
	}
	return NULL;
}

int worker_channel_open(struct worker *w, const struct rbt_peer_channel *m, int *fds)
{
	struct worker_channel *ch = &w->channels[m->number];

	if (ch->area != NULL) {
		return -EBUSY;
	}
	ch->worker = w;
	ch->number = m->number;
	ch->worker_bell = fds[0];
	ch->guest_bell = fds[1];
	ch->closing = false;
	ch->done = 0;
	ch->deferred = CUDA_SUCCESS;
	ch->area = (uint8_t *)(uintptr_t)m->address;
	if (pthread_create(&ch->thread, NULL, serve, ch) != 0) {
		ch->area = NULL;
		return -EUSERS;
	}
	fds[0] = fds[1] = -1;
	return 0;
}

int worker_channel_close(struct worker *w, uint32_t number)
{
	struct worker_channel *ch = &w->channels[number];
	const uint64_t one = 1;

	if (ch->area == NULL) {
		return -EINVAL;
	}
	ch->closing = true;
	(void)!write(ch->worker_bell, &one, sizeof(one));
	pthread_join(ch->thread, NULL);
	ch->area = NULL;
	rbt_close(&ch->worker_bell);
	rbt_close(&ch->guest_bell);
	return 0;
}
