/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd_kfd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/amd/sysfs.h"
#include "proto/protocol.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/parse.h"

/* Slightly longer than the hand keeps an unused debug session. */
#define HAND_TRIES    30
#define HAND_PAUSE_NS 50000000L

volatile sig_atomic_t kfd_stop;

static void on_signal(int number)
{
	kfd_stop = 1;
}

void kfd_catch_signals(void)
{
	/* Without SA_RESTART: a signal ends a pause at once. */
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/* A stopped debugger would keep queues off, and hold the program's signals back, until it is
 * continued. The command of --exec inherits this: we wait for it with queues off. */
static void ignore_stops(void)
{
	struct sigaction action = {.sa_handler = SIG_IGN};

	sigaction(SIGTSTP, &action, NULL);
	sigaction(SIGTTIN, &action, NULL);
	sigaction(SIGTTOU, &action, NULL);
}

/* The value of the line `name` in /proc/<pid>/status, as text. */
static bool read_status(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64], status[4096];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (rbt_read_file(path, status, sizeof(status)) < 0) {
		return false;
	}
	const char *at = strstr(status, name);
	if (at == NULL) {
		return false;
	}
	snprintf(text, size, "%.*s", (int)strcspn(at + strlen(name), "\n"), at + strlen(name));
	return true;
}

/* A process that is ending has no executable any more before it is a zombie. */
static bool is_alive(pid_t pid)
{
	char path[64], state[32], exe[8];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return readlink(path, exe, sizeof(exe)) > 0 &&
	       read_status(pid, "\nState:\t", state, sizeof(state)) && state[0] != 'Z' &&
	       state[0] != 'X';
}

/* Whether Rubato's own hand debugs the process. */
static bool is_in_hand(pid_t pid)
{
	char tracer[32], name[32];

	return read_status(pid, "\nTracerPid:\t", tracer, sizeof(tracer)) && atoi(tracer) > 0 &&
	       read_status(atoi(tracer), "Name:\t", name, sizeof(name)) &&
	       strcmp(name, RBT_HAND_NAME) == 0;
}

/* The hand keeps a debug session for a second after its last use. */
int kfd_attach(struct rubato_kfd *kfd, pid_t pid)
{
	ignore_stops();
	/* Only for its latency: the session opens the device for itself, and reports the errors. */
	(void)rubato_kfd_fd(kfd);
	for (int i = 0;; i++) {
		int r = rubato_kfd_attach(kfd, pid);
		if (r != -EBUSY || i == HAND_TRIES || kfd_stop || !is_in_hand(pid)) {
			return r;
		}
		nanosleep(&(struct timespec){.tv_nsec = HAND_PAUSE_NS}, NULL);
	}
}

void kfd_say_end(const struct command *cmd, pid_t pid)
{
	if (is_alive(pid)) {
		rbt_error(
			"%s: process %d: it has begun another program (exec), and its queues are gone",
			cmd->name, (int)pid);
	} else {
		rbt_error("%s: process %d has ended", cmd->name, (int)pid);
	}
}

int kfd_failed(const struct command *cmd, pid_t pid, int error)
{
	if (error == -ESRCH && is_alive(pid)) {
		kfd_say_end(cmd, pid);
	} else if (error == -EBUSY && is_in_hand(pid)) {
		rbt_error("%s: process %d: Rubato schedules it and so debugs it itself: "
			  "`rubato resume` it, or `rubato renice` it to normal, first",
			cmd->name, (int)pid);
	} else if (error == -ENODEV || error == -EOPNOTSUPP) {
		rbt_error("%s: %s", cmd->name, rubato_kfd_strerror(error));
	} else {
		rbt_error("%s: process %d: %s", cmd->name, (int)pid, rubato_kfd_strerror(error));
	}
	return exit_code_for(error);
}

/* A process of a container has several pids: the last one is its pid inside. */
struct inner {
	pid_t wanted, found;
	unsigned n;
};

static int compare_inner(pid_t pid, void *data)
{
	struct inner *in = data;
	char path[64], text[4096], *at, *last = NULL;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (rbt_read_file(path, text, sizeof(text)) < 0 ||
		(at = strstr(text, "\nNSpid:")) == NULL) {
		return 0;
	}
	at += 7;
	at[strcspn(at, "\n")] = '\0';
	for (char *word = strtok_r(at, " \t", &at); word != NULL;
		word = strtok_r(NULL, " \t", &at)) {
		last = word;
	}
	if (last != NULL && atoi(last) == in->wanted) {
		in->found = pid;
		in->n++;
	}
	return 0;
}

