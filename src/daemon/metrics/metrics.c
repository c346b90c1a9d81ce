/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the accounts (accounting.c) as text (text.c) over HTTP (http.c).
 *
 * Each request gets a snapshot. Requests within SHARED_NS of each other get the same one, so
 * frequent requests cost little more than writing the text.
 */
#include "daemon/metrics/metrics.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/activity.h"
#include "daemon/apply.h"
#include "daemon/daemon.h"
#include "daemon/list.h"
#include "daemon/loop.h"
#include "daemon/metrics/account.h"
#include "daemon/metrics/accounting.h"
#include "daemon/metrics/http.h"
#include "daemon/metrics/listen.h"
#include "daemon/park/park.h"
#include "daemon/schedule.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/owner.h"
#include "util/time.h"

#define SHARED_NS (100 * RBT_NS_PER_MS)
#define AT_A_TIME 8192u
/* Serving may use one part in SHARE of the daemon's time, or as much at once as BURST_NS allows. */
#define SHARE    8u
#define BURST_NS RBT_NS_PER_S
/* Users whose names are cached. */
#define MAX_USERS 16

struct server {
	struct source source;
	struct http *http; /* NULL: none */
	bool is_deaf;      /* not watched at present */
};

struct metrics {
	struct daemon *daemon;
	char at[METRICS_AT_MAX];
	struct stat socket; /* for a path: the file that we created there */
	struct server servers[METRICS_LISTENERS];
	struct source again; /* an eventfd: a server has more to do */
	uint64_t paid_ns;    /* until when the time spent so far counts, at the pace of SHARE */
	struct metrics_snapshot *last;
	char uuids[RBT_MAX_GPUS][RBT_GPU_UUID_MAX]; /* by the daemon's index; "": not known yet */
	struct {
		uid_t uid;
		char name[64];
	} users[MAX_USERS];
	size_t n_users;
};

/* An answer that is being sent. */
struct answer {
	struct metrics_snapshot *snapshot;
	struct metrics_cursor cursor;
	size_t at, n; /* position in the piece, and its length */
	char piece[METRICS_PIECE_MAX];
};

/* Reads only the file, because a directory service could block the daemon. */
static void look_up_user(uid_t uid, char *buf, size_t size)
{
	FILE *f = fopen("/etc/passwd", "re");
	struct passwd *pw = NULL;

	while (f != NULL && (pw = fgetpwent(f)) != NULL && pw->pw_uid != uid) {
	}
	if (pw != NULL) {
		snprintf(buf, size, "%s", pw->pw_name);
	} else {
		snprintf(buf, size, "%u", (unsigned)uid);
	}
	if (f != NULL) {
		fclose(f);
	}
}

static const char *user_name(struct metrics *m, uid_t uid)
{
	for (size_t i = 0; i < m->n_users; i++) {
		if (m->users[i].uid == uid) {
			return m->users[i].name;
		}
	}
	size_t at = m->n_users < MAX_USERS ? m->n_users++ : uid % MAX_USERS;
	m->users[at].uid = uid;
	look_up_user(uid, m->users[at].name, sizeof(m->users[at].name));
	return m->users[at].name;
}

static void take_program(struct metrics *m, struct program *p, const uint32_t *order,
	uint64_t now_ns, struct metrics_program *ret)
{
	struct rbt_program_memory memory;

	*ret = (struct metrics_program){
		.pid = p->pid,
		.priority = p->treat.priority,
		.is_suspended = p->suspend.is_ordered,
		.is_waiting = program_is_waiting(p),
		.is_parked = park_find(m->daemon, p) != NULL,
		.has_turns = p->sched.prog != NULL,
	};
	snprintf(ret->name, sizeof(ret->name), "%s", program_name(p, now_ns));
	snprintf(ret->user, sizeof(ret->user), "%s", user_name(m, p->uid));
	ret->place = *program_place(p, now_ns);
	ret->guest = p->guest;
	ret->has_memory = list_memory(p, &ret->memory_bytes);
	run_fill(p, &memory);
	ret->limit_bytes = memory.limit_bytes;
	for (uint32_t i = 0; i < m->daemon->gpu_table.n; i++) {
		ret->gpus |= (uint32_t)(p->sched.params.tasks[order[i]].n_compute > 0) << i;
	}
	accounting_fill_turns(m->daemon, p, &ret->turns);
	account_fill(&p->account, p->sched.params.is_known, now_ns, &ret->account);
	activity_account(p, &ret->account);
}

static void count_program(struct metrics_snapshot *s, const struct metrics_program *p)
{
	for (uint32_t i = 0; i < s->n_gpus; i++) {
		s->gpus[i].n_programs[rbt_class_of(p->priority)] += (p->gpus >> i) & 1;
	}
}

