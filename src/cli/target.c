/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/inspect.h"
#include "cli/listing.h"
#include "proto/message.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/proc.h"
#include "util/runtime.h"
#include "util/time.h"

/* For how long a request is repeated that may succeed later: longer than a daemon waits for the
 * hand of an earlier one. */
#define RETRY_NS      (12 * RBT_NS_PER_S)
#define RETRY_STEP_US 100000

__attribute__((format(printf, 2, 3))) static void explain(char *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, TARGET_WHY_MAX, fmt, ap);
	va_end(ap);
}

#define MAX_DEPTH 16 /* of processes between a shell's job and the one that uses the GPU */

struct wrapper {
	pid_t pid, child; /* 0: none of its descendants uses a GPU */
};

static int look_for_child(pid_t pid, void *data)
{
	struct wrapper *w = data;
	pid_t above = pid;

	for (int i = 0; i < MAX_DEPTH && above > 1; i++) {
		if (rbt_proc_parent(above, &above) < 0) {
			return 0;
		}
		if (above == w->pid && listing_uses_gpu(pid)) {
			w->child = pid;
			return 1;
		}
	}
	return 0;
}

/* Whether the process is in a session of the software GPU; the session is in `ret`. */
static bool in_session(pid_t pid, char *ret, size_t size)
{
	static const char name[] = "RUBATO_SOFTGPU=";
	char path[64], buf[8192];

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	FILE *f = fopen(path, "re");
	size_t n = f == NULL ? 0 : fread(buf, 1, sizeof(buf) - 1, f);
	if (f != NULL) {
		fclose(f);
	}
	buf[n] = '\0';
	for (const char *at = buf; at < buf + n; at += strlen(at) + 1) {
		if (strncmp(at, name, sizeof(name) - 1) == 0) {
			snprintf(ret, size, "%s", at + sizeof(name) - 1);
			return true;
		}
	}
	return false;
}

/* The usual reasons why a process that somebody names does not use a GPU: it has started the one
 * that does, or it uses the software GPU. */
static void explain_no_gpu(char *why, pid_t pid)
{
	struct wrapper w = {.pid = pid};
	char session[256];

	(void)rbt_proc_each(look_for_child, &w);
	if (w.child != 0) {
		explain(why, "process %d does not use a GPU; its child %d does", (int)pid,
			(int)w.child);
	} else if (getenv("RUBATO_SOFTGPU") == NULL && in_session(pid, session, sizeof(session))) {
		explain(why,
			"process %d does not use a GPU of this machine: it is on the software GPU; "
			"use --device soft, or `rubato-softgpu exec --session %s -- rubato ...`",
			(int)pid, session);
	} else {
		explain(why, "process %d does not use a GPU", (int)pid);
	}
}

/* Writes why something could not be done to `pid`, and what to do. `text` is the daemon's message;
 * empty: it failed before that. Returns the exit code. */
static int target_error(char *why, pid_t pid, int error, const char *text)
{
	switch (-error) {
	case ESRCH:
		explain(why, "process %d: no such process", (int)pid);
		break;
	case ENXIO:
		if (text[0] != '\0') {
			explain(why, "process %d: %s", (int)pid, text);
		} else {
			explain_no_gpu(why, pid);
		}
		break;
	case EPERM:
	case EACCES:
		explain(why, "process %d: %s", (int)pid,
			text[0] != '\0' ? text
					: "no permission to inspect it; use sudo, or start it "
					  "with `rubato run`");
		break;
	case ETIMEDOUT:
		explain(why, "process %d: its rubatod does not answer", (int)pid);
		break;
	case ETIME:
		explain(why, "process %d: inspecting it takes too long", (int)pid);
		break;
	case EXDEV:
		explain(why,
			"process %d: rubatod is outside of this container, where processes have "
			"other numbers; name the process there",
			(int)pid);
		break;
	case ENODEV:
		explain(why, "process %d: no supported GPU driver here (see `rubato doctor`)",
			(int)pid);
		break;
	case EPROTONOSUPPORT:
		explain(why, "process %d: %s", (int)pid,
			text[0] != '\0' ? text
					: "its driver's version is not known; see `rubato doctor`");
		break;
	default:
		explain(why, "process %d: %s", (int)pid, text[0] != '\0' ? text : strerror(-error));
	}
	return exit_code_for(error);
}

