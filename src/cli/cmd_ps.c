/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/gpus.h"
#include "cli/cli.h"
#include "cli/listing.h"
#include "sched/class.h"
#include "util/json.h"
#include "util/proc.h"
#include "util/time.h"

struct view {
	bool json, tasks, threads, is_long;
	struct rbt_json j;
	size_t n_rows;
};

static const char *user_name(uid_t uid, char *buf, size_t size)
{
	struct passwd *pw = getpwuid(uid);

	if (pw != NULL) {
		snprintf(buf, size, "%s", pw->pw_name);
	} else {
		snprintf(buf, size, "%u", (unsigned)uid);
	}
	return buf;
}

static const char *kind_name(uint32_t kind)
{
	return kind == RBT_TASK_COMPUTE ? "compute" : kind == RBT_TASK_COPY ? "copy" : "other";
}

static const char *slice_text(const struct rbt_task_state *t, char *buf, size_t size)
{
	if (t == NULL || !t->has_timeslice) {
		return "-";
	}
	snprintf(buf, size, "%" PRIu64 "us", t->timeslice_us);
	return buf;
}

static const char *memory_text(const struct listed *l, char *buf, size_t size)
{
	if (!l->has_memory) {
		return "-";
	}
	snprintf(buf, size, "%" PRIu64 "MiB", l->memory_bytes >> 20);
	return buf;
}

static const char *state_text(const struct listed *l, char *buf, size_t size)
{
	if (l->error != 0) {
		return "?";
	}
	if (l->parked) {
		return "parked";
	}
	if (!l->suspended) {
		return l->waiting ? "waiting" : "running";
	}
	if (l->suspended_left_ms == 0) {
		return "suspended";
	}
	snprintf(buf, size, "suspended %" PRIu64 "s", (l->suspended_left_ms + 999) / 1000);
	return buf;
}

/* GPUs the program has tasks on: "0", "0,1", "amd0". */
static const char *gpus_text(const struct listed *l, char *buf, size_t size)
{
	char name[RBT_GPU_NAME_MAX];
	struct rbt_gpu_table seen = {0};
	size_t at = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < l->n_tasks; i++) {
		const struct rbt_task *t = &l->tasks[i].task;
		struct rbt_gpu gpu = {.backend = l->tasks[i].backend, .minor = t->gpu};
		if ((t->valid & RBT_TASK_HAS_GPU) == 0 ||
			rbt_gpu_find(&seen, gpu.backend, gpu.minor) >= 0 ||
			rbt_gpu_index(&seen, gpu.backend, gpu.minor) < 0) {
			continue;
		}
		int n = snprintf(
			buf + at, size - at, "%s%s", at > 0 ? "," : "", rbt_gpu_name(gpu, name));
		if (n < 0 || (size_t)n >= size - at) {
			break;
		}
		at += (size_t)n;
	}
	return at > 0 ? buf : "-";
}

static const struct rbt_task_state *first_compute(const struct listed *l)
{
	for (size_t i = 0; i < l->n_tasks; i++) {
		if (l->tasks[i].task.kind == RBT_TASK_COMPUTE) {
			return &l->tasks[i];
		}
	}
	return NULL;
}

static const char *task_state(const struct listed *l, const struct rbt_task_state *t)
{
	bool is_alone = (t->suspended & RBT_TASK_OFF_ALONE) != 0;

	if (l->parked) {
		return "parked";
	}
	return t->suspended == 0 ? "running" : l->waiting && !is_alone ? "waiting" : "suspended";
}

static size_t count_alone(const struct listed *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n_tasks; i++) {
		n += (l->tasks[i].suspended & RBT_TASK_OFF_ALONE) != 0;
	}
	return n;
}

static void print_task(const struct view *v, const struct listed *l, const struct rbt_task_state *t)
{
	char id[32], slice[32], tid[32] = "";

	if ((t->task.valid & (RBT_TASK_HAS_RUNLIST | RBT_TASK_HAS_ID)) ==
		(RBT_TASK_HAS_RUNLIST | RBT_TASK_HAS_ID)) {
		snprintf(id, sizeof(id), "%u:%u", t->task.runlist, t->task.id);
	} else {
		snprintf(id, sizeof(id), "%#x", t->task.handle);
	}
	if (v->threads && (t->task.valid & RBT_TASK_HAS_CREATOR) != 0) {
		snprintf(tid, sizeof(tid), " thread %u", t->task.creator_tid);
	} else if (v->threads) {
		snprintf(tid, sizeof(tid), " thread -");
	}
	printf("%26s %-7s %-9s %8s %*s%s\n", "task", kind_name(t->task.kind), id,
		slice_text(t, slice, sizeof(slice)), tid[0] != '\0' ? -14 : 0, task_state(l, t),
		tid);
}

