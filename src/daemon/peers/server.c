/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/peers/server.h"

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
#include "daemon/peers/crowd.h"
#include "daemon/peers/older.h"
#include "daemon/peers/porter.h"
#include "daemon/peers/rights.h"
#include "daemon/peers/waiting.h"
#include "daemon/program.h"
#include "daemon/requests.h"
#include "daemon/survive/byhand.h"
#include "daemon/survive/home.h"
#include "proto/message.h"
#include "sched/class.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/owner.h"
#include "util/proc.h"
#include "util/time.h"

/* Limits of one round, which keep it short. */
#define MAX_RECEIVED 256u
#define MAX_TAKEN    8u

/* Older headers do not have it. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

void peer_destroy(struct daemon *d, struct peer *peer)
{
	struct program *p = peer->program;

	d->dirty = d->dirty || peer->attached != NULL;
	waiting_forget(d, peer);
	crowd_forget(d, peer);
	policy_forget_peer(d, peer);
	trace_forget_peer(d, peer);
	rbt_close(&peer->pidfd);
	LIST_REMOVE(peer, entries);
	porter_dismiss(d, peer);
	porter_close(d, &peer->source.fd);
	free(peer);
	if (p != NULL) {
		/* The program has ended, called exec, or closed the socket because it did not know
		 * it. In each case the shim no longer speaks for it. */
		p->peer = NULL;
		program_release(d, p);
	}
}

/* Returns what the program gets of the treatment that it asked for. Keys that its user may not set
 * are left out, and named in *ret_refused. */
static struct rbt_treatment allow(
	const struct peer *peer, const struct rbt_treatment *asked, uint32_t *ret_refused)
{
	struct rbt_treatment t = *asked;

	if (!may_raise(peer, t.priority)) {
		t.priority = RBT_PRIORITY_NORMAL;
		*ret_refused |= RBT_TREAT_BIT(PRIORITY);
	}
	/* A larger share takes GPU time from other users. */
	if (t.weight > 1 && !may_raise(peer, RBT_PRIORITY_MAX)) {
		t.weight = 1;
		*ret_refused |= RBT_TREAT_BIT(WEIGHT);
	}
	return t;
}

/* Treats the program as its shim asks. A message that changes nothing causes no work, because a
 * program may send it any number of times. */
static void take_treatment(struct daemon *d, const struct peer *peer)
{
	struct program *p = peer->program;
	const struct rbt_treatment *asked = &peer->asked;
	const struct said *said = byhand_find(d, p->pid, p->start_time);
	const uint32_t group = RBT_TREAT_BIT(GROUP), force = RBT_TREAT_BIT(FORCE);
	struct rbt_treatment t = p->treat;
	uint32_t granted = p->rights.granted;
	/* Taking from other users, and writing to an unknown driver, are privileges. */
	bool is_trusted = may_raise(peer, RBT_PRIORITY_MAX);

	/* A user's renice goes before the options with which the program was started. */
	if (said == NULL || !said->has_treat) {
		p->rights.refused = 0;
		t = allow(peer, asked, &p->rights.refused);
		granted = is_trusted ? asked->said | RBT_TREAT_BIT(PRIORITY) : 0;
	}
	if ((asked->said & group) != 0 && strcmp(p->treat.group, asked->group) != 0) {
		program_set_group(d, p, false, asked->group);
	}
	memcpy(t.group, p->treat.group, sizeof(t.group));
	t.force = (asked->force != 0 && is_trusted) || (said != NULL && said->treat.force != 0);
	t.said = (t.said & ~(group | force)) | (p->treat.said & group) | (t.force != 0 ? force : 0);
	d->dirty =
		d->dirty || granted != p->rights.granted || memcmp(&t, &p->treat, sizeof(t)) != 0;
	p->treat = t;
	run_follow(p);
	p->rights.granted = granted;
}

