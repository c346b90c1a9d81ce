/* SPDX-License-Identifier: Apache-2.0 */
/* Holdings: what has been applied to them, whatever the driver answers and whoever dies; that what
 * is resumed is also kicked, by whoever is the last to be able to; and slices of copy tasks. */
#include "act/holding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "util/time.h"

#define N_TASKS 6

static struct {
	uint64_t slice_us[N_TASKS]; /* by handle */
	unsigned kicks;
	enum rbt_scope scope; /* of the last kick */
	bool is_off, is_kicked;
	uint32_t tasks_off; /* a bit per handle */
} seen;

/* What the driver answers. */
static int answer;

static int may_write(uint32_t cap, bool force)
{
	return 0;
}

static int set_timeslice(const struct rbt_record *rec, const struct rbt_task *task, uint64_t us)
{
	seen.slice_us[task->handle] = us;
	return answer;
}

static int set_interleave(const struct rbt_record *rec, const struct rbt_task *task, uint32_t level)
{
	return answer;
}

static int suspend(const struct rbt_record *rec, bool *is_off, enum rbt_scope scope,
	enum rbt_suspend_mode mode)
{
	seen.is_off = true;
	return answer;
}

static int resume(const struct rbt_record *rec, bool *is_off, enum rbt_scope scope)
{
	seen.is_off = scope == RBT_SCOPE_OTHERS && seen.is_off;
	seen.is_kicked = false;
	return answer;
}

static int suspend_task(const struct rbt_record *rec, uint32_t handle)
{
	seen.tasks_off |= 1u << handle;
	return answer;
}

static int resume_task(const struct rbt_record *rec, uint32_t handle)
{
	seen.tasks_off &= ~(answer == 0 ? 1u << handle : 0);
	return answer;
}

static int kick(const struct rbt_record *rec, enum rbt_scope scope)
{
	seen.kicks++;
	seen.scope = scope;
	seen.is_kicked = !seen.is_off;
	return 0;
}

/* In place of the registry. */
const struct rbt_backend *rbt_backend_by_id(uint32_t id)
{
	static const struct rbt_backend backend = {.may_write = may_write,
		.set_timeslice = set_timeslice,
		.set_interleave = set_interleave,
		.suspend = suspend,
		.resume = resume,
		.kick = kick,
		.suspend_task = suspend_task,
		.resume_task = resume_task};

	return id == RBT_BACKEND_NVIDIA ? &backend : NULL;
}

static struct rbt_holding *new_holding(struct rbt_holdings *hs)
{
	struct rbt_record rec = RBT_RECORD_INIT;

	rec.backend = RBT_BACKEND_NVIDIA;
	CHECK_INT(rbt_holdings_put(hs, 1, false, &rec), 0);
	struct rbt_holding *h = rbt_holdings_find(hs, 1);
	memset(&seen, 0, sizeof(seen));
	return h;
}

static int take_off(struct rbt_holding *h, enum rbt_scope scope, enum rbt_suspend_mode mode)
{
	struct rbt_action action = {
		.op = RBT_ACT_SUSPEND, .scope = scope, .mode = mode, .value = 1};

	return rbt_holding_act(h, &action);
}

static int set_slices(struct rbt_holding *h, uint32_t gpu, uint64_t runlists, uint64_t us)
{
	struct rbt_action action = {.op = RBT_ACT_SET_SLICE,
		.gpu = gpu,
		.minor = gpu,
		.runlists = runlists,
		.value = us};

	return rbt_holding_act(h, &action);
}

/* As the hand does, once it has answered. */
static void let_back(struct rbt_holdings *hs, struct rbt_holding *h, enum rbt_scope scope)
{
	CHECK_INT(rbt_holding_resume(h, scope), 0);
	(void)rbt_holdings_kick(hs, rbt_now_ns());
}

static void off_and_on(struct rbt_holdings *hs, struct rbt_holding *h)
{
	CHECK_INT(take_off(h, RBT_SCOPE_COMPUTE, RBT_SUSPEND_SCHEDULING_ONLY), 0);
	let_back(hs, h, RBT_SCOPE_COMPUTE);
}

