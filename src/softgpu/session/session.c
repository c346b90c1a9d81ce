/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "softgpu/serve/server.h"
#include "util/fd.h"
#include "util/runtime.h"

#define WELCOME_TIMEOUT_MS 10000

#define FRONT_NAME     "softgpu/libcuda.so.1"
#define FRONT_IN_BUILD "src/softgpu/cuda/libcuda.so.1"

static int make_private(struct session *s)
{
	const char *tmp = getenv("TMPDIR");

	if (tmp == NULL || tmp[0] != '/') {
		tmp = "/tmp";
	}
	int n = snprintf(s->dir, sizeof(s->dir), "%s/rubato-softgpu.XXXXXX", tmp);
	if (n < 0 || (size_t)n >= sizeof(s->dir)) {
		return -ENAMETOOLONG;
	}
	if (mkdtemp(s->dir) == NULL || chmod(s->dir, 0711) < 0) {
		return -errno;
	}
	s->private = true;
	return 0;
}

int session_open(struct session *s, const char *dir)
{
	char real[PATH_MAX];

	*s = (struct session){.sock = -1};
	if (dir == NULL) {
		return make_private(s);
	}
	if (mkdir(dir, 0711) == 0) {
		/* The umask may have restricted it. */
		if (chmod(dir, 0711) < 0) {
			return -errno;
		}
	} else if (errno != EEXIST) {
		return -errno;
	}
	if (realpath(dir, real) == NULL) {
		return -errno;
	}
	if (strlen(real) >= sizeof(s->dir)) {
		return -ENAMETOOLONG;
	}
	strcpy(s->dir, real);
	return 0;
}

int session_current(char *dir, size_t size)
{
	ssize_t n = readlink(SESSION_LINK, dir, size - 1);

	if (n <= 0) {
		return -ENOENT;
	}
	dir[n] = '\0';
	return 0;
}

static int listen_at(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (sock < 0) {
		return -errno;
	}
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	(void)unlink(path);
	/* Every process in the session may ask for its state; the peer's user decides about the
	 * rest. */
	if (bind(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0 || chmod(path, 0666) < 0 ||
		listen(sock, 128) < 0) {
		int err = errno;
		close(sock);
		return -err;
	}
	return sock;
}

/* Forks twice: the server must not be a child of this process, or hold its files. */
static int start_server(struct session *s, const struct link_config *config, const char *path)
{
	char users[SESSION_MAX_PATH + 16];
	int status, listener = listen_at(path);

	if (listener < 0) {
		return listener;
	}
	snprintf(users, sizeof(users), "%s/users", s->dir);
	if (mkdir(users, 0700) == 0) {
		(void)chmod(users, 01777);
	}
	pid_t pid = fork();
	if (pid == 0) {
		if (setsid() < 0 || fork() != 0) {
			_exit(0);
		}
		_exit(server_run(s->dir, s->private, config, listener));
	}
	int err = errno;
	close(listener);
	if (pid < 0) {
		return -err;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	return 0;
}

/* The server answers before the lock is released: from then on it has a connection and does not end
 * as idle. */
static int greet(struct session *s)
{
	struct link_header hello = link_header(LINK_HELLO, 0);
	struct timeval timeout = {.tv_sec = WELCOME_TIMEOUT_MS / 1000};
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;

	setsockopt(s->sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	int r = rbt_send(s->sock, &hello, sizeof(hello), NULL, 0, 0);
	if (r < 0) {
		return r;
	}
	ssize_t n = rbt_recv(s->sock, &s->welcome, sizeof(s->welcome), fds, &n_fds, 0);
	for (size_t i = 0; i < n_fds; i++) {
		rbt_close(&fds[i]);
	}
	if (n < 0) {
		return (int)n;
	}
	timeout.tv_sec = 0;
	setsockopt(s->sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if ((size_t)n != sizeof(s->welcome) || s->welcome.h.magic != LINK_MAGIC ||
		s->welcome.h.type != LINK_WELCOME || s->welcome.n_prefetch > LINK_MAX_PREFETCH) {
		return -EPROTO;
	}
	return 0;
}

int session_join(struct session *s, const struct link_config *config)
{
	char path[SESSION_MAX_PATH + 16];
	int r;

	snprintf(path, sizeof(path), "%s/%s", s->dir, LOCK_NAME);
	/* Starting, joining and the end of an idle server exclude each other. Mode 0644: another
	 * user who joins needs only read access to lock it. */
	int lock = open(path, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (lock < 0) {
		return -errno;
	}
	while (flock(lock, LOCK_EX) < 0 && errno == EINTR) {
	}
	snprintf(path, sizeof(path), "%s/%s", s->dir, SOCKET_NAME);
	s->sock = rbt_connect(path, 0);
	if (s->sock == -ECONNREFUSED || s->sock == -ENOENT) {
		r = start_server(s, config, path);
		if (r == 0) {
			s->sock = rbt_connect(path, 0);
		}
	}
	r = s->sock < 0 ? s->sock : greet(s);
	close(lock);
	return r;
}

/* Programs find our libcuda.so.1 before any other. A session without it still has its nodes. */
static int export_front(void)
{
	char front[4096], value[8192];
	const char *old = getenv("LD_LIBRARY_PATH");

	if (rbt_sibling_path(FRONT_NAME, RUBATO_LIBDIR "/rubato", front, sizeof(front)) < 0 &&
		rbt_sibling_path(FRONT_IN_BUILD, "", front, sizeof(front)) < 0) {
		return 0;
	}
	*strrchr(front, '/') = '\0';
	size_t len = strlen(front);
	if (old != NULL && strncmp(old, front, len) == 0 && (old[len] == ':' || old[len] == '\0')) {
		return 0;
	}
	int n = snprintf(value, sizeof(value), "%s%s%s", front,
		old != NULL && old[0] != '\0' ? ":" : "", old != NULL ? old : "");
	if (n < 0 || (size_t)n >= sizeof(value)) {
		return -ENAMETOOLONG;
	}
	return setenv("LD_LIBRARY_PATH", value, 1) < 0 ? -errno : 0;
}

int session_export(const char *dir)
{
	char path[SESSION_MAX_PATH + 32];
	struct stat st;

	snprintf(path, sizeof(path), "%s/run", dir);
	if (mkdir(path, 0700) < 0 && errno != EEXIST && errno != EACCES) {
		return -errno;
	}
	if (stat(path, &st) < 0) {
		return -errno;
	}
	if (st.st_uid != geteuid()) {
		/* Sticky and writable for all, like /tmp: each user makes their own directory. */
		snprintf(path, sizeof(path), "%s/users/%u", dir, (unsigned)geteuid());
		if (mkdir(path, 0700) < 0 && errno != EEXIST) {
			return -errno;
		}
	}
	if (setenv("RUBATO_RUNTIME_DIR", path, 1) < 0 || setenv(SESSION_ENV, dir, 1) < 0) {
		return -errno;
	}
	return export_front();
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)remove(path);
	return 0;
}

void session_remove(const char *dir)
{
	nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
