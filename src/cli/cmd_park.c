/* SPDX-License-Identifier: Apache-2.0 */
/*
 * park and unpark. The daemon carries the order out; this command sends it, and asks how it goes
 * until it is done. So nothing depends on this process: the order stays in force if it is killed.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "proto/park.h"
#include "util/fd.h"
#include "util/json.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/proc.h"
#include "util/runtime.h"
#include "util/time.h"

#define MAX_FOR_MS (366ull * 24 * 3600 * 1000)
#define POLL_US    100000
/* A daemon that was killed is back within this time. */
#define SILENT_NS (15 * RBT_NS_PER_S)
#define GB        1e9

struct order {
	struct rbt_msg_park msg;
	bool is_json;
	size_t n;
	pid_t pids[RBT_PARK_MAX];
};

/* How one program has fared. */
struct outcome {
	pid_t pid;
	int code; /* enum exit_code */
	struct rbt_msg_parked last;
	double seconds;
	char why[TARGET_WHY_MAX];
};

static bool is_back(const struct order *o)
{
	return (o->msg.flags & RBT_PARK_BACK) != 0;
}

static int ask_state(int sock, pid_t pid, struct rbt_msg_parked *ret)
{
	static struct daemon_answer answer;
	struct rbt_msg_pid msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_PARK_STATE}, .pid = pid};
	ssize_t n = daemon_exchange(sock, &msg, sizeof(msg), -1, ANSWER_TIMEOUT_S, &answer);

	rbt_close(&answer.fd);
	if (n != (ssize_t)sizeof(*ret)) {
		return n < 0 ? (int)n : -EBADMSG;
	}
	memcpy(ret, answer.buf, sizeof(*ret));
	ret->text[sizeof(ret->text) - 1] = '\0';
	return ret->h.type == RBT_MSG_PARKED ? 0 : -EBADMSG;
}

/* The daemon that has an order for the program, or any one that could get it: fd, or -errno if none
 * answers. *ret tells what it says. */
static int find_daemon(pid_t pid, struct rbt_msg_parked *ret)
{
	uid_t owner = geteuid();
	int found = -ENOENT;

	(void)rbt_proc_uid(pid, &owner);
	uid_t whose[] = {RBT_UID_SYSTEM, owner, geteuid()};
	for (size_t i = 0; i < (owner == geteuid() ? 2 : 3); i++) {
		struct rbt_msg_parked state;
		int sock = daemon_connect(whose[i]);
		int r = sock < 0 ? sock : ask_state(sock, pid, &state);
		if (r < 0) {
			rbt_close(&sock);
			continue;
		}
		bool is_its = state.phase != RBT_PARK_RUNNING || state.error != 0;
		if (found < 0 || is_its) {
			rbt_close(&found);
			found = sock;
			*ret = state;
		} else {
			rbt_close(&sock);
		}
		if (is_its) {
			break;
		}
	}
	return found;
}

static void fail(struct outcome *out, int code, const char *text)
{
	out->code = code;
	snprintf(out->why, sizeof(out->why), "process %d%s%s", (int)out->pid,
		strncmp(text, "is ", 3) == 0 || strncmp(text, "has ", 4) == 0 ? " " : ": ", text);
}

/* Sends the order to bring a program back, which may have no files of the device open. */
static int send_back(struct outcome *out, const struct rbt_msg_park *msg)
{
	struct rbt_msg_result result = {0};

	(void)daemon_heal(true);
	int sock = find_daemon(out->pid, &out->last);
	sock = sock < 0 ? daemon_start() : sock;
	if (sock < 0) {
		fail(out, EXIT_FAILED, daemon_start_error(sock));
		return out->code;
	}
	int r = daemon_request(sock, msg, sizeof(*msg), NULL, 0, &result);
	rbt_close(&sock);
	if (r < 0 || result.error < 0) {
		r = r < 0 ? r : result.error;
		result.text[sizeof(result.text) - 1] = '\0';
		fail(out, (int)exit_code_for(r),
			result.text[0] != '\0' ? result.text : strerror(-r));
	}
	return out->code;
}

static int send_order(const struct order *o, struct outcome *out)
{
	struct rbt_msg_park msg = o->msg;
	struct rbt_msg_result result;

	/* The program comes first; its group is among the others. */
	msg.pids[0] = out->pid;
	msg.n = 1;
	for (size_t i = 0; i < o->n; i++) {
		if (o->pids[i] != out->pid) {
			msg.pids[msg.n++] = o->pids[i];
		}
	}
	if (is_back(o)) {
		return send_back(out, &msg);
	}
	out->code = target_try(out->pid, &msg, sizeof(msg), &result, out->why);
	return out->code;
}

