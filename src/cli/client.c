/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "util/deaths.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/runtime.h"
#include "util/time.h"
#include "util/trust.h"

/* A daemon that does not answer is as good as none. A healthy one needs a few milliseconds, and
 * some seconds if it loses its hand during a request. */
#define CONNECT_TIMEOUT_MS 1000
#define START_TIMEOUT_MS   3000
#define START_RETRY_US     20000
#define IDLE_EXIT_S        "30"
#define N_PARTS            7 /* of a program in a list: RBT_LIST_* */

static int socket_path(uid_t uid, char *buf, size_t size)
{
	char dir[128];
	int r = rbt_runtime_dir(uid, dir, sizeof(dir));

	if (r < 0) {
		return r;
	}
	int n = snprintf(buf, size, "%s/control.sock", dir);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int daemon_socket_path(int sock, char *buf, size_t size)
{
	struct sockaddr_un addr = {0};
	socklen_t len = sizeof(addr);

	if (getpeername(sock, (struct sockaddr *)&addr, &len) < 0) {
		return -errno;
	}
	int n = snprintf(buf, size, "%.*s", (int)sizeof(addr.sun_path), addr.sun_path);
	return n <= 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int daemon_connect(uid_t uid)
{
	char path[160];
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int r = socket_path(uid, path, sizeof(path));

	if (r < 0) {
		return r;
	}
	int sock = rbt_connect(path, CONNECT_TIMEOUT_MS);
	if (sock < 0) {
		return sock;
	}
	/* The directory may be in /tmp: the user of the listener decides. */
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
		!rbt_is_trustworthy(path, cred.uid, uid == RBT_UID_SYSTEM ? geteuid() : uid)) {
		close(sock);
		return -EPERM;
	}
	return sock;
}

/* In the grandchild: becomes the daemon, with its messages in a log beside its socket. */
static void become_daemon(const char *path, int ready_fd)
{
	char dir[128], log[160], fd_arg[16];
	const char *idle = getenv("RUBATO_IDLE_EXIT_S");
	int null_fd = open("/dev/null", O_RDWR);
	int log_fd = -1;

	setsid();
	if (rbt_runtime_dir_create(dir, sizeof(dir)) == 0) {
		snprintf(log, sizeof(log), "%s/rubatod.log", dir);
		log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK, 0600);
	}
	dup2(null_fd, STDIN_FILENO);
	dup2(null_fd, STDOUT_FILENO);
	dup2(log_fd >= 0 ? log_fd : null_fd, STDERR_FILENO);
	/* All files of the caller are closed, above all the write end of a pipe whose end the
	 * caller waits for. */
	dup2(ready_fd, 3);
	fcntl(3, F_SETFD, 0); /* it may have been 3 before */
	close_range(4, ~0u, 0);
	snprintf(fd_arg, sizeof(fd_arg), "%d", 3);
	unsetenv("LD_PRELOAD");
	unsetenv(RBT_ENV_HEAL);
	if (chdir("/") == 0) {
		execl(path, "rubatod", "--keep", "--idle-exit-s", idle != NULL ? idle : IDLE_EXIT_S,
			"--ready-fd", fd_arg, NULL);
	}
	_exit(1);
}

static int spawn_daemon(void)
{
	char path[4096], dir[128], byte;
	int pipe_fds[2];
	int r = rbt_sibling_path("rubatod", RUBATO_LIBEXECDIR, path, sizeof(path));

	if (r == 0) {
		r = rbt_runtime_dir_create(dir, sizeof(dir));
	}
	if (r < 0) {
		return r;
	}
	if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
		return -errno;
	}
	/* Twice, so that the daemon is no child of this process and does not show up in its
	 * wait(). */
	pid_t pid = fork();
	if (pid == 0) {
		if (fork() == 0) {
			become_daemon(path, pipe_fds[1]);
		}
		_exit(0);
	}
	close(pipe_fds[1]);
	if (pid > 0) {
		waitpid(pid, NULL, 0);
	}
	struct pollfd pfd = {.fd = pipe_fds[0], .events = POLLIN};
	r = poll(&pfd, 1, START_TIMEOUT_MS) == 1 && read(pipe_fds[0], &byte, 1) == 1 ? 0 : -ECHILD;
	close(pipe_fds[0]);
	return r;
}