int kfd_take_pid(const struct command *cmd, const char *text, pid_t *ret)
{
	char path[64], status[64];
	uint64_t v = 0;

	if (rbt_parse_u64(text, 1, INT32_MAX, &v) < 0) {
		return usage_error(cmd, "not a process id: %s", text);
	}
	struct inner in = {.wanted = (pid_t)v};
	*ret = (pid_t)v;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)*ret);
	if (rbt_amd_process_exists(KFD_SYSFS_PATH, *ret)) {
		return EXIT_OK;
	}
	/* Small pids, which are common in containers, nearly always exist here, too. If that
	 * process does not use KFD, it is hardly meant. */
	bool is_here = rbt_read_file(path, status, sizeof(status)) != -ENOENT;
	(void)rbt_amd_each_process(KFD_SYSFS_PATH, compare_inner, &in);
	if (in.n > 1 && !is_here) {
		rbt_error("%s: %u containers have a process %d: give its number on this host",
			cmd->name, in.n, (int)in.wanted);
		return EXIT_NO_PROGRAM;
	}
	if (in.n == 1) {
		rbt_warn("%s: process %d of a container is %d here", cmd->name, (int)in.wanted,
			(int)in.found);
		*ret = in.found;
	}
	return EXIT_OK;
}

int kfd_begin(const struct command *cmd, pid_t pid, bool attach, struct rubato_kfd **ret)
{
	struct rubato_kfd *kfd;
	int r = rubato_kfd_open(&kfd);

	if (r < 0) {
		return kfd_failed(cmd, pid, r);
	}
	/* Before the process is debugged: if the session does not end in order, the program may be
	 * left waiting. */
	kfd_catch_signals();
	r = attach ? kfd_attach(kfd, pid) : 0;
	if (r < 0) {
		rubato_kfd_close(kfd);
		return kfd_failed(cmd, pid, r);
	}
	*ret = kfd;
	return EXIT_OK;
}

/* Unknown values are null. */
static void json_known(
	struct rbt_json *j, const struct rubato_kfd_queue *q, const struct kfd_known *known)
{
	const struct rbt_task_state *t = kfd_known_find(known, q->id);

	if (t != NULL && (t->task.valid & RBT_TASK_HAS_SETTINGS) != 0) {
		rbt_json_u64(j, "priority", t->task.own_priority);
		rbt_json_u64(j, "percentage", t->task.own_percentage);
	} else {
		rbt_json_null(j, "priority");
		rbt_json_null(j, "percentage");
	}
	if (t != NULL) {
		rbt_json_bool(j, "suspended", t->suspended != 0);
		rbt_json_string(j, "state", kfd_known_state(known, t));
	} else {
		rbt_json_null(j, "suspended");
		rbt_json_null(j, "state");
	}
	if (q->has_addresses) {
		rbt_json_bool(j, "new", q->is_new != 0);
	} else {
		rbt_json_null(j, "new");
	}
}

static void json_queue(
	struct rbt_json *j, const struct rubato_kfd_queue *q, const struct kfd_known *known)
{
	uint64_t pending = 0;

	rbt_json_object(j, NULL);
	rbt_json_u64(j, "id", q->id);
	rbt_json_u64(j, "gpu_id", q->gpu_id);
	rbt_json_string(j, "type", rubato_kfd_type_name(q->type));
	rbt_json_u64(j, "ring_size", q->ring_size);
	if (q->has_addresses) {
		rbt_json_u64(j, "ring_address", q->ring_address);
		rbt_json_u64(j, "write_pointer_address", q->write_pointer_address);
		rbt_json_u64(j, "read_pointer_address", q->read_pointer_address);
		rbt_json_u64(j, "save_address", q->save_address);
		rbt_json_u64(j, "save_size", q->save_size);
	}
	if (q->has_pointers) {
		rbt_json_u64(j, "write_pointer", q->write_pointer);
		rbt_json_u64(j, "read_pointer", q->read_pointer);
	}
	if (rubato_kfd_pending(q, &pending)) {
		rbt_json_u64(j, "pending", pending);
		rbt_json_string(j, "pending_unit",
			q->type == RUBATO_KFD_AQL       ? "packets"
			: q->type == RUBATO_KFD_COMPUTE ? "words"
							: "bytes");
	}
	if (known != NULL) {
		json_known(j, q, known);
	}
	rbt_json_end(j, '}');
}

void kfd_json_snapshot(struct rbt_json *j, const char *key, const struct rubato_kfd_snapshot *snap,
	uint64_t start_ns, const struct kfd_known *known)
{
	rbt_json_object(j, key);
	rbt_json_double(j, "time_s", (double)(snap->time_ns - start_ns) / 1e9);
	rbt_json_array(j, "queues");
	for (uint32_t i = 0; i < snap->n_queues; i++) {
		json_queue(j, &snap->queues[i], known);
	}
	rbt_json_end(j, ']');
	rbt_json_end(j, '}');
}

