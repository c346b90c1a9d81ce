/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to tasks, and undone. */
#include <errno.h>
#include <inttypes.h>

#include "conformance.h"

/* Values a program survives on hardware while the suite runs. */
#define OTHER_TIMESLICE_US 3000
#define PREEMPT_TIMEOUT_US 100000

static void check_timeslice_of(
	struct context *ctx, const struct rbt_record *rec, const struct rbt_task *task)
{
	const struct rbt_backend *be = ctx->opt.backend;
	uint64_t before = 0, during = 0, after = 0;
	int r = be->get_timeslice(rec, task, &before);

	if ((task->valid & RBT_TASK_HAS_OWN_TIMESLICE) == 0) {
		expect("timeslice-none", r, -EOPNOTSUPP);
		expect("timeslice-none-set", be->set_timeslice(rec, task, OTHER_TIMESLICE_US),
			-EOPNOTSUPP);
		return;
	}
	if (r == 0) {
		r = be->set_timeslice(rec, task, OTHER_TIMESLICE_US);
	}
	if (r == 0) {
		r = be->get_timeslice(rec, task, &during);
		int restored = be->set_timeslice(rec, task, before);
		r = r == 0 ? restored : r;
	}
	if (r == 0) {
		r = be->get_timeslice(rec, task, &after);
	}
	if (r == 0 && (during != OTHER_TIMESLICE_US || after != before)) {
		fail("timeslice",
			"0x%x: was %" PRIu64 ", set to %d, read %" PRIu64 ", restored to %" PRIu64,
			task->handle, before, OTHER_TIMESLICE_US, during, after);
		return;
	}
	expect("timeslice", r, 0);
}

void check_timeslice(struct context *ctx)
{
	for (size_t i = 0; i < ctx->n_records; i++) {
		for (uint32_t t = 0; t < ctx->records[i].n_tasks; t++) {
			check_timeslice_of(ctx, &ctx->records[i], &ctx->records[i].tasks[t]);
		}
	}
	if (ctx->n_records > 0) {
		const struct rbt_record *rec = &ctx->records[0];
		expect("timeslice-zero", ctx->opt.backend->set_timeslice(rec, &rec->tasks[0], 0),
			-EINVAL);
	}
}

/* With --state: whether so many of the records' channels are in each state. */
static void expect_state(struct context *ctx, const char *name, uint64_t full, uint64_t scheduling)
{
	struct state s;

	if (ctx->opt.state == NULL) {
		return;
	}
	int r = state_read(&ctx->opt, ctx->records, ctx->n_records, &s);
	if (r < 0) {
		expect(name, r, 0);
	} else if (s.disabled_full != full || s.disabled_scheduling != scheduling ||
		   s.enabled != s.channels - full - scheduling) {
		fail(name,
			"%" PRIu64 " channels: %" PRIu64 " enabled, %" PRIu64 " disabled, %" PRIu64
			" kept from being scheduled",
			s.channels, s.enabled, s.disabled_full, s.disabled_scheduling);
	} else {
		ok(name);
	}
}

static uint64_t count_channels(const struct context *ctx, enum rbt_scope scope)
{
	uint64_t n = 0;

	for (size_t i = 0; i < ctx->n_records; i++) {
		for (uint32_t t = 0; t < ctx->records[i].n_tasks; t++) {
			const struct rbt_task *task = &ctx->records[i].tasks[t];
			if (scope == RBT_SCOPE_ALL || task->kind == RBT_TASK_COMPUTE) {
				n += task->n_channels;
			}
		}
	}
	return n;
}

/* As a caller keeps it. All are on between two checks. */
#define MAX_RECORDS 64
static bool off[MAX_RECORDS][RBT_RECORD_MAX_CHANNELS];

static int suspend_all(struct context *ctx, enum rbt_scope scope, enum rbt_suspend_mode mode)
{
	int r = ctx->n_records <= MAX_RECORDS ? 0 : -E2BIG;

	for (size_t i = 0; i < ctx->n_records && r == 0; i++) {
		r = ctx->opt.backend->suspend(&ctx->records[i], off[i], scope, mode);
	}
	return r;
}

