/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "util/trust.h"

/* If the limit is below the preferred number, a number that leaves the program this many is
 * used. */
#define OWN_FD_MIN 200
#define SPARE_FDS  32

static int identify(int fd, struct shim_fd *ret)
{
	struct stat st;

	if (syscall(SYS_fstat, fd, &st) < 0) {
		return -errno;
	}
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	ret->rdev = st.st_rdev;
	ret->mode = (uint32_t)syscall(SYS_fcntl, fd, F_GETFL) & O_ACCMODE;
	return 0;
}

int shim_fd_set(struct shim_fd *f, int fd)
{
	int r = identify(fd, f);

	/* Last: a child must not find a number without its identity. */
	if (r == 0) {
		f->fd_plus_1 = fd + 1;
	}
	return r;
}

int shim_fd_own(struct shim_fd *f, int fd)
{
	long high = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, OWN_FD_MIN);

	if (high < 0) {
		high = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, fd + SPARE_FDS);
	}
	int r = high < 0 ? -errno : 0;
	shim_sys_close(fd);
	if (r < 0) {
		return r;
	}
	f->borrowed = false;
	r = shim_fd_set(f, (int)high);
	if (r < 0) {
		shim_sys_close((int)high);
	}
	return r;
}

int shim_fd_dup(struct shim_fd *f, int fd)
{
	long copy = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, OWN_FD_MIN);

	if (copy < 0) {
		return -errno;
	}
	f->borrowed = false;
	int r = shim_fd_set(f, (int)copy);
	if (r < 0) {
		shim_sys_close((int)copy);
	}
	return r;
}

int shim_fd_borrow(struct shim_fd *f, int fd)
{
	f->borrowed = true;
	return shim_fd_set(f, fd);
}

bool shim_fd_valid(const struct shim_fd *f)
{
	struct shim_fd now = {0};

	return f->fd_plus_1 != 0 && identify(shim_fd_get(f), &now) == 0 && now.dev == f->dev &&
	       now.ino == f->ino && now.rdev == f->rdev && now.mode == f->mode;
}

void shim_fd_close(struct shim_fd *f)
{
	if (!f->borrowed && shim_fd_valid(f)) {
		shim_sys_close(shim_fd_get(f));
	}
	f->fd_plus_1 = 0;
	f->borrowed = false;
}

int shim_sys_close(int fd)
{
	return syscall(SYS_close, fd) < 0 ? -errno : 0;
}

uint32_t shim_sys_gettid(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

int32_t shim_sys_getpid(void)
{
	return (int32_t)syscall(SYS_getpid);
}

void shim_sys_yield(void)
{
	syscall(SYS_sched_yield);
}

static uint64_t bit(int signo)
{
	return 1ull << (signo - 1);
}

uint64_t shim_sys_block_signals(void)
{
	/* All signals, also those that libc uses for cancellation and set*id(); but not those that
	 * a thread raises itself, because they kill if blocked. SIGSYS is how some sandboxes carry
	 * out system calls. */
	uint64_t all = ~(bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL) | bit(SIGTRAP) |
			 bit(SIGSYS));
	uint64_t old = 0;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, sizeof(all));
	return old;
}

void shim_sys_restore_signals(uint64_t mask)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}

void *shim_sys_mmap(size_t size)
{
	long p = syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0l);

	return p == -1 ? NULL : (void *)p;
}

void shim_sys_munmap(void *p, size_t size)
{
	syscall(SYS_munmap, p, size);
}

bool shim_sys_wipe_on_fork(void *p, size_t size)
{
	return syscall(SYS_madvise, p, size, MADV_WIPEONFORK) == 0;
}

int shim_sys_map_private(void *p, size_t size)
{
	long r = syscall(SYS_mmap, p, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0l);

	return r == -1 ? -errno : 0;
}

void *shim_sys_map_shared(void *p, size_t size, int fd)
{
	long r = syscall(SYS_mmap, p, size, PROT_READ | PROT_WRITE,
		MAP_SHARED | (p != NULL ? MAP_FIXED : 0), fd, 0l);

	return r == -1 ? NULL : (void *)r;
}

void shim_sys_futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static struct timespec *timeout(uint64_t wait_ns, struct timespec *buf)
{
	buf->tv_sec = (time_t)(wait_ns / 1000000000u);
	buf->tv_nsec = (long)(wait_ns % 1000000000u);
	return wait_ns == UINT64_MAX ? NULL : buf;
}

int shim_sys_wait_readable(int fd, uint64_t wait_ns)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct timespec ts;

	long n = syscall(SYS_ppoll, &p, 1, timeout(wait_ns, &ts), NULL, 0);
	return n < 0 ? -errno : (int)n;
}