static void test_at_once(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_holding(&hs);

	/* In turns: when its owner says so. */
	off_and_on(&hs, h);
	CHECK_INT(seen.kicks, 0);
	CHECK(h->applied.is_unsure);
	/* By command: all of it, at once. */
	CHECK_INT(take_off(h, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), 0);
	CHECK(!h->applied.is_unsure);
	let_back(&hs, h, RBT_SCOPE_ALL);
	CHECK(seen.is_kicked && !h->applied.is_unsure);
	CHECK_INT(seen.scope, RBT_SCOPE_ALL);
	rbt_holdings_finish(&hs);
}

/* As when a program is reniced back to normal, and let go. */
static void test_dropped(void)
{
	struct rbt_holdings hs = {0};

	off_and_on(&hs, new_holding(&hs));
	rbt_holdings_let_go(&hs, 1);
	CHECK(seen.is_kicked);
	/* There is nothing to do for one that is off, or was kicked. */
	struct rbt_holding *h = new_holding(&hs);
	off_and_on(&hs, h);
	CHECK_INT(rbt_holding_act(h, &(struct rbt_action){.op = RBT_ACT_KICK}), 0);
	rbt_holdings_let_go(&hs, 1);
	CHECK_INT(seen.kicks, 1);
	h = new_holding(&hs);
	off_and_on(&hs, h);
	CHECK_INT(take_off(h, RBT_SCOPE_COMPUTE, RBT_SUSPEND_FULL), 0);
	rbt_holdings_let_go(&hs, 1);
	CHECK_INT(seen.kicks, 0);
	rbt_holdings_finish(&hs);
}

static void test_restored(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_holding(&hs);

	off_and_on(&hs, h);
	CHECK_INT(rbt_holdings_restore(&hs), 0);
	CHECK(seen.is_kicked);
	CHECK_INT(seen.kicks, 1);
	CHECK_INT(take_off(h, RBT_SCOPE_COMPUTE, RBT_SUSPEND_SCHEDULING_ONLY), 0);
	CHECK_INT(rbt_holdings_restore(&hs), 0);
	CHECK(seen.is_kicked && !seen.is_off);
	CHECK_INT(seen.kicks, 2);
	CHECK_INT(rbt_holdings_restore(&hs), 0);
	CHECK_INT(seen.kicks, 2);
	rbt_holdings_finish(&hs);
}

/* The other tasks are resumed. The compute tasks stay off, and are still kicked after their resume.
 */
static void test_others(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_holding(&hs);

	CHECK_INT(take_off(h, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), 0);
	let_back(&hs, h, RBT_SCOPE_OTHERS);
	CHECK_INT(seen.scope, RBT_SCOPE_OTHERS);
	let_back(&hs, h, RBT_SCOPE_COMPUTE);
	CHECK(h->applied.is_unsure);
	rbt_holdings_let_go(&hs, 1);
	CHECK(seen.is_kicked);
	rbt_holdings_finish(&hs);
}

/* The owner may have stopped, or be wrong. */
static void test_left_on(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_holding(&hs);
	uint64_t before_ns = rbt_now_ns();

	CHECK(rbt_holdings_kick(&hs, before_ns) == UINT64_MAX);
	off_and_on(&hs, h);
	uint64_t due_ns = rbt_holdings_kick(&hs, rbt_now_ns());
	CHECK(due_ns >= before_ns + 5 * RBT_NS_PER_S && due_ns < before_ns + 10 * RBT_NS_PER_S);
	CHECK(rbt_holdings_kick(&hs, due_ns - 1) == due_ns);
	CHECK_INT(seen.kicks, 0);
	CHECK(rbt_holdings_kick(&hs, due_ns) == UINT64_MAX);
	CHECK(seen.is_kicked);
	/* Once, and not while it is off. */
	CHECK(rbt_holdings_kick(&hs, UINT64_MAX) == UINT64_MAX);
	CHECK_INT(seen.kicks, 1);
	off_and_on(&hs, h);
	CHECK_INT(take_off(h, RBT_SCOPE_COMPUTE, RBT_SUSPEND_SCHEDULING_ONLY), 0);
	CHECK(rbt_holdings_kick(&hs, UINT64_MAX) == UINT64_MAX);
	CHECK_INT(seen.kicks, 1);
	rbt_holdings_finish(&hs);
}