/* Whether the daemon behind `sock` manages `pid`: 1, 0, or -errno if it does not answer. */
static int manages(int sock, pid_t pid)
{
	static char buf[RBT_MSG_MAX];
	struct rbt_msg_program msg;
	ssize_t n = daemon_list(sock, pid - 1, 0, ANSWER_TIMEOUT_S, buf, sizeof(buf));

	if (n <= 0) {
		return (int)n;
	}
	memcpy(&msg, buf, sizeof(msg));
	return msg.pid == pid;
}

static int send_record(
	int sock, int pidfd, const struct rbt_record *rec, struct rbt_msg_result *ret)
{
	static char buf[RBT_RECORD_MSG_MAX];
	int fds[2] = {rec->fd, pidfd};
	ssize_t n = rbt_record_encode(rec, RBT_MSG_ATTACH, buf, sizeof(buf));

	return n < 0 ? (int)n : daemon_request(sock, buf, (size_t)n, fds, 2, ret);
}

static int hand_over(
	int sock, pid_t pid, const struct rbt_record *recs, size_t n, struct rbt_msg_result *ret)
{
	int pidfd = rbt_pidfd_open(pid);

	if (pidfd < 0) {
		return pidfd;
	}
	int r = 0;
	for (size_t i = 0; i < n && r == 0; i++) {
		r = send_record(sock, pidfd, &recs[i], ret);
		if (r == 0) {
			r = ret->error;
		}
	}
	close(pidfd);
	return r;
}

static int inspect(const void *data, struct rbt_record **ret, size_t *ret_n)
{
	return inspect_tasks(*(const pid_t *)data, ret, ret_n);
}

/* is_enough: a connection is enough if the inspection takes too long, because the daemon restores
 * the program without it. */
static int attach(int sock, pid_t pid, bool is_enough, char *why)
{
	struct rbt_msg_result result = {0};
	struct rbt_record *recs = NULL;
	size_t n = 0;

	int r = rbt_discover_set_up(inspect, &pid, &recs, &n);
	if (r == 0 && sock < 0) {
		sock = daemon_start();
		if (sock < 0) {
			explain(why, "process %d: %s", (int)pid, daemon_start_error(sock));
			r = sock;
			goto out;
		}
	}
	if (r == 0) {
		r = hand_over(sock, pid, recs, n, &result);
	} else if (r == -ETIME && sock >= 0 && is_enough) {
		r = 0;
	}
	if (r < 0) {
		target_error(why, pid, r, result.text);
	}
out:
	rbt_records_free(recs, n);
	if (r < 0 && sock >= 0) {
		close(sock);
	}
	return r < 0 ? r : sock;
}

/* Returns the daemon of `uid` if it manages `pid`. Otherwise *ret_other is a daemon that runs but
 * does not manage it, or -errno. Negative with *ret_other < 0 if it does not answer. */
static int find_manager(uid_t uid, pid_t pid, int *ret_other)
{
	int sock = daemon_connect(uid);
	int r = sock < 0 ? sock : daemon_is_outside(sock) ? -EXDEV : manages(sock, pid);

	if (r > 0) {
		return sock;
	}
	if (r < 0 && sock >= 0) {
		close(sock);
	}
	*ret_other = r < 0 ? r : sock;
	return -ENOENT;
}

/* Finds the daemon that manages `pid`; if there is none, attaches the program and sends it to one.
 * Returns a connected socket; or a negative errno, with `why` written. */
static int target_open(pid_t pid, bool is_resume, char *why)
{
	uid_t owner;
	int r = rbt_proc_uid(pid, &owner);
	int fallback = -ENOENT;
	bool is_silent = false;

	if (r < 0) {
		target_error(why, pid, r, "");
		return r;
	}
	(void)daemon_heal(true);
	/* The system daemon first, then the owner's: it may hold the GPU's lock, and two schedulers
	 * on one GPU hinder each other. */
	uid_t whose[] = {RBT_UID_SYSTEM, geteuid() == 0 ? owner : geteuid(), geteuid()};
	for (size_t i = 0; i < (whose[1] == whose[2] ? 2 : 3); i++) {
		int other = -ENOENT;
		int sock = find_manager(whose[i], pid, &other);
		if (sock >= 0) {
			rbt_close(&fallback);
			return sock;
		}
		if (other == -EXDEV) {
			target_error(why, pid, other, "");
			rbt_close(&fallback);
			return other;
		}
		is_silent = is_silent || other == -ETIMEDOUT;
		if (fallback < 0) {
			fallback = other;
		} else {
			rbt_close(&other);
		}
	}
	if (is_silent) {
		/* The daemon that does not answer may manage the program, and undo our changes
		 * later. */
		target_error(why, pid, -ETIMEDOUT, "");
		rbt_close(&fallback);
		return -ETIMEDOUT;
	}
	return attach(fallback, pid, is_resume, why);
}

