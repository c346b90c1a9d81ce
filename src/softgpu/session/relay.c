/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/session/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/amd/kfd_abi.h"
#include "softgpu/session/target.h"
#include "util/fd.h"

/* 6.6: wakes the other side on this CPU, which saves a migration each way. */
#define NOTIF_SET_FLAGS    SECCOMP_IOW(4, __u64)
#define NOTIF_SYNC_WAKE_UP 1ul

/* A call that the server has not answered yet. */
struct pending {
	struct pending *next;
	uint64_t id;
	int tid;
	bool cloexec;
};

static struct {
	int listener;
	struct session *session; /* sock and welcome do not change after the start */
	pthread_mutex_t lock;    /* protects the following */
	struct pending *pending;
	bool dead; /* the server */
} relay = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void respond(uint64_t id, int64_t value, int error, uint32_t flags)
{
	struct seccomp_notif_resp resp = {.id = id, .val = value, .error = error, .flags = flags};

	/* Fails if the program has been killed meanwhile: then nothing waits. */
	(void)ioctl(relay.listener, SECCOMP_IOCTL_NOTIF_SEND, &resp);
}

static void let_through(uint64_t id)
{
	respond(id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

/* The data that was read belongs to this call only if the call still waits. */
static bool is_valid(uint64_t id)
{
	return ioctl(relay.listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static bool take_pending(uint64_t id, struct pending *ret)
{
	bool found = false;

	pthread_mutex_lock(&relay.lock);
	for (struct pending **p = &relay.pending; *p != NULL; p = &(*p)->next) {
		if ((*p)->id == id) {
			struct pending *it = *p;
			*ret = *it;
			*p = it->next;
			free(it);
			found = true;
			break;
		}
	}
	pthread_mutex_unlock(&relay.lock);
	return found;
}

/* For good: a new server would not know the programs' files. */
static void lose_server(void)
{
	struct pending *it, *next;

	pthread_mutex_lock(&relay.lock);
	relay.dead = true;
	it = relay.pending;
	relay.pending = NULL;
	pthread_mutex_unlock(&relay.lock);
	for (; it != NULL; it = next) {
		next = it->next;
		respond(it->id, 0, -EIO, 0);
		free(it);
	}
}

bool relay_is_connected(void)
{
	pthread_mutex_lock(&relay.lock);
	bool dead = relay.dead;
	pthread_mutex_unlock(&relay.lock);
	return !dead;
}

/* Sends the call to the server and notes it; if that is impossible, the call fails at once. fd is
 * borrowed; -1: none. */
static void forward(uint64_t id, int tid, bool cloexec, const void *msg, size_t size, int fd)
{
	struct pending *p = malloc(sizeof(*p)), ignored;

	pthread_mutex_lock(&relay.lock);
	bool ok = p != NULL && !relay.dead;
	if (ok) {
		*p = (struct pending){
			.next = relay.pending, .id = id, .tid = tid, .cloexec = cloexec};
		relay.pending = p;
	}
	pthread_mutex_unlock(&relay.lock);
	if (!ok) {
		free(p);
		respond(id, 0, -EIO, 0);
		return;
	}
	/* The thread that takes the call off the list answers it. */
	if (rbt_send(relay.session->sock, msg, size, &fd, fd >= 0 ? 1 : 0, 0) < 0 &&
		take_pending(id, &ignored)) {
		respond(id, 0, -EIO, 0);
	}
}

/* Queues of AMD GPUs are in the program's memory: the server runs them through this file. -1:
 * none. */
static int open_memory(int tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", tid);
	return open(path, O_RDWR | O_CLOEXEC);
}

static bool is_nearly_ours(const char *path)
{
	return strstr(path, "nvidia") != NULL || strstr(path, "kfd") != NULL ||
	       strstr(path, "fd/") != NULL;
}

static void on_open(const struct seccomp_notif *n, int dirfd, uint64_t path_at, uint64_t flags)
{
	struct link_open m = {.h = link_header(LINK_OPEN, n->id),
		.tid = (int32_t)n->pid,
		.flags = (uint32_t)flags};
	char node[LINK_MAX_PATH];
	int tid = (int)n->pid;

	if (target_read_path(tid, path_at, m.path) < 0 || !is_nearly_ours(m.path) ||
		target_resolve(tid, dirfd, m.path) < 0) {
		let_through(n->id);
		return;
	}
	/* A device node that is opened by way of /proc is opened once more. */
	if (target_link(tid, m.path, node)) {
		memcpy(m.path, node, sizeof(node));
	}
	if (!target_is_ours(m.path)) {
		let_through(n->id);
	} else if (is_valid(n->id)) {
		int mem = strcmp(m.path, KFD_PATH) == 0 ? open_memory(tid) : -1;
		forward(n->id, tid, (flags & O_CLOEXEC) != 0, &m, sizeof(m), mem);
		rbt_close(&mem);
	}
}

static void on_readlink(
	const struct seccomp_notif *n, int dirfd, uint64_t path_at, uint64_t buf_at, uint64_t size)
{
	char path[LINK_MAX_PATH], link[LINK_MAX_PATH];
	int tid = (int)n->pid;

	if (target_read_path(tid, path_at, path) < 0 || target_resolve(tid, dirfd, path) < 0) {
		let_through(n->id);
		return;
	}
	if (strcmp(path, SESSION_LINK) == 0) {
		strcpy(link, relay.session->dir);
	} else if (!target_link(tid, path, link)) {
		let_through(n->id);
		return;
	}
	size_t len = strlen(link);
	if (len > size) {
		len = size;
	}
	if (is_valid(n->id)) {
		int r = target_write(tid, buf_at, link, len);
		respond(n->id, r < 0 ? 0 : (int64_t)len, r, 0);
	}
}

/* Appends bytes of the program's memory to a message; does nothing if they cannot be read. */
static size_t append(
	uint8_t *msg, size_t at, int tid, uint64_t addr, uint32_t size, uint32_t *n_regions)
{
	struct link_region r = {.addr = addr, .size = size};

	if (size == 0 || size > LINK_MAX_READ ||
		target_read(tid, addr, msg + at + sizeof(r), size) < 0) {
		return at;
	}
	memcpy(msg + at, &r, sizeof(r));
	(*n_regions)++;
	return at + sizeof(r) + size;
}

/* Fetches the argument, and further parameters if the server has told how to find them. */
static size_t fetch(uint8_t *msg, struct link_ioctl *m)
{
	const struct link_welcome *w = &relay.session->welcome;
	uint32_t size = _IOC_SIZE(m->request), params_size;
	const uint8_t *arg = msg + sizeof(*m) + sizeof(struct link_region);
	uint64_t params;
	size_t end = append(msg, sizeof(*m), m->tid, m->arg, size, &m->n_regions);

	for (uint32_t i = 0; i < w->n_prefetch && m->n_regions == 1; i++) {
		const struct rbt_rm_prefetch *p = &w->prefetch[i];
		if (p->request == m->request && p->address_at + sizeof(params) <= size &&
			p->size_at + sizeof(params_size) <= size) {
			memcpy(&params, arg + p->address_at, sizeof(params));
			memcpy(&params_size, arg + p->size_at, sizeof(params_size));
			return append(msg, end, m->tid, params, params_size, &m->n_regions);
		}
	}
	return end;
}

/*
 * The server accesses a program's memory through /proc, in spite of its protection. So whether the
 * program itself may access it is checked here. For a request that the driver writes to, the
 * present bytes are sent along.
 */
static uint32_t find_blocked(int tid, uint64_t arg, uint32_t request)
{
	static uint8_t bytes[_IOC_SIZEMASK + 1];
	uint32_t size = _IOC_SIZE(request);

	if (_IOC_TYPE(request) != KFD_IOCTL_TYPE || size == 0) {
		return 0;
	}
	if (target_read(tid, arg, bytes, size) < 0) {
		return LINK_CANNOT_READ | LINK_CANNOT_WRITE;
	}
	bool written = (_IOC_DIR(request) & _IOC_READ) != 0;
	return written && target_write(tid, arg, bytes, size) < 0 ? LINK_CANNOT_WRITE : 0;
}

static void on_ioctl(const struct seccomp_notif *n)
{
	static uint8_t msg[sizeof(struct link_ioctl) + 2 * sizeof(struct link_region) + 16384 +
			   LINK_MAX_READ];
	struct link_ioctl m = {
		.h = link_header(LINK_IOCTL, n->id),
		.tid = (int32_t)n->pid,
		.request = (uint32_t)n->data.args[1],
		.arg = n->data.args[2],
	};

	if (!target_node(m.tid, (int)n->data.args[0], &m.inode)) {
		let_through(n->id);
		return;
	}
	size_t size = fetch(msg, &m);
	m.blocked = find_blocked(m.tid, m.arg, m.request);
	memcpy(msg, &m, sizeof(m));
	if (is_valid(n->id)) {
		forward(n->id, m.tid, false, msg, size, -1);
	}
}

static void dispatch(const struct seccomp_notif *n)
{
	const __u64 *a = n->data.args;
	uint64_t flags = 0;

	switch (n->data.nr) {
#ifdef SYS_open
	case SYS_open:
		on_open(n, AT_FDCWD, a[0], a[1]);
		break;
#endif
	case SYS_openat:
		on_open(n, (int)a[0], a[1], a[2]);
		break;
	case SYS_openat2:
		/* The flags are the struct's first member. */
		(void)target_read((int)n->pid, a[2], &flags, sizeof(flags));
		on_open(n, (int)a[0], a[1], flags);
		break;
#ifdef SYS_readlink
	case SYS_readlink:
		on_readlink(n, AT_FDCWD, a[0], a[1], a[2]);
		break;
#endif
	case SYS_readlinkat:
		on_readlink(n, (int)a[0], a[1], a[2], a[3]);
		break;
	case SYS_ioctl:
		on_ioctl(n);
		break;
	default:
		let_through(n->id);
		break;
	}
}

/*
 * A thread of its own, because receiving may block even after poll() said it would not (the program
 * was killed in between), and answers must go on meanwhile.
 */
static void *from_kernel(void *data)
{
	struct seccomp_notif_sizes sizes = {0};

	(void)syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes);
	size_t size = sizes.seccomp_notif > sizeof(struct seccomp_notif)
			      ? sizes.seccomp_notif
			      : sizeof(struct seccomp_notif);
	struct seccomp_notif *n = malloc(size);
	while (n != NULL) {
		memset(n, 0, size);
		if (ioctl(relay.listener, SECCOMP_IOCTL_NOTIF_RECV, n) == 0) {
			dispatch(n);
		} else if (errno != EINTR && errno != ENOENT) {
			break;
		}
	}
	free(n);
	return NULL;
}

static void on_read(const struct link_read *m)
{
	static uint8_t msg[sizeof(struct link_bytes) + LINK_MAX_READ];
	struct link_bytes b = {.h = link_header(LINK_BYTES, m->h.cookie),
		.addr = m->addr,
		.size = m->size,
		.error = -EFAULT};
	int tid = -1;

	pthread_mutex_lock(&relay.lock);
	for (struct pending *p = relay.pending; p != NULL; p = p->next) {
		tid = p->id == m->h.cookie ? p->tid : tid;
	}
	pthread_mutex_unlock(&relay.lock);
	if (tid > 0 && m->size <= LINK_MAX_READ) {
		b.error = target_read(tid, m->addr, msg + sizeof(b), m->size);
	}
	memcpy(msg, &b, sizeof(b));
	(void)rbt_send(
		relay.session->sock, msg, sizeof(b) + (b.error == 0 ? m->size : 0), NULL, 0, 0);
}

static int write_regions(int tid, const uint8_t *p, size_t size, uint32_t n_regions)
{
	struct link_region r;

	for (uint32_t i = 0; i < n_regions; i++) {
		if (size < sizeof(r)) {
			return -EPROTO;
		}
		memcpy(&r, p, sizeof(r));
		if (r.size > size - sizeof(r)) {
			return -EPROTO;
		}
		int err = target_write(tid, r.addr, p + sizeof(r), r.size);
		if (err < 0) {
			return err;
		}
		p += sizeof(r) + r.size;
		size -= sizeof(r) + r.size;
	}
	return 0;
}

static void on_done(const uint8_t *msg, size_t size, int fd)
{
	struct link_done m;
	struct pending p;

	memcpy(&m, msg, sizeof(m));
	if (!take_pending(m.h.cookie, &p) || !is_valid(p.id)) {
		return;
	}
	if (fd >= 0) {
		struct seccomp_notif_addfd add = {
			.id = p.id,
			.flags = SECCOMP_ADDFD_FLAG_SEND,
			.srcfd = (uint32_t)fd,
			.newfd_flags = p.cloexec ? O_CLOEXEC : 0,
		};
		if (ioctl(relay.listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0) {
			respond(p.id, 0, -errno, 0);
		}
		return;
	}
	if (m.error == 0) {
		m.error = write_regions(p.tid, msg + sizeof(m), size - sizeof(m), m.n_regions);
	}
	respond(p.id, m.error < 0 ? 0 : m.value, m.error, 0);
}

static void *from_server(void *data)
{
	static uint8_t msg[LINK_MAX];
	int fds[RBT_MAX_FDS_PER_MSG];

	for (;;) {
		struct link_header h;
		struct link_read read_msg;
		size_t n_fds = 0;
		ssize_t n = rbt_recv(relay.session->sock, msg, sizeof(msg), fds, &n_fds, 0);
		if (n < (ssize_t)sizeof(h)) {
			break;
		}
		memcpy(&h, msg, sizeof(h));
		if (h.type == LINK_READ && n == sizeof(read_msg)) {
			memcpy(&read_msg, msg, sizeof(read_msg));
			on_read(&read_msg);
		} else if (h.type == LINK_DONE && n >= (ssize_t)sizeof(struct link_done)) {
			on_done(msg, (size_t)n, n_fds > 0 ? fds[0] : -1);
		}
		for (size_t i = 0; i < n_fds; i++) {
			rbt_close(&fds[i]);
		}
	}
	lose_server();
	return NULL;
}

int relay_start(int listener, struct session *session)
{
	pthread_t thread;

	relay.listener = listener;
	relay.session = session;
	target_init(session->welcome.server_id);
	(void)ioctl(listener, NOTIF_SET_FLAGS, NOTIF_SYNC_WAKE_UP);
	int r = pthread_create(&thread, NULL, from_kernel, NULL);
	if (r == 0) {
		r = pthread_create(&thread, NULL, from_server, NULL);
	}
	return -r;
}