/* A context's four tasks; one copy task whose runlist is not known, and one whose slice is not. */
static struct rbt_holding *new_context(struct rbt_holdings *hs)
{
	static const uint32_t all = RBT_TASK_HAS_RUNLIST | RBT_TASK_HAS_OWN_TIMESLICE;
	static const struct rbt_task tasks[N_TASKS] = {
		{.kind = RBT_TASK_COMPUTE, .valid = all, .own_timeslice_us = 2048},
		{.kind = RBT_TASK_COPY, .valid = all, .runlist = 8, .own_timeslice_us = 1024},
		{.kind = RBT_TASK_COPY, .valid = all, .runlist = 9, .own_timeslice_us = 1024},
		{.kind = RBT_TASK_COPY, .valid = all, .runlist = 70, .own_timeslice_us = 1024},
		{.kind = RBT_TASK_COPY, .valid = RBT_TASK_HAS_RUNLIST, .runlist = 9},
		{.kind = RBT_TASK_OTHER, .valid = all, .runlist = 9, .own_timeslice_us = 1024}};
	struct rbt_holding *h = new_holding(hs);

	h->rec.n_tasks = N_TASKS;
	h->rec.tasks = calloc(N_TASKS, sizeof(tasks[0]));
	if (h->rec.tasks == NULL) {
		abort();
	}
	memcpy(h->rec.tasks, tasks, sizeof(tasks));
	for (uint32_t i = 0; i < N_TASKS; i++) {
		h->rec.tasks[i].handle = i;
	}
	return h;
}

static bool slices_are(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	return seen.slice_us[0] == a && seen.slice_us[1] == b && seen.slice_us[2] == c &&
	       seen.slice_us[3] == d && seen.slice_us[4] == 0 && seen.slice_us[5] == 0;
}

static void test_copy_slices(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_context(&hs);

	/* Those on these runlists of this GPU, if that makes them shorter. */
	CHECK_INT(set_slices(h, 1, 0x300, 50), 0);
	CHECK_INT(set_slices(h, 0, 0x300, 1024), 0);
	CHECK(slices_are(0, 0, 0, 0));
	CHECK_INT(set_slices(h, 0, 0x200, 50), 0);
	CHECK(slices_are(0, 0, 50, 0) && h->applied.slices_changed);
	CHECK_INT(set_slices(h, 0, 0x300, 1), 0);
	CHECK(slices_are(0, 1, 1, 0));
	CHECK_INT(set_slices(h, 0, 0x100, 0), 0);
	CHECK(slices_are(0, 1024, 1, 0));
	CHECK_INT(set_slices(h, 0, RBT_ALL_RUNLISTS, 0), 0);
	CHECK(slices_are(0, 1024, 1024, 1024));
	/* A restore cannot know which of them were changed. */
	CHECK_INT(set_slices(h, 0, 0x300, 1), 0);
	memset(&seen, 0, sizeof(seen));
	CHECK_INT(rbt_holding_restore_slices(h), 0);
	CHECK(slices_are(2048, 1024, 1024, 1024) && !h->applied.slices_changed);
	rbt_holdings_finish(&hs);
}

/* A holding as the daemon keeps it: it notes what the hand answers. */
static void note(struct rbt_holding *h, const struct rbt_action *action, int result)
{
	rbt_holding_apply(h, action, RBT_UNDERWAY);
	rbt_holding_apply(h, action, result);
}

