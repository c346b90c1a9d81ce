/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/survive/byhand.h"
#include "proto/message.h"
#include "sched/class.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/owner.h"
#include "util/proc.h"
#include "util/time.h"

/* Of newer headers. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

void peer_destroy(struct daemon *d, struct peer *peer)
{
	struct program *p = peer->program;

	d->dirty = d->dirty || peer->attached != NULL;
	crowd_forget(d, peer);
	rbt_close(&peer->pidfd);
	LIST_REMOVE(peer, link);
	porter_dismiss(d, peer);
	porter_close(d, &peer->source.fd);
	free(peer);
	if (p != NULL) {
		/* The program ended, exec'ed, or closed what it did not
		 * know: in each case it is no longer ours. */
		p->peer = NULL;
		program_release(d, p);
	}
}

/* Whether users have said how to treat it: that goes before what it was started with. */
static bool was_spoken_of(const struct daemon *d, const struct program *p)
{
	const struct said *said = byhand_find(d, p->pid, p->start_time);

	return said != NULL && said->has_wish;
}

/* What is no news makes no work: it may come as often as somebody likes. */
static void take_wishes(struct daemon *d, const struct peer *peer, const struct rbt_msg_hello *msg)
{
	struct program *p = peer->program;
	unsigned priority = may_raise(peer, msg->priority) ? msg->priority : RBT_PRIORITY_NORMAL;

	/* What takes from other users, or reaches into a driver that is not known, is a privilege;
	 * the program runs all the same. */
	bool is_trusted = may_raise(peer, RBT_PRIORITY_MAX);
	const struct said *said = byhand_find(d, p->pid, p->start_time);
	bool force = (msg->force != 0 && is_trusted) || (said != NULL && said->wish.force != 0);

	d->dirty = d->dirty || p->force != force;
	p->force = force;
	if (was_spoken_of(d, p)) {
		return;
	}
	d->dirty = d->dirty || p->priority != priority || p->timeslice_us != msg->timeslice_us ||
		   p->is_trusted != is_trusted;
	p->priority = priority;
	p->wants_priority = priority != msg->priority;
	p->is_trusted = is_trusted;
	p->timeslice_us = msg->timeslice_us;
}

/*
 * The program that a shim speaks for. It may be known already: a tool has attached it, or `rubato
 * run` has announced it. Then it stays what it is, so that a suspended one does not run for a
 * moment; but what an exec has closed goes.
 */
static int meet_program(struct daemon *d, struct peer *peer, uint64_t loaded_ns)
{
	struct program *old = program_find(d, peer->pid);
	int error = 0;

	if (old != NULL && old->peer != NULL) {
		program_release(d, old);
	} else if (old != NULL) {
		program_drop_closed(d, old);
	}
	struct program *p = program_obtain(d, peer->pid, peer->pidfd, peer->user, &error);
	if (p == NULL) {
		return error;
	}
	const struct said *said = byhand_find(d, p->pid, p->start_time);
	/* A time in the future is of another clock, as in a time namespace: it says nothing. */
	if (said != NULL && said->said_ns < loaded_ns && loaded_ns <= rbt_now_ns()) {
		struct wish plain = {.priority = RBT_PRIORITY_NORMAL, .weight = 1};
		byhand_forget(d, p);
		program_set_wish(p, &plain);
		p->suspended = false;
		p->resume_at_ns = 0;
	}
	p->awaited = false;
	p->rule[0] = '\0';
	p->peer = peer;
	p->uid = peer->uid;
	peer->program = p;
	d->dirty = true;
	return 0;
}

/* A connection is inherited by what a process becomes, also by a program with another user's
 * rights, for which nobody may speak but that user. */
static bool may_speak_for(const struct peer *peer, pid_t pid)
{
	uid_t uid;

	return peer->uid == 0 || rbt_proc_euid(pid, &uid) < 0 || uid == peer->uid;
}

static int on_hello(struct daemon *d, struct peer *peer, const void *buf, size_t size)
{
	struct rbt_msg_hello msg = {0};

	if (size != sizeof(msg) && size != offsetof(struct rbt_msg_hello, loaded_ns)) {
		return -EBADMSG;
	}
	memcpy(&msg, buf, size);
	if (msg.priority > RBT_PRIORITY_MAX || msg.timeslice_us > RBT_TIMESLICE_MAX_US) {
		return -EBADMSG;
	}
	if (peer->program == NULL && !may_speak_for(peer, peer->pid)) {
		return -EPERM;
	}
	if (peer->program == NULL) {
		int r = meet_program(d, peer, msg.loaded_ns);
		if (r < 0) {
			return r;
		}
	}
	take_wishes(d, peer, &msg);
	return 0;
}

