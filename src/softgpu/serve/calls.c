/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program's call in the device server. The model runs on the known part of the program's memory.
 * If that is not enough, it stops without having changed anything, the supervisor is asked for the
 * missing bytes, and the call starts again. So the server never waits.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softgpu/kfd/serve.h"
#include "softgpu/serve/gpus.h"
#include "softgpu/serve/server_impl.h"
#include "util/fd.h"

#define MAX_REGIONS 6
/* Bits of CapEff */
#define CAP_SYS_ADMIN_BIT          21
#define CAP_SYS_NICE_BIT           23
#define CAP_PERFMON_BIT            38
#define CAP_CHECKPOINT_RESTORE_BIT 40

struct region {
	uint64_t addr;
	uint32_t size;
	int error;
	uint8_t *bytes; /* owned */
};

struct call {
	struct call *next;
	struct server *server;
	uint64_t cookie, arg, inode;
	int tid;
	uint32_t request, blocked;
	size_t n_regions;
	struct region regions[MAX_REGIONS];
	struct link_read missing;
	bool parked; /* waits for another call, not for bytes */
	/* The answer so far. */
	uint32_t n_writes;
	size_t out_size;
	uint8_t *out; /* LINK_MAX bytes for the current call; borrowed */
};

/* Facts about a caller from /proc, which every user may read. */
struct caller {
	int pid;
	uint32_t uid;
	uint64_t caps;
};

static int find_caller(int tid, struct caller *ret)
{
	char path[64], buf[4096];
	unsigned uid = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	ssize_t n = rbt_read_file(path, buf, sizeof(buf));
	if (n < 0) {
		return (int)n;
	}
	const char *tgid = strstr(buf, "\nTgid:"), *uids = strstr(buf, "\nUid:"),
		   *caps = strstr(buf, "\nCapEff:");
	if (tgid == NULL || uids == NULL || caps == NULL || sscanf(uids + 5, "%*u %u", &uid) != 1) {
		return -EPROTO;
	}
	*ret = (struct caller){
		.pid = atoi(tgid + 6), .uid = uid, .caps = strtoull(caps + 8, NULL, 16)};
	return 0;
}

/* The session's own user and root may speak for any process: they may do anything here. */
static bool is_trusted(const struct conn *c)
{
	return c->uid == 0 || c->uid == geteuid();
}

/* Which thread a call belongs to is only the supervisor's word: another user's supervisor may name
 * only that user's threads. */
static bool may_speak_for(const struct conn *c, int tid)
{
	struct caller caller;

	return is_trusted(c) || (find_caller(tid, &caller) == 0 && caller.uid == c->uid);
}

static int read_memory(void *data, uint64_t addr, void *buf, size_t size)
{
	struct call *call = data;

	if (size > LINK_MAX_READ) {
		return -EFAULT;
	}
	for (size_t i = 0; i < call->n_regions; i++) {
		const struct region *r = &call->regions[i];
		if (addr >= r->addr && addr - r->addr <= r->size &&
			size <= r->size - (addr - r->addr)) {
			if (r->error == 0) {
				memcpy(buf, r->bytes + (addr - r->addr), size);
			}
			return r->error;
		}
	}
	if (call->n_regions == MAX_REGIONS) {
		return -EFAULT;
	}
	call->missing.addr = addr;
	call->missing.size = (uint32_t)size;
	return -ERESTART;
}

static int write_memory(void *data, uint64_t addr, const void *buf, size_t size)
{
	struct call *call = data;
	struct link_region r = {.addr = addr, .size = (uint32_t)size};

	if (size > LINK_MAX - sizeof(r) || call->out_size > LINK_MAX - sizeof(r) - size) {
		return -EFAULT;
	}
	memcpy(call->out + call->out_size, &r, sizeof(r));
	memcpy(call->out + call->out_size + sizeof(r), buf, size);
	call->out_size += sizeof(r) + size;
	call->n_writes++;
	return 0;
}

static int caller_pid(void *data)
{
	const struct call *call = data;
	struct caller caller;

	return find_caller(call->tid, &caller) == 0 ? caller.pid : call->tid;
}

static bool caller_may_nice(void *data)
{
	const struct call *call = data;
	struct caller caller;

	return find_caller(call->tid, &caller) == 0 && (caller.caps >> CAP_SYS_NICE_BIT & 1);
}

