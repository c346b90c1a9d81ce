/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files from peers. A peer can send any file, and closing a file can take for ever: a file system
 * in user space may never answer FLUSH (which the kernel sends at every close, not only the last
 * one), a TCP socket lingers, a thousand inotify instances are slow. A process that hangs in such a
 * close cannot even be killed. So no file of a peer enters the table of the daemon or of the hand
 * before it is known to be harmless.
 *
 * The loop inspects each message without taking its files (rbt_head()). A message with files is
 * left to a porter: a child process that has this connection and no other file of ours. It receives
 * the message, passes it on with the harmless files, and closes the others. All messages of the
 * connection go through the porter until none has come for a moment; then the porter ends. If it
 * hangs, only this connection suffers, and its user, whose number of porters is limited.
 *
 * Unread messages hold files, too, and the kernel closes those with the last copy of the socket. So
 * a connection that may have unread messages is closed by a child process as well. If the daemon is
 * killed while there are such messages, it hangs, but no other process does: the kernel releases
 * everything in the daemon's table, including locks and sockets, before it closes the files inside
 * messages.
 */
#include "daemon/peers/porter.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/peers/crowd.h"
#include "daemon/peers/parcel.h"
#include "daemon/peers/server.h"
#include "util/aside.h"
#include "util/fd.h"
#include "util/fork.h"
#include "util/log.h"
#include "util/owner.h"
#include "util/time.h"

/* A porter that has sent nothing for this long hangs. */
#define HANG_NS (5 * RBT_NS_PER_S)
/* A process that was killed ends within this time, unless it hangs. */
#define DYING_NS RBT_NS_PER_S
/* Porters of one user: those that receive messages, those that stay with an agent, and those that
 * hang. From a user with MAX_LOST hanging porters no more files are taken. */
#define MAX_AT_WORK 16
#define MAX_STAYING 256
#define MAX_LOST    4
/* How long a connection waits if no porter can be started at present. */
#define WAIT_NS (20 * RBT_NS_PER_MS)
/* Child processes that close connections. If this many hang, each further one closes as many
 * connections as possible. */
#define MAX_CLOSERS 8
/* If there is no room for another connection to close, the daemon waits for children that were just
 * started. */
#define APART_US    500
#define APART_TRIES 200

/* A child process that has not been reaped. */
struct child {
	pid_t pid;
	struct user *user;  /* the porter's user; NULL: the child closes connections */
	bool stays;         /* it serves an agent */
	uint64_t killed_ns; /* when it was killed or announced its end; 0: not yet */
	LIST_ENTRY(child) entries;
};

struct tally {
	unsigned at_work, staying;
	unsigned lost; /* of those, the ones that should have ended by now */
};

static int note_child(struct daemon *d, pid_t pid, struct user *user, uint64_t killed_ns)
{
	struct child *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		kill(pid, SIGKILL);
		return -ENOMEM;
	}
	c->pid = pid;
	c->user = user;
	c->killed_ns = killed_ns;
	LIST_INSERT_HEAD(&d->porters.children, c, entries);
	return 0;
}

static struct child *find_child(const struct daemon *d, pid_t pid)
{
	struct child *c;

	LIST_FOREACH (c, &d->porters.children, entries) {
		if (c->pid == pid) {
			return c;
		}
	}
	return NULL;
}

static void reap(struct daemon *d)
{
	struct child *c, *next;

	for (c = LIST_FIRST(&d->porters.children); c != NULL; c = next) {
		next = LIST_NEXT(c, entries);
		if (waitpid(c->pid, NULL, WNOHANG) != 0) {
			LIST_REMOVE(c, entries);
			free(c);
		}
	}
}

static struct tally count(const struct daemon *d, const struct user *user)
{
	uint64_t now_ns = rbt_now_ns();
	struct tally ret = {0};
	const struct child *c;

	LIST_FOREACH (c, &d->porters.children, entries) {
		if (c->user == user) {
			ret.at_work += !c->stays;
			ret.staying += c->stays;
			ret.lost += c->killed_ns != 0 && now_ns >= c->killed_ns + DYING_NS;
		}
	}
	return ret;
}

static void end_porter(struct daemon *d, struct peer *peer, bool has_ended)
{
	struct child *c = find_child(d, peer->porter_pid);

	crowd_unwatch(d, &peer->porter);
	rbt_close(&peer->porter.fd);
	peer->porter_pid = 0;
	if (c != NULL) {
		c->stays = false;
		c->killed_ns = rbt_now_ns();
	}
	if (c != NULL && !has_ended) {
		kill(c->pid, SIGKILL);
	}
	reap(d);
}

bool porter_take(struct daemon *d, struct peer *peer)
{
	static struct parcel parcel;
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;

	ssize_t n = rbt_recv(peer->porter.fd, &parcel, sizeof(parcel), fds, &n_fds, MSG_DONTWAIT);
	if (n == -EAGAIN) {
		return false;
	}
	peer->heard_ns = rbt_now_ns();
	if (n < 0) {
		/* A message was lost, because there was no room for its files. */
		return peer_take(d, peer, n, NULL, NULL, 0);
	}
	if (n < (ssize_t)PARCEL_HEAD) {
		/* The porter has ended: the connection is watched directly again. */
		end_porter(d, peer, true);
		if (!peer->is_paused && crowd_watch(d, &peer->source) < 0) {
			peer_destroy(d, peer);
		}
		return false;
	}
	struct child *c = find_child(d, peer->porter_pid);
	if (c != NULL) {
		c->stays = parcel.stays != 0;
	}
	ssize_t size = parcel.error < 0 ? parcel.error : n - (ssize_t)PARCEL_HEAD;
	return peer_take(d, peer, size, parcel.bytes, fds, n_fds);
}

