/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits for peers. Anybody may connect to the control socket, so no peer may take all of the
 * daemon's files, time or log.
 *
 * Files: each connection, program and client costs some. A user may have a quarter of the files,
 * and three quarters in their own daemon. The last quarter is for root. A process may have a few
 * connections.
 *
 * Time: connections are watched by an epoll set of their own, which is one source among others in
 * the loop. However many peers send at once, the loop takes one message, or the records that wait
 * on one connection, and then checks timers, boards and the hand. The time that a message takes is
 * charged to its peer and to the peer's user. A peer that used more than its share is paused for a
 * while, at the cost of nobody else.
 */
#include "daemon/peers/crowd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/loop.h"
#include "daemon/peers/owners.h"
#include "daemon/peers/porter.h"
#include "util/log.h"
#include "util/time.h"

#define MAX_FDS_PER_USER    4096u
#define MAX_PEERS_PER_PID   8u
#define MAX_SILENT_USERS    64u
#define FDS_WITHOUT_A_LIMIT 1024u

/* Shares of the daemon's time, as one part in so many, and how much a peer or user may take at once
 * after a pause. All connections of one process together stay below the share of their user. */
#define PEER_SHARE    32u
#define PEER_BURST_NS (500 * RBT_NS_PER_MS)
#define USER_SHARE    4u
#define USER_BURST_NS RBT_NS_PER_S
/* A message costs at least MIN_COST_NS. If it took longer than MAX_COST_NS, the driver was slow,
 * and the peer is not charged for that. */
#define MIN_COST_NS (20 * RBT_NS_PER_US)
#define MAX_COST_NS (5 * RBT_NS_PER_MS)
/* Log lines per user, or per kind of trouble: one per LINE_NS, and MAX_LINES at once. */
#define LINE_NS       (10 * RBT_NS_PER_S)
#define MAX_LINES     5u
#define LINE_BURST_NS ((MAX_LINES - 1) * LINE_NS)

struct user {
	uid_t uid;
	uint32_t n_fds;
	uint64_t spent_ns; /* see take() */
	uint64_t said_ns;
	bool was_refused;  /* the refusal has been logged */
	pid_t refused_pid; /* the process whose refused connections have been logged */
	LIST_ENTRY(user) entries;
};

/*
 * A rate limit. at_ns is the time at which everything taken so far would have been handed out, at
 * the pace of one part in `share`. Returns whether that is further ahead than the burst allows.
 */
static bool is_over(uint64_t at_ns, uint64_t now_ns, uint64_t share, uint64_t burst_ns)
{
	return at_ns > now_ns + burst_ns * share;
}

static void take(uint64_t *at_ns, uint64_t now_ns, uint64_t cost_ns, uint64_t share)
{
	*at_ns = (*at_ns > now_ns ? *at_ns : now_ns) + cost_ns * share;
}

bool line_is_due(uint64_t *said_ns)
{
	uint64_t now_ns = rbt_now_ns();

	if (is_over(*said_ns, now_ns, 1, LINE_BURST_NS)) {
		return false;
	}
	take(said_ns, now_ns, LINE_NS, 1);
	return true;
}

bool user_may_be_named(struct user *u)
{
	return line_is_due(&u->said_ns);
}

static uint32_t most_fds(const struct daemon *d, uid_t uid)
{
	uint32_t quarter = d->crowd.max_fds / 4;

	if (uid == 0) {
		return UINT32_MAX;
	}
	/* A user's own daemon mainly serves that user's programs. */
	if (uid == geteuid()) {
		return 3 * quarter;
	}
	return quarter < MAX_FDS_PER_USER ? quarter : MAX_FDS_PER_USER;
}

/* Forgets users who have no files and have sent nothing for a while. */
static void forget_silent(struct daemon *d)
{
	struct user *u, *next;
	uint64_t now_ns = rbt_now_ns();
	uint32_t n = 0;

	LIST_FOREACH (u, &d->crowd.users, entries) {
		n++;
	}
	for (u = LIST_FIRST(&d->crowd.users); u != NULL && n > MAX_SILENT_USERS; u = next) {
		next = LIST_NEXT(u, entries);
		if (u->n_fds == 0 && u->spent_ns <= now_ns && u->said_ns <= now_ns &&
			!porter_has_user(d, u)) {
			LIST_REMOVE(u, entries);
			free(u);
			n--;
		}
	}
}

