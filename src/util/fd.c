/* SPDX-License-Identifier: Apache-2.0 */
#include "util/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

void rbt_close(int *fd)
{
	int saved_errno = errno;

	if (*fd >= 0) {
		close(*fd);
		*fd = -1;
	}
	errno = saved_errno;
}

int rbt_send(int sock, const void *buf, size_t size, const int *fds, size_t n_fds, int flags)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * RBT_MAX_FDS_PER_MSG)];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = (void *)buf, .iov_len = size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n_fds > RBT_MAX_FDS_PER_MSG) {
		return -EINVAL;
	}
	if (n_fds > 0) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * n_fds);
	}
	for (;;) {
		ssize_t n = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
		if (n >= 0) {
			return 0;
		}
		if (errno != EINTR) {
			return -errno;
		}
	}
}

static size_t take_fds(struct msghdr *msg, int fds[RBT_MAX_FDS_PER_MSG])
{
	size_t n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
			continue;
		}
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (n < RBT_MAX_FDS_PER_MSG) {
				fds[n++] = fd;
			} else {
				close(fd);
			}
		}
	}
	return n;
}

ssize_t rbt_recv(int sock, void *buf, size_t size, int fds[RBT_MAX_FDS_PER_MSG], size_t *ret_n_fds,
	int flags)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * RBT_MAX_FDS_PER_MSG)];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = buf, .iov_len = size};
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	ssize_t n;

	for (size_t i = 0; i < RBT_MAX_FDS_PER_MSG; i++) {
		fds[i] = -1;
	}
	do {
		n = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		return -errno;
	}
	size_t n_fds = take_fds(&msg, fds);
	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		for (size_t i = 0; i < n_fds; i++) {
			rbt_close(&fds[i]);
		}
		return -EMSGSIZE;
	}
	*ret_n_fds = n_fds;
	return n;
}

enum rbt_head rbt_head(int sock)
{
	union {
		char buf[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct msghdr msg = {.msg_control = control.buf, .msg_controllen = sizeof(control.buf)};
	ssize_t n;

	/* If the other end was closed with unread data, the kernel reports that once, before the
	 * message. */
	do {
		n = recvmsg(sock, &msg, MSG_PEEK | MSG_DONTWAIT);
	} while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n < 0) {
		return errno == EAGAIN ? RBT_HEAD_NONE : RBT_HEAD_FILES;
	}
	/* There is room for the sender's credentials only. They come with every message, even an
	 * empty one, but not with the end of file. */
	if ((msg.msg_flags & MSG_CTRUNC) != 0) {
		return RBT_HEAD_FILES;
	}
	return CMSG_FIRSTHDR(&msg) != NULL ? RBT_HEAD_PLAIN : RBT_HEAD_NONE;
}

int rbt_connect(const char *path, int timeout_ms)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct timeval timeout = {
		.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000L};

	if (strlen(path) >= sizeof(addr.sun_path)) {
		return -ENAMETOOLONG;
	}
	strcpy(addr.sun_path, path);
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0) {
		return -errno;
	}
	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int err = errno == EAGAIN ? ETIMEDOUT : errno;
		close(sock);
		return -err;
	}
	return sock;
}

ssize_t rbt_read_file(const char *path, char *buf, size_t size)
{
	size_t len = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		return -errno;
	}
	while (len < size - 1) {
		ssize_t n = read(fd, buf + len, size - 1 - len);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			int err = errno;
			close(fd);
			return -err;
		}
		if (n == 0) {
			break;
		}
		len += (size_t)n;
	}
	close(fd);
	buf[len] = '\0';
	return (ssize_t)len;
}

int rbt_fopen_plain(const char *path, bool is_new, FILE **ret)
{
	int flags = is_new ? O_WRONLY | O_CREAT | O_EXCL : O_RDONLY | O_NONBLOCK;
	struct stat st;

	if (is_new && unlink(path) < 0 && errno != ENOENT) {
		return -errno;
	}
	int fd = open(path, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		return -errno;
	}
	int r = fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? 0 : -EBADF;
	FILE *f = r == 0 ? fdopen(fd, is_new ? "w" : "r") : NULL;
	if (f == NULL) {
		r = r < 0 ? r : -errno;
		close(fd);
		return r;
	}
	*ret = f;
	return 0;
}
