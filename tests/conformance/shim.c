/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records as the shim sends them: the suite stands in for the daemon. What is done through them
 * must come to the same as through records found from outside, and end with whoever did it.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "conformance.h"
#include "proto/message.h"
#include "util/fd.h"
#include "util/time.h"

#define RECORD_TIMEOUT_MS 10000
#define END_MS            10000

static int listen_at(char *path, size_t size)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	snprintf(path, size, "/tmp/rubato-conformance-%d", (int)getpid());
	memcpy(addr.sun_path, path, strlen(path) + 1);
	unlink(path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd >= 0 &&
		(bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, 4) < 0)) {
		rbt_close(&fd);
	}
	return fd;
}

/* One message into the record, if it is about one: later ones say more of the same program. */
static int take(int peer, struct rbt_record *rec)
{
	static char buf[RBT_MSG_MAX];
	struct pollfd p = {.fd = peer, .events = POLLIN};
	struct rbt_msg_header h = {0};
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;

	if (poll(&p, 1, RECORD_TIMEOUT_MS) != 1) {
		return -ETIMEDOUT;
	}
	ssize_t n = rbt_recv(peer, buf, sizeof(buf), fds, &n_fds, 0);
	if (n < (ssize_t)sizeof(h)) {
		return n < 0 ? (int)n : -ECONNRESET;
	}
	memcpy(&h, buf, sizeof(h));
	if (h.type != RBT_MSG_RECORD) {
		for (size_t i = 0; i < n_fds; i++) {
			rbt_close(&fds[i]);
		}
		return 0;
	}
	struct rbt_record fresh;
	int r = rbt_record_decode(buf, (size_t)n, &fresh);
	if (r < 0) {
		return r;
	}
	fresh.fd = n_fds == 1 ? fds[0] : dup(rec->fd);
	rbt_record_finish(rec);
	*rec = fresh;
	return 0;
}

static bool is_running(struct context *ctx)
{
	struct state s;

	return state_read(&ctx->opt, ctx->records, ctx->n_records, &s) == 0 &&
	       s.enabled == s.channels && s.channels > 0;
}

/* Nobody but us could resume: that we are gone must do. */
static void check_end(struct context *ctx)
{
	const struct rbt_backend *be = ctx->opt.backend;

	expect("run-suspend-before-end",
		be->suspend(&ctx->records[0], NULL, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), 0);
	expect("run-is-off", is_running(ctx) ? -EBUSY : 0, 0);
	rbt_close(&ctx->records[0].fd);
	bool running = false;
	for (uint64_t end_ns = rbt_now_ns() + END_MS * RBT_NS_PER_MS;
		!running && rbt_now_ns() < end_ns;) {
		running = is_running(ctx);
	}
	expect("run-resumed-by-the-end", running ? 0 : -ETIMEDOUT, 0);
}

static void run_checks(struct context *ctx, uint64_t tasks)
{
	struct rbt_record *rec = &ctx->records[0];
	const struct rbt_backend *be = ctx->opt.backend;

	expect("run-record-holds-together", rbt_record_check(rec), 0);
	expect("run-record-tasks", rec->n_tasks == tasks ? 0 : -EBADMSG, 0);
	expect("run-file",
		(rec->flags & RBT_RECORD_AGENT) && be->check_file != NULL ? be->check_file(rec)
									  : -EBADF,
		0);
	expect("run-complete", be->complete != NULL ? be->complete(rec, ctx->pid) : -ENOSYS, 0);
	expect("run-gpu", rec->tasks[0].valid & RBT_TASK_HAS_GPU ? 0 : -ENODEV, 0);
	check_timeslice(ctx);
	check_suspend(ctx);
	check_suspend_task(ctx);
	check_preempt(ctx);
	check_stats(ctx);
	check_end(ctx);
}

static void check_one(
	struct context *ctx, int listener, const char *option, const char *value, uint64_t tasks)
{
	struct rbt_record rec = RBT_RECORD_INIT;
	struct pollfd p = {.fd = listener, .events = POLLIN};

	ctx->pid = target_start(ctx->opt.target, option, value);
	if (ctx->pid < 0) {
		expect("run-start", ctx->pid, 0);
		return;
	}
	int peer = poll(&p, 1, RECORD_TIMEOUT_MS) == 1 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC)
						       : -1;
	int r = peer < 0 ? -ETIMEDOUT : 0;
	while (r == 0 && rec.n_tasks < tasks) {
		r = take(peer, &rec);
	}
	if (expect("run-record", r, 0)) {
		ctx->records = &rec;
		ctx->n_records = 1;
		run_checks(ctx, tasks);
		ctx->records = NULL;
		ctx->n_records = 0;
	}
	rbt_record_finish(&rec);
	target_stop(ctx->pid);
	rbt_close(&peer);
}

void check_shim(struct context *ctx)
{
	char path[64], *library = realpath(ctx->opt.shim, NULL);
	int listener = library != NULL ? listen_at(path, sizeof(path)) : -1;

	if (listener < 0) {
		free(library);
		expect("run-listen", -errno, 0);
		return;
	}
	target_preload(library, path);
	check_one(ctx, listener, NULL, NULL, ctx->opt.tasks);
	/* The target's other tasks are as many as before, less its two of this kind. */
	check_one(ctx, listener, "--channels", "80", 80 + ctx->opt.tasks - 2);
	rbt_close(&listener);
	unlink(path);
	free(library);
}
