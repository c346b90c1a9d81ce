/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/serve/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "softgpu/kfd/serve.h"
#include "softgpu/serve/gpus.h"
#include "softgpu/serve/server_impl.h"
#include "softgpu/session/session.h"
#include "util/fd.h"
#include "util/json.h"
#include "util/time.h"

#define SWEEP_NS      (100 * RBT_NS_PER_MS)
#define IDLE_NS       RBT_NS_PER_S
#define MAX_LOG_LINES 10000
#define MAX_CONNS     1024
#define DEAF_NS       (50 * RBT_NS_PER_MS)

void server_log(struct server *s, const char *line)
{
	if (s->log_lines++ < MAX_LOG_LINES) {
		uint64_t us = rbt_now_ns() / RBT_NS_PER_US;

		dprintf(s->log, "[%5" PRIu64 ".%06" PRIu64 "] %s\n", us / 1000000, us % 1000000,
			line);
	}
}

static void send_welcome(struct server *s, struct conn *c)
{
	struct link_welcome w = {.h = link_header(LINK_WELCOME, 0), .config = s->config};

	w.server_id = s->id;
	w.n_prefetch = (uint32_t)rbt_rm_prefetch_rules(w.prefetch, LINK_MAX_PREFETCH);
	conn_send(c, &w, sizeof(w), -1, 0);
}

static void send_result(struct conn *c, int error, int fd)
{
	struct link_result r = {.h = link_header(LINK_RESULT, 0), .error = error};

	conn_send(c, &r, sizeof(r), fd, 0);
}