/* The hand's table and the daemon's say the same after any action, obeyed or refused. */
static void test_tables_agree(void)
{
	static const struct rbt_action actions[] = {{.op = RBT_ACT_SET_SLICE, .value = 50},
		{.op = RBT_ACT_SET_SLICE, .value = 1, .runlists = 0x300},
		{.op = RBT_ACT_SUSPEND, .scope = RBT_SCOPE_COMPUTE, .mode = 1, .value = 7},
		{.op = RBT_ACT_SUSPEND, .scope = RBT_SCOPE_ALL, .value = 8},
		{.op = RBT_ACT_RESUME, .scope = RBT_SCOPE_OTHERS, .at_ns = 9},
		{.op = RBT_ACT_RENEW, .value = 10},
		{.op = RBT_ACT_RESUME, .scope = RBT_SCOPE_COMPUTE, .at_ns = 11},
		{.op = RBT_ACT_KICK, .scope = RBT_SCOPE_COMPUTE},
		{.op = RBT_ACT_SUSPEND, .scope = RBT_SCOPE_ALL, .value = 12},
		{.op = RBT_ACT_RESUME, .scope = RBT_SCOPE_ALL, .at_ns = 13},
		{.op = RBT_ACT_SET_SLICE, .value = 0, .runlists = 0x100},
		{.op = RBT_ACT_SET_SLICE, .value = 0}, {.op = RBT_ACT_RESTORE_SLICES},
		{.op = RBT_ACT_SUSPEND_TASK, .task = 1, .value = 14},
		{.op = RBT_ACT_SUSPEND_TASK, .task = 2, .value = 15},
		{.op = RBT_ACT_RESUME_TASK, .task = 1}, {.op = RBT_ACT_INTERLEAVE, .value = 2},
		{.op = RBT_ACT_INTERLEAVE, .value = 0},
		{.op = RBT_ACT_INTERLEAVE, .value = RBT_INTERLEAVE_OWN}};
	static const int answers[] = {0, -EIO, -EPERM};
	const size_t n = sizeof(actions) / sizeof(actions[0]);

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]) * n * n; i++) {
		struct rbt_holdings hs = {0}, ours = {0};
		struct rbt_holding *h = new_context(&hs), *mine = new_context(&ours);

		/* All of them, with two refused on the way. */
		for (size_t j = 0; j < n; j++) {
			answer = j == i % n || j == i / n % n ? answers[i / n / n] : 0;
			note(mine, &actions[j], rbt_holding_act(h, &actions[j]));
			CHECK(memcmp(&h->applied, &mine->applied, sizeof(h->applied)) == 0);
		}
		answer = 0;
		rbt_holdings_finish(&hs);
		rbt_holdings_finish(&ours);
	}
}

static int act_on(struct rbt_holding *h, enum rbt_action_op op, uint32_t task)
{
	struct rbt_action action = {.op = op, .task = task, .value = 99};

	return rbt_holding_act(h, &action);
}

/* Tasks that are suspended alone stay so while the others come and go, and are restored. */
static void test_single_tasks(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_context(&hs);
	const struct rbt_applied *a = &h->applied;

	CHECK_INT(act_on(h, RBT_ACT_SUSPEND_TASK, 1), 0);
	CHECK_INT(act_on(h, RBT_ACT_SUSPEND_TASK, 2), 0);
	CHECK_INT(act_on(h, RBT_ACT_SUSPEND_TASK, 1), 0);
	CHECK(a->n_tasks_off == 2 && a->tasks_deadline_ns == 99 && rbt_applied_has_any_off(a));
	CHECK(!a->is_off && rbt_applied_state(a) == 0);
	CHECK_INT(take_off(h, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), 0);
	CHECK_INT(rbt_holding_resume(h, RBT_SCOPE_ALL), 0);
	CHECK(seen.tasks_off == 6 && rbt_applied_has_task_off(a, 1));
	answer = -EIO;
	CHECK_INT(act_on(h, RBT_ACT_RESUME_TASK, 1), -EIO);
	CHECK_INT(act_on(h, RBT_ACT_SUSPEND_TASK, 3), -EIO);
	CHECK(a->n_tasks_off == 3); /* never less than what may be in force */
	/* A task that is gone is as good as resumed, but not suspended. */
	answer = -ENOENT;
	CHECK_INT(act_on(h, RBT_ACT_SUSPEND_TASK, 3), -ESTALE);
	CHECK_INT(act_on(h, RBT_ACT_RESUME_TASK, 3), 0);
	answer = -EIO;
	CHECK_INT(act_on(h, RBT_ACT_SUSPEND_TASK, 3), -EIO);
	CHECK(rbt_holding_restore(h) < 0 && a->n_tasks_off == 3);
	answer = 0;
	CHECK_INT(rbt_holding_restore(h), 0);
	CHECK(seen.tasks_off == 0 && !rbt_applied_has_any_off(a));
	/* More than can be noted is refused, not forgotten. */
	for (uint32_t i = 0; i < RBT_RECORD_MAX_TASKS; i++) {
		CHECK_INT(act_on(h, RBT_ACT_SUSPEND_TASK, i % 30), 0);
	}
	h->applied.n_tasks_off = RBT_RECORD_MAX_TASKS;
	CHECK_INT(act_on(h, RBT_ACT_SUSPEND_TASK, 31), -ENOSPC);
	/* What the next record does not name is gone. */
	h->applied.n_tasks_off = 2;
	struct rbt_record rec = RBT_RECORD_INIT;
	rec.backend = RBT_BACKEND_NVIDIA;
	CHECK_INT(rbt_holdings_put(&hs, 1, false, &rec), 0);
	CHECK(a->n_tasks_off == 0);
	rbt_holdings_finish(&hs);
}