/*
 * Finds or creates the program of a shim. The program may be known already, because a tool attached
 * it or `rubato run` announced it. Then it keeps its state, so that a suspended program does not
 * run for a moment. Only clients that an exec has closed are dropped.
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
	/* A time in the future is from another clock, as in a time namespace, and is ignored. */
	if (said != NULL && said->said_ns < loaded_ns && loaded_ns <= rbt_now_ns()) {
		byhand_forget(d, p);
		program_set_treatment(p, &RBT_TREATMENT_INIT, 0);
		p->suspend.is_ordered = false;
		p->suspend.until_ns = 0;
		p->suspend.queues.n = 0;
	}
	p->awaited = false;
	p->rule[0] = '\0';
	p->name.as_of_ns = 0; /* `rubato run` has become another program */
	p->peer = peer;
	p->uid = peer->uid;
	peer->program = p;
	d->dirty = true;
	return 0;
}

/* A connection survives exec. The new program may have another user's rights, and then only that
 * user may speak for it. */
static bool may_speak_for(const struct peer *peer, pid_t pid)
{
	uid_t uid;

	return peer->uid == 0 || rbt_proc_euid(pid, &uid) < 0 || uid == peer->uid;
}

static int greet(struct daemon *d, struct peer *peer, uint64_t loaded_ns)
{
	if (peer->program != NULL) {
		return 0;
	}
	return may_speak_for(peer, peer->pid) ? meet_program(d, peer, loaded_ns) : -EPERM;
}

static int on_hello(struct daemon *d, struct peer *peer, const void *buf)
{
	struct rbt_msg_hello msg;

	memcpy(&msg, buf, sizeof(msg));
	return greet(d, peer, msg.loaded_ns);
}

static int on_treat(struct daemon *d, struct peer *peer, const void *buf, size_t size)
{
	const size_t head = offsetof(struct rbt_msg_treat, treat);
	struct rbt_treatment t;

	if (peer->program == NULL || size < head ||
		rbt_treatment_decode((const char *)buf + head, size - head, &t) < 0) {
		return -EBADMSG;
	}
	peer->asked = t;
	peer->asked.reset = 0;
	take_treatment(d, peer);
	return 0;
}

/* Handles HELLO, WEIGHT, LIMITS and GROUP. */
static int on_older(struct daemon *d, struct peer *peer, const void *buf, size_t size)
{
	struct rbt_treatment over;
	uint64_t loaded_ns;
	bool is_hello = false;
	int r = older_decode(buf, size, &over, &is_hello, &loaded_ns);

	r = r == 0 && is_hello ? greet(d, peer, loaded_ns) : r;
	if (r < 0 || peer->program == NULL) {
		return r < 0 ? r : -EBADMSG;
	}
	peer->is_older = peer->is_older || is_hello;
	rbt_treatment_merge(&peer->asked, &over);
	peer->asked.reset = 0;
	take_treatment(d, peer);
	return 0;
}

/* If a client is a pid, the program's own pid namespace may have another number for it. */
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
	return waiting_put(d, peer, &rec);
}

static int on_client_gone(struct daemon *d, struct peer *peer, const void *buf, size_t size)
{
	struct rbt_msg_client msg;

	if (peer->program == NULL || size != sizeof(msg)) {
		return -EBADMSG;
	}
	memcpy(&msg, buf, sizeof(msg));
	d->waiting.n_taken++;
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
	/* The board has another version, or there is no memory or file for it: the program has no
	 * board. */
	if (r == -EPROTONOSUPPORT || r == -ENOMEM || r == -EMFILE || r == -ENFILE) {
		rbt_debug("process %d goes without a board: %s", (int)peer->pid, strerror(-r));
		return 0;
	}
	return r;
}

static int on_run(struct daemon *d, struct peer *peer, const void *buf, size_t size, const int *fds,
	size_t n_fds)
{
	struct rbt_msg_run msg;

	if (peer->program == NULL || size != sizeof(msg) || n_fds > 1) {
		return -EBADMSG;
	}
	memcpy(&msg, buf, sizeof(msg));
	return run_join(d, peer->program, &msg, n_fds == 1 ? fds[0] : -1);
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
	p->awaited = p->peer == NULL && LIST_EMPTY(&p->clients);
	return 0;
}

static int on_guest(struct daemon *d, struct peer *peer, const void *buf, size_t size)
{
	struct rbt_program_guest guest;
	int r = guest_read(buf, size, &guest);

	r = r == 0 ? on_await(d, peer) : r;
	if (r == 0) {
		program_find(d, peer->pid)->guest = guest;
	}
	return r;
}