static void show_progress(const struct order *o, const struct rbt_msg_parked *now, bool is_tty)
{
	if (is_tty && now->total_bytes > 0) {
		fprintf(stderr, "\rprocess %d: %s %.1f of %.1f GB ", (int)now->pid,
			is_back(o) ? "comes back," : "leaves,", (double)now->done_bytes / GB,
			(double)now->total_bytes / GB);
		fflush(stderr);
	}
}

/* Whether the order has ended; then the outcome is filled in. */
static bool has_ended(const struct order *o, struct outcome *out)
{
	const struct rbt_msg_parked *now = &out->last;
	uint32_t wanted = is_back(o) ? RBT_PARK_RUNNING : RBT_PARK_PARKED;
	bool is_at_rest = now->phase == RBT_PARK_RUNNING || now->phase == RBT_PARK_PARKED ||
			  now->phase == RBT_PARK_LOST;

	if (is_at_rest && now->phase == wanted && now->error == 0) {
		return true;
	}
	if (is_at_rest) {
		fail(out, (int)exit_code_for(now->error < 0 ? now->error : -EIO),
			now->text[0] != '\0'            ? now->text
			: now->error == -ESRCH          ? "has ended"
			: now->phase == RBT_PARK_PARKED ? "is parked again"
							: "runs again");
		return true;
	}
	if (now->is_overdue) {
		fail(out, EXIT_FAILED,
			"the driver has not answered for long; the order stays in force, see `rubato "
			"ps`");
		return true;
	}
	return false;
}

static void await(const struct order *o, struct outcome *out)
{
	bool is_tty = isatty(STDERR_FILENO) && !o->is_json, is_said = false;
	uint64_t heard_ns = rbt_now_ns();

	for (;;) {
		int sock = find_daemon(out->pid, &out->last);
		if (sock >= 0) {
			heard_ns = rbt_now_ns();
			rbt_close(&sock);
			if (has_ended(o, out)) {
				break;
			}
			if (out->last.phase == RBT_PARK_WAITING && !is_said) {
				rbt_warn("process %d %s", (int)out->pid, out->last.text);
				is_said = true;
			}
			show_progress(o, &out->last, is_tty);
		} else if (rbt_now_ns() - heard_ns > SILENT_NS) {
			fail(out, EXIT_FAILED, "its rubatod does not answer");
			break;
		} else {
			(void)daemon_heal(true);
		}
		usleep(POLL_US);
	}
	if (is_tty) {
		fputs("\r\033[K", stderr);
	}
}

static const char *state_name(uint32_t phase)
{
	static const char *const names[] = {[RBT_PARK_RUNNING] = "running",
		[RBT_PARK_LEAVING] = "leaving",
		[RBT_PARK_PARKED] = "parked",
		[RBT_PARK_WAITING] = "waiting",
		[RBT_PARK_COMING_BACK] = "coming back",
		[RBT_PARK_LOST] = "lost"};

	return phase < sizeof(names) / sizeof(names[0]) ? names[phase] : "unknown";
}

static void tell(const struct order *o, const struct outcome *out, struct rbt_json *j)
{
	double gb = (double)out->last.total_bytes / GB;

	if (o->is_json) {
		rbt_json_object(j, NULL);
		rbt_json_u64(j, "pid", (uint64_t)out->pid);
		rbt_json_string(j, "state", state_name(out->last.phase));
		rbt_json_u64(j, "bytes", out->last.total_bytes);
		rbt_json_u64(j, "milliseconds", (uint64_t)(out->seconds * 1e3));
		if (out->code != EXIT_OK) {
			rbt_json_string(j, "error", out->why);
		} else {
			rbt_json_null(j, "error");
		}
		rbt_json_end(j, '}');
	} else if (out->code != EXIT_OK) {
		rbt_error("%s", out->why);
	} else if (isatty(STDOUT_FILENO)) {
		printf("process %d: %s, %.1f GB in %.1f s\n", (int)out->pid,
			is_back(o) ? "is back" : "parked", gb, out->seconds);
	}
}

/* A program that parks itself, or a parent that waits for us, could never order the way back. */
static bool is_ancestor(pid_t pid)
{
	pid_t at = getpid(), up;

	while (at > 1 && at != pid && rbt_proc_parent(at, &up) == 0) {
		at = up;
	}
	return at == pid;
}