struct user *user_obtain(struct daemon *d, uid_t uid)
{
	struct user *u;

	uid = owners_find(d, uid);
	LIST_FOREACH (u, &d->crowd.users, entries) {
		if (u->uid == uid) {
			return u;
		}
	}
	forget_silent(d);
	u = calloc(1, sizeof(*u));
	if (u != NULL) {
		u->uid = uid;
		LIST_INSERT_HEAD(&d->crowd.users, u, entries);
	}
	return u;
}

int user_charge(struct daemon *d, struct user *u, uint32_t n_fds)
{
	uint32_t most = most_fds(d, u->uid);

	if (u->n_fds + n_fds > most ||
		(u->uid != 0 && d->crowd.n_fds + n_fds > d->crowd.max_fds / 4 * 3)) {
		if (!u->was_refused && user_may_be_named(u)) {
			rbt_warn(
				"user %u has %u of %u files: more programs and connections of this "
				"user are refused",
				(unsigned)u->uid, u->n_fds, most);
		}
		u->was_refused = true;
		return -EDQUOT;
	}
	u->n_fds += n_fds;
	d->crowd.n_fds += n_fds;
	return 0;
}

void user_discharge(struct daemon *d, struct user *u, uint32_t n_fds)
{
	u->n_fds -= n_fds;
	d->crowd.n_fds -= n_fds;
	u->was_refused = u->was_refused && u->n_fds > most_fds(d, u->uid) / 2;
}

int crowd_admit(struct daemon *d, struct peer *peer)
{
	const struct peer *other;
	unsigned n = 0;

	LIST_FOREACH (other, &d->server.peers, entries) {
		n += other->pid == peer->pid;
	}
	if (n >= MAX_PEERS_PER_PID) {
		if (peer->user->refused_pid != peer->pid && user_may_be_named(peer->user)) {
			rbt_warn("process %d has %u connections: more are refused", (int)peer->pid,
				n);
		}
		peer->user->refused_pid = peer->pid;
		return -EDQUOT;
	}
	/* Accepting a connection costs as much as a message. */
	take(&peer->user->spent_ns, rbt_now_ns(), MIN_COST_NS, USER_SHARE);
	return user_charge(d, peer->user, RBT_FDS_PER_PEER);
}

int crowd_watch(struct daemon *d, struct source *s)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = s};

	return epoll_ctl(d->crowd.source.fd, EPOLL_CTL_ADD, s->fd, &ev) < 0 ? -errno : 0;
}

void crowd_unwatch(struct daemon *d, struct source *s)
{
	if (s->fd >= 0) {
		epoll_ctl(d->crowd.source.fd, EPOLL_CTL_DEL, s->fd, NULL);
	}
}

static void on_crowd(struct daemon *d, struct source *s, uint32_t events)
{
	struct epoll_event ev;

	if (epoll_wait(s->fd, &ev, 1, 0) == 1) {
		struct source *one = ev.data.ptr;
		one->ready(d, one, ev.events);
	}
}

/* The source of the peer's messages at present. */
static struct source *mouth(struct peer *peer)
{
	return peer->porter.fd >= 0 ? &peer->porter : &peer->source;
}

/* When the peer may send again. */
static uint64_t paused_until(const struct peer *peer)
{
	uint64_t peer_ns = peer->spent_ns - PEER_BURST_NS * PEER_SHARE;
	uint64_t user_ns = peer->user->spent_ns - USER_BURST_NS * USER_SHARE;

	peer_ns = peer->spent_ns > PEER_BURST_NS * PEER_SHARE ? peer_ns : 0;
	user_ns = peer->uid != 0 && peer->user->spent_ns > USER_BURST_NS * USER_SHARE ? user_ns : 0;
	peer_ns = peer_ns > user_ns ? peer_ns : user_ns;
	return peer_ns > peer->not_before_ns ? peer_ns : peer->not_before_ns;
}

