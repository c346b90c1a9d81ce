/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets on which metrics are served: a socket in the file system, for the daemon's user only,
 * or a TCP port of the loopback interface.
 */
#include "daemon/metrics/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/metrics/metrics.h"
#include "util/fd.h"
#include "util/parse.h"

#define BACKLOG 16

static_assert(METRICS_AT_MAX == sizeof(((struct sockaddr_un *)NULL)->sun_path), "a socket's path");

static int parse_port(const char *at, uint16_t *ret)
{
	uint64_t port;
	int r = rbt_parse_u64(at, 1, UINT16_MAX, &port);

	if (r == 0) {
		*ret = (uint16_t)port;
	}
	return r;
}

int metrics_check(const char *at)
{
	uint16_t port;

	if (strcmp(at, "none") == 0 || (at[0] == '/' && strlen(at) < METRICS_AT_MAX)) {
		return 0;
	}
	return parse_port(at, &port) == 0 ? 0 : -EINVAL;
}

static int listen_at(int fd, const void *addr, socklen_t size)
{
	if (bind(fd, addr, size) < 0 || listen(fd, BACKLOG) < 0) {
		return -errno;
	}
	return 0;
}

/* Whether the path has a socket on which no process listens. */
static bool is_left_over(const struct sockaddr_un *addr)
{
	struct stat st;

	if (lstat(addr->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode)) {
		return false;
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool is_dead = fd >= 0 && connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 &&
		       errno == ECONNREFUSED;
	rbt_close(&fd);
	return is_dead;
}

static int listen_unix(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0) {
		return -errno;
	}
	memcpy(addr.sun_path, path, strlen(path) + 1);
	/* The mode is set before the socket has a name, so that other users can connect at no
	 * moment. */
	int r = fchmod(fd, 0600) < 0 ? -errno : listen_at(fd, &addr, sizeof(addr));
	if (r == -EADDRINUSE && is_left_over(&addr) && unlink(path) == 0) {
		r = listen_at(fd, &addr, sizeof(addr));
	}
	if (r < 0) {
		rbt_close(&fd);
	}
	return r < 0 ? r : fd;
}

static int listen_tcp(int family, uint16_t port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;

	if (fd < 0) {
		return -errno;
	}
	v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	v6.sin6_addr = in6addr_loopback;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	int r = family == AF_INET ? listen_at(fd, &v4, sizeof(v4)) : listen_at(fd, &v6, sizeof(v6));
	if (r < 0) {
		rbt_close(&fd);
	}
	return r < 0 ? r : fd;
}

int metrics_listen(const char *at, int ret_fds[METRICS_LISTENERS])
{
	uint16_t port = 0;
	int fds[METRICS_LISTENERS] = {-1, -1};

	if (at[0] == '/') {
		fds[0] = listen_unix(at);
	} else {
		int r = parse_port(at, &port);
		if (r < 0) {
			return r;
		}
		fds[0] = listen_tcp(AF_INET, port);
		/* A machine may have only IPv4 or only IPv6. A port that is taken is an error. */
		if (fds[0] >= 0 || fds[0] == -EAFNOSUPPORT || fds[0] == -EADDRNOTAVAIL) {
			fds[1] = listen_tcp(AF_INET6, port);
		}
		if (fds[1] == -EADDRINUSE) {
			rbt_close(&fds[0]);
			return -EADDRINUSE;
		}
	}
	if (fds[0] < 0 && fds[1] < 0) {
		return fds[0];
	}
	memcpy(ret_fds, fds, sizeof(fds));
	return 0;
}