/* Asks the driver for the names of GPUs that have none yet, through the program's tasks there. */
static void look_up_uuids(struct metrics *m, const struct program *p)
{
	const struct rbt_gpu_table *table = &m->daemon->gpu_table;
	const struct client *h;

	for (uint32_t i = 0; i < table->n; i++) {
		const struct rbt_backend *b = rbt_backend_by_id(table->gpus[i].backend);

		if (m->uuids[i][0] != '\0' || b == NULL || b->uuid == NULL ||
			p->sched.params.tasks[i].n_compute == 0) {
			continue;
		}
		LIST_FOREACH (h, &p->clients, entries) {
			if (h->backend == table->gpus[i].backend &&
				b->uuid(&h->mine->rec, table->gpus[i].minor, m->uuids[i]) == 0) {
				break;
			}
		}
	}
}

static void take_gpus(struct metrics *m, const uint32_t *order, struct metrics_snapshot *s)
{
	const struct daemon *d = m->daemon;

	s->n_gpus = d->gpu_table.n;
	for (uint32_t i = 0; i < s->n_gpus; i++) {
		const struct gpu_account *a = &d->gpu_accounts[order[i]];

		s->gpus[i] = (struct metrics_gpu){
			.gpu = rbt_gpu_of_index(&d->gpu_table, order[i]),
			.is_used = a->had_programs,
			.has_used = a->had_known,
			.used_ns = a->used_ns,
			.reserved_ns = a->reserved_ns,
			.n_switches = a->n_switches,
		};
		memcpy(s->gpus[i].uuid, m->uuids[order[i]], sizeof(s->gpus[i].uuid));
	}
}

static struct metrics_snapshot *snapshot_take(struct metrics *m)
{
	struct daemon *d = m->daemon;
	uint32_t order[RBT_MAX_GPUS];
	struct program *p;
	size_t n = 0;

	LIST_FOREACH (p, &d->programs, entries) {
		n += !p->awaited;
		look_up_uuids(m, p);
	}
	struct metrics_snapshot *s = calloc(1, sizeof(*s) + n * sizeof(s->programs[0]));
	if (s == NULL) {
		return NULL;
	}
	accounting_refresh(d);
	s->taken_ns = rbt_now_ns();
	snprintf(s->policy, sizeof(s->policy), "%s", schedule_policy(d));
	policy_fill(d, &s->bpf);
	s->n_overruled = d->policy.n_overruled;
	s->n_ejections = d->policy.n_ejections;
	rbt_gpus_sort(&d->gpu_table, order);
	take_gpus(m, order, s);
	LIST_FOREACH (p, &d->programs, entries) {
		if (!p->awaited) {
			struct metrics_program *to = &s->programs[s->n_programs++];
			take_program(m, p, order, s->taken_ns, to);
			count_program(s, to);
		}
	}
	return s;
}

static void snapshot_drop(struct metrics_snapshot *s)
{
	if (s != NULL && --s->refs == 0) {
		free(s);
	}
}

static void *answer_open(void *ctx)
{
	struct metrics *m = ctx;
	struct answer *a = calloc(1, sizeof(*a));

	if (a == NULL) {
		return NULL;
	}
	if (m->last == NULL || rbt_now_ns() - m->last->taken_ns > SHARED_NS) {
		snapshot_drop(m->last);
		m->last = snapshot_take(m);
		if (m->last == NULL) {
			free(a);
			return NULL;
		}
		m->last->refs = 1;
	}
	a->snapshot = m->last;
	a->snapshot->refs++;
	return a;
}

static size_t answer_read(void *answer, char *buf, size_t size)
{
	struct answer *a = answer;
	size_t done = 0;

	/* Writing this much takes about 0.1 ms. */
	size = size < AT_A_TIME ? size : AT_A_TIME;
	while (done < size) {
		if (a->at == a->n) {
			a->at = 0;
			a->n = metrics_write(a->snapshot, &a->cursor, a->piece);
			if (a->n == 0) {
				break;
			}
		}
		size_t n = a->n - a->at < size - done ? a->n - a->at : size - done;
		memcpy(buf + done, a->piece + a->at, n);
		a->at += n;
		done += n;
	}
	return done;
}

static void answer_close(void *answer)
{
	struct answer *a = answer;

	snapshot_drop(a->snapshot);
	free(a);
}

static const struct http_ops ops = {
	.open = answer_open, .read = answer_read, .close = answer_close};

static bool is_spent(const struct metrics *m, uint64_t now_ns)
{
	return m->paid_ns > now_ns + BURST_NS;
}

/* Stops watching the server until the next tick. */
static void make_deaf(struct metrics *m, struct server *server)
{
	if (!server->is_deaf) {
		server->is_deaf =
			epoll_ctl(m->daemon->epoll_fd, EPOLL_CTL_DEL, server->source.fd, NULL) == 0;
	}
}

static void run(struct metrics *m, struct server *server)
{
	uint64_t began_ns = rbt_now_ns();
	bool has_more = http_run(server->http);
	uint64_t now_ns = rbt_now_ns();

	m->paid_ns = m->paid_ns > began_ns ? m->paid_ns : began_ns;
	m->paid_ns += (now_ns - began_ns) * SHARE;
	if (is_spent(m, now_ns)) {
		make_deaf(m, server);
	} else if (has_more) {
		/* Other events of the loop come first; the eventfd makes the loop run the server
		 * again. */
		eventfd_write(m->again.fd, 1);
	}
}