/* Returns a negative errno if the peer broke the protocol; then its connection is closed. */
static int dispatch(struct daemon *d, struct peer *peer, uint32_t type, const void *buf,
	size_t size, int *fds, size_t n_fds)
{
	int r = type == RBT_MSG_RECORD ? 0 : waiting_take(d);

	if (r < 0) {
		return r;
	}
	switch (type) {
	case RBT_MSG_HELLO:
		return size == sizeof(struct rbt_msg_hello) ? on_hello(d, peer, buf)
							    : on_older(d, peer, buf, size);
	case RBT_MSG_WEIGHT:
	case RBT_MSG_LIMITS:
	case RBT_MSG_GROUP:
		return on_older(d, peer, buf, size);
	case RBT_MSG_TREAT:
		return on_treat(d, peer, buf, size);
	case RBT_MSG_RECORD:
		return on_record(d, peer, buf, size, fds, n_fds);
	case RBT_MSG_CLIENT_GONE:
		return on_client_gone(d, peer, buf, size);
	case RBT_MSG_AWAIT:
		return on_await(d, peer);
	case RBT_MSG_GUEST:
		return on_guest(d, peer, buf, size);
	case RBT_MSG_BOARD:
		return on_board(d, peer, size, fds, n_fds);
	case RBT_MSG_RUN:
		return on_run(d, peer, buf, size, fds, n_fds);
	default:
		request_handle(d, peer, buf, size, fds, n_fds);
		return 0;
	}
}

static int read_type(const void *buf, size_t size, uint32_t *ret)
{
	struct rbt_msg_header h;

	if (size < sizeof(h)) {
		return -EBADMSG;
	}
	memcpy(&h, buf, sizeof(h));
	*ret = h.type;
	return h.magic == RBT_PROTOCOL_MAGIC ? 0 : -EPROTO;
}

/* has_ended: the peer has closed the connection. */
static void cut_off(struct daemon *d, struct peer *peer, int error, bool has_ended)
{
	/* -EDQUOT was logged where it occurred, and a program that has ended needs no message. */
	if (!has_ended && error != -EDQUOT && error != -ESRCH && user_may_be_named(peer->user)) {
		rbt_warn("process %d is cut off: %s", (int)peer->pid, strerror(-error));
	}
	peer_destroy(d, peer);
}

bool peer_take(
	struct daemon *d, struct peer *peer, ssize_t size, const void *buf, int *fds, size_t n_fds)
{
	uint32_t type = 0;
	int r = size > 0 ? read_type(buf, (size_t)size, &type) : size < 0 ? (int)size : -ECONNRESET;

	r = r == 0 ? dispatch(d, peer, type, buf, (size_t)size, fds, n_fds) : r;
	for (size_t i = 0; i < n_fds; i++) {
		rbt_close(&fds[i]);
	}
	if (r < 0) {
		cut_off(d, peer, r, size == 0);
		return false;
	}
	return (type == RBT_MSG_RECORD || type == RBT_MSG_CLIENT_GONE) &&
	       d->waiting.n_taken < MAX_TAKEN;
}

/* Takes one message without files. Returns whether another one may be taken in the same round. */
static bool take_one(struct daemon *d, struct peer *peer)
{
	static char buf[RBT_MSG_MAX];
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;

	if (rbt_head(peer->source.fd) == RBT_HEAD_FILES) {
		/* A porter would be watched in spite of the pause. */
		int r = peer->is_paused ? 0 : porter_call(d, peer);
		return r < 0 && peer_take(d, peer, r, NULL, NULL, 0);
	}
	ssize_t n = rbt_recv(peer->source.fd, buf, sizeof(buf), fds, &n_fds, MSG_DONTWAIT);
	return n != -EAGAIN && peer_take(d, peer, n, buf, fds, n_fds);
}

void peer_listen(struct daemon *d, struct peer *peer)
{
	bool more = true;

	d->waiting.n_taken = 0;
	for (unsigned i = 0; more && i < MAX_RECEIVED; i++) {
		more = peer->porter.fd >= 0 ? porter_take(d, peer) : take_one(d, peer);
	}
	/* There is none if the peer is gone. */
	int r = waiting_take(d);
	if (r < 0) {
		cut_off(d, peer, r, false);
	}
}