static void do_one(const struct order *o, size_t i, struct outcome *out)
{
	uint64_t begun_ns = rbt_now_ns();

	*out = (struct outcome){.pid = o->pids[i]};
	/* It may be of the group of one that was named before. */
	if (i > 0) {
		int sock = find_daemon(out->pid, &out->last);
		bool is_on_its_way =
			sock >= 0 && (is_back(o) ? out->last.phase == RBT_PARK_COMING_BACK
						 : out->last.phase == RBT_PARK_LEAVING ||
							     out->last.phase == RBT_PARK_PARKED);
		rbt_close(&sock);
		if (is_on_its_way) {
			await(o, out);
			out->seconds = (double)(rbt_now_ns() - begun_ns) / RBT_NS_PER_S;
			return;
		}
	}
	if (send_order(o, out) == EXIT_OK) {
		await(o, out);
	}
	out->seconds = (double)(rbt_now_ns() - begun_ns) / RBT_NS_PER_S;
}

static int take_pids(const struct command *cmd, int argc, char **argv, struct order *o)
{
	uint64_t pid;

	if (optind == argc) {
		return usage_error(cmd, "no process named");
	}
	if (argc - optind > RBT_PARK_MAX) {
		return usage_error(cmd, "at most %d processes at once", RBT_PARK_MAX);
	}
	for (int i = optind; i < argc; i++) {
		if (rbt_parse_u64(argv[i], 1, INT32_MAX, &pid) < 0) {
			return usage_error(cmd, "not a process id: %s", argv[i]);
		}
		if (!is_back(o) && is_ancestor((pid_t)pid)) {
			return usage_error(cmd,
				"process %d waits for this command: it cannot park itself",
				(int)pid);
		}
		o->pids[o->n++] = (pid_t)pid;
	}
	return EXIT_OK;
}

static int run_all(const struct order *o)
{
	struct rbt_json j;
	int worst = EXIT_OK;

	if (o->is_json) {
		rbt_json_init(&j, stdout);
		rbt_json_object(&j, NULL);
		rbt_json_array(&j, "programs");
	}
	for (size_t i = 0; i < o->n; i++) {
		struct outcome out;
		do_one(o, i, &out);
		tell(o, &out, &j);
		worst = worst == EXIT_OK ? out.code : worst;
	}
	if (o->is_json) {
		rbt_json_end(&j, ']');
		rbt_json_end(&j, '}');
		fputc('\n', stdout);
	}
	return worst;
}

static int run(const struct command *cmd, uint32_t flags, const struct option *options, int argc,
	char **argv)
{
	struct order o = {
		.msg = {.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_PARK}, .flags = flags}};
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 'h':
			fputs(cmd->usage, stdout);
			return EXIT_OK;
		case 'f':
			if (rbt_parse_seconds(optarg, MAX_FOR_MS, &o.msg.for_ms) < 0) {
				return usage_error(
					cmd, "--for takes a number of seconds, not %s", optarg);
			}
			break;
		case 'F':
			o.msg.flags |= RBT_PARK_FORCE;
			break;
		case 'n':
			o.msg.flags |= RBT_PARK_NO_WAIT;
			break;
		case 'j':
			o.is_json = true;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	int code = take_pids(cmd, argc, argv, &o);
	return code != EXIT_OK ? code : run_all(&o);
}

static int run_park(int argc, char **argv)
{
	static const struct option options[] = {
		{"for", required_argument, NULL, 'f'},
		{"force", no_argument, NULL, 'F'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};

	return run(&cmd_park, 0, options, argc, argv);
}

static int run_unpark(int argc, char **argv)
{
	static const struct option options[] = {
		{"no-wait", no_argument, NULL, 'n'},
		{"force", no_argument, NULL, 'F'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};

	return run(&cmd_unpark, RBT_PARK_BACK, options, argc, argv);
}

const struct command cmd_park = {
	.name = "park",
	.summary = "move programs off the GPU, with their memory",
	.usage =
		"Usage: rubato park PID... [--for SECONDS] [--force] [--json]\n"
		"\n"
		"Moves the memory of the programs from the GPU to the host, by the driver's checkpoint\n"
		"calls. Their CUDA calls wait until `rubato unpark`; then they go on with the same\n"
		"values. Returns when the GPU memory is free. All ranks of a group must be named.\n"
		"\n"
		"      --for SECONDS        come back by itself after this long (fractions allowed)\n"
		"      --force              also with drivers and memory that were not tried\n"
		"      --json               print the result as JSON\n",
	.run = run_park,
};

const struct command cmd_unpark = {
	.name = "unpark",
	.summary = "bring parked programs back",
	.usage =
		"Usage: rubato unpark PID... [--no-wait] [--force] [--json]\n"
		"\n"
		"Moves the memory of parked programs back to their GPUs, and lets them go on. Waits\n"
		"until as much memory is free as each program had, and 1 GiB more: a driver may lose a\n"
		"program that finds too little. The order stays in force if this command is ended;\n"
		"`rubato park` withdraws it.\n"
		"\n"
		"      --no-wait            fail at once if there is too little memory now\n"
		"      --force              do not check for free memory\n"
		"      --json               print the result as JSON\n",
	.run = run_unpark,
};