/* "1.23s", "45.6ms", "789us". */
static const char *time_text(uint64_t ns, char *buf, size_t size)
{
	if (ns >= RBT_NS_PER_S) {
		snprintf(buf, size, "%.2fs", (double)ns / 1e9);
	} else if (ns >= RBT_NS_PER_MS) {
		snprintf(buf, size, "%.1fms", (double)ns / 1e6);
	} else {
		snprintf(buf, size, "%" PRIu64 "us", ns / 1000);
	}
	return buf;
}

static void print_hist(const char *what, const struct rbt_hist *h)
{
	char p50[32], p99[32], max[32];
	uint64_t n = rbt_hist_count(h);

	if (n > 0) {
		printf("%26s %" PRIu64 ", p50 %s, p99 %s, max %s\n", what, n,
			time_text(rbt_hist_quantile_ns(h, 500), p50, sizeof(p50)),
			time_text(rbt_hist_quantile_ns(h, 990), p99, sizeof(p99)),
			time_text(h->max_ns, max, sizeof(max)));
	}
}

static void print_account(const struct listed *l)
{
	const struct rbt_program_account *a = &l->account;
	char known[32], used[32] = "-", waited[32];

	if ((a->valid & RBT_ACCOUNT_HAS_USED) != 0) {
		time_text(a->used_ns, used, sizeof(used));
	}
	printf("%26s %s used, %s waited, of %s; %" PRIu64 " turns, %" PRIu64 " reserves, %" PRIu64
	       " suspends\n",
		"time:", used, time_text(l->turns.waited_ns, waited, sizeof(waited)),
		time_text(a->known_ns, known, sizeof(known)), l->turns.n_turns, l->turns.n_reserves,
		a->n_suspends);
	print_hist("preempted:", &a->off);
	print_hist("suspend calls:", &a->suspend);
	print_hist("resume calls:", &a->resume);
	if ((a->valid & RBT_ACCOUNT_HAS_PENDING) != 0) {
		printf("%26s %" PRIu64 "\n", "packets pending:", a->n_pending);
	}
	print_hist("seen to others off:", &a->seen_to_off);
	print_hist("off to first done:", &a->off_to_done);
	if ((a->valid & RBT_ACCOUNT_HAS_REQUESTS) != 0) {
		print_hist("requests:", &a->request);
	}
}

static void print_limit(const struct listed *l)
{
	const struct rbt_program_memory *m = &l->memory;
	char run[48] = "", gpu[48] = "";

	if (!l->has_limits || m->limit_bytes == 0) {
		return;
	}
	if ((m->flags & RBT_MEMORY_HAS_COUNT) != 0) {
		snprintf(run, sizeof(run), ", its run has %" PRIu64 "MiB", m->run_bytes >> 20);
	}
	if (m->gpu_bytes != 0) {
		snprintf(gpu, sizeof(gpu), ", the GPU has %" PRIu64 "MiB", m->gpu_bytes >> 20);
	}
	printf("%26s %" PRIu64 "MiB%s%s%s\n", "memory limit:", m->limit_bytes >> 20,
		(m->flags & RBT_MEMORY_IS_BOUND) != 0 ? "" : ", not enforced", run, gpu);
}

static void print_place(const struct rbt_place *p)
{
	const struct {
		const char *label, *value;
	} lines[] = {{"container:", p->container_id}, {"pod:", p->pod_uid},
		{"Slurm job:", p->slurm_job}};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (lines[i].value[0] != '\0') {
			printf("%26s %s\n", lines[i].label, lines[i].value);
		}
	}
}

