/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The porter's own process: it receives messages with files, passes them on with the harmless
 * files, and closes the others, which may take for ever.
 */
#include "daemon/peers/parcel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/backend.h"
#include "daemon/peers/devicefile.h"
#include "policy/object.h"
#include "util/aside.h"
#include "util/fd.h"

/* How long a porter waits for another message. Programs send several when they start. */
#define LINGER_MS 50
/* The kernel's limit of files per message. */
#define SCM_MAX_FILES 253
#define MAX_BLOCKS    2048                        /* of 512 bytes each */
#define MAX_SEALED    (RBT_OBJECT_MAX_FILE / 512) /* the object of a policy */
#define AGENT_MSG_MAX 64

struct porter {
	int connection, sock; /* to the peer, and to the daemon */
	/* to a program's agent, and our end of the pair that replaces it; -1: none */
	int agent, ours;
	bool is_full; /* the daemon does not read at present: its messages wait in the connection */
};

struct files {
	int fds[SCM_MAX_FILES];
	size_t n;
};

static void close_files(struct files *files)
{
	while (files->n > 0) {
		close(files->fds[--files->n]);
	}
}

static void take_files(struct msghdr *msg, struct files *ret)
{
	ret->n = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			ret->n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			ret->n = ret->n < SCM_MAX_FILES ? ret->n : SCM_MAX_FILES;
			memcpy(ret->fds, CMSG_DATA(c), ret->n * sizeof(int));
		}
	}
}

/* A board, a device node of the software GPU, or the object of a policy. A file of a tmpfs looks
 * alike, but it may be the last one that keeps a large file system mounted; closing it would then
 * take long. */
static bool is_small_memfd(int fd_of, const struct stat *st)
{
	const int seals = fcntl(fd_of, F_GET_SEALS);
	const bool is_sealed = seals >= 0 && (seals & F_SEAL_WRITE) != 0;
	struct stat own;
	int fd = memfd_create("rubato", MFD_CLOEXEC);
	bool is_memfd = fd >= 0 && fstat(fd, &own) == 0 && own.st_dev == st->st_dev;

	rbt_close(&fd);
	return is_memfd && S_ISREG(st->st_mode) &&
	       st->st_blocks <= (is_sealed ? MAX_SEALED : MAX_BLOCKS);
}

static bool is_control_file(int fd)
{
	for (const struct rbt_backend *const *b = rbt_backends; *b != NULL; b++) {
		struct rbt_record rec = {.fd = fd, .backend = (*b)->id};
		if (check_device_fd(&rec) == 0) {
			return true;
		}
	}
	return false;
}

