/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text format of Prometheus, version 0.0.4: all samples of one name together, after HELP and
 * TYPE. An unknown value has no sample.
 */
#include "daemon/metrics/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "policy/hook.h"
#include "util/utf8.h"

enum type { COUNTER, GAUGE, HISTOGRAM };
enum unit { NUMBER, NUMBER32, FLAG, SECONDS }; /* of a uint64_t, a uint32_t, a bool, and of ns */
enum subject {
	DAEMON,
	DAEMON_COUNT,
	PROGRAM,
	PROGRAM_INFO,
	GPU,
	GPU_INFO,
	GPU_CLASS,
	POLICY,
	POLICY_HOOK
};

static const char *const type_names[] = {
	[COUNTER] = "counter", [GAUGE] = "gauge", [HISTOGRAM] = "histogram"};

/* Which programs have the metric: all (0), those that the core knows, those whose memory is known,
 * those with a limit, or those with these bits in their account. */
#define NEEDS_TURNS  (1u << 31)
#define NEEDS_MEMORY (1u << 30)
#define NEEDS_LIMIT  (1u << 29)

static const struct family {
	const char *name, *help;
	enum type type;
	enum unit unit;
	enum subject subject;
	size_t offset;
	uint32_t needs;
	/* For a histogram: the first and last limit that are shown, as powers of two of us. Each
	 * limit costs a line per program, so they are coarser than the histogram's buckets. */
	uint32_t first, last;
} families[] = {
#define OF_PROGRAM(field) PROGRAM, offsetof(struct metrics_program, field)
#define OF_GPU(field)     GPU, offsetof(struct metrics_gpu, field)
#define OF_DAEMON(field)  DAEMON_COUNT, offsetof(struct metrics_snapshot, field)
#define OF_HOOK(field)    POLICY_HOOK, offsetof(struct rbt_policy_hook, field)
	{"rubato_info", "The daemon: always 1.", GAUGE, NUMBER, DAEMON, 0, 0, 0, 0},
	{"rubato_program_info",
		"Class, GPUs, container, pod, Slurm job and guest of the program, as labels: always 1.",
		GAUGE, NUMBER, PROGRAM_INFO, 0, 0, 0, 0},
	{"rubato_program_memory_bytes", "GPU memory of the program, according to the driver.",
		GAUGE, NUMBER, OF_PROGRAM(memory_bytes), NEEDS_MEMORY, 0, 0},
	{"rubato_program_memory_limit_bytes", "The memory limit of its run, on each GPU.", GAUGE,
		NUMBER, OF_PROGRAM(limit_bytes), NEEDS_LIMIT, 0, 0},
	{"rubato_program_priority", "Priority, 0 to 15.", GAUGE, NUMBER32, OF_PROGRAM(priority), 0,
		0, 0},
	{"rubato_program_weight", "Weight of its turns.", GAUGE, NUMBER32, OF_PROGRAM(turns.weight),
		NEEDS_TURNS, 0, 0},
	{"rubato_program_suspended", "Whether it is suspended by command.", GAUGE, FLAG,
		OF_PROGRAM(is_suspended), 0, 0, 0},
	{"rubato_program_waiting", "Whether it is kept off for a turn or a reserve.", GAUGE, FLAG,
		OF_PROGRAM(is_waiting), 0, 0, 0},
	{"rubato_program_parked", "Whether its memory is off the GPU, or on its way.", GAUGE, FLAG,
		OF_PROGRAM(is_parked), 0, 0, 0},
	{"rubato_program_known_seconds_total", "How long the daemon has known the program.",
		COUNTER, SECONDS, OF_PROGRAM(account.known_ns), 0, 0, 0},
	{"rubato_program_used_seconds_total",
		"Time in which it was busy and had the GPU, or a share of it.", COUNTER, SECONDS,
		OF_PROGRAM(account.used_ns), RBT_ACCOUNT_HAS_USED, 0, 0},
	{"rubato_program_allowed_seconds_total",
		"Time in which it was allowed on the GPU and may have wanted it.", COUNTER, SECONDS,
		OF_PROGRAM(turns.on_ns), NEEDS_TURNS, 0, 0},
	{"rubato_program_waited_seconds_total",
		"Time in which it was kept off the GPU and may have wanted it.", COUNTER, SECONDS,
		OF_PROGRAM(turns.waited_ns), NEEDS_TURNS, 0, 0},
	{"rubato_program_turns_total", "Turns that it had.", COUNTER, NUMBER,
		OF_PROGRAM(turns.n_turns), NEEDS_TURNS, 0, 0},
	{"rubato_program_owed_turns_total", "Turns that min_share owed to it.", COUNTER, NUMBER,
		OF_PROGRAM(turns.n_owed_turns), NEEDS_TURNS, 0, 0},
	{"rubato_program_reserves_total", "Reserves that it had.", COUNTER, NUMBER,
		OF_PROGRAM(turns.n_reserves), NEEDS_TURNS, 0, 0},
	{"rubato_program_reserved_seconds_total", "Time in which the GPU was reserved for it.",
		COUNTER, SECONDS, OF_PROGRAM(turns.reserved_ns), NEEDS_TURNS, 0, 0},
	{"rubato_program_submissions_total", "Launches, graphs, copies and memsets.", COUNTER,
		NUMBER, OF_PROGRAM(account.n_submissions), RBT_ACCOUNT_HAS_SUBMISSIONS, 0, 0},
	{"rubato_program_pending",
		"Submissions that the device has not yet fetched from its queues.", GAUGE, NUMBER,
		OF_PROGRAM(account.n_pending), RBT_ACCOUNT_HAS_PENDING, 0, 0},
	{"rubato_program_preemptions_total",
		"Times it was kept off, for a turn or a reserve, while it wanted the GPU.", COUNTER,
		NUMBER, OF_PROGRAM(account.n_preemptions), 0, 0, 0},
	{"rubato_program_suspends_total", "Times it was suspended by command.", COUNTER, NUMBER,
		OF_PROGRAM(account.n_suspends), 0, 0, 0},
	{"rubato_program_requests_late_total", "Requests that ended after their deadline.", COUNTER,
		NUMBER32, OF_PROGRAM(account.n_requests_late), RBT_ACCOUNT_HAS_LATE, 0, 0},
	{"rubato_program_off_seconds", "How long each preemption lasted.", HISTOGRAM, SECONDS,
		OF_PROGRAM(account.off), 0, 7, 26},
	{"rubato_program_suspend_seconds", "How long the driver took to suspend it.", HISTOGRAM,
		SECONDS, OF_PROGRAM(account.suspend), 0, 3, 20},
	{"rubato_program_resume_seconds", "How long the driver took to resume it.", HISTOGRAM,
		SECONDS, OF_PROGRAM(account.resume), 0, 3, 20},
	{"rubato_program_request_seconds", "Requests, as announced or as its queues show them.",
		HISTOGRAM, SECONDS, OF_PROGRAM(account.request), RBT_ACCOUNT_HAS_REQUESTS, 4, 26},
	{"rubato_program_seen_to_off_seconds",
		"From its first submission being seen until the programs taken off for it were off.",
		HISTOGRAM, SECONDS, OF_PROGRAM(account.seen_to_off), RBT_ACCOUNT_HAS_SUBMISSIONS, 4,
		20},
	{"rubato_program_off_to_done_seconds",
		"From when those programs were off until its first packet was done.", HISTOGRAM,
		SECONDS, OF_PROGRAM(account.off_to_done), RBT_ACCOUNT_HAS_DONE, 4, 26},
	{"rubato_gpu_info", "UUID of the GPU, as a label: always 1.", GAUGE, NUMBER, GPU_INFO, 0, 0,
		0, 0},
	{"rubato_gpu_used_seconds_total",
		"Time used by programs, summed over all programs, including ended ones.", COUNTER,
		SECONDS, OF_GPU(used_ns), RBT_ACCOUNT_HAS_USED, 0, 0},
	{"rubato_gpu_reserved_seconds_total",
		"Time reserved for latency programs, summed over all of them.", COUNTER, SECONDS,
		OF_GPU(reserved_ns), 0, 0, 0},
	{"rubato_gpu_switches_total", "Times a program that was kept off was resumed.", COUNTER,
		NUMBER, OF_GPU(n_switches), 0, 0, 0},
	{"rubato_gpu_programs", "Programs on the GPU now.", GAUGE, NUMBER32, GPU_CLASS,
		offsetof(struct metrics_gpu, n_programs), 0, 0, 0},
	{"rubato_policy_info", "The policy in eBPF, loaded or ejected: 1.", GAUGE, NUMBER, POLICY,
		0, 0, 0, 0},
	{"rubato_policy_calls_total", "Calls of a hook of the loaded policy.", COUNTER, NUMBER,
		OF_HOOK(n_calls), 0, 0, 0},
	{"rubato_policy_errors_total", "Calls that failed.", COUNTER, NUMBER, OF_HOOK(n_errors), 0,
		0, 0},
	{"rubato_policy_late_total", "Calls that took more than 1 ms.", COUNTER, NUMBER,
		OF_HOOK(n_late), 0, 0, 0},
	{"rubato_policy_seconds_total", "Time that its calls took.", COUNTER, SECONDS, OF_HOOK(ns),
		0, 0, 0},
	{"rubato_policy_overruled_total", "Tasks that were admitted against a policy.", COUNTER,
		NUMBER, OF_DAEMON(n_overruled), 0, 0, 0},
	{"rubato_policy_ejections_total", "Policies that were ejected.", COUNTER, NUMBER,
		OF_DAEMON(n_ejections), 0, 0, 0},
};
#define N_FAMILIES (sizeof(families) / sizeof(families[0]))