static bool is_control_fd(void *data, int fd)
{
	const struct call *call = data;
	char path[64], link[96], wanted[96];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", call->tid, fd);
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	if (n < 0) {
		return false;
	}
	link[n] = '\0';
	snprintf(wanted, sizeof(wanted), "/memfd:" MEMFD_NAME_FMT " (deleted)", call->server->id,
		"/dev/nvidiactl");
	return strcmp(link, wanted) == 0;
}

static void log_line(void *data, const char *line)
{
	const struct call *call = data;

	server_log(call->server, line);
}

static void call_destroy(struct call *call)
{
	for (size_t i = 0; i < call->n_regions; i++) {
		free(call->regions[i].bytes);
	}
	free(call);
}

void calls_destroy(struct conn *c)
{
	struct call *next;

	for (struct call *call = c->calls; call != NULL; call = next) {
		next = call->next;
		call_destroy(call);
	}
	c->calls = NULL;
}

static void send_done(struct conn *c, struct call *call, int error, uint64_t delay_us)
{
	struct link_done done = {
		.h = link_header(LINK_DONE, call->cookie),
		.error = error,
		.n_regions = error == 0 ? call->n_writes : 0,
	};

	memcpy(call->out, &done, sizeof(done));
	conn_send(c, call->out, error == 0 ? call->out_size : sizeof(done), -1, delay_us);
}

static void keep(struct conn *c, struct call *call)
{
	call->next = c->calls;
	c->calls = call;
}

/* The same for /dev/kfd, whose model reads memory by itself. */
static void run_kfd(struct conn *c, struct call *call, struct rbt_kfd_open *open)
{
	struct rbt_kfd_task task = {.tid = call->tid};
	struct link_done done = {.h = link_header(LINK_DONE, call->cookie)};
	struct caller caller;
	uint64_t delay_us = 0;

	if (find_caller(call->tid, &caller) < 0) {
		caller = (struct caller){.pid = call->tid};
	}
	bool admin = caller.caps >> CAP_SYS_ADMIN_BIT & 1;
	task.pid = caller.pid;
	task.may_checkpoint = admin || (caller.caps >> CAP_CHECKPOINT_RESTORE_BIT & 1);
	task.may_profile = admin || (caller.caps >> CAP_PERFMON_BIT & 1);
	kfd_serve_prepare(call->server->kfd, task.pid, call->arg, call->blocked);
	int64_t r = rbt_kfd_ioctl(open, task, call->request, call->arg, &delay_us);
	call->parked = r == RBT_KFD_WAIT;
	if (call->parked) {
		keep(c, call);
		return;
	}
	kfd_serve_touch(call->server->kfd);
	done.value = r < 0 ? 0 : r;
	done.error = r < 0 ? (int32_t)r : 0;
	conn_send(c, &done, sizeof(done), -1, delay_us);
	call_destroy(call);
}

/* The file of the call is also the supervisor's word. A supervisor cannot prove that it holds the
 * file, so the file must belong to its user. KFD's files work only in the process that opened
 * them. */
static bool may_call(const struct conn *c, const struct call *call, const struct rbt_rm_open *open)
{
	return may_speak_for(c, call->tid) &&
	       (open == NULL || is_trusted(c) || rbt_rm_open_uid(open) == c->uid);
}

/* Takes ownership of the call: finishes it, or asks for bytes and keeps it. */
static void run(struct conn *c, struct call *call)
{
	struct rbt_rm_env env = {
		.read = read_memory,
		.write = write_memory,
		.pid = caller_pid,
		.may_nice = caller_may_nice,
		.is_control_fd = is_control_fd,
		.log = log_line,
		.data = call,
	};
	static uint8_t out[LINK_MAX];
	uint64_t delay_us = 0;
	/* Looked up each time: the file may have been closed while the call waited for bytes. */
	struct rbt_rm_open *open = nodes_find(call->server->nodes, call->inode);
	int r = -EIO;

	call->out = out;
	call->out_size = sizeof(struct link_done);
	call->n_writes = 0;
	struct rbt_kfd_open *kfd = nodes_find_kfd(call->server->nodes, call->inode);
	if (!may_call(c, call, open)) {
		r = -EPERM;
	} else if (kfd != NULL) {
		run_kfd(c, call, kfd);
		return;
	} else if (open != NULL) {
		r = rbt_rm_ioctl(open, call->request, call->arg, &env, &delay_us);
		gpus_refresh(call->server->gpus);
	}
	if (r == -ERESTART) {
		call->missing.h = link_header(LINK_READ, call->cookie);
		conn_send(c, &call->missing, sizeof(call->missing), -1, 0);
		keep(c, call);
		return;
	}
	send_done(c, call, r, delay_us);
	call_destroy(call);
}