static bool is_pidfd(int fd)
{
	char path[64], link[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = '\0';
	/* The kernel's names cannot be imitated: the name of a file that has a path begins with a
	 * slash. */
	return strcmp(link, "anon_inode:[pidfd]") == 0 || strncmp(link, "pidfd:[", 7) == 0;
}

static bool is_agent_link(int fd, const struct stat *st)
{
	for (const struct rbt_backend *const *b = rbt_backends; S_ISSOCK(st->st_mode) && *b != NULL;
		b++) {
		struct rbt_record rec = {.fd = fd, .backend = (*b)->id, .flags = RBT_RECORD_AGENT};
		if ((*b)->check_file != NULL && (*b)->check_file(&rec) == 0) {
			return true;
		}
	}
	return false;
}

static void close_link(struct porter *p)
{
	rbt_close(&p->ours);
	rbt_close(&p->agent);
}

/*
 * The link to an agent is a socket, and the program at its other end can send files through it. So
 * the daemon gets one end of a new pair instead. The porter passes messages between the pair and
 * the agent, without files. Returns the daemon's end, or -errno.
 */
static int take_link(struct porter *p, int fd)
{
	int pair[2], type = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
	int agent = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (agent < 0 || socketpair(AF_UNIX, type, 0, pair) < 0) {
		int r = -errno;
		rbt_close(&agent);
		return r;
	}
	close_link(p);
	p->agent = agent;
	p->ours = pair[0];
	return pair[1];
}

/* Returns a file that can be passed on in place of this one, or -errno. Closing a pidfd, a memfd or
 * a control node never waits, whatever other processes do with it. */
static int take_file(struct porter *p, int fd)
{
	struct stat st;

	if (is_pidfd(fd)) {
		return fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	if (is_small_memfd(fd, &st) || is_control_file(fd)) {
		return fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	return is_agent_link(fd, &st) ? take_link(p, fd) : -EBADF;
}

static int check_files(struct porter *p, const struct files *files, struct files *ret)
{
	if (files->n > RBT_MAX_FDS_PER_MSG) {
		return -EMSGSIZE;
	}
	for (size_t i = 0; i < files->n; i++) {
		int fd = take_file(p, files->fds[i]);
		if (fd < 0) {
			return -EBADF;
		}
		ret->fds[ret->n++] = fd;
	}
	return 0;
}

static int send_on(struct porter *p, struct parcel *parcel, size_t size, const struct files *files,
	bool is_whole)
{
	static struct files good;

	parcel->error = is_whole ? check_files(p, files, &good) : -EMSGSIZE;
	parcel->stays = p->agent >= 0;
	int r = parcel->error < 0
			? rbt_send(p->sock, parcel, PARCEL_HEAD, NULL, 0, 0)
			: rbt_send(p->sock, parcel, PARCEL_HEAD + size, good.fds, good.n, 0);
	close_files(&good);
	return r;
}

/* Passes on one message. Returns false at the end of the connection, or if the daemon has gone. */
static bool carry(struct porter *p)
{
	static union {
		char buf[CMSG_SPACE(sizeof(int) * SCM_MAX_FILES) +
			 CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	static struct parcel parcel;
	static struct files files;
	struct iovec iov = {.iov_base = parcel.bytes, .iov_len = sizeof(parcel.bytes)};
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};

	ssize_t n = recvmsg(p->connection, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n < 0) {
		return errno == EINTR || errno == EAGAIN;
	}
	take_files(&msg, &files);
	/* This is the end or an empty message. The daemon finds out which. */
	if (n == 0 && files.n == 0) {
		return false;
	}
	int r = send_on(
		p, &parcel, (size_t)n, &files, (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0);
	/* This may hang. */
	close_files(&files);
	return r == 0;
}

/* Passes a request on to the agent; none may get lost. Returns false if either side has gone. */
static bool tell_agent(struct porter *p)
{
	struct pollfd pfds[2] = {{.fd = p->agent, .events = POLLOUT}, {.fd = p->ours}};
	char buf[AGENT_MSG_MAX];
	ssize_t n = recv(p->ours, buf, sizeof(buf), MSG_DONTWAIT);

	if (n <= 0) {
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	}
	while (send(p->agent, buf, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno != EAGAIN || poll(pfds, 2, -1) < 0 || pfds[1].revents != 0) {
			return false;
		}
	}
	return true;
}

/* Passes an answer of the agent on. If the daemon no longer waits for it, there may be no room, and
 * it is dropped. The kernel closes files that come with it, which may hang. */
static bool hear_agent(struct porter *p)
{
	char buf[AGENT_MSG_MAX];
	ssize_t n = recv(p->agent, buf, sizeof(buf), MSG_DONTWAIT);

	if (n <= 0) {
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	}
	(void)send(p->ours, buf, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	return true;
}

/* Whether a message for the daemon would have to wait. The kernel reports POLLOUT only while three
 * quarters of the buffer are free, so any message finds room then. */
static bool is_full(int sock)
{
	struct pollfd pfd = {.fd = sock, .events = POLLOUT};

	return poll(&pfd, 1, 0) == 0;
}

/*
 * The porter must not wait for the daemon. The daemon does not read from a program that sends too
 * much, and it may be waiting for the program's agent, whose answers come through this process.
 */
void porter_run(int sock, void *data)
{
	struct porter p = {.connection = RBT_ASIDE_KEPT, .sock = sock, .ours = -1, .agent = -1};

	prctl(PR_SET_NAME, PORTER_NAME);
	for (;;) {
		struct pollfd pfds[4] = {
			{.fd = p.is_full ? -1 : p.connection, .events = POLLIN},
			{.fd = sock, .events = p.is_full ? POLLOUT : 0},
			{.fd = p.ours, .events = POLLIN},
			{.fd = p.agent, .events = POLLIN},
		};
		int wait_ms = p.agent >= 0 || p.is_full ? -1 : LINGER_MS;
		if (poll(pfds, 4, wait_ms) <= 0 || (pfds[1].revents & ~POLLOUT) != 0) {
			return;
		}
		/* If either end of a link is closed, the other one is closed, too. */
		if ((pfds[2].revents != 0 && !tell_agent(&p)) ||
			(pfds[3].revents != 0 && !hear_agent(&p))) {
			close_link(&p);
		}
		p.is_full = (p.is_full || pfds[0].revents != 0) && is_full(sock);
		if (pfds[0].revents != 0 && !p.is_full && !carry(&p)) {
			return;
		}
	}
}