static int resume_all(struct context *ctx, enum rbt_scope scope)
{
	int r = 0;

	for (size_t i = 0; i < ctx->n_records && i < MAX_RECORDS; i++) {
		int one = ctx->opt.backend->resume(&ctx->records[i], off[i], scope);
		r = r == 0 ? one : r;
	}
	return r;
}

void check_suspend(struct context *ctx)
{
	uint64_t all = count_channels(ctx, RBT_SCOPE_ALL);
	uint64_t compute = count_channels(ctx, RBT_SCOPE_COMPUTE);
	/* An agent knows one way alone, which preempts. */
	uint64_t full = ctx->records[0].flags & RBT_RECORD_AGENT ? compute : 0;

	expect("suspend-full", suspend_all(ctx, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), 0);
	expect_state(ctx, "suspend-full-state", all, 0);
	expect("suspend-full-again", suspend_all(ctx, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), 0);
	expect_state(ctx, "suspend-full-again-state", all, 0);
	expect("resume", resume_all(ctx, RBT_SCOPE_ALL), 0);
	expect_state(ctx, "resume-state", 0, 0);
	expect("resume-again", resume_all(ctx, RBT_SCOPE_ALL), 0);
	expect_state(ctx, "resume-again-state", 0, 0);

	expect("suspend-scheduling",
		suspend_all(ctx, RBT_SCOPE_COMPUTE, RBT_SUSPEND_SCHEDULING_ONLY), 0);
	expect_state(ctx, "suspend-scheduling-state", full, compute - full);
	expect("suspend-scheduling-again",
		suspend_all(ctx, RBT_SCOPE_COMPUTE, RBT_SUSPEND_SCHEDULING_ONLY), 0);
	expect_state(ctx, "suspend-scheduling-again-state", full, compute - full);
	expect("resume-compute", resume_all(ctx, RBT_SCOPE_COMPUTE), 0);
	expect_state(ctx, "resume-compute-state", 0, 0);

	for (size_t i = 0; i < ctx->n_records && ctx->opt.backend->kick != NULL; i++) {
		expect("kick", ctx->opt.backend->kick(&ctx->records[i], RBT_SCOPE_ALL), 0);
	}
	expect_state(ctx, "kick-state", 0, 0);

	expect("suspend-compute", suspend_all(ctx, RBT_SCOPE_COMPUTE, RBT_SUSPEND_FULL), 0);
	expect_state(ctx, "suspend-compute-state", compute, 0);
	expect("resume-all-after-compute", resume_all(ctx, RBT_SCOPE_ALL), 0);
	expect_state(ctx, "resume-all-after-compute-state", 0, 0);
}

/* A task that is suspended alone stays so while the others come and go. */
void check_suspend_task(struct context *ctx)
{
	const struct rbt_backend *be = ctx->opt.backend;
	const struct rbt_record *rec = &ctx->records[0];
	const struct rbt_task *task = &rec->tasks[0];

	if (be->suspend_task == NULL) {
		skip("suspend-task", "this backend has none");
		return;
	}
	expect("suspend-task", be->suspend_task(rec, task->handle), 0);
	expect_state(ctx, "suspend-task-state", task->n_channels, 0);
	expect("suspend-task-again", be->suspend_task(rec, task->handle), 0);
	expect("suspend-task-all", suspend_all(ctx, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), 0);
	expect_state(ctx, "suspend-task-all-state", count_channels(ctx, RBT_SCOPE_ALL), 0);
	expect("suspend-task-resume-all", resume_all(ctx, RBT_SCOPE_ALL), 0);
	expect_state(ctx, "suspend-task-resume-all-state", task->n_channels, 0);
	expect("resume-task", be->resume_task(rec, task->handle), 0);
	expect_state(ctx, "resume-task-state", 0, 0);
	expect("resume-task-again", be->resume_task(rec, task->handle), 0);
	expect("suspend-task-missing", be->suspend_task(rec, 1000), -ENOENT);
	expect("resume-task-missing", be->resume_task(rec, 1000), 0);
	/* A task whose others are off stays off. */
	expect("suspend-task-within", be->suspend_task(rec, task->handle), 0);
	expect("suspend-task-within-all", suspend_all(ctx, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), 0);
	expect("resume-task-within", be->resume_task(rec, task->handle), 0);
	expect_state(ctx, "resume-task-within-state", count_channels(ctx, RBT_SCOPE_ALL), 0);
	expect("resume-task-within-all", resume_all(ctx, RBT_SCOPE_ALL), 0);
	expect_state(ctx, "resume-task-within-all-state", 0, 0);
}