static void print_row(struct view *v, const struct listed *l)
{
	char user[32], gpus[32], slice[32], memory[32], state[32], priority[16];
	const char *class_name = l->managed ? rbt_class_name(rbt_class_of(l->priority)) : "-";

	if (v->n_rows == 1) {
		printf("%7s %-8s %-4s %-11s %3s %8s %-14s %9s %s\n", "PID", "USER", "GPU", "CLASS",
			"PRI", "SLICE", "STATE", "MEMORY", "COMMAND");
	}
	if (l->managed) {
		snprintf(priority, sizeof(priority), "%u", l->priority);
	} else {
		snprintf(priority, sizeof(priority), "-");
	}
	printf("%7d %-8.8s %-4s %-11s %3s %8s %-14s %9s %s\n", (int)l->pid,
		user_name(l->uid, user, sizeof(user)), gpus_text(l, gpus, sizeof(gpus)), class_name,
		priority, slice_text(first_compute(l), slice, sizeof(slice)),
		state_text(l, state, sizeof(state)), memory_text(l, memory, sizeof(memory)),
		l->command);
	if (l->note[0] != '\0') {
		printf("%26s %s\n", "note:", l->note);
	}
	print_limit(l);
	if (l->is_older) {
		printf("%26s %s\n", "shim:", "older than rubatod");
	}
	if (l->origin.rule[0] != '\0') {
		printf("%26s %s\n", "rule:", l->origin.rule);
	}
	if (l->guest.vm[0] != '\0') {
		printf("%26s %s, pid %u there: %s\n", "guest:", l->guest.vm, l->guest.pid,
			l->guest.command);
	}
	if (l->origin.group[0] != '\0') {
		printf("%26s %s\n", "group:", l->origin.group);
	}
	print_place(&l->place);
	if (v->is_long && l->has_account) {
		print_account(l);
	}
	for (size_t i = 0; i < l->n_tasks && (v->tasks || v->threads); i++) {
		print_task(v, l, &l->tasks[i]);
	}
}

static void json_known(struct rbt_json *j, const char *key, bool known, uint64_t value)
{
	if (known) {
		rbt_json_u64(j, key, value);
	} else {
		rbt_json_null(j, key);
	}
}

static void json_task(struct rbt_json *j, const struct listed *l, const struct rbt_task_state *t)
{
	bool has_gpu = (t->task.valid & RBT_TASK_HAS_GPU) != 0;
	struct rbt_gpu gpu = {.backend = t->backend, .minor = t->task.gpu};
	char label[RBT_GPU_NAME_MAX];

	rbt_json_object(j, NULL);
	rbt_json_string(j, "kind", kind_name(t->task.kind));
	json_known(j, "gpu", has_gpu, t->task.gpu);
	if (has_gpu) {
		rbt_json_string(j, "gpu_label", rbt_gpu_name(gpu, label));
	} else {
		rbt_json_null(j, "gpu_label");
	}
	json_known(j, "runlist", t->task.valid & RBT_TASK_HAS_RUNLIST, t->task.runlist);
	json_known(j, "id", t->task.valid & RBT_TASK_HAS_ID, t->task.id);
	json_known(j, "timeslice_us", t->has_timeslice, t->timeslice_us);
	json_known(j, "own_timeslice_us", t->task.valid & RBT_TASK_HAS_OWN_TIMESLICE,
		t->task.own_timeslice_us);
	json_known(j, "thread", t->task.valid & RBT_TASK_HAS_CREATOR, t->task.creator_tid);
	rbt_json_u64(j, "channels", t->task.n_channels);
	rbt_json_string(j, "state", task_state(l, t));
	rbt_json_end(j, '}');
}

static void json_turns(struct rbt_json *j, const struct listed *l)
{
	const struct rbt_program_turns *t = &l->turns;
	bool has = l->has_turns;

	json_known(j, "weight", has, t->weight);
	json_known(j, "max_reserve_ms", has, t->limits.max_reserve_ms);
	json_known(j, "min_share_permille", has, t->limits.min_share_permille);
	if (has) {
		rbt_json_string(j, "policy", t->policy);
	} else {
		rbt_json_null(j, "policy");
	}
	if (has) {
		rbt_json_bool(j, "counted", t->has_board != 0);
	} else {
		rbt_json_null(j, "counted");
	}
	json_known(j, "on_us", has, t->on_ns / 1000);
	json_known(j, "waited_us", has, t->waited_ns / 1000);
	json_known(j, "turns", has, t->n_turns);
	json_known(j, "owed_turns", has, t->n_owed_turns);
	json_known(j, "reserves", has, t->n_reserves);
	json_known(j, "reserved_us", has, t->reserved_ns / 1000);
	json_known(j, "hold_us", has && t->has_board != 0, t->hold_ns / 1000);
}

/* NULL: the program gets reserves, or is not entitled to them, or it is unknown. */
static const char *no_reserve_name(const struct listed *l)
{
	static const char *const names[] = {[RBT_NO_RESERVE_UNSEEN] = "unseen",
		[RBT_NO_RESERVE_OVERSTAYED] = "overstayed",
		[RBT_NO_RESERVE_WORTHLESS] = "worthless"};
	uint32_t why = l->has_reserve ? l->reserve.why_not : RBT_NO_RESERVE_NONE;

	return why < sizeof(names) / sizeof(names[0]) ? names[why] : NULL;
}