/* The text is sent as a file, because it may be longer than a packet. */
static int write_state(struct server *s, bool json)
{
	struct rbt_json j;
	int fd = memfd_create("state", MFD_CLOEXEC), copy = -1;
	FILE *out = NULL;

	if (fd < 0 || (copy = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0 ||
		(out = fdopen(copy, "w")) == NULL) {
		int err = errno;
		rbt_close(&fd);
		rbt_close(&copy);
		return -err;
	}
	s->n_opens = nodes_sweep(s->nodes);
	gpus_refresh(s->gpus);
	if (json) {
		rbt_json_init(&j, out);
		rbt_json_object(&j, NULL);
		rbt_json_string(&j, "session", s->dir);
		rbt_json_u64(&j, "server_pid", (uint64_t)getpid());
		rbt_rm_write_json(s->rm, &j);
		gpus_write_json(s->gpus, &j);
		if (s->kfd != NULL) {
			rbt_kfd_write_json(kfd_serve_model(s->kfd), &j);
		}
		rbt_json_end(&j, '}');
	} else {
		rbt_rm_write_text(s->rm, out);
		gpus_write_text(s->gpus, out);
		if (s->kfd != NULL) {
			rbt_kfd_write_text(kfd_serve_model(s->kfd), out);
		}
	}
	if (fclose(out) != 0) {
		int err = errno;
		rbt_close(&fd);
		return -err;
	}
	return fd;
}

static void handle_state(struct server *s, struct conn *c, const uint8_t *msg, size_t size)
{
	struct link_state m;

	if (size != sizeof(m)) {
		c->broken = true;
		return;
	}
	memcpy(&m, msg, sizeof(m));
	int fd = write_state(s, m.json != 0);
	send_result(c, fd < 0 ? fd : 0, fd);
	rbt_close(&fd);
}

static void handle_fault(struct server *s, struct conn *c, const uint8_t *msg, size_t size)
{
	struct link_fault m;

	if (size != sizeof(m)) {
		c->broken = true;
		return;
	}
	memcpy(&m, msg, sizeof(m));
	send_result(c, rbt_rm_add_fault(s->rm, &m.fault), -1);
}

static void handle_kfd_fault(struct server *s, struct conn *c, const uint8_t *msg, size_t size)
{
	struct link_kfd_fault m;

	if (size != sizeof(m)) {
		c->broken = true;
		return;
	}
	memcpy(&m, msg, sizeof(m));
	send_result(c,
		s->kfd != NULL ? rbt_kfd_add_fault(kfd_serve_model(s->kfd), &m.fault) : -ENODEV,
		-1);
}

static void handle_process_fault(struct server *s, struct conn *c, const uint8_t *msg, size_t size)
{
	struct link_process_fault m;

	if (size != sizeof(m)) {
		c->broken = true;
		return;
	}
	memcpy(&m, msg, sizeof(m));
	send_result(c, gpus_delay(s->gpus, m.action, m.delay_us), -1);
}

static void leave(struct server *s)
{
	char path[SESSION_MAX_PATH + 16];

	kfd_serve_destroy(s->kfd);
	if (s->private) {
		session_remove(s->dir);
	} else {
		snprintf(path, sizeof(path), "%s/%s", s->dir, SOCKET_NAME);
		(void)unlink(path);
	}
	_exit(0);
}

/* Only the session's owner or root may disturb it. */
static bool is_owner(const struct conn *c)
{
	return c->uid == 0 || c->uid == geteuid();
}

/* Other connections may be dead already, and not dropped yet. */
static bool is_last(const struct server *s, const struct conn *c)
{
	for (const struct conn *other = s->conns; other != NULL; other = other->next) {
		if (other != c && !other->broken) {
			return false;
		}
	}
	return true;
}

/* Messages that disturb the session. */
static void handle_owner(
	struct server *s, struct conn *c, uint32_t type, const uint8_t *msg, size_t size)
{
	if (!is_owner(c)) {
		send_result(c, -EPERM, -1);
		return;
	}
	switch (type) {
	case LINK_FAULT:
		handle_fault(s, c, msg, size);
		break;
	case LINK_KFD_FAULT:
		handle_kfd_fault(s, c, msg, size);
		break;
	case LINK_PROCESS_FAULT:
		handle_process_fault(s, c, msg, size);
		break;
	case LINK_CLEAR_FAULTS:
		rbt_rm_clear_faults(s->rm);
		for (uint32_t i = 0; gpus_delay(s->gpus, i, 0) == 0; i++) {
		}
		if (s->kfd != NULL) {
			rbt_kfd_clear_faults(kfd_serve_model(s->kfd));
		}
		send_result(c, 0, -1);
		break;
	default:
		/* LINK_KILL: as a crash would, without cleaning up. */
		_exit(0);
	}
}

static void handle(struct server *s, struct conn *c, const uint8_t *msg, size_t size)
{
	struct link_header h;

	if (size < sizeof(h)) {
		c->broken = true;
		return;
	}
	memcpy(&h, msg, sizeof(h));
	switch (h.magic == LINK_MAGIC ? h.type : 0) {
	case LINK_HELLO:
		send_welcome(s, c);
		break;
	case LINK_OPEN:
		call_open(s, c, msg, size);
		break;
	case LINK_IOCTL:
		call_begin(s, c, msg, size);
		break;
	case LINK_BYTES:
		call_resume(s, c, msg, size);
		break;
	case LINK_STATE:
		handle_state(s, c, msg, size);
		break;
	case LINK_FAULT:
	case LINK_KFD_FAULT:
	case LINK_PROCESS_FAULT:
	case LINK_CLEAR_FAULTS:
	case LINK_KILL:
		handle_owner(s, c, h.type, msg, size);
		break;
	case LINK_BYE:
		if (s->private && is_owner(c) && is_last(s, c)) {
			leave(s);
		}
		break;
	default:
		if (h.magic != LINK_MAGIC || !gpus_handle(s->gpus, c, msg, size, s->received)) {
			c->broken = true;
		}
		break;
	}
}

static void receive(struct server *s, struct conn *c)
{
	static uint8_t msg[LINK_MAX];
	int fds[RBT_MAX_FDS_PER_MSG];

	while (!c->broken && !c->is_held) {
		size_t n_fds = 0;
		ssize_t n = rbt_recv(c->fd, msg, sizeof(msg), fds, &n_fds, MSG_DONTWAIT);
		if (n == -EAGAIN) {
			return;
		}
		if (n > 0) {
			s->received = n_fds > 0 ? fds[0] : -1;
			handle(s, c, msg, (size_t)n);
			s->received = -1;
		}
		c->broken = c->broken || n <= 0;
		for (size_t i = 0; i < n_fds; i++) {
			rbt_close(&fds[i]);
		}
	}
}

static void accept_all(struct server *s)
{
	for (;;) {
		struct ucred cred = {.uid = UINT32_MAX};
		socklen_t len = sizeof(cred);
		int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
				errno == ENOBUFS) {
				/* The connection stays in the queue and would wake us for ever:
				 * look again later. */
				s->deaf_until_ns = rbt_now_ns() + DEAF_NS;
			}
			return;
		}
		struct conn *c = calloc(1, sizeof(*c));
		/* More connections than can be polled would shut out the existing ones. */
		if (c == NULL || s->n_conns >= MAX_CONNS - 1 ||
			getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
			free(c);
			close(fd);
			continue;
		}
		c->fd = fd;
		c->uid = cred.uid;
		c->pid = cred.pid;
		c->next = s->conns;
		s->conns = c;
		s->n_conns++;
		s->idle_since_ns = 0;
	}
}

