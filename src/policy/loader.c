/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/loader.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/aside.h"
#include "util/fd.h"
#include "util/time.h"

#define MAX_LOG (16u << 20)

struct message {
	uint32_t kind;
	uint32_t index;
	int32_t error;
	uint32_t size; /* of the text */
	char text[RBT_LOAD_TEXT];
};

void rbt_kernel_files_init(struct rbt_kernel_files *files)
{
	memset(files, 0xff, sizeof(*files)); /* -1 */
}

void rbt_kernel_files_finish(struct rbt_kernel_files *files)
{
	for (size_t i = 0; i < RBT_N_HOOKS; i++) {
		rbt_close(&files->programs[i]);
	}
	for (size_t i = 0; i < RBT_OBJECT_MAX_MAPS; i++) {
		rbt_close(&files->maps[i]);
	}
}

static int add_log(struct rbt_loader *l, const char *text, size_t size)
{
	if (size > MAX_LOG - l->log_size) {
		return 0;
	}
	char *log = realloc(l->log, l->log_size + size + 1);
	if (log == NULL) {
		return -ENOMEM;
	}
	memcpy(log + l->log_size, text, size);
	l->log = log;
	l->log_size += size;
	l->log[l->log_size] = '\0';
	return 0;
}

static void take_file(int *place, int *fd)
{
	rbt_close(place);
	*place = *fd;
	*fd = -1;
}

/* The text of the last message is in `why`. */
static int take(
	struct rbt_loader *l, const struct message *m, size_t size, int *fd, struct rbt_why *why)
{
	const size_t head = offsetof(struct message, text);

	if (size < head || m->size != size - head) {
		return -EPROTO;
	}
	switch (m->kind) {
	case RBT_LOAD_PROGRAM:
		if (m->index >= RBT_N_HOOKS || *fd < 0) {
			return -EPROTO;
		}
		take_file(&l->files.programs[m->index], fd);
		return 0;
	case RBT_LOAD_MAP:
		if (m->index >= RBT_OBJECT_MAX_MAPS || *fd < 0) {
			return -EPROTO;
		}
		take_file(&l->files.maps[m->index], fd);
		return 0;
	case RBT_LOAD_LOG:
		return add_log(l, m->text, m->size);
	case RBT_LOAD_DONE:
		l->is_done = true;
		/* -EAGAIN would mean that the process is still at work. */
		l->error = m->error == -EAGAIN ? -EINVAL : m->error < 0 ? m->error : 0;
		if (m->error < 0) {
			rbt_why_set(why, 0, "%.*s", (int)m->size, m->text);
		}
		return 0;
	default:
		return -EPROTO;
	}
}

/* Takes one message. -EAGAIN: there is none. */
static int take_next(struct rbt_loader *l, struct rbt_why *why)
{
	int fds[RBT_MAX_FDS_PER_MSG];
	struct message m;
	size_t n_fds = 0;

	ssize_t size = rbt_recv(l->sock, &m, sizeof(m), fds, &n_fds, MSG_DONTWAIT);
	if (size <= 0) {
		return size == -EINTR ? 0 : size < 0 ? (int)size : -ECONNRESET;
	}
	int r = take(l, &m, (size_t)size, &fds[0], why);
	for (size_t i = 0; i < RBT_MAX_FDS_PER_MSG; i++) {
		rbt_close(&fds[i]);
	}
	return r;
}

int rbt_loader_step(struct rbt_loader *l, struct rbt_why *why)
{
	int r = 0;

	while (r == 0 && !l->is_done) {
		r = take_next(l, why);
	}
	if (r == -EAGAIN && rbt_now_ns() < l->until_ns) {
		return r;
	}
	if (r < 0) {
		return rbt_why_set(why, -EINVAL, "the process that loads this object %s",
			r == -EAGAIN ? "took too long" : "crashed");
	}
	return l->error;
}

int rbt_loader_wait(struct rbt_loader *l, struct rbt_why *why)
{
	int r;

	while ((r = rbt_loader_step(l, why)) == -EAGAIN) {
		struct pollfd p = {.fd = l->sock, .events = POLLIN};
		const uint64_t now_ns = rbt_now_ns();

		if (now_ns < l->until_ns) {
			(void)poll(&p, 1, (int)((l->until_ns - now_ns) / RBT_NS_PER_MS) + 1);
		}
	}
	return r;
}

int rbt_loader_start(struct rbt_loader *l, void (*fn)(int sock, void *data), void *data, int *keep,
	size_t n_keep, uint64_t timeout_ns, struct rbt_why *why)
{
	*l = (struct rbt_loader){.sock = -1, .until_ns = rbt_now_ns() + timeout_ns};
	rbt_kernel_files_init(&l->files);
	l->pid = rbt_aside_start_with(fn, data, keep, n_keep, &l->sock);
	if (l->pid < 0) {
		int r = (int)l->pid;
		l->pid = 0;
		return rbt_why_set(
			why, r, "no process can be started to load it: %s", strerror(-r));
	}
	return 0;
}

pid_t rbt_loader_finish(struct rbt_loader *l)
{
	pid_t lost = l->pid > 0 && !rbt_aside_end(l->pid) ? l->pid : 0;

	rbt_close(&l->sock);
	rbt_kernel_files_finish(&l->files);
	free(l->log);
	l->log = NULL;
	l->pid = 0;
	return lost;
}

void rbt_loader_send(int sock, enum rbt_load_kind kind, uint32_t index, int error, const char *text,
	size_t size, int fd)
{
	struct message m = {.kind = kind, .index = index, .error = error, .size = (uint32_t)size};

	memcpy(m.text, text, size);
	rbt_send(sock, &m, offsetof(struct message, text) + size, &fd, fd >= 0, 0);
}