static int request_once(
	pid_t pid, const void *msg, size_t size, struct rbt_msg_result *ret, char *why)
{
	struct rbt_msg_header h;

	memcpy(&h, msg, sizeof(h));
	int sock = target_open(pid, h.type == RBT_MSG_RESUME, why);
	if (sock < 0) {
		ret->error = 0; /* explained already */
		return sock;
	}
	int r = daemon_request(sock, msg, size, NULL, 0, ret);
	if (r == 0 && ret->error == -ENXIO) {
		/* The queue may be newer than what the daemon knows of an attached program. */
		char unused[TARGET_WHY_MAX];
		int again = attach(sock, pid, false, unused);
		sock = again;
		r = again >= 0 ? daemon_request(again, msg, size, NULL, 0, ret) : 0;
	}
	rbt_close(&sock);
	if (r < 0) {
		ret->error = r;
	}
	return ret->error;
}

/* Whether a repeated request may succeed. All requests can be made twice. */
static bool is_passing(int r, const struct rbt_msg_result *result, pid_t pid)
{
	switch (-r) {
	case ESRCH:
		/* The program is alive and was managed a moment ago, but is not any more: another
		 * tool made the daemon drop it. */
		return result->error == r && kill(pid, 0) == 0;
	case ECONNRESET:
	case EPIPE:
		/* The daemon was killed during the request. */
		return true;
	case EAGAIN:
		/* The daemon has no hand at present, or waits for an earlier daemon's hand. */
		return result->error == r;
	default:
		return false;
	}
}

int target_try(pid_t pid, const void *msg, size_t size, struct rbt_msg_result *ret,
	char ret_why[TARGET_WHY_MAX])
{
	struct rbt_msg_result result = {0};
	char why[TARGET_WHY_MAX] = "";
	uint64_t end_ns = rbt_now_ns() + RETRY_NS;
	int r = request_once(pid, msg, size, &result, why);

	while (is_passing(r, &result, pid) && rbt_now_ns() < end_ns) {
		usleep(RETRY_STEP_US);
		result = (struct rbt_msg_result){0};
		r = request_once(pid, msg, size, &result, why);
	}
	if (r < 0) {
		if (result.error < 0) {
			target_error(why, pid, r, result.text);
		}
		memcpy(ret_why, why, sizeof(why));
		return (int)exit_code_for(r);
	}
	*ret = result;
	return EXIT_OK;
}

int target_request(pid_t pid, const void *msg, size_t size, struct rbt_msg_result *ret)
{
	char why[TARGET_WHY_MAX];
	int code = target_try(pid, msg, size, ret, why);

	if (code != EXIT_OK) {
		rbt_error("%s", why);
	}
	return code;
}

static int parse_pid(const struct command *cmd, const char *arg, pid_t *ret)
{
	uint64_t pid;

	if (rbt_parse_u64(arg, 1, INT32_MAX, &pid) < 0) {
		return usage_error(cmd, "not a process id: %s", arg);
	}
	*ret = (pid_t)pid;
	return 0;
}

int target_each(const struct command *cmd, int argc, char **argv,
	int (*fn)(pid_t pid, const void *data), const void *data)
{
	int worst = EXIT_OK;
	pid_t pid = 0;

	if (optind == argc) {
		return usage_error(cmd, "no process named");
	}
	for (int i = optind; i < argc; i++) {
		if (parse_pid(cmd, argv[i], &pid) != 0) {
			return EXIT_USAGE;
		}
	}
	for (int i = optind; i < argc; i++) {
		parse_pid(cmd, argv[i], &pid);
		int code = fn(pid, data);
		worst = worst == EXIT_OK ? code : worst;
	}
	return worst;
}