/* Never less than what may be in force. */
static void test_refused(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_context(&hs);
	const struct rbt_applied *a = &h->applied;

	answer = -EIO;
	CHECK_INT(take_off(h, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), -EIO);
	CHECK(rbt_applied_is_by_command(a) && a->others_are_off);
	CHECK_INT(rbt_holding_resume(h, RBT_SCOPE_ALL), -EIO);
	CHECK(rbt_applied_is_by_command(a) && a->others_are_off && a->is_unsure);
	CHECK_INT(set_slices(h, 0, 0, 50), -EIO);
	CHECK_INT((int)a->slice_us[0], 50);
	CHECK_INT(set_slices(h, 0, 0, 0), -EIO);
	CHECK_INT((int)a->slice_us[0], 50);
	CHECK_INT(set_slices(h, 0, 0x300, 50), -EIO);
	CHECK_INT(set_slices(h, 0, 0x100, 0), -EIO);
	CHECK(a->copy_runlists[0] == 0x300 && a->copy_us[0] == 50);
	CHECK_INT(rbt_holding_restore(h), -EIO);
	CHECK(a->is_off && a->slices_changed && a->slice_us[0] == 50);
	/* A process that may not write has not changed anything before, either. */
	answer = -EPERM;
	CHECK_INT(set_slices(h, 0, 0, 0), -EPERM);
	CHECK_INT((int)a->slice_us[0], 0);
	answer = 0;
	CHECK_INT(rbt_holding_restore(h), 0);
	CHECK(!a->is_off && !a->others_are_off && !a->slices_changed && !a->is_unsure);
	CHECK(!rbt_applied_has_slices(a, 0));
	rbt_holdings_finish(&hs);
}

/* The hand dies half-way: what it was asked for may have been done. */
static void test_underway(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_context(&hs);
	const struct rbt_applied *a = &h->applied;
	struct rbt_action resume_all = {.op = RBT_ACT_RESUME, .scope = RBT_SCOPE_ALL};
	struct rbt_action slice = {.op = RBT_ACT_SET_SLICE, .value = 50};
	struct rbt_action off = {.op = RBT_ACT_SUSPEND, .scope = RBT_SCOPE_COMPUTE};

	rbt_holding_apply(h, &slice, RBT_UNDERWAY);
	CHECK(a->slices_changed && !rbt_applied_has_slices(a, 0));
	rbt_holding_apply(h, &off, RBT_UNDERWAY);
	CHECK(rbt_applied_is_in_turns(a) && !a->others_are_off);
	CHECK(rbt_applied_is_off(a, RBT_TASK_COMPUTE) && !rbt_applied_is_off(a, RBT_TASK_COPY));
	rbt_holding_apply(h, &resume_all, RBT_UNDERWAY);
	CHECK(a->is_off);
	seen.is_off = true;
	CHECK_INT(rbt_holding_restore(h), 0);
	CHECK(slices_are(2048, 1024, 1024, 1024) && !seen.is_off && seen.is_kicked);
	CHECK(!a->slices_changed && !a->is_off);
	/* Nobody knows what another has done. */
	rbt_holding_assume_changed(h);
	CHECK(a->slices_changed && rbt_applied_is_by_command(a) && a->others_are_off);
	seen.is_off = true;
	CHECK_INT(rbt_holding_restore(h), 0);
	CHECK(!seen.is_off && !a->slices_changed && !a->is_off && !a->others_are_off);
	rbt_holdings_finish(&hs);
}