struct out {
	const struct metrics_snapshot *snapshot;
	char *buf;
	size_t n;
	size_t labels, n_labels; /* position and length of the program's labels */
};

/* The buffer has room for everything about one program or GPU (METRICS_PIECE_MAX). */
__attribute__((format(printf, 2, 3))) static void put(struct out *o, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(o->buf + o->n, METRICS_PIECE_MAX - o->n, fmt, ap);
	va_end(ap);
	assert(n >= 0 && (size_t)n < METRICS_PIECE_MAX - o->n);
	o->n += (size_t)n;
}

static void put_bytes(struct out *o, const void *bytes, size_t n)
{
	assert(n < METRICS_PIECE_MAX - o->n);
	memcpy(o->buf + o->n, bytes, n);
	o->n += n;
}

/* Writes a label's value, in which a program's name can be anything. */
static void put_escaped(struct out *o, const char *s)
{
	for (const unsigned char *p = (const unsigned char *)s; *p != '\0';) {
		size_t len = rbt_utf8_length(p);
		if (*p == '"' || *p == '\\') {
			put_bytes(o, "\\", 1);
			put_bytes(o, p, 1);
		} else if (*p == '\n') {
			put_bytes(o, "\\n", 2);
		} else if (len == 0 || !rbt_utf8_is_harmless(p, len)) {
			put_bytes(o, "?", 1);
		} else {
			put_bytes(o, p, len);
		}
		p += len > 0 ? len : 1;
	}
}