static void json_reserve(struct rbt_json *j, const struct listed *l)
{
	const char *why = no_reserve_name(l);

	if (why != NULL) {
		rbt_json_string(j, "no_reserve", why);
	} else {
		rbt_json_null(j, "no_reserve");
	}
	json_known(j, "unreserved", l->has_reserve, l->reserve.n_unreserved);
}

/* Null if nothing is known. */
static void json_hist(struct rbt_json *j, const char *key, bool known, const struct rbt_hist *h)
{
	uint64_t n = rbt_hist_count(h);

	if (!known) {
		rbt_json_null(j, key);
		return;
	}
	rbt_json_object(j, key);
	rbt_json_u64(j, "count", n);
	json_known(j, "mean_us", n > 0, n > 0 ? h->sum_ns / n / 1000 : 0);
	json_known(j, "p50_us", n > 0, rbt_hist_quantile_ns(h, 500) / 1000);
	json_known(j, "p99_us", n > 0, rbt_hist_quantile_ns(h, 990) / 1000);
	json_known(j, "max_us", n > 0, h->max_ns / 1000);
	rbt_json_end(j, '}');
}

static void json_account(struct rbt_json *j, const struct listed *l)
{
	const struct rbt_program_account *a = &l->account;
	bool has = l->has_account;
	uint32_t valid = has ? a->valid : 0;

	json_known(j, "known_us", has, a->known_ns / 1000);
	json_known(j, "used_us", valid & RBT_ACCOUNT_HAS_USED, a->used_ns / 1000);
	json_known(j, "submissions", valid & RBT_ACCOUNT_HAS_SUBMISSIONS, a->n_submissions);
	json_known(j, "pending", valid & RBT_ACCOUNT_HAS_PENDING, a->n_pending);
	json_known(j, "preemptions", has, a->n_preemptions);
	json_known(j, "suspends", has, a->n_suspends);
	json_known(j, "requests_late", valid & RBT_ACCOUNT_HAS_LATE, a->n_requests_late);
	json_hist(j, "off", has, &a->off);
	json_hist(j, "suspend_call", has, &a->suspend);
	json_hist(j, "resume_call", has, &a->resume);
	json_hist(j, "seen_to_off", valid & RBT_ACCOUNT_HAS_SUBMISSIONS, &a->seen_to_off);
	json_hist(j, "off_to_done", valid & RBT_ACCOUNT_HAS_DONE, &a->off_to_done);
	json_hist(j, "request", valid & RBT_ACCOUNT_HAS_REQUESTS, &a->request);
}

static void json_origin(struct rbt_json *j, const char *key, const char *name)
{
	if (name[0] != '\0') {
		rbt_json_string(j, key, name);
	} else {
		rbt_json_null(j, key);
	}
}

/* As RUBATO_TREAT has it; null when it is not known. */
static void json_treatment(struct rbt_json *j, const struct listed *l)
{
	char text[RBT_TREAT_TEXT_MAX] = "";

	if (l->has_treat) {
		rbt_treatment_print(&l->treat, text, sizeof(text));
		rbt_json_string(j, "treatment", text);
	} else {
		rbt_json_null(j, "treatment");
	}
}

/* What is bound is known for programs with a limit alone. */
static void json_memory(struct rbt_json *j, const struct listed *l)
{
	const struct rbt_program_memory *m = &l->memory;
	bool has_limit = l->has_limits && m->limit_bytes != 0;
	bool has_count = has_limit && (m->flags & RBT_MEMORY_HAS_COUNT) != 0;

	json_known(j, "memory_limit_bytes", has_limit, m->limit_bytes);
	if (has_limit) {
		rbt_json_bool(j, "memory_enforced", (m->flags & RBT_MEMORY_IS_BOUND) != 0);
	} else {
		rbt_json_null(j, "memory_enforced");
	}
	json_known(j, "memory_counted_bytes", has_count, m->count_bytes);
	json_known(j, "memory_run_bytes", has_count, m->run_bytes);
	json_known(j, "gpu_memory_bytes", l->has_limits && m->gpu_bytes != 0, m->gpu_bytes);
}

