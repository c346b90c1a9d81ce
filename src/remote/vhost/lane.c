/* SPDX-License-Identifier: Apache-2.0 */
/* Virtqueues: one thread per queue of requests takes chains from its ring; any thread completes. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "remote/vhost/backend.h"
#include "util/fd.h"
#include "util/log.h"

/* QEMU kicks each queue once when it starts. */
#define MANY_EMPTY_KICKS (RUBATO_QUEUES + 3)
/* The queue of events has no thread: the events thread uses its buffers. */
#define EVENTS 0

static void drain(int fd)
{
	uint64_t count;
	ssize_t ignored = read(fd, &count, sizeof(count));
	(void)ignored;
}

static void signal_file(int fd)
{
	const uint64_t one = 1;

	if (fd >= 0) {
		ssize_t ignored = write(fd, &one, sizeof(one));
		(void)ignored;
	}
}

/* The queue stays as it is until the guest resets its device; the caller holds its lock. */
static void end_queue(struct lane *l, uint32_t i)
{
	l->is_live = false;
	rbt_error(
		"queue %u: the ring is malformed; the queue ends until the guest resets its device",
		i);
}

/* The caller holds the lane's lock. */
static void give_back(struct backend *b, uint32_t i, uint16_t head, uint32_t written)
{
	struct vhost_queue *q = &b->device.queues[i];

	vhost_ring_push(&q->ring, head, written);
	if (vhost_ring_must_tell(&q->ring)) {
		signal_file(q->call);
	}
}

void lane_complete(struct backend *b, const struct request *r, int error)
{
	struct lane *l = &b->lanes[r->lane];
	const struct rubato_answer answer = {.error = htole32((uint32_t)-error)};

	pthread_mutex_lock(&l->lock);
	if (l->is_live) {
		uint32_t written = 0;
		void *at = r->answer != 0
				   ? vhost_memory_at(&b->device.memory, r->answer, sizeof(answer))
				   : NULL;
		if (at != NULL) {
			memcpy(at, &answer, sizeof(answer));
			written = sizeof(answer);
		}
		give_back(b, r->lane, r->head, written);
	}
	pthread_mutex_unlock(&l->lock);
}

bool lane_send_event(struct backend *b, const struct rubato_event *e)
{
	static struct vhost_chain chain; /* used with the lock */
	struct lane *l = &b->lanes[EVENTS];
	struct vhost_queue *q = &b->device.queues[EVENTS];
	bool is_sent = false;

	pthread_mutex_lock(&l->lock);
	while (l->is_live && !is_sent) {
		int got = vhost_ring_pop(&q->ring, &b->device.memory, &chain);
		if (got == 0 && vhost_ring_sleep(&q->ring)) {
			break;
		}
		if (got < 0 || (got > 0 && chain.in_bytes < sizeof(*e))) {
			end_queue(l, EVENTS);
		} else if (got > 0) {
			vhost_chain_write(&chain, 0, e, sizeof(*e));
			give_back(b, EVENTS, chain.head, sizeof(*e));
			is_sent = true;
		}
	}
	pthread_mutex_unlock(&l->lock);
	return is_sent;
}

void lane_drain_kick(struct backend *b)
{
	drain(b->device.queues[EVENTS].kick);
}

/* A guest whose memory is a private copy kicks rings that stay empty for us. */
static void note_empty_kick(struct backend *b)
{
	if (!__atomic_load_n(&b->has_popped, __ATOMIC_RELAXED) &&
		__atomic_add_fetch(&b->n_empty_kicks, 1, __ATOMIC_RELAXED) == MANY_EMPTY_KICKS) {
		rbt_error("the guest calls, but its rings are empty here; its memory is probably "
			  "not shared: start QEMU with the options of `rubato vm-args` "
			  "(memory-backend-memfd,share=on)");
	}
}

