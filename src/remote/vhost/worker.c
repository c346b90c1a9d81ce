/* SPDX-License-Identifier: Apache-2.0 */
/* The events thread's side of sessions: answers and doorbells of workers, and their ends. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "remote/peer.h"
#include "remote/vhost/backend.h"
#include "util/time.h"

#define END_NS UINT64_C(1000000000)

/* The type of the answer that a request waits for. */
static uint32_t peer_type(uint32_t type)
{
	switch (type) {
	case RUBATO_OPEN:
		return RBT_PEER_HELLO;
	case RUBATO_MAP:
		return RBT_PEER_MAP;
	case RUBATO_UNMAP:
		return RBT_PEER_UNMAP;
	case RUBATO_CHANNEL_OPEN:
		return RBT_PEER_CHANNEL;
	default:
		return RBT_PEER_CHANNEL_CLOSE;
	}
}

static void take_answer(struct backend *b, struct session *s, int error)
{
	const struct request r = s->pending[0];

	memmove(&s->pending[0], &s->pending[1], --s->n_pending * sizeof(s->pending[0]));
	if (error < 0 && r.type == RUBATO_CHANNEL_OPEN) {
		session_close_channel(b, s, r.number);
	}
	lane_complete(b, &r, error);
	if (error < 0 && r.type == RUBATO_OPEN) {
		session_free(b, s);
	}
}

/* One message of a worker; its end if it says anything but the next answer. */
static void read_worker(struct backend *b, struct session *s)
{
	struct rbt_peer_answer a;
	ssize_t n = recv(s->sock, &a, sizeof(a), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		return;
	}
	if (n != (ssize_t)sizeof(a) || a.header.magic != RBT_PEER_MAGIC ||
		a.header.type != RBT_PEER_ANSWER || s->n_pending == 0 ||
		a.answers != peer_type(s->pending[0].type) || a.result > 0 || a.result < -4095) {
		session_lose(b, s);
		return;
	}
	take_answer(b, s, a.result);
}

static void read_doorbell(struct backend *b, struct session *s, uint32_t number)
{
	struct channel *c = &s->channels[number];
	uint64_t count;

	if (c->to_guest >= 0 && read(c->to_guest, &count, sizeof(count)) == sizeof(count)) {
		c->is_rung = true;
		b->sessions.has_news = true;
	}
}

void worker_event(struct backend *b, uint64_t source)
{
	if (source == SOURCE_KICK) {
		lane_drain_kick(b);
		return;
	}
	struct session *s = &b->sessions.all[(source >> 16) % MAX_SESSIONS];
	const uint32_t number = (uint32_t)(source & SOURCE_SOCKET);
	pthread_mutex_lock(&b->sessions.lock);
	if (s->is_used && s->sock >= 0) {
		if (number == SOURCE_SOCKET) {
			read_worker(b, s);
		} else {
			read_doorbell(b, s, number % RBT_LINK_CHANNELS);
		}
	}
	pthread_mutex_unlock(&b->sessions.lock);
}

/* False if the guest has no buffer for more. */
static bool tell(struct backend *b, const struct session *s, uint32_t type, uint32_t number)
{
	const struct rubato_event e = {
		.type = htole32(type), .number = htole32(number), .session = htole64(s->id)};

	return lane_send_event(b, &e);
}

static bool tell_session(struct backend *b, struct session *s)
{
	if (s->must_tell_lost) {
		s->must_tell_lost = !tell(b, s, RUBATO_LOST, 0);
		return !s->must_tell_lost;
	}
	for (uint32_t c = 0; c < RBT_LINK_CHANNELS; c++) {
		if (s->channels[c].is_rung) {
			s->channels[c].is_rung = !tell(b, s, RUBATO_RUNG, c);
			if (s->channels[c].is_rung) {
				return false;
			}
		}
	}
	return true;
}

void worker_tell_guest(struct backend *b)
{
	bool is_all = true;

	pthread_mutex_lock(&b->sessions.lock);
	for (size_t i = 0; b->sessions.has_news && is_all && i < MAX_SESSIONS; i++) {
		if (b->sessions.all[i].is_used) {
			is_all = tell_session(b, &b->sessions.all[i]);
		}
	}
	b->sessions.has_news = b->sessions.has_news && !is_all;
	pthread_mutex_unlock(&b->sessions.lock);
}

/* Waits until the worker has closed its end. Answers that it still sends are for nobody. */
static void await_end(int sock, uint64_t until_ns)
{
	char ignored[64];

	for (;;) {
		uint64_t now_ns = rbt_now_ns();
		struct pollfd p = {.fd = sock, .events = POLLIN};
		int left_ms = now_ns < until_ns ? (int)((until_ns - now_ns) / 1000000) + 1 : 0;

		int n = poll(&p, 1, left_ms);
		if (left_ms == 0 || n == 0 || (n < 0 && errno != EINTR) ||
			(n > 0 && recv(sock, ignored, sizeof(ignored), MSG_DONTWAIT) == 0)) {
			return;
		}
	}
}

void worker_end_all(struct backend *b)
{
	const uint64_t until_ns = rbt_now_ns() + END_NS;

	pthread_mutex_lock(&b->sessions.lock);
	for (size_t i = 0; i < MAX_SESSIONS; i++) {
		if (b->sessions.all[i].is_used && b->sessions.all[i].sock >= 0) {
			shutdown(b->sessions.all[i].sock, SHUT_WR);
		}
	}
	for (size_t i = 0; i < MAX_SESSIONS; i++) {
		struct session *s = &b->sessions.all[i];

		if (s->is_used && s->sock >= 0) {
			await_end(s->sock, until_ns);
			session_lose(b, s);
		}
	}
	pthread_mutex_unlock(&b->sessions.lock);
}