/* A pid is another one where the program lives. */
static uint32_t client_of(const struct peer *peer, uint32_t backend, uint32_t client)
{
	const struct rbt_backend *b = rbt_backend_by_id(backend);

	return b != NULL && b->client_is_pid ? (uint32_t)peer->pid : client;
}

static int on_record(
	struct daemon *d, struct peer *peer, const void *buf, size_t size, int *fds, size_t n_fds)
{
	struct rbt_record rec;

	if (peer->program == NULL || n_fds > 1) {
		return -EBADMSG;
	}
	int r = rbt_record_decode(buf, size, &rec);
	if (r < 0) {
		return r;
	}
	rec.client = client_of(peer, rec.backend, rec.client);
	rec.fd = n_fds == 1 ? fds[0] : -1;
	fds[0] = -1;
	return program_put_record(d, peer->program, &rec, true);
}

static int on_client_gone(struct daemon *d, struct peer *peer, const void *buf, size_t size)
{
	struct rbt_msg_client msg;

	if (peer->program == NULL || size != sizeof(msg)) {
		return -EBADMSG;
	}
	memcpy(&msg, buf, sizeof(msg));
	program_drop_client(
		d, peer->program, msg.backend, client_of(peer, msg.backend, msg.client));
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
	uint32_t weight = may_raise(peer, RBT_PRIORITY_MAX) ? msg.weight : 1;
	if (was_spoken_of(d, peer->program)) {
		return 0;
	}
	d->dirty = d->dirty || peer->program->weight != weight;
	peer->program->weight = weight;
	peer->program->wants_weight = weight != msg.weight;
	return 0;
}

static int on_limits(struct daemon *d, struct peer *peer, const void *buf, size_t size)
{
	struct program *p = peer->program;
	struct rbt_msg_limits msg;

	if (p == NULL || size != sizeof(msg)) {
		return -EBADMSG;
	}
	memcpy(&msg, buf, sizeof(msg));
	if (!rbt_limits_are_right(&msg.limits)) {
		return -EBADMSG;
	}
	if (was_spoken_of(d, p)) {
		return 0;
	}
	d->dirty = d->dirty || memcmp(&p->limits, &msg.limits, sizeof(p->limits)) != 0;
	p->limits = msg.limits;
	p->is_reserve_granted = p->is_share_granted = may_raise(peer, RBT_PRIORITY_MAX);
	return 0;
}

static int on_group(struct daemon *d, struct peer *peer, const void *buf, size_t size)
{
	struct rbt_msg_group msg;

	if (peer->program == NULL || size != sizeof(msg)) {
		return -EBADMSG;
	}
	memcpy(&msg, buf, sizeof(msg));
	size_t n = strnlen(msg.name, sizeof(msg.name));
	if (n == 0 || n == sizeof(msg.name)) {
		return -EBADMSG;
	}
	for (size_t i = 0; i < n; i++) {
		if (msg.name[i] <= ' ' || msg.name[i] > '~') {
			return -EBADMSG;
		}
	}
	if (strcmp(peer->program->group_name, msg.name) != 0) {
		program_set_group(d, peer->program, false, msg.name);
	}
	return 0;
}

static int on_await(struct daemon *d, struct peer *peer)
{
	int error = 0;
	struct program *p = may_speak_for(peer, peer->pid)
				    ? program_obtain(d, peer->pid, peer->pidfd, peer->user, &error)
				    : NULL;

	if (p == NULL) {
		return error < 0 ? error : -EPERM;
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
	case RBT_MSG_LIMITS:
		return on_limits(d, peer, buf, size);
	case RBT_MSG_GROUP:
		return on_group(d, peer, buf, size);
	case RBT_MSG_BOARD:
		return on_board(d, peer, size, fds, n_fds);
	default:
		request_handle(d, peer, buf, size, fds, n_fds);
		return 0;
	}
}

void peer_take(
	struct daemon *d, struct peer *peer, ssize_t size, const void *buf, int *fds, size_t n_fds)
{
	int r = size > 0   ? dispatch(d, peer, buf, (size_t)size, fds, n_fds)
		: size < 0 ? (int)size
			   : -ECONNRESET;

	for (size_t i = 0; i < n_fds; i++) {
		rbt_close(&fds[i]);
	}
	if (r < 0) {
		/* What is too much has been said already; who has ended is nobody's business. */
		if (size != 0 && r != -EDQUOT && r != -ESRCH && user_may_be_named(peer->user)) {
			rbt_warn("process %d is cut off: %s", (int)peer->pid, strerror(-r));
		}
		peer_destroy(d, peer);
	}
}

