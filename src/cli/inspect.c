/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/message.h"
#include "util/aside.h"
#include "util/fd.h"
#include "util/lost.h"
#include "util/proc.h"
#include "util/time.h"

/* Reading a command line takes microseconds, or hangs. */
#define COMMAND_NS (2 * RBT_NS_PER_S)
#define TASKS_NS   (RBT_INSPECT_S * RBT_NS_PER_S)
/* How long a program is left alone after its inspection took too long. */
#define SHUN_NS     (60 * RBT_NS_PER_S)
#define COMMAND_MAX 512
#define MAX_RECORDS 4096u

enum { ASK_COMMAND, ASK_TASKS };

struct question {
	uint32_t what;
	int32_t pid;
};

/* n_records messages of type ATTACH follow. */
struct answer {
	int32_t error;
	uint32_t n_records;
	uint64_t cpu_ns; /* processor time so far */
	char command[COMMAND_MAX];
};

static struct {
	pid_t pid; /* the inspector; 0: none yet */
	int sock;
	uint64_t cpu_ns;      /* of this inspector */
	uint64_t cpu_past_ns; /* of earlier inspectors */
	struct rbt_lost lost;
} inspector = {.sock = -1};

/* In the inspector */

static int discover(pid_t pid, struct rbt_record **ret, size_t *ret_n)
{
	int pidfd = rbt_pidfd_open(pid);

	if (pidfd < 0) {
		return pidfd == -EINVAL ? -ESRCH : pidfd;
	}
	int r = rbt_backends_discover(pid, pidfd, ret, ret_n);
	close(pidfd);
	return r;
}

static int reply(int sock, const struct question *q)
{
	struct answer a = {0};
	struct rbt_record *recs = NULL;
	size_t n = 0;

	a.error = q->what == ASK_TASKS ? discover(q->pid, &recs, &n)
				       : rbt_proc_command(q->pid, a.command, sizeof(a.command));
	a.n_records = (uint32_t)n;
	a.cpu_ns = rbt_cpu_ns();
	int r = rbt_send(sock, &a, sizeof(a), NULL, 0, 0);
	if (r == 0) {
		r = rbt_records_send(sock, recs, n);
	}
	rbt_records_free(recs, n);
	return r;
}

static void serve(int sock, void *data)
{
	int fds[RBT_MAX_FDS_PER_MSG];
	struct question q;
	size_t n_fds = 0;

	/* If the inspector hangs for ever, readers of our output must not wait for its copies of
	 * our files. */
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd <= STDERR_FILENO && getenv("RUBATO_DEBUG") == NULL; fd++) {
		dup2(null, fd);
	}
	while (rbt_recv(sock, &q, sizeof(q), fds, &n_fds, 0) == sizeof(q) && reply(sock, &q) == 0) {
	}
}

/* In this process */

static int start(void)
{
	if (inspector.pid > 0) {
		return 0;
	}
	if (rbt_lost_are_too_many(&inspector.lost)) {
		return -ETIME;
	}
	pid_t pid = rbt_aside_start(serve, NULL, &inspector.sock);
	if (pid < 0) {
		return (int)pid;
	}
	inspector.pid = pid;
	return 0;
}

static void give_up(struct rbt_inspected at)
{
	pid_t pid = inspector.pid;

	rbt_close(&inspector.sock);
	inspector.pid = 0;
	inspector.cpu_past_ns += inspector.cpu_ns;
	inspector.cpu_ns = 0;
	bool hangs = !rbt_aside_end(pid);
	rbt_lost_note(&inspector.lost, hangs ? pid : 0, at, rbt_now_ns(), SHUN_NS);
}

/* As rbt_recv(), with a deadline; -ETIME. */
static ssize_t receive(
	void *buf, size_t size, int fds[RBT_MAX_FDS_PER_MSG], size_t *ret_n_fds, uint64_t until_ns)
{
	struct pollfd p = {.fd = inspector.sock, .events = POLLIN};

	for (;;) {
		uint64_t now_ns = rbt_now_ns();
		if (now_ns >= until_ns) {
			return -ETIME;
		}
		int ready = poll(&p, 1, (int)((until_ns - now_ns) / RBT_NS_PER_MS) + 1);
		if (ready < 0 && errno != EINTR) {
			return -errno;
		}
		if (ready > 0) {
			ssize_t n =
				rbt_recv(inspector.sock, buf, size, fds, ret_n_fds, MSG_DONTWAIT);
			return n == 0 ? -EIO : n;
		}
	}
}

