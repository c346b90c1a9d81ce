/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/message.h"
#include "sched/class.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"

void peer_destroy(struct daemon *d, struct peer *peer)
{
	struct program *p = peer->program;

	d->dirty = d->dirty || peer->attached != NULL;
	LIST_REMOVE(peer, link);
	unwatch(d, &peer->source);
	free(peer);
	if (p != NULL) {
		/* The program ended, exec'ed, or closed what it did not
		 * know: in each case it is no longer ours. */
		p->peer = NULL;
		program_release(d, p);
	}
}

static int on_hello(struct daemon *d, struct peer *peer, const void *buf, size_t size)
{
	struct rbt_msg_hello msg;
	int error = 0;

	if (size != sizeof(msg)) {
		return -EBADMSG;
	}
	memcpy(&msg, buf, sizeof(msg));
	if (msg.priority > RBT_PRIORITY_MAX || msg.timeslice_us > RBT_TIMESLICE_MAX_US) {
		return -EBADMSG;
	}
	if (peer->program == NULL) {
		struct program *old = program_find(d, peer->pid);
		if (old != NULL) {
			/* The process exec'ed, or was attached before: start
			 * afresh from what it says itself. */
			program_release(d, old);
		}
		peer->program = program_obtain(d, peer->pid, &error);
		if (peer->program == NULL) {
			return error;
		}
		peer->program->peer = peer;
		peer->program->uid = peer->uid;
	}
	peer->program->priority =
		may_raise(peer, msg.priority) ? msg.priority : RBT_PRIORITY_NORMAL;
	peer->program->may_reserve = may_raise(peer, RBT_PRIORITY_MAX);
	peer->program->timeslice_us = msg.timeslice_us;
	peer->program->force = msg.force != 0;
	d->dirty = true;
	return 0;
}

static int on_record(
	struct daemon *d, struct peer *peer, const void *buf, size_t size, int *fds, size_t n_fds)
{
	struct rbt_record rec;

	if (peer->program == NULL || n_fds != 1) {
		return -EBADMSG;
	}
	int r = rbt_record_decode(buf, size, &rec);
	if (r < 0) {
		return r;
	}
	rec.fd = fds[0];
	fds[0] = -1;
	return program_put_record(d, peer->program, &rec);
}

static int on_client_gone(struct daemon *d, struct peer *peer, const void *buf, size_t size)
{
	struct rbt_msg_client msg;

	if (peer->program == NULL || size != sizeof(msg)) {
		return -EBADMSG;
	}
	memcpy(&msg, buf, sizeof(msg));
	program_drop_client(d, peer->program, msg.backend, msg.client);
	return 0;
}

static int on_board(struct daemon *d, struct peer *peer, size_t size, const int *fds, size_t n_fds)
{
	if (peer->program == NULL || size != sizeof(struct rbt_msg_header) || n_fds != 1) {
		return -EBADMSG;
	}
	int r = program_put_board(d, peer->program, fds[0]);
	/* A board of another version, or no memory for one: the program goes without. */
	if (r == -EPROTONOSUPPORT || r == -ENOMEM || r == -EMFILE || r == -ENFILE) {
		rbt_debug("process %d goes without a board: %s", (int)peer->pid, strerror(-r));
		return 0;
	}
	return r;
}

static int on_weight(struct daemon *d, struct peer *peer, const void *buf, size_t size)
{
	struct rbt_msg_weight msg;

	if (peer->program == NULL || size != sizeof(msg)) {
		return -EBADMSG;
	}
	memcpy(&msg, buf, sizeof(msg));
	if (msg.weight < 1 || msg.weight > RBT_WEIGHT_MAX) {
		return -EBADMSG;
	}
	/* A share taken from other users is a privilege; the program runs all the same. */
	peer->program->weight = may_raise(peer, RBT_PRIORITY_MAX) ? msg.weight : 1;
	d->dirty = true;
	return 0;
}

static int on_await(struct daemon *d, struct peer *peer)
{
	int error = 0;
	struct program *p = program_obtain(d, peer->pid, &error);

	if (p == NULL) {
		return error;
	}
	p->awaited = p->peer == NULL && LIST_EMPTY(&p->holds);
	return 0;
}

/* Negative: the peer does not speak our language and is cut off. */
static int dispatch(
	struct daemon *d, struct peer *peer, const void *buf, size_t size, int *fds, size_t n_fds)
{
	struct rbt_msg_header h;