static void drop_broken(struct server *s, uint64_t now_ns)
{
	for (struct conn **p = &s->conns; *p != NULL;) {
		struct conn *c = *p;
		if (c->broken) {
			*p = c->next;
			s->n_conns--;
			gpus_forget(s->gpus, c);
			conn_destroy(c);
		} else {
			p = &c->next;
		}
	}
	if (s->conns == NULL && s->idle_since_ns == 0) {
		s->idle_since_ns = now_ns;
	}
}

/* A joining process holds the lock until it has been welcomed: if we get the lock, no connection is
 * half made. */
static void leave_if_idle(struct server *s, uint64_t now_ns)
{
	if (s->idle_since_ns == 0 || now_ns - s->idle_since_ns < IDLE_NS ||
		flock(s->lock, LOCK_EX | LOCK_NB) < 0) {
		return;
	}
	accept_all(s);
	if (s->conns == NULL) {
		leave(s);
	}
	flock(s->lock, LOCK_UN);
}

static void wait_for_work(struct server *s, struct pollfd *fds, size_t n, uint64_t until_ns)
{
	uint64_t now_ns = rbt_now_ns(), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	struct timespec timeout = {.tv_sec = (time_t)(left_ns / RBT_NS_PER_S),
		.tv_nsec = (long)(left_ns % RBT_NS_PER_S)};

	if (ppoll(fds, n, until_ns == UINT64_MAX ? NULL : &timeout, NULL) < 0) {
		for (size_t i = 0; i < n; i++) {
			fds[i].revents = 0;
		}
	}
}

static size_t fill_poll(struct server *s, struct pollfd *fds, uint64_t now_ns, uint64_t *until_ns)
{
	bool deaf = s->deaf_until_ns > now_ns;
	size_t n = 0;

	/* poll() ignores a negative fd. */
	fds[n++] = (struct pollfd){.fd = deaf ? -1 : s->listener, .events = POLLIN};
	if (deaf && s->deaf_until_ns < *until_ns) {
		*until_ns = s->deaf_until_ns;
	}
	for (struct conn *c = s->conns; c != NULL && n < MAX_CONNS; c = c->next) {
		uint64_t due_ns = conn_flush(c, now_ns);
		fds[n++] = (struct pollfd){.fd = c->fd,
			.events = (short)((c->is_held ? 0 : POLLIN) | (due_ns == 0 ? POLLOUT : 0))};
		if (due_ns != 0 && due_ns < *until_ns) {
			*until_ns = due_ns;
		}
	}
	return n;
}