static void json_row(struct view *v, const struct listed *l)
{
	struct rbt_json *j = &v->j;
	char user[32];

	rbt_json_object(j, NULL);
	rbt_json_u64(j, "pid", (uint64_t)l->pid);
	rbt_json_u64(j, "uid", l->uid);
	rbt_json_string(j, "user", user_name(l->uid, user, sizeof(user)));
	rbt_json_string(j, "command", l->command);
	rbt_json_bool(j, "managed", l->managed);
	rbt_json_bool(j, "attached", l->attached);
	if (l->managed) {
		rbt_json_string(j, "class", rbt_class_name(rbt_class_of(l->priority)));
	} else {
		rbt_json_null(j, "class");
	}
	json_known(j, "priority", l->managed, l->priority);
	json_known(j, "wanted_timeslice_us", l->managed && l->wanted_us != 0, l->wanted_us);
	rbt_json_bool(j, "held_back", l->held_back);
	rbt_json_string(j, "state",
		l->error != 0  ? "unknown"
		: l->parked    ? "parked"
		: l->suspended ? "suspended"
		: l->waiting   ? "waiting"
			       : "running");
	json_known(j, "suspended_left_ms", l->suspended_left_ms != 0, l->suspended_left_ms);
	json_known(j, "suspended_queues", l->managed, count_alone(l));
	json_known(j, "memory_bytes", l->has_memory, l->memory_bytes);
	json_memory(j, l);
	json_turns(j, l);
	json_reserve(j, l);
	json_account(j, l);
	json_treatment(j, l);
	json_origin(j, "shim", !l->managed || l->attached ? "" : l->is_older ? "older" : "current");
	json_origin(j, "rule", l->origin.rule);
	json_origin(j, "group", l->origin.group);
	json_origin(j, "container_id", l->place.container_id);
	json_origin(j, "pod_uid", l->place.pod_uid);
	json_origin(j, "slurm_job", l->place.slurm_job);
	json_origin(j, "vm", l->guest.vm);
	json_known(j, "guest_pid", l->guest.vm[0] != '\0', l->guest.pid);
	json_origin(j, "guest_command", l->guest.command);
	rbt_json_string(j, "note", l->note);
	rbt_json_array(j, "tasks");
	for (size_t i = 0; i < l->n_tasks; i++) {
		json_task(j, l, &l->tasks[i]);
	}
	rbt_json_end(j, ']');
	rbt_json_end(j, '}');
}

static int show(const struct listed *l, void *data)
{
	struct view *v = data;

	v->n_rows++;
	if (v->json) {
		json_row(v, l);
	} else {
		print_row(v, l);
	}
	return 0;
}

static int run(int argc, char **argv)
{
	static const struct option options[] = {
		{"tasks", no_argument, NULL, 'k'},
		{"threads", no_argument, NULL, 't'},
		{"long", no_argument, NULL, 'l'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct view v = {0};
	int c;

	while ((c = getopt_long(argc, argv, "hl", options, NULL)) != -1) {
		switch (c) {
		case 'k':
			v.tasks = true;
			break;
		case 't':
			v.threads = true;
			break;
		case 'l':
			v.is_long = true;
			break;
		case 'j':
			v.json = true;
			break;
		case 'h':
			return print_usage(&cmd_ps);
		default:
			return EXIT_USAGE;
		}
	}
	if (optind != argc) {
		return usage_error(&cmd_ps, "unexpected argument: %s", argv[optind]);
	}
	if (v.json) {
		rbt_json_init(&v.j, stdout);
		rbt_json_object(&v.j, NULL);
		rbt_json_u64(&v.j, "version", JSON_VERSION);
		rbt_json_array(&v.j, "programs");
	}
	int r = listing_each(show, &v);
	if (v.json) {
		rbt_json_end(&v.j, ']');
		rbt_json_end(&v.j, '}');
	}
	/* Programs may outlive a driver that does not answer any more: those are shown first. */
	int code = v.n_rows == 0 && r == 0 ? device_check(&cmd_ps) : (int)exit_code_for(r);
	if (v.n_rows == 0 && !v.json && code == EXIT_OK) {
		puts("no program uses a GPU here");
	}
	return code;
}

const struct command cmd_ps = {
	.name = "ps",
	.summary = "show programs, their tasks and timeslices",
	.usage =
		"Usage: rubato ps [--tasks] [--threads] [--long] [--json]\n"
		"\n"
		"Shows the programs on the GPUs: those under rubatod, and, with ptrace rights over them\n"
		"(root), all others. A dash means that something is not known.\n"
		"\n"
		"      --tasks              also their tasks: runlist and id, timeslice, may it run\n"
		"      --threads            the same, and the thread that made each task\n"
		"  -l, --long               also accounts of programs under rubatod: time used, waits\n"
		"      --json               the same facts as JSON\n",
	.run = run,
};
