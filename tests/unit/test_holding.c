/* SPDX-License-Identifier: Apache-2.0 */
/* Holdings: that what is resumed is also roused, by whoever is the last to be able to; and slices
 * of copy tasks. */
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
	unsigned rouses;
	enum rbt_scope scope; /* of the last rouse */
	bool is_off, is_roused;
} seen;

static int refusal; /* of the driver: 0 or -errno */

static int may_write(uint32_t cap, bool force)
{
	return 0;
}

static int set_timeslice(const struct rbt_record *rec, const struct rbt_task *task, uint64_t us)
{
	seen.slice_us[task->handle] = us;
	return refusal;
}

static int suspend(struct rbt_record *rec, enum rbt_scope scope, enum rbt_suspend_mode mode)
{
	seen.is_off = true;
	return 0;
}

static int resume(struct rbt_record *rec, enum rbt_scope scope)
{
	seen.is_off = scope == RBT_SCOPE_REST && seen.is_off;
	seen.is_roused = false;
	return 0;
}

static int rouse(const struct rbt_record *rec, enum rbt_scope scope)
{
	seen.rouses++;
	seen.scope = scope;
	seen.is_roused = !seen.is_off;
	return 0;
}

/* In place of the registry. */
const struct rbt_backend *rbt_backend_by_id(uint32_t id)
{
	static const struct rbt_backend backend = {.may_write = may_write,
		.set_timeslice = set_timeslice,
		.suspend = suspend,
		.resume = resume,
		.rouse = rouse};

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

/* As the hand does, once it has answered. */
static void let_back(struct rbt_holdings *hs, struct rbt_holding *h, enum rbt_scope scope)
{
	CHECK_INT(rbt_holding_resume(h, scope), 0);
	(void)rbt_holdings_rouse(hs, rbt_now_ns());
}

static void off_and_on(struct rbt_holdings *hs, struct rbt_holding *h)
{
	CHECK_INT(rbt_holding_suspend(h, RBT_SCOPE_COMPUTE, RBT_SUSPEND_SCHEDULING_ONLY, 1), 0);
	let_back(hs, h, RBT_SCOPE_COMPUTE);
}

static void test_at_once(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_holding(&hs);

	/* In turns: when its owner says so. */
	off_and_on(&hs, h);
	CHECK_INT(seen.rouses, 0);
	CHECK(h->is_unsure);
	/* By command: all of it, at once. */
	CHECK_INT(rbt_holding_suspend(h, RBT_SCOPE_ALL, RBT_SUSPEND_FULL, 1), 0);
	CHECK(!h->is_unsure);
	let_back(&hs, h, RBT_SCOPE_ALL);
	CHECK(seen.is_roused && !h->is_unsure);
	CHECK_INT(seen.scope, RBT_SCOPE_ALL);
	rbt_holdings_finish(&hs);
}

/* As when a program is reniced back to normal, and let go. */
static void test_dropped(void)
{
	struct rbt_holdings hs = {0};

	off_and_on(&hs, new_holding(&hs));
	rbt_holdings_let_go(&hs, 1);
	CHECK(seen.is_roused);
	/* There is nothing to do for one that is off, or was roused. */
	struct rbt_holding *h = new_holding(&hs);
	off_and_on(&hs, h);
	rbt_holding_rouse(h);
	rbt_holdings_let_go(&hs, 1);
	CHECK_INT(seen.rouses, 1);
	h = new_holding(&hs);
	off_and_on(&hs, h);
	CHECK_INT(rbt_holding_suspend(h, RBT_SCOPE_COMPUTE, RBT_SUSPEND_FULL, 1), 0);
	rbt_holdings_let_go(&hs, 1);
	CHECK_INT(seen.rouses, 0);
	rbt_holdings_finish(&hs);
}

static void test_restored(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_holding(&hs);

	off_and_on(&hs, h);
	CHECK_INT(rbt_holdings_restore(&hs), 0);
	CHECK(seen.is_roused);
	CHECK_INT(seen.rouses, 1);
	CHECK_INT(rbt_holding_suspend(h, RBT_SCOPE_COMPUTE, RBT_SUSPEND_SCHEDULING_ONLY, 1), 0);
	CHECK_INT(rbt_holdings_restore(&hs), 0);
	CHECK(seen.is_roused && !seen.is_off);
	CHECK_INT(seen.rouses, 2);
	CHECK_INT(rbt_holdings_restore(&hs), 0);
	CHECK_INT(seen.rouses, 2);
	rbt_holdings_finish(&hs);
}

/* What is not compute is back: the rest of it is off, and is no less to be roused later. */
static void test_rest(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_holding(&hs);

	CHECK_INT(rbt_holding_suspend(h, RBT_SCOPE_ALL, RBT_SUSPEND_FULL, 1), 0);
	let_back(&hs, h, RBT_SCOPE_REST);
	CHECK_INT(seen.scope, RBT_SCOPE_REST);
	let_back(&hs, h, RBT_SCOPE_COMPUTE);
	CHECK(h->is_unsure);
	rbt_holdings_let_go(&hs, 1);
	CHECK(seen.is_roused);
	rbt_holdings_finish(&hs);
}

/* The owner may have stopped, or be wrong. */
static void test_left_on(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_holding(&hs);
	uint64_t before_ns = rbt_now_ns();

	CHECK(rbt_holdings_rouse(&hs, before_ns) == UINT64_MAX);
	off_and_on(&hs, h);
	uint64_t due_ns = rbt_holdings_rouse(&hs, rbt_now_ns());
	CHECK(due_ns >= before_ns + 5 * RBT_NS_PER_S && due_ns < before_ns + 10 * RBT_NS_PER_S);
	CHECK(rbt_holdings_rouse(&hs, due_ns - 1) == due_ns);
	CHECK_INT(seen.rouses, 0);
	CHECK(rbt_holdings_rouse(&hs, due_ns) == UINT64_MAX);
	CHECK(seen.is_roused);
	/* Once, and not while it is off. */
	CHECK(rbt_holdings_rouse(&hs, UINT64_MAX) == UINT64_MAX);
	CHECK_INT(seen.rouses, 1);
	off_and_on(&hs, h);
	CHECK_INT(rbt_holding_suspend(h, RBT_SCOPE_COMPUTE, RBT_SUSPEND_SCHEDULING_ONLY, 1), 0);
	CHECK(rbt_holdings_rouse(&hs, UINT64_MAX) == UINT64_MAX);
	CHECK_INT(seen.rouses, 1);
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
	CHECK_INT(rbt_holding_set_copy_slice(h, 1, 0x300, 50), 0);
	CHECK_INT(rbt_holding_set_copy_slice(h, 0, 0x300, 1024), 0);
	CHECK(slices_are(0, 0, 0, 0) && !h->slices_changed);
	CHECK_INT(rbt_holding_set_copy_slice(h, 0, 0x200, 50), 0);
	CHECK(slices_are(0, 0, 50, 0) && h->slices_changed);
	CHECK_INT(rbt_holding_set_copy_slice(h, 0, 0x300, 1), 0);
	CHECK(slices_are(0, 1, 1, 0));
	CHECK_INT(rbt_holding_set_copy_slice(h, 0, 0x100, 0), 0);
	CHECK(slices_are(0, 1024, 1, 0));
	CHECK_INT(rbt_holding_set_copy_slice(h, 0, RBT_ALL_RUNLISTS, 0), 0);
	CHECK(slices_are(0, 1024, 1024, 1024));
	/* A restore cannot know which of them were changed. */
	CHECK_INT(rbt_holding_set_copy_slice(h, 0, 0x300, 1), 0);
	memset(&seen, 0, sizeof(seen));
	CHECK_INT(rbt_holding_restore_slices(h), 0);
	CHECK(slices_are(2048, 1024, 1024, 1024) && !h->slices_changed);
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

	refusal = -EIO;
	dup2(log, STDERR_FILENO);
	for (int i = 0; i < 200; i++) {
		struct rbt_holding *h = new_context(&hs);
		h->slices_changed = true;
		/* Of one that is tried again and again, nothing is new. */
		for (int k = 0; k < 10; k++) {
			CHECK_INT(rbt_holding_restore(h), -EIO);
		}
		rbt_holdings_drop(&hs, 1);
	}
	dup2(old, STDERR_FILENO);
	CHECK(count_lines(log) >= 1);
	CHECK(count_lines(log) <= 12);
	refusal = 0;
	close(log);
	close(old);
	rbt_holdings_finish(&hs);
}

int main(void)
{
	test_refusals_are_named_a_few_times();
	test_copy_slices();
	test_at_once();
	test_dropped();
	test_restored();
	test_rest();
	test_left_on();
	return check_result();
}