static int add_region(
	struct call *call, uint64_t addr, uint32_t size, int error, const uint8_t *bytes)
{
	struct region *r = &call->regions[call->n_regions];

	if (call->n_regions == MAX_REGIONS) {
		return -E2BIG;
	}
	*r = (struct region){.addr = addr, .size = size, .error = error};
	if (error == 0) {
		r->bytes = malloc(size + 1u);
		if (r->bytes == NULL) {
			return -ENOMEM;
		}
		memcpy(r->bytes, bytes, size);
	}
	call->n_regions++;
	return 0;
}

void call_begin(struct server *s, struct conn *c, const uint8_t *msg, size_t size)
{
	struct link_ioctl m;
	struct link_region r;
	size_t at = sizeof(m);

	if (size < sizeof(m)) {
		c->broken = true;
		return;
	}
	memcpy(&m, msg, sizeof(m));
	struct call *call = calloc(1, sizeof(*call));
	if (call == NULL) {
		c->broken = true;
		return;
	}
	call->server = s;
	call->cookie = m.h.cookie;
	call->arg = m.arg;
	call->inode = m.inode;
	call->tid = m.tid;
	call->request = m.request;
	call->blocked = m.blocked;
	for (uint32_t i = 0; i < m.n_regions; i++) {
		if (size - at < sizeof(r)) {
			goto bad;
		}
		memcpy(&r, msg + at, sizeof(r));
		at += sizeof(r);
		if (r.size > size - at || add_region(call, r.addr, r.size, 0, msg + at) < 0) {
			goto bad;
		}
		at += r.size;
	}
	run(c, call);
	return;
bad:
	call_destroy(call);
	c->broken = true;
}

void call_resume(struct server *s, struct conn *c, const uint8_t *msg, size_t size)
{
	struct link_bytes m;
	struct call **p = &c->calls, *call;

	if (size < sizeof(m)) {
		c->broken = true;
		return;
	}
	memcpy(&m, msg, sizeof(m));
	while (*p != NULL && ((*p)->parked || (*p)->cookie != m.h.cookie)) {
		p = &(*p)->next;
	}
	call = *p;
	if (call == NULL) {
		return;
	}
	*p = call->next;
	if (m.error > 0 || m.size != call->missing.size || m.addr != call->missing.addr ||
		size != sizeof(m) + (m.error == 0 ? m.size : 0) ||
		add_region(call, m.addr, m.size, m.error == 0 ? 0 : -EFAULT, msg + sizeof(m)) < 0) {
		call_destroy(call);
		c->broken = true;
		return;
	}
	run(c, call);
}

void calls_retry(struct server *s)
{
	for (struct conn *c = s->conns; c != NULL; c = c->next) {
		struct call *again = NULL;
		for (struct call **p = &c->calls; *p != NULL;) {
			struct call *call = *p;
			if (call->parked) {
				*p = call->next;
				call->next = again;
				again = call;
			} else {
				p = &call->next;
			}
		}
		while (again != NULL) {
			struct call *call = again;
			again = call->next;
			call->parked = false;
			run(c, call);
		}
	}
}

void call_open(struct server *s, struct conn *c, const uint8_t *msg, size_t size)
{
	struct link_open m;
	struct link_done done = {.h = link_header(LINK_DONE, 0)};
	struct caller caller;

	if (size != sizeof(m)) {
		c->broken = true;
		return;
	}
	memcpy(&m, msg, sizeof(m));
	m.path[sizeof(m.path) - 1] = '\0';
	done.h.cookie = m.h.cookie;
	nodes_sweep(s->nodes);
	if (find_caller(m.tid, &caller) < 0) {
		caller = (struct caller){.pid = m.tid, .uid = c->uid};
	}
	int fd = !may_speak_for(c, m.tid) ? -EPERM
		 : kfd_serve_has(m.path)
			 ? kfd_serve_open(s->kfd, m.path, (int)m.flags, caller.pid, s->received)
			 : nodes_open(s->nodes, m.path, caller.pid, caller.uid);
	done.error = fd < 0 ? fd : 0;
	conn_send(c, &done, sizeof(done), fd, 0);
	rbt_close(&fd);
	s->n_opens++;
}