	if (size < sizeof(h)) {
		return -EBADMSG;
	}
	memcpy(&h, buf, sizeof(h));
	if (h.magic != RBT_PROTOCOL_MAGIC) {
		return -EPROTO;
	}
	switch (h.type) {
	case RBT_MSG_HELLO:
		return on_hello(d, peer, buf, size);
	case RBT_MSG_RECORD:
		return on_record(d, peer, buf, size, fds, n_fds);
	case RBT_MSG_CLIENT_GONE:
		return on_client_gone(d, peer, buf, size);
	case RBT_MSG_AWAIT:
		return on_await(d, peer);
	case RBT_MSG_WEIGHT:
		return on_weight(d, peer, buf, size);
	case RBT_MSG_BOARD:
		return on_board(d, peer, size, fds, n_fds);
	default:
		request_handle(d, peer, buf, size, fds, n_fds);
		return 0;
	}
}

static void on_peer(struct daemon *d, struct source *s, uint32_t events)
{
	static char buf[RBT_MSG_MAX];
	struct peer *peer = (struct peer *)s; /* its first member */
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;

	ssize_t n = rbt_recv(s->fd, buf, sizeof(buf), fds, &n_fds, MSG_DONTWAIT);
	if (n == -EAGAIN) {
		return;
	}
	int r = n > 0 ? dispatch(d, peer, buf, (size_t)n, fds, n_fds) : -ECONNRESET;
	for (size_t i = 0; i < n_fds; i++) {
		rbt_close(&fds[i]);
	}
	if (r < 0) {
		if (n != 0) {
			rbt_warn("process %d is cut off: %s", (int)peer->pid, strerror(-r));
		}
		peer_destroy(d, peer);
	}
}

static void on_connection(struct daemon *d, struct source *s, uint32_t events)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			/* It stays in the queue and would wake us for ever: look again later. */
			d->deaf = epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL) == 0;
		}
		return;
	}
	/* Who came may have told a program to come, too. */
	d->idle_since_ns = rbt_now_ns();
	struct peer *peer = calloc(1, sizeof(*peer));
	if (peer == NULL || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
		goto refuse;
	}
	/* A per-user daemon serves its user, and root. */
	if (cred.uid != geteuid() && cred.uid != 0 && geteuid() != 0) {
		goto refuse;
	}
	peer->source = (struct source){.fd = fd, .ready = on_peer};
	peer->pid = cred.pid;
	peer->uid = cred.uid;
	if (watch(d, &peer->source) < 0) {
		goto refuse;
	}
	LIST_INSERT_HEAD(&d->peers, peer, link);
	return;

refuse:
	free(peer);
	close(fd);
}

int server_start(struct daemon *d)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	if (strlen(d->socket_path) >= sizeof(addr.sun_path)) {
		return -ENAMETOOLONG;
	}
	strcpy(addr.sun_path, d->socket_path);
	d->listener = (struct source){
		.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
		.ready = on_connection,
	};
	if (d->listener.fd < 0) {
		return -errno;
	}
	/* We hold the directory's lock: a socket that is there is left over. */
	unlink(d->socket_path);
	if (bind(d->listener.fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
		listen(d->listener.fd, 256) < 0) {
		return -errno;
	}
	return watch(d, &d->listener);
}

void server_listen_again(struct daemon *d)
{
	d->deaf = d->deaf && watch(d, &d->listener) < 0;
}

bool server_close_door(struct daemon *d)
{
	struct pollfd pfd = {.fd = d->listener.fd, .events = POLLIN};
	char closed[176];

	snprintf(closed, sizeof(closed), "%s.closed", d->socket_path);
	if (rename(d->socket_path, closed) < 0) {
		return true;
	}
	/* From here on nobody can come in, so that who is not in the queue now never will be. */
	if (poll(&pfd, 1, 0) > 0 && rename(closed, d->socket_path) == 0) {
		return false;
	}
	unlink(closed);
	return true;
}

void server_stop(struct daemon *d)
{
	struct peer *peer;

	unlink(d->socket_path);
	while ((peer = LIST_FIRST(&d->peers)) != NULL) {
		peer_destroy(d, peer);
	}
	unwatch(d, &d->listener);
}
