/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a program's queues off the GPU and puts them back, and measures the time. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/amd/sysfs.h"
#include "cli/cmd_kfd.h"
#include "cli/cmd_kfd_times.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/time.h"

#define DEFAULT_ITERATIONS  10u
#define MAX_ITERATIONS      1000000u
#define DEFAULT_HOLD_MS     10u
#define DEFAULT_INTERVAL_MS 10u
#define MAX_MS              3600000u

enum wanted { WANT_ALL, WANT_COMPUTE, WANT_SDMA };

struct preempt {
	pid_t pid;
	uint64_t iterations, hold_ms, interval_ms, grace;
	const char *command;
	bool force, json;
	enum wanted wanted;
	uint32_t queues[RUBATO_KFD_MAX_QUEUES], n_queues; /* queues by name; 0: by type */
	struct rubato_kfd *kfd;
	struct rbt_json j;
	struct kfd_times snapshot, suspend, resume;
	uint64_t done, whole; /* iterations; iterations in which every queue obeyed */
	uint64_t failed;      /* iterations in which the command failed */
	int status;           /* of the last that failed: waitpid()'s, or -1 */
};

static bool is_wanted(const struct preempt *p, const struct rubato_kfd_queue *q)
{
	bool compute = q->type == RUBATO_KFD_COMPUTE || q->type == RUBATO_KFD_AQL;

	if (p->n_queues > 0) {
		for (uint32_t i = 0; i < p->n_queues; i++) {
			if (p->queues[i] == q->id) {
				return true;
			}
		}
		return false;
	}
	return p->wanted == WANT_ALL || compute == (p->wanted == WANT_COMPUTE);
}

/* The current ids, in a new array for every call. */
static int list(struct preempt *p, uint32_t *ids, uint32_t *gpus, uint32_t *ret_n)
{
	struct rubato_kfd_snapshot *snap;
	struct rubato_kfd_latency latency;
	int r = rubato_kfd_snapshot_take(p->kfd, p->pid, &snap);

	if (r < 0) {
		return r;
	}
	rubato_kfd_get_latency(p->kfd, &latency);
	/* Before the session, the list comes from sysfs. */
	if (latency.enable_ns != 0) {
		kfd_times_add(&p->snapshot, latency.snapshot_ns / RBT_NS_PER_US);
	}
	*ret_n = 0;
	for (uint32_t i = 0; i < snap->n_queues; i++) {
		if (is_wanted(p, &snap->queues[i])) {
			gpus[*ret_n] = snap->queues[i].gpu_id;
			ids[(*ret_n)++] = snap->queues[i].id;
		}
	}
	rubato_kfd_snapshot_free(snap);
	return 0;
}

struct others {
	pid_t pid, but;
	const uint32_t *gpus;
	uint32_t n;
	pid_t found;
};

static int find_others(pid_t pid, void *data)
{
	struct others *o = data;
	struct rbt_amd_queue *queues = NULL;
	size_t n = 0;

	if (pid == o->pid || pid == o->but ||
		rbt_amd_queues_read(KFD_SYSFS_PATH, pid, &queues, &n) < 0) {
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < o->n; k++) {
			o->found = queues[i].gpu_id == o->gpus[k] ? pid : o->found;
		}
	}
	free(queues);
	return o->found != 0;
}

int kfd_spare_others(
	const struct command *cmd, pid_t pid, pid_t but, const uint32_t *gpus, uint32_t n)
{
	struct others o = {.pid = pid, .but = but};
	struct rbt_amd_topology *t = malloc(sizeof(*t));
	uint32_t old[RUBATO_KFD_MAX_QUEUES];
	int r = t == NULL ? -ENOMEM : rbt_amd_topology_read(KFD_SYSFS_PATH, t);

	o.gpus = old;
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		const struct rbt_amd_gpu *gpu = rbt_amd_topology_find(t, gpus[i]);
		if (gpu != NULL && gpu->gfx_target_version < KFD_GFX_MES) {
			old[o.n++] = gpus[i];
		}
	}
	free(t);
	if (r < 0) {
		return kfd_failed(cmd, pid, r);
	}
	if (o.n == 0 || rbt_amd_each_process(KFD_SYSFS_PATH, find_others, &o) == 0) {
		return EXIT_OK;
	}
	rbt_error(
		"%s: process %d has queues on the same GPU, and this GPU's scheduler would stop them as well; --force does it all the same",
		cmd->name, (int)o.found);
	return EXIT_FAILED;
}