static void arm(struct daemon *d)
{
	uint64_t next_ns = UINT64_MAX;
	struct itimerspec spec = {0};
	const struct peer *peer;

	LIST_FOREACH (peer, &d->crowd.paused, paused) {
		uint64_t until_ns = paused_until(peer);
		next_ns = until_ns < next_ns ? until_ns : next_ns;
	}
	if (next_ns != UINT64_MAX) {
		spec.it_value.tv_sec = (time_t)(next_ns / RBT_NS_PER_S);
		spec.it_value.tv_nsec = (long)(next_ns % RBT_NS_PER_S) + (next_ns == 0);
	}
	timerfd_settime(d->crowd.timer.fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void on_pause_over(struct daemon *d, struct source *s, uint32_t events)
{
	uint64_t expirations, now_ns = rbt_now_ns();
	ssize_t ignored = read(s->fd, &expirations, sizeof(expirations));
	struct peer *peer, *next;

	(void)ignored;
	for (peer = LIST_FIRST(&d->crowd.paused); peer != NULL; peer = next) {
		next = LIST_NEXT(peer, paused);
		if (paused_until(peer) <= now_ns && crowd_watch(d, mouth(peer)) == 0) {
			LIST_REMOVE(peer, paused);
			peer->is_paused = false;
		}
	}
	arm(d);
}

static void pause_peer(struct daemon *d, struct peer *peer)
{
	peer->is_paused = true;
	crowd_unwatch(d, mouth(peer));
	LIST_INSERT_HEAD(&d->crowd.paused, peer, paused);
	arm(d);
}

void crowd_put_off(struct daemon *d, struct peer *peer, uint64_t for_ns)
{
	peer->not_before_ns = rbt_now_ns() + for_ns;
	if (!peer->is_paused) {
		pause_peer(d, peer);
	}
}

int crowd_welcome(struct daemon *d, struct peer *peer)
{
	int r = crowd_watch(d, &peer->source);

	/* A peer cannot evade a pause by connecting again, because the time is charged to its
	 * user. */
	if (r == 0 && paused_until(peer) > rbt_now_ns()) {
		pause_peer(d, peer);
	}
	return r;
}

void crowd_forget(struct daemon *d, struct peer *peer)
{
	if (peer->is_paused) {
		LIST_REMOVE(peer, paused);
	}
	if (d->crowd.speaker == peer) {
		d->crowd.speaker = NULL;
	}
	crowd_unwatch(d, &peer->source);
	user_discharge(d, peer->user, RBT_FDS_PER_PEER);
}

void crowd_speaks(struct daemon *d, struct peer *peer)
{
	d->crowd.speaker = peer;
	d->crowd.speaking_user = peer->user;
	d->crowd.spoke_ns = rbt_now_ns();
}

void crowd_spoke(struct daemon *d)
{
	if (d->crowd.speaking_user == NULL) {
		return;
	}
	uint64_t now_ns = rbt_now_ns(), cost_ns = now_ns - d->crowd.spoke_ns;
	cost_ns = cost_ns > MIN_COST_NS ? cost_ns : MIN_COST_NS;
	cost_ns = cost_ns < MAX_COST_NS ? cost_ns : MAX_COST_NS;
	take(&d->crowd.speaking_user->spent_ns, now_ns, cost_ns, USER_SHARE);
	if (d->crowd.speaker != NULL) {
		take(&d->crowd.speaker->spent_ns, now_ns, cost_ns, PEER_SHARE);
		if (!d->crowd.speaker->is_paused && paused_until(d->crowd.speaker) > now_ns) {
			pause_peer(d, d->crowd.speaker);
		}
	}
	d->crowd.speaker = NULL;
	d->crowd.speaking_user = NULL;
}

/* A program costs at least four fds, so many programs need more than the usual soft limit. */
static void raise_fd_limit(struct daemon *d)
{
	struct rlimit limit;

	d->crowd.max_fds = FDS_WITHOUT_A_LIMIT;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
		return;
	}
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	d->crowd.max_fds = limit.rlim_max < INT32_MAX ? (uint32_t)limit.rlim_max : INT32_MAX;
}

int crowd_start(struct daemon *d)
{
	raise_fd_limit(d);
	d->crowd.source = (struct source){.fd = epoll_create1(EPOLL_CLOEXEC), .ready = on_crowd};
	d->crowd.timer = (struct source){
		.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
		.ready = on_pause_over,
	};
	if (d->crowd.source.fd < 0 || d->crowd.timer.fd < 0) {
		return -errno;
	}
	int r = watch(d, &d->crowd.source);
	return r < 0 ? r : watch(d, &d->crowd.timer);
}

void crowd_stop(struct daemon *d)
{
	struct user *u;

	unwatch(d, &d->crowd.source);
	unwatch(d, &d->crowd.timer);
	while ((u = LIST_FIRST(&d->crowd.users)) != NULL) {
		LIST_REMOVE(u, entries);
		free(u);
	}
}
