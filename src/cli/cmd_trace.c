/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/trace/chrome.h"
#include "cli/trace/file.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/time.h"

#define ASK_MS   100u /* how often the daemon is asked for events */
#define COUNT_NS RBT_NS_PER_S
#define MAX_MS   (UINT64_C(1000) * 3600 * 24 * 365)

#define FLUSH_BYTES (1u << 20)
#define CLOCK_TRIES 16

struct choice {
	const char *path;
	uint64_t for_ms; /* 0: until a signal comes */
};

struct tracer {
	struct trace_file file;
	struct chrome chrome;
	FILE *out; /* writes to `text`, which is moved to the file now and then */
	char *text;
	size_t size;
	int sock;
	uint64_t next;       /* number of the next event */
	uint64_t now_ns;     /* all events until then are known */
	uint64_t counted_ns; /* when counters were last asked for */
	uint64_t n_events, n_lost;
	bool is_afresh; /* the next answer begins with the state of each program */
};

static volatile sig_atomic_t has_signal;

static void on_signal(int number)
{
	has_signal = 1;
}

static void catch_signals(void)
{
	/* Without SA_RESTART: a signal ends a pause at once. */
	struct sigaction stop = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};

	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGHUP, &stop, NULL);
	/* A pipe without a reader, and a limit on the size of files, are errors of a write. */
	sigaction(SIGPIPE, &ignore, NULL);
	sigaction(SIGXFSZ, &ignore, NULL);
}

/* The distance of the two clocks: of several readings the one that took the shortest time. */
static uint64_t realtime_ahead_ns(void)
{
	uint64_t shortest_ns = UINT64_MAX, ahead_ns = 0;

	for (int i = 0; i < CLOCK_TRIES; i++) {
		uint64_t before_ns = rbt_now_ns(), real_ns = rbt_clock_ns(CLOCK_REALTIME);
		uint64_t took_ns = rbt_now_ns() - before_ns;

		if (took_ns < shortest_ns) {
			shortest_ns = took_ns;
			ahead_ns = real_ns - before_ns - took_ns / 2;
		}
	}
	return ahead_ns;
}

/* Writes to the file what has come together. 0 or -errno. */
static int flush(struct tracer *t)
{
	if (fflush(t->out) != 0) {
		return -ENOMEM;
	}
	int r = trace_file_append(&t->file, t->text, t->size);
	rewind(t->out);
	return r;
}

/* 0, or -errno of the file or for want of memory. */
static int take_events(
	struct tracer *t, const char *events, const struct rbt_msg_trace_events *head)
{
	struct rbt_trace_event event;
	int r = 0;

	chrome_set_gpus(&t->chrome, head->gpus);
	if (!t->is_afresh && head->first > t->next) {
		uint64_t n = head->first - t->next;

		t->n_lost += n;
		t->is_afresh = true;
		chrome_end_all(&t->chrome, t->now_ns, n);
		return 0; /* the next answer has them, and the state of all programs before */
	}
	t->is_afresh = false;
	for (uint32_t i = 0; r == 0 && i < head->n; i++) {
		memcpy(&event, events + i * sizeof(event), sizeof(event));
		r = chrome_put(&t->chrome, &event);
		if (r == 0 && (size_t)ftell(t->out) > FLUSH_BYTES) {
			r = flush(t);
		}
	}
	t->n_events += head->n;
	t->next = head->first + head->n;
	/* If there are more, the next answer has them. */
	t->now_ns = head->n < RBT_TRACE_MAX ? head->now_ns : t->now_ns;
	return r;
}

/* 1: there may be more; 0: that was all; or -errno, -EPROTO for what the daemon said. */
static int ask(struct tracer *t)
{
	static struct daemon_answer answer; /* large */
	const struct rbt_msg_trace msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_TRACE},
		.next = t->next,
		.flags = t->is_afresh ? RBT_TRACE_AFRESH : 0,
	};
	struct rbt_msg_trace_events head;
	ssize_t n = daemon_exchange(t->sock, &msg, sizeof(msg), -1, LIST_TIMEOUT_S, &answer);

	rbt_close(&answer.fd);
	if (n < 0) {
		return (int)n;
	}
	memcpy(&head, answer.buf, (size_t)n < sizeof(head) ? (size_t)n : sizeof(head));
	if ((size_t)n < sizeof(head) || head.h.magic != RBT_PROTOCOL_MAGIC ||
		head.h.type != RBT_MSG_TRACE_EVENTS || head.n > RBT_TRACE_MAX ||
		(size_t)n != sizeof(head) + head.n * sizeof(struct rbt_trace_event)) {
		return -EPROTO;
	}
	bool was_afresh = t->is_afresh;
	int r = take_events(t, answer.buf + sizeof(head), &head);
	return r < 0 ? r : head.n == RBT_TRACE_MAX || (t->is_afresh && !was_afresh);
}

