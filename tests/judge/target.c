/* SPDX-License-Identifier: Apache-2.0 */
/* The process that does as it is told: what is debugged, or another debugger. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "judge.h"

#define ANSWER_MS 15000

struct order {
	uint32_t op, a, b;
};

static void fail(const char *what)
{
	fprintf(stderr, "judge: target: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static int take_fd(int sock)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	int fd = -1;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&msg) == NULL) {
		fail("no fd came");
	}
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

void target_give(struct target *t, int fd)
{
	char byte = '.', control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&msg);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	target_send(t, TARGET_TAKE, 0, 0);
	if (sendmsg(t->order, &msg, 0) != 1) {
		fail("cannot pass the fd");
	}
}

static void exec_anew(int order, int answer)
{
	char a[16], b[16];

	snprintf(a, sizeof(a), "%d", order);
	snprintf(b, sizeof(b), "%d", answer);
	fcntl(order, F_SETFD, 0);
	fcntl(answer, F_SETFD, 0);
	execl("/proc/self/exe", "judge", "--target", a, b, NULL);
	fail("exec");
}

static long version_of(int fd)
{
	struct kfd_version v;

	return call(fd, KFD_IOC_GET_VERSION, &v);
}

static long version_in_child(int fd)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		_exit((int)-version_of(fd));
	}
	waitpid(pid, &status, 0);
	return -(long)WEXITSTATUS(status);
}

static long obey(const struct order *o, int *fd, int order, int answer)
{
	int events[2];

	switch (o->op) {
	case TARGET_OPEN:
		*fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);
		return *fd < 0 ? -errno : 0;
	case TARGET_CLOSE:
		return close(*fd) < 0 ? -errno : 0;
	case TARGET_VERSION:
		return version_of(*fd);
	case TARGET_RUNTIME:
		return runtime_enable(*fd, o->a, 0x1234);
	case TARGET_SEIZE:
		return seize((pid_t)o->a);
	case TARGET_DETACH:
		return detach((pid_t)o->a);
	case TARGET_ENABLE:
		make_pipe(events);
		return dbg_enable(*fd, (pid_t)o->a, events[1], KFD_EC_PROCESS_RUNTIME, NULL);
	case TARGET_DBG:
		return dbg(*fd, (pid_t)o->a, o->b, NULL);
	case TARGET_TAKE:
		*fd = take_fd(order);
		return 0;
	case TARGET_EXEC:
		exec_anew(order, answer);
		return 0;
	case TARGET_FORK:
		return version_in_child(*fd);
	default:
		_exit(0);
	}
}

int target_main(int order, int answer)
{
	struct order o;
	int fd = -1;

	/* Whoever the table says, not whom a security module allows; fails where there is none. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	while (recv(order, &o, sizeof(o), 0) == sizeof(o)) {
		int64_t result = obey(&o, &fd, order, answer);
		if (write(answer, &result, sizeof(result)) != sizeof(result)) {
			fail("answer");
		}
	}
	return 0;
}

struct target target_start(void)
{
	int orders[2], answers[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, orders) < 0) {
		fail("socketpair");
	}
	make_pipe(answers);
	pid_t pid = fork();
	if (pid == 0) {
		close(orders[0]);
		close(answers[0]);
		_exit(target_main(orders[1], answers[1]));
	}
	close(orders[1]);
	close(answers[1]);
	return (struct target){.pid = pid, .order = orders[0], .answer = answers[0]};
}

void target_send(struct target *t, enum target_op op, uint32_t a, uint32_t b)
{
	struct order o = {.op = op, .a = a, .b = b};

	if (send(t->order, &o, sizeof(o), MSG_NOSIGNAL) != sizeof(o)) {
		fail("order");
	}
	t->asked = true;
}

bool target_answers(struct target *t, unsigned ms, long *ret)
{
	struct pollfd p = {.fd = t->answer, .events = POLLIN};
	int64_t result;

	if (!t->asked || poll(&p, 1, (int)ms) != 1 ||
		read(t->answer, &result, sizeof(result)) != sizeof(result)) {
		return false;
	}
	t->asked = false;
	*ret = (long)result;
	return true;
}

long target_ask(struct target *t, enum target_op op, uint32_t a, uint32_t b)
{
	long result = 0;

	if (op == TARGET_TAKE || op == TARGET_EXIT) {
		fail("is not asked that way");
	}
	target_send(t, op, a, b);
	if (op == TARGET_EXEC) {
		t->asked = false; /* nobody answers: the one who was asked is gone */
		return 0;
	}
	if (!target_answers(t, ANSWER_MS, &result)) {
		say("NO ANSWER");
		_exit(1);
	}
	return result;
}

void target_kill(struct target *t)
{
	siginfo_t info;

	kill(t->pid, SIGKILL);
	waitid(P_PID, (id_t)t->pid, &info, WEXITED | WNOWAIT);
}

void target_reap(struct target *t)
{
	waitpid(t->pid, NULL, __WALL);
}