int shim_sys_wait_word(_Atomic uint32_t *word, uint32_t seen, uint64_t wait_ns)
{
	struct timespec ts;

	if (syscall(SYS_futex, word, FUTEX_WAIT, seen, timeout(wait_ns, &ts), NULL, 0) == 0 ||
		errno == EAGAIN) {
		return 1;
	}
	return errno == ETIMEDOUT ? 0 : -errno;
}

/* The thread stands for the program's memory: the process id names the first thread, which may have
 * ended before the others. */
uint32_t shim_sys_peek_words(uint64_t *to, const struct iovec *from, uint32_t n)
{
	struct iovec local = {.iov_base = to, .iov_len = n * sizeof(*to)};
	long got = syscall(SYS_process_vm_readv, shim_sys_gettid(), &local, 1, from, n, 0);

	return got < 0 ? 0 : (uint32_t)got / sizeof(*to);
}

int shim_sys_peek(void *to, const void *from, size_t size)
{
	struct iovec local = {.iov_base = to, .iov_len = size};
	struct iovec remote = {.iov_base = (void *)from, .iov_len = size};
	long got = syscall(SYS_process_vm_readv, shim_sys_gettid(), &local, 1, &remote, 1, 0);

	return got < 0 ? -errno : (size_t)got == size ? 0 : -EFAULT;
}

/* The kernel reads the event before it looks at the file. This is the cheapest call that only
 * reads: process_vm_readv(2) takes a microsecond longer. */
bool shim_sys_is_readable(const void *p)
{
	return syscall(SYS_epoll_ctl, -1, EPOLL_CTL_MOD, -1, p) == 0 || errno != EFAULT;
}

bool shim_sys_thread_alive(uint32_t tid)
{
	return syscall(SYS_tgkill, shim_sys_getpid(), tid, 0) == 0 || errno != ESRCH;
}

/* The directory may be in /tmp, where any user can create it once it is gone, and the shim sends
 * the program's device file to the listener. So the listener must be the same user or root, as for
 * the tools. */
static bool is_trustworthy(int sock, const char *path)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return syscall(SYS_getsockopt, sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
	       rbt_is_trustworthy(path, cred.uid, (uid_t)syscall(SYS_geteuid));
}

int shim_sys_connect(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t len = strlen(path);

	if (len == 0 || len >= sizeof(addr.sun_path)) {
		return -ENAMETOOLONG;
	}
	memcpy(addr.sun_path, path, len);
	long sock = syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0) {
		return -errno;
	}
	if (syscall(SYS_connect, sock, &addr, sizeof(addr)) < 0) {
		int err = errno;
		shim_sys_close((int)sock);
		return -err;
	}
	if (!is_trustworthy((int)sock, path)) {
		shim_sys_close((int)sock);
		return -EPERM;
	}
	return (int)sock;
}

int shim_sys_send(int sock, const void *buf, size_t size, int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = (void *)buf, .iov_len = size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = control.buf;
		msg.msg_controllen = sizeof(control.buf);
		struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	}
	return syscall(SYS_sendmsg, sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int shim_sys_recv(int sock, void *buf, size_t size)
{
	long n = syscall(SYS_recvfrom, sock, buf, size, MSG_DONTWAIT, NULL, NULL);

	return n < 0 ? -errno : (int)n;
}

int shim_sys_recv_fd(int sock, void *buf, size_t size, int *ret_fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = buf, .iov_len = size};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf)};

	*ret_fd = -1;
	long n = syscall(SYS_recvmsg, sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0) {
		return -errno;
	}
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		c->cmsg_len == CMSG_LEN(sizeof(int))) {
		memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
	}
	return (int)n;
}

int shim_sys_socketpair(int ret[2])
{
	int type = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;

	return syscall(SYS_socketpair, AF_UNIX, type, 0, ret) < 0 ? -errno : 0;
}

/* If a program closed its standard error, the number may now be a data file of the program: a file
 * that is open for reading and writing is no log. */
static bool is_somebodys_data(int fd)
{
	struct stat st;

	return syscall(SYS_fstat, fd, &st) < 0 ||
	       (S_ISREG(st.st_mode) && (syscall(SYS_fcntl, fd, F_GETFL) & O_ACCMODE) == O_RDWR);
}

void shim_say(const char *const parts[])
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	struct timespec at_once = {0, 0};
	char line[512];
	size_t n = 0;

	for (size_t i = 0; parts[i] != NULL; i++) {
		for (const char *c = parts[i]; *c != '\0' && n < sizeof(line) - 1; c++) {
			line[n++] = *c;
		}
	}
	line[n++] = '\n';
	if (is_somebodys_data(STDERR_FILENO)) {
		return;
	}
	/* A full pipe would make the program wait, a closed one would kill it with SIGPIPE. */
	if (syscall(SYS_ppoll, &p, 1, &at_once, NULL, 0) == 1 &&
		(p.revents & (POLLOUT | POLLERR)) == POLLOUT) {
		syscall(SYS_write, STDERR_FILENO, line, n);
	}
}