static void loop(struct server *s)
{
	static struct pollfd fds[MAX_CONNS + 1];
	uint64_t swept_ns = 0;

	for (;;) {
		uint64_t now_ns = rbt_now_ns(), until_ns = UINT64_MAX;
		if (s->n_opens > 0) {
			if (now_ns - swept_ns >= SWEEP_NS) {
				s->n_opens = nodes_sweep(s->nodes);
				gpus_refresh(s->gpus);
				swept_ns = now_ns;
			}
			until_ns = swept_ns + SWEEP_NS;
		}
		drop_broken(s, now_ns);
		leave_if_idle(s, now_ns);
		if (s->idle_since_ns != 0 && s->idle_since_ns + IDLE_NS < until_ns) {
			/* Not idle long enough, or a process was joining: check again soon. */
			until_ns = s->idle_since_ns + IDLE_NS > now_ns ? s->idle_since_ns + IDLE_NS
								       : now_ns + SWEEP_NS;
		}
		uint64_t run_ns = gpus_run(s->gpus, now_ns);
		until_ns = run_ns < until_ns ? run_ns : until_ns;
		uint64_t kfd_ns = kfd_serve_run(s->kfd, now_ns);
		while (kfd_serve_take_change(s->kfd)) {
			calls_retry(s);
		}
		until_ns = kfd_ns < until_ns ? kfd_ns : until_ns;
		size_t n = fill_poll(s, fds, now_ns, &until_ns);
		/* Negative without AMD GPUs. */
		fds[n] = (struct pollfd){.fd = kfd_serve_fd(s->kfd), .events = POLLIN};
		wait_for_work(s, fds, n + 1, until_ns);
		/* accept_all(), which comes later, adds connections only at the head of the
		 * list. */
		size_t i = 1;
		for (struct conn *c = s->conns; c != NULL && i < n; c = c->next, i++) {
			/* What a locked program asked for waits; but it may die. */
			if (c->is_held && (fds[i].revents & (POLLHUP | POLLERR))) {
				c->broken = true;
			} else if (fds[i].revents & (POLLIN | POLLHUP | POLLERR)) {
				receive(s, c);
			}
		}
		if (fds[0].revents != 0) {
			accept_all(s);
		}
	}
}

/* All inherited files are closed: a pipe of the starter that stayed open here would never end. */
static int detach(struct server *s, const char *dir)
{
	char path[SESSION_MAX_PATH + 16];
	struct rlimit limit;
	/* Away from the numbers of the standard files, in case the starter had none. */
	int high = fcntl(s->listener, F_DUPFD_CLOEXEC, 4);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 3; fd++) {
		if (null >= 0) {
			dup2(null, fd);
		}
	}
	s->listener = dup3(high, 3, O_CLOEXEC);
	if (s->listener < 0 || close_range(4, ~0u, 0) < 0) {
		return -errno;
	}
	snprintf(path, sizeof(path), "%s/%s", dir, LOCK_NAME);
	s->lock = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/%s", dir, LOG_NAME);
	s->log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (s->lock < 0 || s->log < 0) {
		return -errno;
	}
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	return 0;
}

int server_run(const char *dir, bool private, const struct link_config *config, int listener)
{
	struct server s = {.dir = dir,
		.private = private,
		.config = *config,
		.listener = listener,
		.lock = -1,
		.log = -1,
		.received = -1};

	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	prctl(PR_SET_NAME, SERVER_NAME);
	if (detach(&s, dir) < 0 || chdir("/") < 0) {
		return 1;
	}
	if (getrandom(&s.id, sizeof(s.id), 0) != sizeof(s.id)) {
		s.id = rbt_now_ns() ^ (uint64_t)getpid() << 40;
	}
	s.rm = rbt_rm_create(&config->rm);
	s.nodes = s.rm != NULL ? nodes_create(s.rm, s.id, config->rm.n_gpus > 0) : NULL;
	s.gpus = gpus_create(&s);
	if (s.nodes == NULL || s.gpus == NULL) {
		server_log(&s, "cannot make the fake device nodes");
		return 1;
	}
	if (config->kfd.n_gpus > 0 || config->kfd.no_gpu) {
		s.kfd = kfd_serve_create(&s, &config->kfd);
		if (s.kfd == NULL) {
			server_log(&s, "cannot make the AMD side");
			return 1;
		}
	}
	s.idle_since_ns = rbt_now_ns();
	loop(&s);
	return 0;
}
