/* SPDX-License-Identifier: Apache-2.0 */
/* Interleave levels: they are set for all tasks of a holding, and put back by whoever is left. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "act/holding.h"
#include "check.h"

#define N_TASKS 4

static struct {
	uint32_t levels[N_TASKS]; /* by handle */
	unsigned n_levels;
} seen;

/* What the driver answers. */
static int answer;

static int may_write(uint32_t cap, bool force)
{
	return 0;
}

static int set_timeslice(const struct rbt_record *rec, const struct rbt_task *task, uint64_t us)
{
	return 0;
}

static int set_interleave(const struct rbt_record *rec, const struct rbt_task *task, uint32_t level)
{
	seen.n_levels++;
	if (answer == 0) {
		seen.levels[task->handle] = level;
	}
	return answer;
}

/* In place of the registry. AMD's has no levels. */
const struct rbt_backend *rbt_backend_by_id(uint32_t id)
{
	static const struct rbt_backend with = {.may_write = may_write,
		.set_timeslice = set_timeslice,
		.set_interleave = set_interleave};
	static const struct rbt_backend without = {
		.may_write = may_write, .set_timeslice = set_timeslice};

	return id == RBT_BACKEND_NVIDIA ? &with : &without;
}

static struct rbt_holding *new_context(struct rbt_holdings *hs)
{
	struct rbt_record rec = RBT_RECORD_INIT;

	rec.backend = RBT_BACKEND_NVIDIA;
	rec.n_tasks = N_TASKS;
	rec.tasks = calloc(N_TASKS, sizeof(*rec.tasks));
	if (rec.tasks == NULL) {
		abort();
	}
	for (uint32_t i = 0; i < N_TASKS; i++) {
		rec.tasks[i].handle = i;
		rec.tasks[i].kind = i == 0 ? RBT_TASK_COMPUTE : RBT_TASK_COPY;
	}
	CHECK_INT(rbt_holdings_put(hs, 1, false, &rec), 0);
	memset(&seen, 0, sizeof(seen));
	return rbt_holdings_find(hs, 1);
}

static int interleave(struct rbt_holding *h, uint32_t level)
{
	struct rbt_action action = {.op = RBT_ACT_INTERLEAVE, .value = level};

	return rbt_holding_act(h, &action);
}

static bool levels_are(uint32_t level)
{
	for (uint32_t i = 0; i < N_TASKS; i++) {
		if (seen.levels[i] != level) {
			return false;
		}
	}
	return true;
}

static void test_interleave(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_context(&hs);
	const struct rbt_applied *a = &h->applied;

	/* Nothing is written unless a level was set. */
	CHECK_INT(rbt_holding_restore(h), 0);
	CHECK(seen.n_levels == 0 && a->interleave == RBT_INTERLEAVE_OWN && !a->interleave_changed);
	CHECK_INT(interleave(h, 2), 0);
	CHECK(levels_are(2) && a->interleave == 2 && a->interleave_changed);
	CHECK_INT(rbt_holding_restore(h), 0);
	CHECK(levels_are(1) && a->interleave == 1 && !a->interleave_changed);
	/* The same for all holdings, after a hand that died on the way. */
	struct rbt_action action = {.op = RBT_ACT_INTERLEAVE, .value = 0};
	rbt_holding_apply(h, &action, RBT_UNDERWAY);
	memset(seen.levels, 0, sizeof(seen.levels));
	CHECK_INT(rbt_holdings_restore(&hs), 0);
	CHECK(levels_are(1) && !a->interleave_changed);
	/* A task that is being set up keeps its level. */
	h->rec.tasks[0].valid |= RBT_TASK_IS_NEW;
	CHECK_INT(interleave(h, 2), 0);
	CHECK(seen.levels[0] == 1 && seen.levels[1] == 2);
	h->rec.tasks[0].valid &= ~(uint32_t)RBT_TASK_IS_NEW;
	CHECK_INT(rbt_holding_restore(h), 0);
	CHECK(levels_are(1));
	rbt_holdings_finish(&hs);
}

static void test_interleave_is_refused(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_context(&hs);
	const struct rbt_applied *a = &h->applied;

	/* Without the right, there is nothing to put back. */
	answer = -EPERM;
	CHECK_INT(interleave(h, 2), -EPERM);
	CHECK(!a->interleave_changed && a->interleave == 2);
	rbt_holding_assume_interleave(h);
	CHECK_INT(rbt_holding_restore(h), 0);
	CHECK(!a->interleave_changed && a->interleave == RBT_INTERLEAVE_OWN);
	/* Otherwise some tasks may have obeyed, and it is put back until that succeeds. */
	answer = -EIO;
	CHECK_INT(interleave(h, 2), -EIO);
	CHECK(a->interleave_changed && a->interleave == 2);
	CHECK_INT(rbt_holding_restore(h), -EIO);
	CHECK(a->interleave_changed && a->interleave == 2);
	answer = 0;
	CHECK_INT(rbt_holding_restore(h), 0);
	CHECK(!a->interleave_changed && a->interleave == RBT_INTERLEAVE_OWN && levels_are(1));
	rbt_holdings_finish(&hs);
}

static void test_device_has_no_levels(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = new_context(&hs);

	h->rec.backend = RBT_BACKEND_AMD;
	CHECK_INT(interleave(h, 2), -EOPNOTSUPP);
	CHECK(!h->applied.interleave_changed && seen.n_levels == 0);
	rbt_holding_assume_interleave(h);
	CHECK_INT(rbt_holding_restore(h), 0);
	CHECK(!h->applied.interleave_changed);
	rbt_holdings_finish(&hs);
}

int main(void)
{
	test_interleave();
	test_interleave_is_refused();
	test_device_has_no_levels();
	return check_result();
}