static void pause_ms(uint64_t ms)
{
	struct timespec ts = {
		.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

	/* A signal ends the pause. */
	(void)nanosleep(&ts, NULL);
}

/* Returns waitpid()'s status of --exec's command; -1: it could not be started. */
static int hold(const struct preempt *p)
{
	int status = 0;

	if (p->command == NULL) {
		pause_ms(p->hold_ms);
		return 0;
	}
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", p->command, (char *)NULL);
		_exit(127);
	}
	/* After an interrupt the command ends by the same signal; it is waited for. */
	while (child > 0 && waitpid(child, &status, 0) < 0) {
		if (errno != EINTR) {
			return -1;
		}
	}
	return child > 0 ? status : -1;
}

static void report_one(struct preempt *p, uint32_t n, int off, int on, uint64_t off_us,
	uint64_t held_us, uint64_t on_us)
{
	if (p->json) {
		rbt_json_object(&p->j, NULL);
		rbt_json_u64(&p->j, "queues", n);
		rbt_json_u64(&p->j, "suspended", (uint64_t)off);
		rbt_json_u64(&p->j, "resumed", (uint64_t)on);
		rbt_json_u64(&p->j, "suspend_us", off_us);
		rbt_json_u64(&p->j, "held_us", held_us);
		rbt_json_u64(&p->j, "resume_us", on_us);
		rbt_json_end(&p->j, '}');
		return;
	}
	printf("%6" PRIu64 ": %d of %u suspended in %" PRIu64 " us, held for %" PRIu64
	       " us, %d resumed in %" PRIu64 " us\n",
		p->done, off, n, off_us, held_us, on, on_us);
}

/* 0, or -errno. In any case, suspended queues are resumed. */
static int once(struct preempt *p)
{
	uint32_t ids[RUBATO_KFD_MAX_QUEUES], again[RUBATO_KFD_MAX_QUEUES];
	uint32_t gpus[RUBATO_KFD_MAX_QUEUES], n = 0;
	int r = list(p, ids, gpus, &n);

	if (r < 0 || n == 0) {
		return r < 0 ? r : -ENOENT;
	}
	memcpy(again, ids, n * sizeof(ids[0]));
	uint64_t t0 = rbt_now_ns();
	int off = rubato_kfd_suspend(p->kfd, p->pid, ids, n, (uint32_t)p->grace);
	uint64_t t1 = rbt_now_ns();
	if (off < 0) {
		return off;
	}
	int status = kfd_stop ? 0 : hold(p);
	uint64_t t2 = rbt_now_ns();
	int on = rubato_kfd_resume(p->kfd, p->pid, again, n);
	uint64_t t3 = rbt_now_ns();
	if (on < 0) {
		return on;
	}
	p->done++;
	/* A command that was interrupted together with us has not failed. */
	if (status != 0 && !kfd_stop) {
		p->failed++;
		p->status = status;
	}
	p->whole += (uint32_t)off == n && (uint32_t)on == n;
	kfd_times_add(&p->suspend, (t1 - t0) / RBT_NS_PER_US);
	kfd_times_add(&p->resume, (t3 - t2) / RBT_NS_PER_US);
	report_one(p, n, off, on, (t1 - t0) / RBT_NS_PER_US, (t2 - t1) / RBT_NS_PER_US,
		(t3 - t2) / RBT_NS_PER_US);
	return 0;
}