/* Takes the next request: 1, 0 if there is none, -1 if the queue has ended. */
static int take(struct backend *b, uint32_t i, struct vhost_chain *chain)
{
	struct lane *l = &b->lanes[i];
	struct vhost_ring *ring = &b->device.queues[i].ring;
	int got = -1;

	pthread_mutex_lock(&l->lock);
	if (l->is_live) {
		do {
			got = vhost_ring_pop(ring, &b->device.memory, chain);
		} while (got == 0 && !vhost_ring_sleep(ring));
		if (got < 0) {
			end_queue(l, i);
		}
		if (got > 0) {
			__atomic_store_n(&b->has_popped, true, __ATOMIC_RELAXED);
		}
	}
	pthread_mutex_unlock(&l->lock);
	return got;
}

static void serve_chain(struct backend *b, uint32_t i, const struct vhost_chain *chain)
{
	struct rubato_request q;
	struct request r = {.lane = i, .head = chain->head};

	if (vhost_chain_read(chain, 0, &q, sizeof(q)) < sizeof(q)) {
		pthread_mutex_lock(&b->lanes[i].lock);
		end_queue(&b->lanes[i], i);
		pthread_mutex_unlock(&b->lanes[i].lock);
		return;
	}
	if (chain->n_in > 0 &&
		chain->pieces[chain->n_out].iov_len == sizeof(struct rubato_answer)) {
		r.answer = chain->guest[chain->n_out];
	}
	r.type = le32toh(q.type);
	r.number = le32toh(q.number);
	session_request(b, &q, &r, chain);
}

struct lane_arg {
	struct backend *b;
	uint32_t i;
};

static void *serve_lane(void *data)
{
	struct lane_arg arg = *(struct lane_arg *)data;
	struct lane *l = &arg.b->lanes[arg.i];
	struct vhost_chain *chain = malloc(sizeof(*chain));
	struct pollfd files[] = {{.fd = l->stop, .events = POLLIN},
		{.fd = arg.b->device.queues[arg.i].kick, .events = POLLIN}};
	int got = 0;

	free(data);
	while (chain != NULL && got >= 0) {
		unsigned n = 0;

		while ((got = take(arg.b, arg.i, chain)) > 0) {
			serve_chain(arg.b, arg.i, chain);
			n++;
		}
		if (n == 0 && (files[1].revents & POLLIN) != 0) {
			note_empty_kick(arg.b);
		}
		if (got < 0 || (poll(files, 2, -1) < 0 && errno != EINTR) ||
			files[0].revents != 0) {
			break;
		}
		if ((files[1].revents & POLLIN) != 0) {
			drain(files[1].fd);
		}
	}
	free(chain);
	return NULL;
}

static void start_thread(struct backend *b, uint32_t i)
{
	struct lane *l = &b->lanes[i];
	struct lane_arg *arg = malloc(sizeof(*arg));

	l->stop = eventfd(0, EFD_CLOEXEC);
	if (arg == NULL || l->stop < 0) {
		rbt_error("queue %u: %s", i, strerror(errno));
		free(arg);
		return;
	}
	*arg = (struct lane_arg){b, i};
	int error = pthread_create(&l->thread, NULL, serve_lane, arg);
	l->has_thread = error == 0;
	if (error != 0) {
		rbt_error("queue %u: cannot start a thread: %s", i, strerror(error));
		free(arg);
	}
}

void lane_start(struct backend *b, uint32_t i)
{
	struct lane *l = &b->lanes[i];

	if (l->is_malformed) {
		return; /* QEMU has changed something about it, but the guest has not */
	}
	pthread_mutex_lock(&l->lock);
	l->is_live = true;
	pthread_mutex_unlock(&l->lock);
	if (i != EVENTS) {
		start_thread(b, i);
		return;
	}
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = SOURCE_KICK};
	if (epoll_ctl(b->epoll, EPOLL_CTL_ADD, b->device.queues[i].kick, &ev) < 0) {
		rbt_error("queue %u: %s", i, strerror(errno));
	}
}

void lane_stop(struct backend *b, uint32_t i)
{
	struct lane *l = &b->lanes[i];

	if (i == EVENTS) {
		epoll_ctl(b->epoll, EPOLL_CTL_DEL, b->device.queues[i].kick, NULL);
	}
	if (l->has_thread) {
		signal_file(l->stop);
		pthread_join(l->thread, NULL);
		l->has_thread = false;
	}
	rbt_close(&l->stop);
	pthread_mutex_lock(&l->lock);
	l->is_live = false;
	pthread_mutex_unlock(&l->lock);
}