/* By command, then in turns: the other tasks are back before the compute tasks are. */
static void test_scopes(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_context(&hs);
	const struct rbt_applied *a = &h->applied;

	CHECK_INT(take_off(h, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), 0);
	CHECK_INT(take_off(h, RBT_SCOPE_COMPUTE, RBT_SUSPEND_FULL), 0);
	CHECK(rbt_applied_is_in_turns(a) && a->others_are_off);
	CHECK_INT(rbt_holding_resume(h, RBT_SCOPE_OTHERS), 0);
	CHECK(rbt_applied_is_in_turns(a) && !a->others_are_off && a->is_kicked);
	CHECK_INT(rbt_holding_resume(h, RBT_SCOPE_COMPUTE), 0);
	CHECK(!a->is_off && a->is_unsure && !a->is_kicked);
	rbt_holdings_finish(&hs);
}

/* The daemon hears that deadlines have passed, and not whose: what was set is set again. */
static void test_lapse(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_context(&hs);
	const struct rbt_applied *a = &h->applied;
	struct rbt_action lapse = {.op = RBT_ACT_LAPSE};

	CHECK_INT(set_slices(h, 0, 0, 50), 0);
	CHECK_INT(take_off(h, RBT_SCOPE_COMPUTE, RBT_SUSPEND_SCHEDULING_ONLY), 0);
	rbt_holding_apply(h, &lapse, -EIO);
	CHECK(a->is_off && a->slice_us[0] == 50);
	rbt_holding_apply(h, &lapse, 0);
	CHECK(a->is_off && a->slices_changed && !rbt_applied_has_slices(a, 0));
	rbt_holdings_finish(&hs);
}

/* The owner asks for a kick, and the hand does it later. */
static void test_kick_is_asked_for(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_holding(&hs);
	struct rbt_action kick_it = {.op = RBT_ACT_KICK, .scope = RBT_SCOPE_COMPUTE};

	off_and_on(&hs, h);
	CHECK(h->applied.is_unsure && !h->applied.is_kicked);
	rbt_holding_apply(h, &kick_it, RBT_UNDERWAY);
	CHECK(h->applied.is_unsure && h->applied.is_kicked);
	CHECK_INT(seen.kicks, 0);
	CHECK(rbt_holdings_kick(&hs, rbt_now_ns()) == UINT64_MAX);
	CHECK_INT(seen.kicks, 1);
	CHECK(!h->applied.is_unsure && h->applied.is_kicked);
	/* Not while it is off. */
	CHECK_INT(take_off(h, RBT_SCOPE_COMPUTE, RBT_SUSPEND_FULL), 0);
	rbt_holding_apply(h, &kick_it, RBT_UNDERWAY);
	CHECK(rbt_holdings_kick(&hs, rbt_now_ns()) == UINT64_MAX);
	CHECK_INT(seen.kicks, 1);
	rbt_holdings_finish(&hs);
}

static unsigned count_lines(int fd)
{
	char buf[65536];
	ssize_t n = pread(fd, buf, sizeof(buf), 0);
	unsigned lines = 0;

	for (ssize_t i = 0; i < n; i++) {
		lines += buf[i] == '\n';
	}
	return lines;
}

/* A program that the driver refuses to put back can come again as often as it likes: the log does
 * not grow with it. */
static void test_refusals_are_named_a_few_times(void)
{
	int log = memfd_create("log", MFD_CLOEXEC), old = dup(STDERR_FILENO);
	struct rbt_holdings hs = {0};

	answer = -EIO;
	dup2(log, STDERR_FILENO);
	for (int i = 0; i < 200; i++) {
		struct rbt_holding *h = new_context(&hs);
		rbt_holding_assume_slices(h);
		/* Of one that is tried again and again, nothing is new. */
		for (int k = 0; k < 10; k++) {
			CHECK_INT(rbt_holding_restore(h), -EIO);
		}
		rbt_holdings_drop(&hs, 1);
	}
	dup2(old, STDERR_FILENO);
	CHECK(count_lines(log) >= 1);
	CHECK(count_lines(log) <= 12);
	answer = 0;
	close(log);
	close(old);
	rbt_holdings_finish(&hs);
}

int main(void)
{
	test_tables_agree();
	test_single_tasks();
	test_refused();
	test_underway();
	test_scopes();
	test_lapse();
	test_kick_is_asked_for();
	test_refusals_are_named_a_few_times();
	test_copy_slices();
	test_at_once();
	test_dropped();
	test_restored();
	test_others();
	test_left_on();
	return check_result();
}
