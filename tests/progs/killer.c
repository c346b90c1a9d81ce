/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library to preload into rubatod: it kills the daemon or its hand at the n-th point of what they
 * do. A point is a message, a driver call, a ptrace call, or a change of a file or lock, before or
 * after it. Messages are those among daemon, hand, programs and tools, and on AMD to an agent, too.
 *
 *   KILLER_ROLE   daemon or hand: whose points are counted
 *   KILLER_AT     the point to kill at, from 1; 0: none, only count
 *   KILLER_WHAT   only points of this name count, such as fork; unset: all
 *   KILLER_WHEN   before or after
 *   KILLER_WHOM   self or both: the other one goes at the same moment
 *   KILLER_ARM    a file: counting begins when it exists; unset: at once
 *   KILLER_LOG    a file that gets a line per point, or one line for the point of the kill
 *
 * The keeper starts daemons without what is preloaded: they are not killed again.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HAND_NAME    "rubato-hand"
#define KFD_DBG_TRAP 0xc0204b26ul

static struct {
	pid_t daemon;
	bool is_hand, is_after, is_both, is_armed;
	long at;
	_Atomic long n;
	const char *arm, *log, *what;
} plan;

/* ISO C has no conversion from an object pointer to a function pointer. */
#define REAL(name)                                                                                 \
	(((union {                                                                                 \
		void *p;                                                                           \
		__typeof__(&name) f;                                                               \
	}){.p = real(#name)})                                                                      \
			.f)

static void *real(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	if (f == NULL) {
		abort();
	}
	return f;
}

static bool is(const char *variable, const char *value)
{
	const char *s = getenv(variable);

	return s != NULL && strcmp(s, value) == 0;
}

__attribute__((constructor)) static void read_plan(void)
{
	const char *at = getenv("KILLER_AT");

	plan.daemon = (pid_t)syscall(SYS_getpid);
	plan.is_hand = is("KILLER_ROLE", "hand");
	plan.is_after = is("KILLER_WHEN", "after");
	plan.is_both = is("KILLER_WHOM", "both");
	plan.at = at != NULL ? atol(at) : 0;
	plan.arm = getenv("KILLER_ARM");
	plan.log = getenv("KILLER_LOG");
	plan.what = getenv("KILLER_WHAT");
}

static bool is_hand(void)
{
	char name[17] = "";

	return prctl(PR_GET_NAME, name) == 0 && strcmp(name, HAND_NAME) == 0;
}

/* A scan, the keeper and a hand that has not begun yet have no points. The hand makes AMD's debug
 * calls on threads of their own, which have its name. */
static bool counts(void)
{
	if (plan.is_hand ? !is_hand()
			 : syscall(SYS_getpid) != plan.daemon ||
				   syscall(SYS_gettid) != plan.daemon) {
		return false;
	}
	plan.is_armed =
		plan.is_armed || plan.arm == NULL || syscall(SYS_access, plan.arm, F_OK) == 0;
	return plan.is_armed;
}

/* Whether a line could be added; is_first: only to a file that was not there. */
static bool note(const char *what, long point, bool is_first)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "%ld %s\n", point, what);
	long fd = plan.log == NULL ? -1
				   : syscall(SYS_open, plan.log,
					     O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC |
						     (is_first ? O_EXCL : 0),
					     0644);

	if (fd >= 0) {
		syscall(SYS_write, fd, line, n);
		syscall(SYS_close, fd);
	}
	return fd >= 0;
}

static void kill_hands(void)
{
	char path[64], buf[1024], *at = buf;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)plan.daemon);
	long fd = syscall(SYS_open, path, O_RDONLY | O_CLOEXEC);
	long n = fd < 0 ? 0 : syscall(SYS_read, fd, buf, sizeof(buf) - 1);
	buf[n > 0 ? n : 0] = '\0';
	for (long pid = strtol(at, &at, 10); pid > 0; pid = strtol(at, &at, 10)) {
		char name[32] = "";
		snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
		long comm = syscall(SYS_open, path, O_RDONLY | O_CLOEXEC);
		syscall(SYS_read, comm, name, sizeof(name) - 1);
		syscall(SYS_close, comm);
		/* One that has not begun yet has nothing to restore either; and what still has the
		 * daemon's name may be a keeper. */
		if (strncmp(name, HAND_NAME, strlen(HAND_NAME)) == 0) {
			syscall(SYS_kill, (pid_t)pid, SIGKILL);
		}
	}
}

static void die(const char *what, long point)
{
	/* Once: the next hand of the same daemon has the same plan. */
	if (!note(what, point, true)) {
		return;
	}
	if (plan.is_both && plan.is_hand) {
		syscall(SYS_kill, plan.daemon, SIGKILL);
	} else if (plan.is_both) {
		kill_hands();
	}
	syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
	for (;;) {
		pause();
	}
}

/* The number of this point; 0: it does not count. */
static long before(const char *what)
{
	if (!counts() || (plan.what != NULL && strcmp(what, plan.what) != 0)) {
		return 0;
	}
	long point = ++plan.n;
	if (plan.at == 0) {
		note(what, point, false);
	} else if (point == plan.at && !plan.is_after) {
		die(what, point);
	}
	return point;
}

static void after(const char *what, long point)
{
	if (point != 0 && point == plan.at && plan.is_after) {
		die(what, point);
	}
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	long point = before("sendmsg");
	ssize_t r = REAL(sendmsg)(fd, msg, flags);

	after("sendmsg", point);
	return r;
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	long point = before("recvmsg");
	ssize_t r = REAL(recvmsg)(fd, msg, flags);

	after("recvmsg", point);
	return r;
}

ssize_t send(int fd, const void *buf, size_t size, int flags)
{
	long point = before("send");
	ssize_t r = REAL(send)(fd, buf, size, flags);

	after("send", point);
	return r;
}

ssize_t recv(int fd, void *buf, size_t size, int flags)
{
	long point = before("recv");
	ssize_t r = REAL(recv)(fd, buf, size, flags);

	after("recv", point);
	return r;
}

int ioctl(int fd, unsigned long request, ...)
{
	char what[32];
	va_list ap;

	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (request == KFD_DBG_TRAP && arg != NULL) {
		const uint32_t *words = arg; /* the process, and what is asked for */
		snprintf(what, sizeof(what), "ioctl %lx op %u", request, words[1]);
	} else {
		snprintf(what, sizeof(what), "ioctl %lx", request);
	}
	long point = before(what);
	int r = REAL(ioctl)(fd, request, arg);

	after(what, point);
	return r;
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list ap;

	va_start(ap, request);
	pid_t pid = va_arg(ap, pid_t);
	void *addr = va_arg(ap, void *), *data = va_arg(ap, void *);
	va_end(ap);
	long point = before("ptrace");
	long r = REAL(ptrace)(request, pid, addr, data);

	after("ptrace", point);
	return r;
}

int rename(const char *from, const char *to)
{
	long point = before("rename");
	int r = REAL(rename)(from, to);

	after("rename", point);
	return r;
}

int unlink(const char *path)
{
	long point = before("unlink");
	int r = REAL(unlink)(path);

	after("unlink", point);
	return r;
}

int fclose(FILE *f)
{
	long point = before("fclose");
	int r = REAL(fclose)(f);

	after("fclose", point);
	return r;
}

int flock(int fd, int operation)
{
	long point = before("flock");
	int r = REAL(flock)(fd, operation);

	after("flock", point);
	return r;
}

pid_t fork(void)
{
	long point = before("fork");
	pid_t r = REAL(fork)();

	if (r != 0) {
		after("fork", point);
	}
	return r;
}