static void advise(struct preempt *p)
{
	if (p->whole < p->done) {
		printf("advice: not every queue obeyed each time: new queues and queues that are being destroyed do not; take a snapshot right before\n");
	}
	uint64_t us = kfd_times_quantile(&p->suspend, 0.99) + kfd_times_quantile(&p->resume, 0.99);
	printf("advice: a preemption costs %" PRIu64
	       " us (p99, off and on): worth it for urgent work that is longer than that\n",
		us);
}

static void sum_up(struct preempt *p)
{
	struct rubato_kfd_latency latency;

	rubato_kfd_get_latency(p->kfd, &latency);
	if (p->json) {
		rbt_json_end(&p->j, ']');
		rbt_json_u64(&p->j, "iterations", p->done);
		rbt_json_u64(&p->j, "complete", p->whole);
		if (p->command != NULL) {
			rbt_json_u64(&p->j, "command_failed", p->failed);
		}
		kfd_json_latency(&p->j, "latency_us", &latency);
		kfd_times_json(&p->snapshot, &p->j, "snapshot_us");
		kfd_times_json(&p->suspend, &p->j, "suspend_us");
		kfd_times_json(&p->resume, &p->j, "resume_us");
		rbt_json_end(&p->j, '}');
		return;
	}
	printf("\n%" PRIu64 " preemptions, %" PRIu64 " complete (%.1f %%)\n", p->done, p->whole,
		100.0 * (double)p->whole / (double)p->done);
	latency.snapshot_ns = 0;
	rubato_kfd_print_latency(stdout, &latency);
	kfd_times_print(&p->snapshot, "snapshot");
	kfd_times_print(&p->suspend, "suspend");
	kfd_times_print(&p->resume, "resume");
	advise(p);
}

static void report_command(const struct preempt *p)
{
	char how[48] = "it could not be started";

	if (p->status != -1 && WIFSIGNALED(p->status)) {
		snprintf(how, sizeof(how), "signal %d", WTERMSIG(p->status));
	} else if (p->status != -1) {
		snprintf(how, sizeof(how), "exit status %d", WEXITSTATUS(p->status));
	}
	rbt_error("%s: the command failed %" PRIu64 " of %" PRIu64 " times: %s",
		cmd_kfd_preempt.name, p->failed, p->done, how);
}

static int iterate(struct preempt *p)
{
	int r = 0;

	if (p->json) {
		rbt_json_init(&p->j, stdout);
		rbt_json_object(&p->j, NULL);
		rbt_json_u64(&p->j, "pid", (uint64_t)p->pid);
		rbt_json_array(&p->j, "preemptions");
	}
	for (uint64_t i = 0; r == 0 && i < p->iterations && !kfd_stop; i++) {
		r = once(p);
		if (r == 0 && i + 1 < p->iterations) {
			pause_ms(p->interval_ms);
		}
	}
	if (p->done > 0 || p->json) {
		sum_up(p);
	}
	if (r == -ENOENT) {
		rbt_error("%s: process %d has no such queue", cmd_kfd_preempt.name, (int)p->pid);
		return EXIT_FAILED;
	}
	if (r < 0) {
		return kfd_failed(&cmd_kfd_preempt, p->pid, r);
	}
	if (p->failed > 0) {
		report_command(p);
	}
	return p->whole == p->done && p->failed == 0 ? EXIT_OK : EXIT_FAILED;
}

static int begin(struct preempt *p)
{
	uint32_t ids[RUBATO_KFD_MAX_QUEUES], gpus[RUBATO_KFD_MAX_QUEUES], n = 0;
	int code = kfd_begin(&cmd_kfd_preempt, p->pid, false, &p->kfd);

	if (code != EXIT_OK) {
		return code;
	}
	/* Everything that can be found without touching the program is checked first. */
	int r = list(p, ids, gpus, &n);
	code = r < 0      ? kfd_failed(&cmd_kfd_preempt, p->pid, r)
	       : p->force ? EXIT_OK
			  : kfd_spare_others(&cmd_kfd_preempt, p->pid, 0, gpus, n);
	if (code == EXIT_OK) {
		r = kfd_attach(p->kfd, p->pid);
		code = r < 0 ? kfd_failed(&cmd_kfd_preempt, p->pid, r) : iterate(p);
	}
	rubato_kfd_close(p->kfd);
	return code;
}