/* Writes all labels without the closing brace. All lines of a piece have the same labels, so they
 * are made once and then copied. */
static void put_program_labels(struct out *o, const struct metrics_program *p)
{
	char name[RBT_GPU_NAME_MAX];

	if (o->n_labels > 0) {
		put_bytes(o, o->buf + o->labels, o->n_labels);
		return;
	}
	o->labels = o->n;
	put(o, "{pid=\"%d\",program=\"", (int)p->pid);
	put_escaped(o, p->name);
	put(o, "\",user=\"");
	put_escaped(o, p->user);
	put(o, "\",gpu=\"");
	const char *between = "";
	for (uint32_t i = 0; i < o->snapshot->n_gpus; i++) {
		if ((p->gpus & (UINT32_C(1) << i)) != 0) {
			put(o, "%s%s", between, rbt_gpu_name(o->snapshot->gpus[i].gpu, name));
			between = ",";
		}
	}
	put(o, "\"");
	o->n_labels = o->n - o->labels;
}

/* Prometheus takes an empty label for none. */
static void put_label(struct out *o, const char *name, const char *value)
{
	if (value[0] != '\0') {
		put(o, ",%s=\"", name);
		put_escaped(o, value);
		put(o, "\"");
	}
}

static void put_program_info(struct out *o, const struct family *f, const struct metrics_program *p)
{
	const char *between = "";
	bool is_known = true;

	put(o, "%s", f->name);
	put_program_labels(o, p);
	put_label(o, "class", rbt_class_name(rbt_class_of(p->priority)));
	for (uint32_t i = 0; i < o->snapshot->n_gpus; i++) {
		is_known = is_known && ((p->gpus >> i & 1) == 0 || o->snapshot->gpus[i].uuid[0]);
	}
	/* All of them, in the order of the label gpu, or none. */
	put(o, is_known && p->gpus != 0 ? ",gpu_uuid=\"" : "");
	for (uint32_t i = 0; is_known && i < o->snapshot->n_gpus; i++) {
		if ((p->gpus >> i & 1) != 0) {
			put(o, "%s", between);
			put_escaped(o, o->snapshot->gpus[i].uuid);
			between = ",";
		}
	}
	put(o, is_known && p->gpus != 0 ? "\"" : "");
	put_label(o, "container_id", p->place.container_id);
	put_label(o, "pod_uid", p->place.pod_uid);
	put_label(o, "slurm_job", p->place.slurm_job);
	if (p->guest.vm[0] != '\0') {
		put_label(o, "vm", p->guest.vm);
		put(o, ",guest_pid=\"%" PRIu32 "\"", p->guest.pid);
		put_label(o, "guest_command", p->guest.command);
	}
	put(o, "} 1\n");
}