static void on_again(struct daemon *d, struct source *s, uint32_t events)
{
	eventfd_t ignored;

	eventfd_read(s->fd, &ignored);
	for (size_t i = 0; i < METRICS_LISTENERS; i++) {
		struct server *server = &d->metrics->servers[i];
		if (server->http != NULL && !server->is_deaf) {
			run(d->metrics, server);
		}
	}
}

static void on_server(struct daemon *d, struct source *s, uint32_t events)
{
	struct server *server = RBT_OWNER_OF(s, struct server, source);

	run(d->metrics, server);
	/* A peer that cannot be accepted would wake the loop for ever, so the server is not watched
	 * until the next tick. */
	if (http_is_stuck(server->http)) {
		make_deaf(d->metrics, server);
	}
}

/* Removes the socket only if it is the one that we created. */
static void remove_socket(const struct metrics *m)
{
	struct stat st;

	if (m->at[0] == '/' && m->socket.st_ino != 0 && lstat(m->at, &st) == 0 &&
		st.st_ino == m->socket.st_ino && st.st_dev == m->socket.st_dev) {
		unlink(m->at);
	}
}

static void destroy(struct metrics *m)
{
	if (m == NULL) {
		return;
	}
	remove_socket(m);
	for (size_t i = 0; i < METRICS_LISTENERS; i++) {
		if (m->servers[i].http != NULL) {
			/* The fd stays the server's. */
			epoll_ctl(
				m->daemon->epoll_fd, EPOLL_CTL_DEL, m->servers[i].source.fd, NULL);
			http_stop(m->servers[i].http);
		}
	}
	unwatch(m->daemon, &m->again);
	snapshot_drop(m->last);
	free(m);
}

static int serve(struct metrics *m, const int fds[METRICS_LISTENERS])
{
	int first = 0;

	if (m->at[0] == '/' && lstat(m->at, &m->socket) < 0) {
		first = -errno;
	}
	for (size_t i = 0; i < METRICS_LISTENERS; i++) {
		if (fds[i] < 0) {
			continue;
		}
		int r = http_start(fds[i], &ops, m, &m->servers[i].http);
		if (r == 0) {
			m->servers[i].source = (struct source){
				.fd = http_fd(m->servers[i].http), .ready = on_server};
			r = watch(m->daemon, &m->servers[i].source);
		}
		first = first == 0 ? r : first;
	}
	return first;
}

static int create(struct daemon *d, const char *at, struct metrics **ret)
{
	int fds[METRICS_LISTENERS] = {-1, -1};
	struct metrics *m = calloc(1, sizeof(*m));

	if (m == NULL) {
		return -ENOMEM;
	}
	m->daemon = d;
	m->again = (struct source){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = on_again};
	int r = m->again.fd < 0 ? -errno : watch(d, &m->again);
	if (r == 0) {
		r = metrics_listen(at, fds);
	}
	if (r == 0) {
		snprintf(m->at, sizeof(m->at), "%s", at);
		r = serve(m, fds);
	}
	if (r < 0) {
		destroy(m);
		return r;
	}
	*ret = m;
	return 0;
}

static const char *why(int r)
{
	switch (-r) {
	case EOPNOTSUPP:
		return "built without libmicrohttpd";
	case ELIBACC:
		return "libmicrohttpd is not installed";
	default:
		return strerror(-r);
	}
}

int metrics_configure(struct daemon *d, const char *at)
{
	struct metrics *fresh = NULL;
	bool is_off = strcmp(at, "none") == 0;

	if (d->metrics != NULL && strcmp(d->metrics->at, at) == 0) {
		return 0;
	}
	int r = is_off ? 0 : create(d, at, &fresh);
	if (r < 0) {
		rbt_error("no metrics at %s: %s", at, why(r));
		return r;
	}
	destroy(d->metrics);
	d->metrics = fresh;
	return 0;
}

void metrics_stop(struct daemon *d)
{
	destroy(d->metrics);
	d->metrics = NULL;
}

bool metrics_needs_tick(const struct daemon *d)
{
	for (size_t i = 0; d->metrics != NULL && i < METRICS_LISTENERS; i++) {
		const struct server *server = &d->metrics->servers[i];
		if (server->http != NULL && (server->is_deaf || http_is_busy(server->http))) {
			return true;
		}
	}
	return false;
}

void metrics_tick(struct daemon *d)
{
	for (size_t i = 0; d->metrics != NULL && i < METRICS_LISTENERS; i++) {
		struct server *server = &d->metrics->servers[i];
		if (server->http == NULL || is_spent(d->metrics, rbt_now_ns())) {
			continue;
		}
		server->is_deaf = server->is_deaf && watch(d, &server->source) < 0;
		if (http_is_busy(server->http)) {
			run(d->metrics, server);
		}
	}
}