static void on_peer(struct daemon *d, struct source *s, uint32_t events)
{
	static char buf[RBT_MSG_MAX];
	struct peer *peer = RBT_OWNER_OF(s, struct peer, source);
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;

	crowd_speaks(d, peer);
	if (rbt_head(s->fd) == RBT_HEAD_FILES) {
		int r = porter_call(d, peer);
		if (r < 0) {
			peer_take(d, peer, r, NULL, NULL, 0);
		}
		return;
	}
	ssize_t n = rbt_recv(s->fd, buf, sizeof(buf), fds, &n_fds, MSG_DONTWAIT);
	if (n != -EAGAIN) {
		peer_take(d, peer, n, buf, fds, n_fds);
	}
}

/*
 * A pidfd of who has connected, or -errno. The kernel knows, since 6.5. Before, the number may be
 * another process's by now, though hardly one of the same user's: then they may speak for it
 * anyway.
 */
static int open_pidfd(int sock, const struct ucred *cred)
{
	int fd = -1;
	socklen_t len = sizeof(fd);
	uid_t uid;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &len) == 0) {
		return fd;
	}
	if (errno != ENOPROTOOPT) {
		/* That is EINVAL for who is not there any more, which Linux 6.16 still finds. */
		return errno == EINVAL || errno == ENODATA ? -ESRCH : -errno;
	}
	if (cred->pid <= 0) {
		return -ESRCH;
	}
	fd = rbt_pidfd_open(cred->pid);
	if (fd >= 0 && (rbt_proc_uid(cred->pid, &uid) < 0 || uid != cred->uid)) {
		close(fd);
		return -ESRCH;
	}
	return fd;
}

/* 0, or -errno when it is not let in. */
static int let_in(struct daemon *d, struct peer *peer)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(peer->source.fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
		return -errno;
	}
	/* A per-user daemon serves its user, and root. */
	if (cred.uid != geteuid() && cred.uid != 0 && !d->is_system) {
		return -EPERM;
	}
	peer->pid = cred.pid;
	peer->uid = cred.uid;
	peer->is_admin = rights_is_admin(d, peer->source.fd, &cred);
	peer->user = user_obtain(d, cred.uid);
	int r = peer->user == NULL ? -ENOMEM : crowd_admit(d, peer);
	if (r < 0) {
		return r;
	}
	peer->pidfd = open_pidfd(peer->source.fd, &cred);
	r = crowd_welcome(d, peer);
	if (r < 0) {
		crowd_forget(d, peer);
	}
	return r;
}

static void on_connection(struct daemon *d, struct source *s, uint32_t events)
{
	int on = 1, fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			/* It stays in the queue and would wake us for ever: look again later. */
			crowd_unwatch(d, s);
			d->deaf = true;
		}
		return;
	}
	/* Who came may have told a program to come, too. */
	d->idle_since_ns = rbt_now_ns();
	struct peer *peer = calloc(1, sizeof(*peer));
	if (peer != NULL) {
		peer->source = (struct source){.fd = fd, .ready = on_peer};
		peer->porter.fd = -1;
		peer->pidfd = -ESRCH;
	}
	setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)); /* for rbt_head() */
	if (peer == NULL || let_in(d, peer) < 0) {
		if (peer != NULL) {
			rbt_close(&peer->pidfd);
		}
		free(peer);
		porter_close(d, &fd);
		return;
	}
	LIST_INSERT_HEAD(&d->peers, peer, link);
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
	if (bind(d->listener.fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		return -errno;
	}
	/* Everybody may ask the machine's daemon; what for, is judged by who asks. */
	if ((d->is_system && chmod(d->socket_path, 0666) < 0) || listen(d->listener.fd, 256) < 0) {
		return -errno;
	}
	return crowd_watch(d, &d->listener);
}

int server_restart(struct daemon *d)
{
	struct source old = d->listener;
	int r = server_start(d);

	if (r < 0) {
		/* What nobody listens on must not look as if we were found by it. */
		unlink(d->socket_path);
		rbt_close(&d->listener.fd);
		d->listener = old;
		return r;
	}
	crowd_unwatch(d, &old);
	porter_close(d, &old.fd); /* with whoever waits at it, and what they have sent */
	d->deaf = false;
	return 0;
}

void server_listen_again(struct daemon *d)
{
	d->deaf = d->deaf && crowd_watch(d, &d->listener) < 0;
}

bool server_close_door(struct daemon *d)
{
	struct pollfd pfd = {.fd = d->listener.fd, .events = POLLIN};
	char closed[176];

	if (!home_is_ours(d)) {
		return true; /* nobody comes in here; the door that is there is another's */
	}
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

	if (home_is_ours(d)) {
		unlink(d->socket_path);
	}
	while ((peer = LIST_FIRST(&d->peers)) != NULL) {
		peer_destroy(d, peer);
	}
	crowd_unwatch(d, &d->listener);
	porter_close(d, &d->listener.fd);
}