static void json_counts(struct rbt_json *j, const char *key, const char *name,
	const struct rubato_kfd_count *list, uint32_t n, bool types)
{
	rbt_json_array(j, key);
	for (uint32_t i = 0; i < n; i++) {
		rbt_json_object(j, NULL);
		if (types) {
			rbt_json_string(j, name, rubato_kfd_type_name(list[i].key));
		} else {
			rbt_json_u64(j, name, list[i].key);
		}
		rbt_json_u64(j, "seen", list[i].n);
		rbt_json_end(j, '}');
	}
	rbt_json_end(j, ']');
}

void kfd_json_stats(struct rbt_json *j, const struct rubato_kfd_stats *s)
{
	rbt_json_object(j, "statistics");
	rbt_json_u64(j, "samples", s->n_samples);
	rbt_json_u64(j, "min_queues", s->min_queues);
	rbt_json_u64(j, "max_queues", s->max_queues);
	rbt_json_double(j, "mean_queues", s->mean_queues);
	rbt_json_bool(j, "stable", s->stable);
	json_counts(j, "ids", "id", s->ids, s->n_ids, false);
	json_counts(j, "gpus", "gpu_id", s->gpus, s->n_gpus, false);
	json_counts(j, "types", "type", s->types, s->n_types, true);
	rbt_json_end(j, '}');
}

static int run(int argc, char **argv)
{
	static const struct {
		const char *name;
		const struct command *cmd;
	} subs[] = {
		{"check", &cmd_kfd_check},
		{"monitor", &cmd_kfd_monitor},
		{"preempt", &cmd_kfd_preempt},
		{"queues", &cmd_kfd_queues},
		/* The tools' names as separate commands. */
		{"queue_monitor", &cmd_kfd_monitor},
		{"kfd_preemption_poc", &cmd_kfd_preempt},
		{"get_queue_info", &cmd_kfd_queues},
		{"rubato-kfd-check", &cmd_kfd_check},
	};
	static char name[40];

	if (argc < 2) {
		return usage_error(&cmd_kfd, "no tool named: check, monitor, preempt or queues");
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		fputs(cmd_kfd.usage, stdout);
		return EXIT_OK;
	}
	for (size_t i = 0; i < sizeof(subs) / sizeof(subs[0]); i++) {
		if (strcmp(argv[1], subs[i].name) == 0) {
			snprintf(name, sizeof(name), "rubato: %s", subs[i].cmd->name);
			argv[1] = name;
			return subs[i].cmd->run(argc - 1, argv + 1);
		}
	}
	return usage_error(&cmd_kfd, "no such tool: %s", argv[1]);
}

const struct command cmd_kfd = {
	.name = "kfd",
	.summary = "look at the queues of AMD programs, and preempt them",
	.usage =
		"Usage: rubato kfd monitor PID [DURATION_S] [INTERVAL_S] [OPTIONS]\n"
		"       rubato kfd preempt PID [ITERATIONS] [OPTIONS]\n"
		"       rubato kfd queues PID [OPTIONS]\n"
		"       rubato kfd check PID [OTHER] [OPTIONS]\n"
		"\n"
		"Also called queue_monitor, kfd_preemption_poc, get_queue_info and rubato-kfd-check.\n"
		"`monitor` samples a program's queues (10 s, every 1 s; 0 s: until interrupted) and\n"
		"sums up; `queues` lists them once; `preempt` takes queues off the GPU and puts them\n"
		"back (10 times), and measures the time; `check` does all that, measures classes on two\n"
		"programs, and writes a report without names. No queue stays suspended, however the tool\n"
		"ends.\n"
		"\n"
		"      --json               the same facts as JSON\n"
		"  monitor, queues:\n"
		"      --addresses          also rings, pointers and save areas: this debugs the program\n"
		"                           and needs ptrace rights; without it only sysfs is read\n"
		"  monitor:\n"
		"      --csv                one line per queue and sample\n"
		"      --live               one screen, redrawn\n"
		"  preempt:\n"
		"      --queue ID           this queue; can be repeated (default: all)\n"
		"      --type TYPE          compute, sdma or all (default)\n"
		"      --hold-ms MS         how long to keep them off (default 10)\n"
		"      --exec COMMAND       keep them off while this shell command runs\n"
		"      --interval-ms MS     from one preemption to the next (default 10)\n"
		"      --grace N            let waves run for N x 1024 clocks first, 1 to 255 (default 1)\n"
		"  preempt, check:\n"
		"      --force              even if other programs' queues stop meanwhile\n"
		"  check:\n"
		"      --output FILE        the report (default rubato-kfd-report.txt); must be new\n",
	.run = run,
};