static void put_counters(struct tracer *t, pid_t pid, const struct rbt_msg_program *p,
	const struct rbt_program_account *account)
{
	uint64_t now_ns = rbt_now_ns();

	if ((account->valid & RBT_ACCOUNT_HAS_USED) != 0) {
		chrome_put_share(&t->chrome, pid, now_ns, account->used_ns, account->known_ns);
	}
	if (p->has_memory != 0) {
		chrome_put_memory(&t->chrome, pid, now_ns, p->memory_bytes);
	}
}

/* Shares and memory, from the list that `ps` reads. 0 or -errno. */
static int count(struct tracer *t)
{
	static char buf[RBT_MSG_MAX];
	struct rbt_program_account account;
	struct rbt_msg_program p = {.pid = 0};
	ssize_t n;

	while ((n = daemon_list(
			t->sock, p.pid, RBT_LIST_ACCOUNT, LIST_TIMEOUT_S, buf, sizeof(buf))) > 0) {
		int32_t before = p.pid;

		memcpy(&p, buf, sizeof(p));
		size_t at = sizeof(p) + p.n_tasks * sizeof(struct rbt_task_state);
		if (p.pid <= before || (size_t)n != at + sizeof(account)) {
			return -EPROTO;
		}
		memcpy(&account, buf + at, sizeof(account));
		put_counters(t, p.pid, &p, &account);
	}
	return (int)n;
}

/* The daemon is stopped, or very busy. A new connection has no late answers. */
static int connect_again(struct tracer *t)
{
	if (!t->is_afresh) {
		rbt_warn("trace: rubatod does not answer");
		chrome_end_all(&t->chrome, t->now_ns, 0);
	}
	t->is_afresh = true;
	rbt_close(&t->sock);
	t->sock = daemon_start();
	return t->sock == -ETIMEDOUT ? 0 : t->sock < 0 ? -ECONNRESET : 0;
}

/* Takes everything that there is. 0, or -errno if the trace ends. */
static int take_all(struct tracer *t)
{
	int r = t->sock < 0 ? -ETIMEDOUT : 1;

	while (r > 0) {
		r = ask(t);
	}
	if (r == 0 && rbt_now_ns() >= t->counted_ns + COUNT_NS) {
		t->counted_ns = rbt_now_ns();
		r = count(t);
	}
	return r == -ETIMEDOUT ? connect_again(t) : r;
}

static void pause_until(uint64_t end_ns)
{
	uint64_t now_ns = rbt_now_ns(), wait_ns = ASK_MS * RBT_NS_PER_MS;

	wait_ns = now_ns + wait_ns > end_ns ? end_ns - now_ns : wait_ns;
	struct timespec ts = {.tv_nsec = (long)wait_ns};
	if (!has_signal && now_ns < end_ns) {
		nanosleep(&ts, NULL);
	}
}

static bool is_of_daemon(int error)
{
	return error == -EPIPE || error == -ECONNRESET || error == -EPROTO || error == -EBADMSG;
}

/* Says how it ended; returns an exit code. */
static int report(const struct choice *c, const struct tracer *t, int error, int of_file)
{
	if (t->n_lost > 0) {
		rbt_warn("trace: %" PRIu64 " events are lost: they came faster than %s was written",
			t->n_lost, c->path);
	}
	if (of_file < 0) {
		rbt_error("trace: cannot write %s: %s; the trace ends there", c->path,
			strerror(-of_file));
		return exit_code_for(of_file);
	}
	if (error == -EPROTO || error == -EBADMSG) {
		rbt_error("trace: this rubatod and this command are of different versions: restart "
			  "rubatod");
	} else if (error < 0) {
		rbt_error("trace: rubatod has ended (%s); %s has the trace until then",
			strerror(-error), c->path);
	}
	return error < 0 ? EXIT_FAILED : EXIT_OK;
}

