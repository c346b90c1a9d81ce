/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/kernel_load.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/aside.h"
#include "util/fd.h"
#include "util/time.h"

/* The verifier may need seconds for an object that it refuses in the end. */
#define LOAD_TIMEOUT_NS (10 * RBT_NS_PER_S)
#define MAX_LOG         (16u << 20)

/* What the loading process needs. It has a copy of our memory. */
struct job {
	const struct rbt_object *o;
	const int *shared;
	int kept[RBT_OBJECT_MAX_MAPS]; /* the shared files, in ascending order */
	size_t n_kept;
};

/* What has come back. */
struct answer {
	struct rbt_kernel_files files;
	char *log;
	size_t log_size;
	bool is_done;
	int error;
};

static void child(int sock, void *data)
{
	const struct job *job = data;
	int files[RBT_OBJECT_MAX_MAPS];

	for (size_t i = 0; i < RBT_OBJECT_MAX_MAPS; i++) {
		files[i] = -1;
		for (size_t j = 0; job->shared[i] >= 0 && j < job->n_kept; j++) {
			if (job->kept[j] == job->shared[i]) {
				files[i] = RBT_ASIDE_KEPT + (int)j;
			}
		}
	}
	rbt_libbpf_load(sock, job->o, files);
}

static void files_init(struct rbt_kernel_files *files)
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

static int add_log(struct answer *a, const char *text, size_t size)
{
	if (size > MAX_LOG - a->log_size) {
		return 0;
	}
	char *log = realloc(a->log, a->log_size + size + 1);
	if (log == NULL) {
		return -ENOMEM;
	}
	memcpy(log + a->log_size, text, size);
	a->log = log;
	a->log_size += size;
	a->log[a->log_size] = '\0';
	return 0;
}

static void take_file(int *place, int *fd)
{
	rbt_close(place);
	*place = *fd;
	*fd = -1;
}

/* Takes one message. The sender may have been damaged by the object, so nothing in it is trusted.
 * The text of the last one is in `why`. */
static int take(struct answer *a, const struct rbt_load_message *m, size_t size, int *fd,
	struct rbt_why *why)
{
	const size_t head = offsetof(struct rbt_load_message, text);

	if (size < head || m->size != size - head) {
		return -EPROTO;
	}
	switch (m->kind) {
	case RBT_LOAD_PROGRAM:
		if (m->index >= RBT_N_HOOKS || *fd < 0) {
			return -EPROTO;
		}
		take_file(&a->files.programs[m->index], fd);
		return 0;
	case RBT_LOAD_MAP:
		if (m->index >= RBT_OBJECT_MAX_MAPS || *fd < 0) {
			return -EPROTO;
		}
		take_file(&a->files.maps[m->index], fd);
		return 0;
	case RBT_LOAD_LOG:
		return add_log(a, m->text, m->size);
	case RBT_LOAD_DONE:
		a->is_done = true;
		a->error = m->error;
		if (m->error < 0) {
			rbt_why_set(why, 0, "kernel: %.*s", (int)m->size, m->text);
		}
		return 0;
	default:
		return -EPROTO;
	}
}

static int receive(int sock, struct answer *a, uint64_t until_ns, struct rbt_why *why)
{
	struct rbt_load_message m;
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;

	for (;;) {
		struct pollfd p = {.fd = sock, .events = POLLIN};
		const uint64_t now_ns = rbt_now_ns();
		const uint64_t left_ms =
			now_ns < until_ns ? (until_ns - now_ns) / RBT_NS_PER_MS + 1 : 0;
		int n = poll(&p, 1, (int)left_ms);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n == 0 ? -ETIMEDOUT : -errno;
		}
		ssize_t size = rbt_recv(sock, &m, sizeof(m), fds, &n_fds, MSG_DONTWAIT);
		if (size == -EAGAIN || size == -EINTR) {
			continue;
		}
		if (size <= 0) {
			return size < 0 ? (int)size : -ECONNRESET;
		}
		int r = take(a, &m, (size_t)size, &fds[0], why);
		for (size_t i = 0; i < RBT_MAX_FDS_PER_MSG; i++) {
			rbt_close(&fds[i]);
		}
		if (r < 0 || a->is_done) {
			return r < 0 ? r : a->error;
		}
	}
}

/* The engine relies on a file for each hook and map. */
static bool is_complete(const struct rbt_object *o, const struct rbt_kernel_files *files)
{
	for (size_t i = 0; i < RBT_N_HOOKS; i++) {
		if (o->hooks[i] >= 0 && files->programs[i] < 0) {
			return false;
		}
	}
	for (size_t i = 0; i < o->n_maps; i++) {
		if (files->maps[i] < 0) {
			return false;
		}
	}
	return true;
}

int rbt_kernel_load(const struct rbt_object *o, const int shared[RBT_OBJECT_MAX_MAPS],
	struct rbt_kernel_files *ret, struct rbt_why *why, char **ret_log)
{
	struct job job = {.o = o, .shared = shared};
	struct answer a = {0};
	int sock = -1;

	files_init(&a.files);
	for (size_t i = 0; i < o->n_maps; i++) {
		if (shared[i] >= 0) {
			job.kept[job.n_kept++] = shared[i];
		}
	}
	pid_t pid = rbt_aside_start_with(child, &job, job.kept, job.n_kept, &sock);
	if (pid < 0) {
		return rbt_why_set(why, pid, "kernel: no process for libbpf: %s", strerror(-pid));
	}
	int r = receive(sock, &a, rbt_now_ns() + LOAD_TIMEOUT_NS, why);
	close(sock);
	rbt_aside_end(pid);
	if (r == 0 && !is_complete(o, &a.files)) {
		r = -EPROTO;
	}
	if (r < 0 && (!a.is_done || a.error == 0)) {
		rbt_why_set(why, r, "kernel: libbpf failed on this object: %s",
			r == -ETIMEDOUT ? "it took more than 10 s" : "it crashed");
		r = -EINVAL;
	}
	if (r < 0) {
		rbt_kernel_files_finish(&a.files);
		*ret_log = a.log;
		return r;
	}
	free(a.log);
	*ret = a.files;
	return 0;
}