static int take_record(struct rbt_record *ret, uint64_t until_ns)
{
	static char buf[RBT_RECORD_MSG_MAX];
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;
	ssize_t n = receive(buf, sizeof(buf), fds, &n_fds, until_ns);

	if (n < 0) {
		return (int)n;
	}
	int r = n_fds == 1 ? rbt_record_decode(buf, (size_t)n, ret) : -EBADMSG;
	if (r == 0) {
		ret->fd = fds[0];
		fds[0] = -1;
	}
	for (size_t i = 0; i < n_fds; i++) {
		rbt_close(&fds[i]);
	}
	return r;
}

static int take_records(uint32_t n, struct rbt_record **ret, uint64_t until_ns)
{
	struct rbt_record *recs = n <= MAX_RECORDS ? calloc(n + 1, sizeof(*recs)) : NULL;
	uint32_t taken = 0;
	int r = recs == NULL ? -ENOMEM : 0;

	while (r == 0 && taken < n) {
		r = take_record(&recs[taken], until_ns);
		taken += r == 0;
	}
	if (r < 0) {
		while (taken > 0) {
			rbt_record_finish(&recs[--taken]);
		}
		free(recs);
		return r;
	}
	*ret = recs;
	return 0;
}

static int put(const struct question *q, struct answer *ret, struct rbt_record **ret_recs,
	uint64_t until_ns)
{
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;
	int r = rbt_send(inspector.sock, q, sizeof(*q), NULL, 0, 0);

	if (r < 0) {
		return r;
	}
	ssize_t n = receive(ret, sizeof(*ret), fds, &n_fds, until_ns);
	if (n != sizeof(*ret)) {
		return n < 0 ? (int)n : -EBADMSG;
	}
	inspector.cpu_ns = ret->cpu_ns;
	ret->command[COMMAND_MAX - 1] = '\0';
	return ret_recs != NULL ? take_records(ret->n_records, ret_recs, until_ns) : 0;
}

/* 0 if there is an answer, which may be an error as well. */
static int ask(const struct question *q, uint64_t limit_ns, struct answer *ret,
	struct rbt_record **ret_recs)
{
	struct rbt_inspected at = {.pid = q->pid};
	int r = rbt_proc_uid(at.pid, &at.uid);

	r = r < 0 ? r : rbt_proc_start_time(at.pid, &at.start_time);
	if (r < 0) {
		return r;
	}
	if (rbt_lost_is_shunned(&inspector.lost, at, rbt_now_ns())) {
		return -ETIME;
	}
	r = start();
	if (r < 0) {
		return r;
	}
	r = put(q, ret, ret_recs, rbt_now_ns() + limit_ns);
	if (r < 0) {
		give_up(at);
	}
	return r;
}

static bool is_descendant(pid_t pid)
{
	/* If pids are reused meanwhile, the chain of parents may have no end. */
	for (int i = 0; i < 1000 && pid > 1 && rbt_proc_parent(pid, &pid) == 0; i++) {
		if (pid == getpid()) {
			return true;
		}
	}
	return false;
}

int inspect_tasks(pid_t pid, struct rbt_record **ret, size_t *ret_n)
{
	struct question q = {.what = ASK_TASKS, .pid = pid};
	struct rbt_record *recs = NULL;
	struct answer a = {0};
	int r = ask(&q, TASKS_NS, &a, &recs);

	if (r == 0 && a.error == 0) {
		*ret = recs;
		*ret_n = a.n_records;
		return 0;
	}
	free(recs);
	r = r < 0 ? r : a.error;
	/* With kernel.yama.ptrace_scope 1, only ancestors may inspect a process. The inspector is
	 * no ancestor, so this process does it for its own descendants; it may wait for those. */
	return (r == -EPERM || r == -EACCES) && is_descendant(pid) ? discover(pid, ret, ret_n) : r;
}

int inspect_command(pid_t pid, char *buf, size_t size)
{
	struct question q = {.what = ASK_COMMAND, .pid = pid};
	struct answer a = {0};
	int r = ask(&q, COMMAND_NS, &a, NULL);

	r = r < 0 ? r : a.error;
	if (r < 0) {
		return r == -ESRCH ? r : rbt_proc_name(pid, buf, size);
	}
	snprintf(buf, size, "%s", a.command);
	return 0;
}

uint64_t inspect_cpu_ns(void)
{
	return inspector.cpu_past_ns + inspector.cpu_ns;
}