static void on_porter(struct daemon *d, struct source *s, uint32_t events)
{
	struct peer *peer = RBT_OWNER_OF(s, struct peer, porter);

	crowd_speaks(d, peer);
	peer_listen(d, peer);
}

int porter_call(struct daemon *d, struct peer *peer)
{
	int sock, keep = peer->source.fd;
	pid_t pid = -EAGAIN;

	reap(d);
	struct tally has = count(d, peer->user);
	if (has.lost >= MAX_LOST || has.staying >= MAX_STAYING) {
		return -EDQUOT;
	}
	if (has.at_work < MAX_AT_WORK) {
		pid = rbt_aside_start_with(porter_run, NULL, &keep, 1, &sock);
	}
	if (pid < 0) {
		crowd_put_off(d, peer, WAIT_NS);
		return 0;
	}
	crowd_unwatch(d, &peer->source);
	peer->porter = (struct source){.fd = sock, .ready = on_porter};
	peer->porter_pid = pid;
	peer->heard_ns = rbt_now_ns();
	int r = note_child(d, pid, peer->user, 0);
	return r < 0 ? r : crowd_watch(d, &peer->porter);
}

void porter_dismiss(struct daemon *d, struct peer *peer)
{
	if (peer->porter.fd >= 0) {
		end_porter(d, peer, false);
	}
}

/* Waits until the daemon has closed its end of `sock`. From then on, no other process has copies of
 * the files, and the exit of this one closes them. */
static void close_kept(int sock, void *data)
{
	char end;

	prctl(PR_SET_NAME, PORTER_NAME);
	ssize_t ignored = read(sock, &end, sizeof(end));
	(void)ignored;
}

static void close_doomed(struct daemon *d)
{
	bool is_full = d->porters.n_doomed == DOOMED_MAX;
	int sock;

	if (d->porters.n_doomed == 0 || (!is_full && count(d, NULL).at_work >= MAX_CLOSERS)) {
		return;
	}
	/* A child with copies of these sockets could be the last to close them, instead of the
	 * child that is started here. */
	for (unsigned tries = 0; !rbt_forks_are_apart(); tries++) {
		if (!is_full || tries == APART_TRIES) {
			return;
		}
		usleep(APART_US);
	}
	pid_t pid = rbt_aside_start_with(
		close_kept, NULL, d->porters.doomed, d->porters.n_doomed, &sock);
	if (pid < 0) {
		return;
	}
	while (d->porters.n_doomed > 0) {
		close(d->porters.doomed[--d->porters.n_doomed]);
	}
	close(sock);
	(void)note_child(d, pid, NULL, rbt_now_ns());
}

void porter_close(struct daemon *d, int *fd)
{
	if (*fd < 0) {
		return;
	}
	/* After this, no more messages can arrive. */
	shutdown(*fd, SHUT_RDWR);
	if (rbt_head(*fd) == RBT_HEAD_NONE || d->porters.n_doomed == DOOMED_MAX) {
		rbt_close(fd);
		return;
	}
	d->porters.doomed[d->porters.n_doomed++] = *fd;
	*fd = -1;
	reap(d);
	close_doomed(d);
}

static bool has_answered(const struct peer *peer)
{
	struct pollfd pfd = {.fd = peer->porter.fd, .events = POLLIN};

	return poll(&pfd, 1, 0) > 0;
}

static bool hangs(const struct daemon *d, struct peer *peer, uint64_t now_ns)
{
	const struct child *c = find_child(d, peer->porter_pid);

	/* A paused peer's porter is not read, and the daemon may have been busy with a slow driver
	 * while the porter's answer was waiting. Neither means that the porter hangs. */
	if (peer->is_paused || (c != NULL && c->stays) || has_answered(peer)) {
		peer->heard_ns = now_ns;
	}
	return now_ns >= peer->heard_ns + HANG_NS;
}

void porter_tick(struct daemon *d)
{
	uint64_t now_ns = rbt_now_ns();
	struct peer *peer, *next;

	reap(d);
	close_doomed(d);
	for (peer = LIST_FIRST(&d->server.peers); peer != NULL; peer = next) {
		next = LIST_NEXT(peer, entries);
		if (peer->porter.fd < 0 || !hangs(d, peer, now_ns)) {
			continue;
		}
		if (user_may_be_named(peer->user)) {
			rbt_warn("process %d is cut off: closing a file that it sent takes too "
				 "long",
				(int)peer->pid);
		}
		peer_destroy(d, peer);
	}
}

bool porter_needs_tick(const struct daemon *d)
{
	const struct child *c;

	LIST_FOREACH (c, &d->porters.children, entries) {
		if (!c->stays) {
			return true;
		}
	}
	return d->porters.n_doomed > 0;
}

bool porter_has_user(const struct daemon *d, const struct user *user)
{
	struct tally has = count(d, user);

	return has.at_work + has.staying > 0;
}

void porter_lose(struct daemon *d, pid_t pid)
{
	(void)note_child(d, pid, NULL, rbt_now_ns());
}

void porter_stop(struct daemon *d)
{
	struct child *c;

	close_doomed(d);
	while ((c = LIST_FIRST(&d->porters.children)) != NULL) {
		LIST_REMOVE(c, entries);
		free(c);
	}
}
