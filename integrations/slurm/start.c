/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/protocol.h"

/* `rubato run` waits up to 3 s for a new daemon, and asks it two questions. */
#define TIMEOUT_MS  15000
#define MAX_OPTIONS 8
/* The kernel limits an environment to a quarter of the stack. */
#define TEXT_MAX (4u << 20)

struct answer {
	char *text;
	size_t size, capacity;
};

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Becomes `rubato run`. Slurm's files and signals are not for the daemon that it may start. */
static _Noreturn void become(char *const *argv, char *const *env, int out)
{
	sigset_t none;
	int null = open("/dev/null", O_RDWR);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0) {
		_exit(126);
	}
#ifdef SYS_close_range
	(void)syscall(SYS_close_range, 3, ~0u, 0);
#endif
	execve(argv[0], argv, env);
	_exit(errno == ENOENT ? 127 : 126);
}

/* 0, or -errno. */
static int read_some(struct answer *a, int fd)
{
	if (a->capacity - a->size < 4096) {
		size_t capacity = a->capacity > 0 ? a->capacity * 2 : 65536;
		char *text = capacity <= TEXT_MAX ? realloc(a->text, capacity) : NULL;
		if (text == NULL) {
			return -ENOMEM;
		}
		a->text = text;
		a->capacity = capacity;
	}
	ssize_t n = read(fd, a->text + a->size, a->capacity - a->size);
	if (n < 0) {
		return errno == EINTR ? 1 : -errno;
	}
	a->size += (size_t)n;
	return n > 0;
}

/* Reads until the end. 0 or -errno. */
static int read_all(struct answer *a, int fd)
{
	long end_ms = now_ms() + TIMEOUT_MS;

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		long left_ms = end_ms - now_ms();
		int n = left_ms > 0 ? poll(&p, 1, (int)left_ms) : 0;

		if (n == 0) {
			return -ETIMEDOUT;
		}
		if (n < 0 && errno != EINTR) {
			return -errno;
		}
		int r = n > 0 ? read_some(a, fd) : 1;
		if (r <= 0) {
			return r;
		}
	}
}

/* The exit status, or -errno. */
static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR) {
			return -errno;
		}
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* 0, or -errno with the reason in `why`. */
static int ask(char *const *argv, char *const *env, struct answer *a, char why[SLURM_START_WHY_MAX])
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0) {
		snprintf(why, SLURM_START_WHY_MAX, "pipe: %s", strerror(errno));
		return -errno;
	}
	pid_t pid = fork();
	if (pid == 0) {
		become(argv, env, fds[1]);
	}
	close(fds[1]);
	int r = pid < 0 ? -errno : read_all(a, fds[0]);
	close(fds[0]);
	if (pid > 0 && r < 0) {
		kill(pid, SIGKILL);
	}
	int status = pid > 0 ? wait_for(pid) : 0;
	if (r < 0) {
		snprintf(why, SLURM_START_WHY_MAX, "%s run: %s", argv[0], strerror(-r));
		return r;
	}
	if (status != 0 || a->size == 0 || a->text[a->size - 1] != '\0') {
		snprintf(why, SLURM_START_WHY_MAX, "%s run: %s (status %d)", argv[0],
			status == 127 ? "not found" : "it failed", status);
		return -EIO;
	}
	return 0;
}

int slurm_start_environment(const char *rubato, const struct rbt_treatment *t, char *const *env,
	char **ret_text, size_t *ret_size, char why[SLURM_START_WHY_MAX])
{
	/* The treatment as options: "--priority=2", "--memory=20G". */
	char said[RBT_TREAT_TEXT_MAX], options[MAX_OPTIONS][RBT_TREAT_TEXT_MAX + 2];
	char run[] = "run", end[] = "--", env_path[] = "/usr/bin/env", zero[] = "-0";
	char *argv[MAX_OPTIONS + 6] = {(char *)rubato, run}, *rest = said, *item;
	struct answer a = {0};
	size_t n = 2;

	rbt_treatment_print(t, said, sizeof(said));
	while (n < MAX_OPTIONS + 2 && (item = strsep(&rest, ",")) != NULL) {
		snprintf(options[n - 2], sizeof(options[0]), "--%s", item);
		argv[n] = options[n - 2];
		n++;
	}
	argv[n++] = end;
	argv[n++] = env_path;
	argv[n++] = zero;
	int r = ask(argv, env, &a, why);
	if (r < 0) {
		free(a.text);
		return r;
	}
	*ret_text = a.text;
	*ret_size = a.size;
	return 0;
}

void slurm_start_await(const char *socket_path)
{
	struct rbt_msg_header await = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_AWAIT};
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t len = strlen(socket_path);

	if (len >= sizeof(addr.sun_path)) {
		return;
	}
	memcpy(addr.sun_path, socket_path, len + 1);
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0) {
		return;
	}
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) == 0) {
		(void)send(sock, &await, sizeof(await), MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	close(sock);
}