static int daemon_start_own(void)
{
	uint64_t until_ns = rbt_now_ns() + START_TIMEOUT_MS * RBT_NS_PER_MS;

	/* The daemon that has the directory may be about to end, or not yet listening. Then ours
	 * ends at once, and starting is tried again. So it is once if a daemon is killed before it
	 * is ready, because until then nobody else starts another. */
	for (bool is_second = false;;) {
		int sock = daemon_connect(geteuid());
		if (sock >= 0 || (sock != -ENOENT && sock != -ECONNREFUSED)) {
			return sock;
		}
		if (rbt_now_ns() >= until_ns) {
			return -ECHILD;
		}
		int r = spawn_daemon();
		if (r < 0 && (r != -ECHILD || is_second)) {
			return r;
		}
		is_second = is_second || r < 0;
		sock = daemon_connect(geteuid());
		if (sock >= 0) {
			return sock;
		}
		usleep(START_RETRY_US);
	}
}

int daemon_start(void)
{
	int machines = daemon_connect(RBT_UID_SYSTEM);

	return machines >= 0 ? machines : daemon_start_own();
}

static bool is_there(const char *dir, const char *name, mode_t type)
{
	char path[160];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return lstat(path, &st) == 0 && (st.st_mode & S_IFMT) == type &&
	       (type == S_IFSOCK || st.st_size > 0);
}

/*
 * Whether a daemon of ours has left programs changed: it removes the file when all are restored.
 * For a shim it is enough that the daemon was killed: one that ends in order removes its socket.
 */
static bool has_left_something(const char *dir)
{
	const char *heal = getenv(RBT_ENV_HEAL);

	return is_there(dir, "state", S_IFREG) || is_there(dir, "parked", S_IFREG) ||
	       (heal != NULL && strcmp(heal, "1") == 0 && is_there(dir, "control.sock", S_IFSOCK));
}

uint64_t daemon_heal(bool is_ordered)
{
	uint64_t now_ns = rbt_now_ns(), pause_end_ns = 0;
	char dir[128];

	if (rbt_runtime_dir(geteuid(), dir, sizeof(dir)) < 0 || !has_left_something(dir)) {
		return 0;
	}
	int sock = daemon_connect(geteuid());
	if (sock == -ENOENT || sock == -ECONNREFUSED) {
		pause_end_ns = is_ordered ? 0 : rbt_deaths_pause_end(dir, now_ns);
		sock = pause_end_ns == 0 ? daemon_start_own() : sock;
	}
	rbt_close(&sock);
	return pause_end_ns == 0 ? 0 : (pause_end_ns - now_ns) / RBT_NS_PER_S + 1;
}

const char *daemon_start_error(int error)
{
	static char text[320];
	char dir[128];

	if (rbt_runtime_dir(geteuid(), dir, sizeof(dir)) < 0) {
		snprintf(dir, sizeof(dir), "its directory");
	}
	if (error == -ETIMEDOUT) {
		snprintf(text, sizeof(text), "the rubatod of %s does not answer", dir);
	} else if (error == -ECHILD) {
		snprintf(text, sizeof(text), "rubatod does not start; see %s/rubatod.log", dir);
	} else {
		snprintf(text, sizeof(text),
			"rubatod cannot use %s (%s); set RUBATO_RUNTIME_DIR to another", dir,
			strerror(-error));
	}
	return text;
}

/* The first file of the answer goes to *ret_fd, unless that is NULL. */
static ssize_t receive(int sock, void *buf, size_t size, int timeout_s, int *ret_fd)
{
	struct timeval timeout = {.tv_sec = timeout_s};
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;

	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	ssize_t n = rbt_recv(sock, buf, size, fds, &n_fds, 0);
	for (size_t i = 0; n >= 0 && i < n_fds; i++) {
		if (i == 0 && ret_fd != NULL && (size_t)n >= sizeof(struct rbt_msg_header)) {
			*ret_fd = fds[i];
		} else {
			rbt_close(&fds[i]);
		}
	}
	if (n == 0) {
		return -ECONNRESET;
	}
	if (n == -EAGAIN) {
		return -ETIMEDOUT;
	}
	return n < 0 || (size_t)n >= sizeof(struct rbt_msg_header) ? n : -EBADMSG;
}

ssize_t daemon_exchange(
	int sock, const void *msg, size_t size, int fd, int timeout_s, struct daemon_answer *ret)
{
	int r = rbt_send(sock, msg, size, &fd, fd >= 0 ? 1 : 0, 0);

	ret->fd = -1;
	return r < 0 ? r : receive(sock, ret->buf, sizeof(ret->buf), timeout_s, &ret->fd);
}