static void put_value(struct out *o, const struct family *f, const void *at)
{
	uint64_t v;
	uint32_t v32;

	if (f->unit == FLAG) {
		put(o, " %d\n", *(const bool *)at);
		return;
	}
	if (f->unit == NUMBER32) {
		memcpy(&v32, at, sizeof(v32));
		put(o, " %" PRIu32 "\n", v32);
		return;
	}
	memcpy(&v, at, sizeof(v));
	if (f->unit == SECONDS) {
		put(o, " %" PRIu64 ".%09" PRIu64 "\n", v / 1000000000, v % 1000000000);
	} else {
		put(o, " %" PRIu64 "\n", v);
	}
}

static void put_hist(struct out *o, const struct family *f, const struct metrics_program *p,
	const struct rbt_hist *h)
{
	uint64_t total = rbt_hist_count(h);

	for (uint32_t i = f->first; i <= f->last; i++) {
		uint64_t us = UINT64_C(1) << i;

		put(o, "%s_bucket", f->name);
		put_program_labels(o, p);
		put(o, ",le=\"%" PRIu64 ".%06" PRIu64 "\"} %" PRIu64 "\n", us / 1000000,
			us % 1000000, rbt_hist_count_before(h, rbt_hist_bucket(us * 1000)));
	}
	put(o, "%s_bucket", f->name);
	put_program_labels(o, p);
	put(o, ",le=\"+Inf\"} %" PRIu64 "\n%s_sum", total, f->name);
	put_program_labels(o, p);
	put(o, "}");
	put_value(o, f, &h->sum_ns);
	put(o, "%s_count", f->name);
	put_program_labels(o, p);
	put(o, "} %" PRIu64 "\n", total);
}

static void put_program(struct out *o, const struct family *f, const struct metrics_program *p)
{
	const void *at = (const char *)p + f->offset;
	uint32_t has = p->account.valid | (p->has_turns ? NEEDS_TURNS : 0) |
		       (p->has_memory ? NEEDS_MEMORY : 0) | (p->limit_bytes != 0 ? NEEDS_LIMIT : 0);

	if ((f->needs & ~has) != 0) {
		return;
	}
	if (f->type == HISTOGRAM) {
		put_hist(o, f, p, at);
		return;
	}
	put(o, "%s", f->name);
	put_program_labels(o, p);
	put(o, "}");
	put_value(o, f, at);
}