static int take_number(const char *name, uint64_t min, uint64_t max, uint64_t *ret)
{
	if (rbt_parse_u64(optarg, min, max, ret) < 0) {
		return usage_error(&cmd_kfd_preempt,
			"--%s takes a number from %" PRIu64 " to %" PRIu64 ", not %s", name, min,
			max, optarg);
	}
	return EXIT_OK;
}

static int take_type(struct preempt *p)
{
	static const char *const names[] = {"all", "compute", "sdma"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(optarg, names[i]) == 0) {
			p->wanted = (enum wanted)i;
			return EXIT_OK;
		}
	}
	return usage_error(&cmd_kfd_preempt, "--type takes compute, sdma or all, not %s", optarg);
}

static int take_queue(struct preempt *p)
{
	uint64_t id = 0;
	int code = take_number("queue", 0, RUBATO_KFD_MAX_QUEUES - 1, &id);

	if (code == EXIT_OK && p->n_queues < RUBATO_KFD_MAX_QUEUES) {
		p->queues[p->n_queues++] = (uint32_t)id;
	}
	return code;
}

static int take_option(struct preempt *p, int option)
{
	switch (option) {
	case 'j':
		p->json = true;
		return EXIT_OK;
	case 'f':
		p->force = true;
		return EXIT_OK;
	case 'e':
		p->command = optarg;
		return EXIT_OK;
	case 'q':
		return take_queue(p);
	case 't':
		return take_type(p);
	case 'm':
		return take_number("hold-ms", 0, MAX_MS, &p->hold_ms);
	case 'i':
		return take_number("interval-ms", 0, MAX_MS, &p->interval_ms);
	case 'g':
		return take_number("grace", KFD_GRACE_MIN, KFD_GRACE_MAX, &p->grace);
	default:
		return EXIT_USAGE;
	}
}

int kfd_preempt(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"force", no_argument, NULL, 'f'},
		{"exec", required_argument, NULL, 'e'},
		{"queue", required_argument, NULL, 'q'},
		{"type", required_argument, NULL, 't'},
		{"hold-ms", required_argument, NULL, 'm'},
		{"interval-ms", required_argument, NULL, 'i'},
		{"grace", required_argument, NULL, 'g'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct preempt p = {.iterations = DEFAULT_ITERATIONS,
		.hold_ms = DEFAULT_HOLD_MS,
		.interval_ms = DEFAULT_INTERVAL_MS,
		.grace = KFD_GRACE_MIN};
	int c, code = EXIT_OK;

	while (code == EXIT_OK && (c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'h') {
			fputs(cmd_kfd.usage, stdout);
			return EXIT_OK;
		}
		code = take_option(&p, c);
	}
	if (code != EXIT_OK) {
		return code;
	}
	if (optind >= argc || argc - optind > 2) {
		return usage_error(&cmd_kfd_preempt,
			optind >= argc ? "no process named" : "too many arguments");
	}
	if (optind + 1 < argc &&
		rbt_parse_u64(argv[optind + 1], 1, MAX_ITERATIONS, &p.iterations) < 0) {
		return usage_error(&cmd_kfd_preempt, "iterations are a number from 1 to %u, not %s",
			MAX_ITERATIONS, argv[optind + 1]);
	}
	code = kfd_take_pid(&cmd_kfd_preempt, argv[optind], &p.pid);
	code = code == EXIT_OK ? begin(&p) : code;
	kfd_times_finish(&p.snapshot);
	kfd_times_finish(&p.suspend);
	kfd_times_finish(&p.resume);
	return code;
}

const struct command cmd_kfd_preempt = {.name = "kfd preempt", .run = kfd_preempt};