static void on_peer(struct daemon *d, struct source *s, uint32_t events)
{
	struct peer *peer = RBT_OWNER_OF(s, struct peer, source);

	crowd_speaks(d, peer);
	peer_listen(d, peer);
}

/*
 * Returns a pidfd of the peer, or -errno. Since Linux 6.5 the kernel has it. With older kernels,
 * the pid may belong to another process by now. If that process has the same user, this does no
 * harm, because the user may speak for it anyway.
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
		/* EINVAL is the answer for a process that has ended; Linux 6.16 still finds such a
		 * process. */
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

/* Returns 0, or -errno if the peer is refused. */
static int let_in(struct daemon *d, struct peer *peer)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(peer->source.fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
		return -errno;
	}
	/* A user's daemon serves its user and root. */
	if (cred.uid != geteuid() && cred.uid != 0 && !d->options.is_system) {
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
			/* The connection stays in the queue and would wake the loop for ever, so
			 * the socket is not watched until the next tick. */
			crowd_unwatch(d, s);
			d->server.is_deaf = true;
		}
		return;
	}
	/* The peer may also have started a program, which will connect soon. */
	d->idle_since_ns = rbt_now_ns();
	struct peer *peer = calloc(1, sizeof(*peer));
	if (peer != NULL) {
		peer->source = (struct source){.fd = fd, .ready = on_peer};
		peer->porter.fd = -1;
		peer->pidfd = -ESRCH;
		peer->asked = RBT_TREATMENT_INIT;
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
	LIST_INSERT_HEAD(&d->server.peers, peer, entries);
}

int server_start(struct daemon *d)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	if (strlen(d->home.socket_path) >= sizeof(addr.sun_path)) {
		return -ENAMETOOLONG;
	}
	strcpy(addr.sun_path, d->home.socket_path);
	d->server.listener = (struct source){
		.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
		.ready = on_connection,
	};
	if (d->server.listener.fd < 0) {
		return -errno;
	}
	/* We hold the directory's lock, so an existing socket is stale. */
	unlink(d->home.socket_path);
	if (bind(d->server.listener.fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		return -errno;
	}
	/* Anybody may connect to the system daemon. Rights are checked per request. */
	if ((d->options.is_system && chmod(d->home.socket_path, 0666) < 0) ||
		listen(d->server.listener.fd, 256) < 0) {
		return -errno;
	}
	return crowd_watch(d, &d->server.listener);
}

int server_restart(struct daemon *d)
{
	struct source old = d->server.listener;
	int r = server_start(d);

	if (r < 0) {
		/* A socket on which nobody listens must not look like a running daemon. */
		unlink(d->home.socket_path);
		rbt_close(&d->server.listener.fd);
		d->server.listener = old;
		return r;
	}
	crowd_unwatch(d, &old);
	porter_close(d, &old.fd); /* together with waiting peers and their messages */
	d->server.is_deaf = false;
	return 0;
}

void server_listen_again(struct daemon *d)
{
	d->server.is_deaf = d->server.is_deaf && crowd_watch(d, &d->server.listener) < 0;
}

bool server_close_door(struct daemon *d)
{
	struct pollfd pfd = {.fd = d->server.listener.fd, .events = POLLIN};
	char closed[176];

	if (!home_is_ours(d)) {
		/* the socket at this path, if there is one, belongs to another daemon */
		return true;
	}
	snprintf(closed, sizeof(closed), "%s.closed", d->home.socket_path);
	if (rename(d->home.socket_path, closed) < 0) {
		return true;
	}
	/* The socket is renamed, so no more peers can connect. All that ever will are in the queue
	 * now. */
	if (poll(&pfd, 1, 0) > 0 && rename(closed, d->home.socket_path) == 0) {
		return false;
	}
	unlink(closed);
	return true;
}

void server_stop(struct daemon *d)
{
	struct peer *peer;

	if (home_is_ours(d)) {
		unlink(d->home.socket_path);
	}
	while ((peer = LIST_FIRST(&d->server.peers)) != NULL) {
		peer_destroy(d, peer);
	}
	crowd_unwatch(d, &d->server.listener);
	porter_close(d, &d->server.listener.fd);
}