static int follow(const struct choice *c, struct tracer *t)
{
	uint64_t end_ns = c->for_ms != 0 ? rbt_now_ns() + c->for_ms * RBT_NS_PER_MS : UINT64_MAX;
	int error = 0, of_file = 0;

	while (error == 0 && of_file == 0 && !has_signal && rbt_now_ns() < end_ns) {
		int r = take_all(t);

		error = is_of_daemon(r) ? r : 0;
		of_file = r < 0 && error == 0 ? r : flush(t);
		if (error == 0 && of_file == 0) {
			pause_until(end_ns);
		}
	}
	if (error == 0 && of_file == 0) {
		t->counted_ns = 0;
		int r = take_all(t);
		error = is_of_daemon(r) ? r : 0;
		of_file = r < 0 && error == 0 ? r : 0;
	}
	chrome_end_all(&t->chrome, t->now_ns, 0);
	of_file = of_file < 0 ? of_file : flush(t);
	int r = trace_file_close(&t->file);
	return report(c, t, error, of_file < 0 ? of_file : r);
}

static int record(const struct choice *c)
{
	struct tracer t = {.file.fd = -1, .sock = -1, .is_afresh = true};
	struct ucred cred = {0};
	socklen_t len = sizeof(cred);

	catch_signals();
	int r = trace_file_open(&t.file, c->path);
	if (r < 0) {
		rbt_error("trace: cannot write %s: %s", c->path, strerror(-r));
		return exit_code_for(r);
	}
	t.sock = daemon_start();
	if (t.sock < 0) {
		rbt_error("trace: %s", daemon_start_error(t.sock));
		trace_file_close(&t.file);
		return exit_code_for(t.sock);
	}
	t.out = open_memstream(&t.text, &t.size);
	if (t.out == NULL) {
		rbt_error("trace: no memory");
		trace_file_close(&t.file);
		return EXIT_FAILED;
	}
	(void)__fsetlocking(t.out, FSETLOCKING_BYCALLER);
	(void)getsockopt(t.sock, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	uint64_t ahead_ns = realtime_ahead_ns();
	uint64_t base_ns = chrome_base_ns(rbt_clock_ns(CLOCK_REALTIME));
	chrome_begin(&t.chrome, t.out, cred.pid, ahead_ns - base_ns, base_ns);
	int code = follow(c, &t);
	chrome_finish(&t.chrome);
	fclose(t.out);
	free(t.text);
	rbt_close(&t.sock);
	return code;
}

/* True: go on; otherwise the exit code is in *ret. */
static bool parse(struct choice *c, int argc, char **argv, int *ret)
{
	static const struct option options[] = {
		{"output", required_argument, NULL, 'o'},
		{"seconds", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option;

	*ret = EXIT_USAGE;
	while ((option = getopt_long(argc, argv, "o:h", options, NULL)) != -1) {
		switch (option) {
		case 'h':
			fputs(cmd_trace.usage, stdout);
			*ret = EXIT_OK;
			return false;
		case 'o':
			c->path = optarg;
			break;
		case 's':
			if (rbt_parse_seconds(optarg, MAX_MS, &c->for_ms) < 0 || c->for_ms == 0) {
				usage_error(&cmd_trace,
					"--seconds takes a number above 0, such as 10 or 0.5, not %s",
					optarg);
				return false;
			}
			break;
		default:
			return false;
		}
	}
	if (optind != argc) {
		usage_error(&cmd_trace, "unexpected argument: %s", argv[optind]);
		return false;
	}
	if (c->path == NULL || c->path[0] == '\0') {
		usage_error(&cmd_trace, "-o FILE is missing");
		return false;
	}
	return true;
}

static int run(int argc, char **argv)
{
	struct choice c = {0};
	int code;

	if (!parse(&c, argc, argv, &code)) {
		return code;
	}
	code = device_check(&cmd_trace);
	return code != EXIT_OK ? code : record(&c);
}

const struct command cmd_trace = {
	.name = "trace",
	.summary = "write a timeline of who has the GPUs, for Perfetto",
	.usage =
		"Usage: rubato trace -o FILE [--seconds N]\n"
		"\n"
		"Writes a Chrome trace: which programs have each GPU, and of each program whether it runs,\n"
		"waits or is off, its announced requests, its share and its memory. Open FILE with\n"
		"https://ui.perfetto.dev or chrome://tracing. The trace ends with a signal (Ctrl-C) or\n"
		"after N seconds. FILE can be opened at any time.\n"
		"\n"
		"  -o, --output FILE        the file, which is overwritten\n"
		"      --seconds N          end after N seconds, such as 10 or 0.5\n",
	.run = run,
};
