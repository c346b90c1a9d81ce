/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the hooks of a policy: the reader of the daemon's events. A hook that fails gives the
 * default answer, and so does a policy that is about to be ejected.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/daemon.h"
#include "daemon/policy/hooks.h"
#include "daemon/policy/manager.h"
#include "daemon/program.h"
#include "util/time.h"

/* A policy may say something else at each question, and the core asks again after each change. So
 * outputs of `schedule` count at most this often for one program. */
#define OUTPUT_EVERY_NS (10 * RBT_NS_PER_MS)
/* Records of the log that are read at a time. */
#define DRAIN_MAX POLICY_LINES_MAX

void policy_condemn(struct policy *p, const char *fmt, ...)
{
	va_list ap;

	if (p->is_condemned) {
		return;
	}
	p->is_condemned = true;
	va_start(ap, fmt);
	vsnprintf(p->reason, sizeof(p->reason), fmt, ap);
	va_end(ap);
}

static void strike(struct policy *p, uint64_t now_ns, const char *kind, const char *what)
{
	if (safety_strike(&p->safety, now_ns)) {
		policy_condemn(p, "%s: %s; %d strikes in %d s", kind, what, POLICY_STRIKES,
			(int)(POLICY_STRIKES_IN_NS / RBT_NS_PER_S));
	}
}

/* Counts a call that took from began_ns until now. Returns whether it is a strike. */
static bool count_call(struct policy *p, enum rbt_hook hook, uint64_t began_ns, uint64_t cpu_ns,
	const struct rbt_fault *fault)
{
	struct rbt_policy_hook *s = &p->stats[hook];
	const uint64_t now_ns = rbt_now_ns(), wall_ns = now_ns - began_ns;
	char text[160];
	bool is_strike;

	s->n_calls++;
	s->ns += wall_ns;
	s->max_ns = wall_ns > s->max_ns ? wall_ns : s->max_ns;
	if (safety_is_late(&p->safety, now_ns, wall_ns, cpu_ns, &is_strike)) {
		s->n_late++;
	}
	if (fault != NULL) {
		s->n_errors++;
		rbt_fault_format(fault, text, sizeof(text));
		strike(p, now_ns, "fault", text);
	} else if (is_strike) {
		snprintf(text, sizeof(text), "hook %s took %u us", rbt_hook_name(hook),
			(unsigned)(cpu_ns / RBT_NS_PER_US));
		strike(p, now_ns, "late", text);
	}
	return fault != NULL || is_strike;
}

/* 0, -ENOENT if the policy does not have the hook, or -EFAULT if it failed or used too much time:
 * then its answer does not count. */
static int call(struct policy *p, enum rbt_hook hook, void *ctx)
{
	struct rbt_fault fault = {0};

	if (p->engine == NULL || !rbt_engine_has_hook(p->engine, hook)) {
		return -ENOENT;
	}
	const uint64_t began_ns = rbt_now_ns();
	const bool is_suspect = safety_is_suspect(&p->safety, began_ns);
	const uint64_t cpu_ns = is_suspect ? rbt_cpu_ns() : 0;
	int r = rbt_engine_run(p->engine, hook, ctx, &fault);
	return count_call(p, hook, began_ns, is_suspect ? rbt_cpu_ns() - cpu_ns : 0,
		       r < 0 ? &fault : NULL)
		       ? -EFAULT
		       : 0;
}

int policy_call_plain(struct policy *p, enum rbt_hook hook)
{
	struct bpf_gpu_policy_ctx ctx = {
		.timestamp = rbt_now_ns(), .n_gpus = p->daemon->gpu_table.n};
	int r = call(p, hook, &ctx);

	return r == -ENOENT ? 0 : r;
}

static void read_init(struct policy *p, const struct rbt_event *event, struct program *prog,
	struct rbt_policy_output *ret_said)
{
	struct bpf_gpu_task_ctx ctx;

	if (!rbt_engine_has_hook(p->engine, RBT_HOOK_TASK_INIT)) {
		return;
	}
	facts_look_up(&prog->policy.facts, event->pid, event->time_ns);
	hooks_fill_init(event, prog, &ctx);
	if (call(p, RBT_HOOK_TASK_INIT, &ctx) == 0) {
		*ret_said = HOOKS_OUTPUT(&ctx);
	}
}

static void read_work(struct policy *p, const struct rbt_event *event, const struct program *prog,
	struct rbt_policy_output *ret_said)
{
	struct bpf_gpu_work_ctx ctx;

	if (!rbt_engine_has_hook(p->engine, RBT_HOOK_WORK_SUBMIT)) {
		return;
	}
	hooks_fill_work(event, prog, &ctx);
	if (call(p, RBT_HOOK_WORK_SUBMIT, &ctx) == 0) {
		*ret_said = HOOKS_OUTPUT(&ctx);
	}
}