void daemon_drain(int sock)
{
	static char buf[RBT_MSG_MAX];
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;

	while (rbt_recv(sock, buf, sizeof(buf), fds, &n_fds, MSG_DONTWAIT) > 0) {
		for (size_t i = 0; i < n_fds; i++) {
			rbt_close(&fds[i]);
		}
	}
}

int daemon_read_result(const void *buf, size_t size, struct rbt_msg_result *ret)
{
	struct rbt_msg_result result;

	if (size != sizeof(result)) {
		return -EBADMSG;
	}
	memcpy(&result, buf, sizeof(result));
	if (result.h.magic != RBT_PROTOCOL_MAGIC || result.h.type != RBT_MSG_RESULT) {
		return -EBADMSG;
	}
	result.text[sizeof(result.text) - 1] = '\0';
	/* A daemon of version 0.1.0 says no more than "not understood". */
	if (result.error == -EBADMSG) {
		snprintf(result.text, sizeof(result.text), "%s",
			"this rubatod and this command are of different versions: restart rubatod");
	}
	*ret = result;
	return 0;
}

int daemon_request(int sock, const void *msg, size_t size, const int *fds, size_t n_fds,
	struct rbt_msg_result *ret)
{
	char buf[sizeof(*ret)];
	int r = rbt_send(sock, msg, size, fds, n_fds, 0);

	if (r < 0) {
		return r;
	}
	ssize_t n = receive(sock, buf, sizeof(buf), ANSWER_TIMEOUT_S, NULL);
	return n < 0 ? (int)n : daemon_read_result(buf, (size_t)n, ret);
}

bool daemon_is_outside(int sock)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	/* Then the kernel has no pid for the daemon itself. */
	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0 && cred.pid == 0;
}

/* The size of the part that belongs to a bit of the flags, at the start of the tail. A treatment
 * says its own, which depends on the daemon's version. SIZE_MAX: the part is unsound. */
static size_t part_size(unsigned bit, const char *tail, size_t size)
{
	static const size_t sizes[N_PARTS] = {sizeof(struct rbt_program_turns),
		sizeof(struct rbt_program_account), sizeof(struct rbt_program_origin),
		sizeof(struct rbt_program_reserve), 0, sizeof(struct rbt_program_memory),
		sizeof(struct rbt_place)};
	struct rbt_treatment treat;
	uint32_t n;

	if (UINT32_C(1) << bit != RBT_LIST_TREAT) {
		return sizes[bit];
	}
	if (size < sizeof(n)) {
		return SIZE_MAX;
	}
	memcpy(&n, tail, sizeof(n));
	return n <= size && rbt_treatment_decode(tail, n, &treat) == 0 ? n : SIZE_MAX;
}

/* Whether the bytes after a program's tasks are the parts that were asked for, or the first ones of
 * them: an older daemon leaves out those that it does not know. */
static bool is_tail_sound(const char *tail, size_t size, uint32_t flags)
{
	for (unsigned bit = 0; bit < N_PARTS && size > 0; bit++) {
		size_t n = (flags >> bit & 1) != 0 ? part_size(bit, tail, size) : 0;
		if (n > size) {
			return false;
		}
		tail += n;
		size -= n;
	}
	return size == 0;
}

ssize_t daemon_list(int sock, pid_t after, uint32_t flags, int timeout_s, void *buf, size_t size)
{
	struct rbt_msg_pid req = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_LIST},
		.pid = after,
		.flags = flags,
	};
	struct rbt_msg_program msg;
	int r = rbt_send(sock, &req, sizeof(req), NULL, 0, 0);

	if (r < 0) {
		return r;
	}
	ssize_t n = receive(sock, buf, size, timeout_s, NULL);
	if (n < 0) {
		return n;
	}
	memcpy(&msg.h, buf, sizeof(msg.h));
	if (msg.h.magic == RBT_PROTOCOL_MAGIC && msg.h.type == RBT_MSG_RESULT) {
		return 0;
	}
	if (msg.h.type != RBT_MSG_PROGRAM || (size_t)n < sizeof(msg)) {
		return -EBADMSG;
	}
	memcpy(&msg, buf, sizeof(msg));
	size_t tasks_end = sizeof(msg) + msg.n_tasks * sizeof(struct rbt_task_state);

	tasks_end += (msg.flags & RBT_PROGRAM_GUEST) != 0 ? sizeof(struct rbt_program_guest) : 0;
	bool is_sound = (size_t)n >= tasks_end &&
			is_tail_sound((const char *)buf + tasks_end, (size_t)n - tasks_end, flags);
	return is_sound ? n : -EBADMSG;
}