static void put_gpu(struct out *o, const struct family *f, const struct metrics_gpu *g)
{
	char name[RBT_GPU_NAME_MAX];

	if (f->subject == GPU_INFO && g->uuid[0] != '\0') {
		put(o, "%s{gpu=\"%s\",uuid=\"", f->name, rbt_gpu_name(g->gpu, name));
		put_escaped(o, g->uuid);
		put(o, "\"} 1\n");
	}
	if (!g->is_used || (f->needs != 0 && !g->has_used)) {
		return;
	}
	for (uint32_t i = 0; f->subject == GPU_CLASS && i < METRICS_CLASSES; i++) {
		put(o, "%s{gpu=\"%s\",class=\"%s\"}", f->name, rbt_gpu_name(g->gpu, name),
			rbt_class_name((enum rbt_class)i));
		put_value(o, f, &g->n_programs[i]);
	}
	if (f->subject == GPU) {
		put(o, "%s{gpu=\"%s\"}", f->name, rbt_gpu_name(g->gpu, name));
		put_value(o, f, (const char *)g + f->offset);
	}
}

static void put_policy(struct out *o, const struct family *f, const struct rbt_msg_policy *p)
{
	put(o, "%s{name=\"", f->name);
	put_escaped(o, p->name);
	put(o, "\",file=\"");
	put_escaped(o, p->label);
	put(o, "\",engine=\"%s\",state=\"%s\"} 1\n", rbt_policy_engine_name(p->engine),
		rbt_policy_state_name(p->state));
}

static void put_hook(
	struct out *o, const struct family *f, const struct rbt_msg_policy *p, size_t i)
{
	if (p->hooks[i].is_present != 0) {
		put(o, "%s{hook=\"%s\"}", f->name, rbt_hook_name((enum rbt_hook)i));
		put_value(o, f, (const char *)&p->hooks[i] + f->offset);
	}
}

static size_t n_subjects(const struct metrics_snapshot *s, const struct family *f)
{
	const bool has_policy = s->bpf.state != RBT_POLICY_NONE;

	switch (f->subject) {
	case DAEMON:
	case DAEMON_COUNT:
		return 1;
	case PROGRAM:
	case PROGRAM_INFO:
		return s->n_programs;
	case POLICY:
		return has_policy;
	case POLICY_HOOK:
		return has_policy ? RBT_POLICY_N_HOOKS : 0;
	default:
		return s->n_gpus;
	}
}

static void put_subject(
	struct out *o, const struct metrics_snapshot *s, const struct family *f, size_t i)
{
	if (f->subject == DAEMON) {
		put(o, "%s{version=\"" RUBATO_VERSION "\",policy=\"", f->name);
		put_escaped(o, s->policy);
		put(o, "\"} 1\n");
	} else if (f->subject == DAEMON_COUNT) {
		put(o, "%s", f->name);
		put_value(o, f, (const char *)s + f->offset);
	} else if (f->subject == PROGRAM) {
		put_program(o, f, &s->programs[i]);
	} else if (f->subject == PROGRAM_INFO) {
		put_program_info(o, f, &s->programs[i]);
	} else if (f->subject == POLICY) {
		put_policy(o, f, &s->bpf);
	} else if (f->subject == POLICY_HOOK) {
		put_hook(o, f, &s->bpf, i);
	} else {
		put_gpu(o, f, &s->gpus[i]);
	}
}

size_t metrics_write(
	const struct metrics_snapshot *s, struct metrics_cursor *c, char buf[METRICS_PIECE_MAX])
{
	struct out o = {.snapshot = s, .buf = buf};

	while (c->family < N_FAMILIES) {
		const struct family *f = &families[c->family];

		if (c->index >= n_subjects(s, f)) {
			*c = (struct metrics_cursor){.family = c->family + 1};
			continue;
		}
		if (!c->has_head) {
			put(&o, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name,
				type_names[f->type]);
		}
		size_t head = o.n;
		put_subject(&o, s, f, c->index++);
		if (o.n > head) {
			c->has_head = true;
			return o.n;
		}
		o.n = 0; /* nothing is known */
	}
	return 0;
}