static void read_destroy(
	struct policy *p, const struct rbt_event *event, const struct program *prog)
{
	struct bpf_gpu_task_destroy_ctx ctx;

	if (rbt_engine_has_hook(p->engine, RBT_HOOK_TASK_DESTROY)) {
		hooks_fill_destroy(event, prog, &ctx);
		(void)call(p, RBT_HOOK_TASK_DESTROY, &ctx);
	}
}

/* The policy has refused the task. Returns whether it runs all the same. */
static bool is_overruled(struct policy *p, const struct rbt_event *event, struct program *prog)
{
	bool is_new;

	switch (refusal_judge(&prog->policy.refusals[event->is_first_run], event->task.id,
		event->is_first_run, p->timeout_ns, event->time_ns, &is_new)) {
	case REFUSAL_STANDS:
		return false;
	case REFUSAL_OVERRULED:
		p->n_overruled += is_new;
		p->daemon->policy.n_overruled += is_new;
		return true;
	default:
		policy_condemn(p, "timeout: process %d was refused for %u ms", (int)event->pid,
			(unsigned)(p->timeout_ns / RBT_NS_PER_MS));
		return true;
	}
}

static bool read_schedule(struct policy *p, const struct rbt_event *event, struct program *prog,
	struct rbt_policy_output *ret_said)
{
	struct bpf_gpu_schedule_ctx ctx;
	bool yes = true;

	if (!rbt_engine_has_hook(p->engine, RBT_HOOK_SCHEDULE)) {
		return true;
	}
	hooks_fill_schedule(event, prog, &ctx);
	if (call(p, RBT_HOOK_SCHEDULE, &ctx) == 0) {
		yes = ctx.allow_schedule != 0;
		if (event->time_ns - prog->policy.output_ns >= OUTPUT_EVERY_NS) {
			*ret_said = HOOKS_OUTPUT(&ctx);
			prog->policy.output_ns = event->time_ns;
		}
	}
	if (yes) {
		refusal_end(&prog->policy.refusals[event->is_first_run], event->task.id,
			event->time_ns);
	}
	/* A program that runs in spite of the refusal takes no harm. */
	if (!yes && event->cannot_suspend) {
		return false;
	}
	return yes || p->is_condemned || is_overruled(p, event, prog);
}

static bool read_event(void *ctx, const struct rbt_event *event, struct rbt_policy_output *ret_said)
{
	struct policy *p = ctx;
	struct program *prog = event->owner;
	bool yes = true;

	if (p->is_condemned) {
		return true;
	}
	switch (event->moment) {
	case RBT_MOMENT_INIT:
		read_init(p, event, prog, ret_said);
		break;
	case RBT_MOMENT_SCHEDULE:
		yes = read_schedule(p, event, prog, ret_said);
		break;
	case RBT_MOMENT_WORK:
		read_work(p, event, prog, ret_said);
		break;
	case RBT_MOMENT_DESTROY:
		read_destroy(p, event, prog);
		break;
	}
	/* Outputs are the program's. Its copy tasks follow its compute tasks. */
	if (event->task.engine != RBT_EVENT_COMPUTE) {
		*ret_said = RBT_POLICY_OUTPUT_INIT;
	}
	return yes;
}

void policy_call_init(struct policy *p)
{
	p->reader = (struct rbt_event_reader){
		.ctx = p,
		.wants_work = p->object->hooks[RBT_HOOK_WORK_SUBMIT] >= 0,
		.read = read_event,
	};
	p->timeout_ns = safety_timeout_ns(p->object->ops.timeout_ms);
	p->log_map = rbt_object_find_map(p->object, RBT_OBJECT_LOG_RING);
	for (int i = 0; i < RBT_N_HOOKS; i++) {
		p->stats[i].is_present = p->object->hooks[i] >= 0;
	}
}

void policy_drain(struct policy *p)
{
	struct gpu_sched_log_record record;
	char text[sizeof(((struct rbt_msg_policy_line *)0)->text)];
	ssize_t n = 0;

	for (int i = 0; p->engine != NULL && p->log_map >= 0 && n != -EAGAIN && i < DRAIN_MAX;
		i++) {
		memset(&record, 0, sizeof(record));
		n = rbt_engine_read_ring(p->engine, (unsigned)p->log_map, &record, sizeof(record));
		if (n >= 0) {
			rbt_log_format(&record, (size_t)n, text, sizeof(text));
			lines_add(&p->daemon->policy.lines, record.timestamp, p->number, text);
		} else if (n != -EMSGSIZE) {
			return;
		}
	}
}