/* A driver takes a limited number of channels a call; a program may have more. */
void check_many_channels(struct context *ctx)
{
	struct context many = {.opt = ctx->opt, .device = ctx->device};

	if (ctx->opt.target == NULL) {
		skip("many-channels", "wants a program of the suite's own");
		return;
	}
	many.pid = target_start(ctx->opt.target, "--channels", "80");
	if (many.pid < 0) {
		expect("many-channels-start", many.pid, 0);
		return;
	}
	if (expect("many-channels-discover",
		    discover(ctx->opt.backend, many.pid, &many.records, &many.n_records), 0)) {
		uint64_t all = count_channels(&many, RBT_SCOPE_ALL);
		if (all < 80) {
			fail("many-channels-count", "%" PRIu64 " channels", all);
		}
		expect("many-channels-suspend", suspend_all(&many, RBT_SCOPE_ALL, RBT_SUSPEND_FULL),
			0);
		expect_state(&many, "many-channels-suspend-state", all, 0);
		expect("many-channels-resume", resume_all(&many, RBT_SCOPE_ALL), 0);
		expect_state(&many, "many-channels-resume-state", 0, 0);
		free_records(many.records, many.n_records);
	}
	target_stop(many.pid);
}

struct interleave {
	const struct context *ctx;
	uint32_t level;
};

static int set_interleave(void *data)
{
	const struct interleave *il = data;
	const struct rbt_record *rec = &il->ctx->records[0];

	return il->ctx->opt.backend->set_interleave(rec, &rec->tasks[0], il->level);
}

void check_interleave(struct context *ctx)
{
	/* Level 1 last: it is what tasks start with, and cannot be read. */
	static const uint32_t levels[] = {2, 0, 1};
	struct interleave il = {.ctx = ctx};

	if (ctx->opt.backend->set_interleave == NULL) {
		skip("interleave", "this backend has none");
		return;
	}
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		il.level = levels[i];
		expect(has_cap_sys_nice() ? "interleave" : "interleave-unprivileged",
			set_interleave(&il), has_cap_sys_nice() ? 0 : -EPERM);
	}
	if (has_cap_sys_nice()) {
		expect("interleave-unprivileged", as_nobody(set_interleave, &il), -EPERM);
	}
	il.level = 3;
	expect("interleave-no-such-level", set_interleave(&il), -EINVAL);
}

void check_preempt(struct context *ctx)
{
	if (ctx->opt.backend->preempt == NULL) {
		skip("preempt", "this backend has none");
		return;
	}
	for (size_t i = 0; i < ctx->n_records; i++) {
		const struct rbt_record *rec = &ctx->records[i];
		for (uint32_t t = 0; t < rec->n_tasks; t++) {
			if (rec->tasks[t].kind == RBT_TASK_COMPUTE) {
				expect("preempt",
					ctx->opt.backend->preempt(
						rec, &rec->tasks[t], PREEMPT_TIMEOUT_US),
					0);
			}
		}
	}
}

void check_stats(struct context *ctx)
{
	struct rbt_program_stats stats;

	if (ctx->opt.backend->stats == NULL) {
		skip("stats", "this backend has none");
		return;
	}
	for (size_t i = 0; i < ctx->n_records; i++) {
		if (!expect("stats", ctx->opt.backend->stats(&ctx->records[i], ctx->pid, &stats),
			    0)) {
			continue;
		}
		if ((stats.valid & RBT_STATS_HAS_MEMORY) == 0) {
			skip("stats-memory", "the driver does not know the pid");
		} else {
			expect("stats-memory", stats.memory_bytes < (1ull << 50) ? 0 : -ERANGE, 0);
		}
	}
}
