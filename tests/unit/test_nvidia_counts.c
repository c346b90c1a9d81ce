/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RM counts how often a channel is disabled: that it is never more than once, and that one resume
 * lets it run, whatever becomes of its record meanwhile. This program has its own ioctl(), which
 * counts as RM does.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "act/holding.h"
#include "backend/backend.h"
#include "backend/nvidia/rm_abi.h"
#include "check.h"

#define N       4
#define CHANNEL 0x5c001000u

static int disables[N];
static uint32_t dead_channel; /* RM goes through a batch up to where it meets it */
static uint32_t dead_task, kicked_task;
static bool has_no_client, refuses;
static unsigned n_asked;  /* of all */
static unsigned n_calls;  /* of those that count */
static uint64_t slice_us; /* the last that was set */

static uint32_t obey(const struct nv_disable_channels_params *p)
{
	for (uint32_t i = 0; i < p->count; i++) {
		uint32_t at = p->channel[i] - CHANNEL;
		if (p->channel[i] == dead_channel) {
			return NV_ERR_OBJECT_NOT_FOUND;
		}
		CHECK(at < N);
		if (at < N && (p->disable || disables[at] > 0)) {
			disables[at] += p->disable ? 1 : -1;
			CHECK(disables[at] <= 1);
		}
	}
	return 0;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;

	va_start(ap, request);
	struct nv_control *c = va_arg(ap, struct nv_control *);
	va_end(ap);
	n_asked++;
	c->status = has_no_client                              ? NV_ERR_INVALID_CLIENT
		    : dead_task != 0 && c->object == dead_task ? NV_ERR_OBJECT_NOT_FOUND
							       : NV_OK;
	if (c->status == NV_ERR_INVALID_CLIENT) {
		return 0;
	}
	if (c->cmd == NV_CTRL_FIFO_DISABLE_CHANNELS) {
		n_calls++;
		c->status = refuses ? NV_ERR_TIMEOUT : obey((void *)(uintptr_t)c->params);
	} else if (c->cmd == NV_CTRL_TSG_SET_TIMESLICE && c->status == NV_OK) {
		slice_us = ((struct nv_timeslice_params *)(uintptr_t)c->params)->timeslice_us;
	} else if (c->cmd == NV_CTRL_TSG_PREEMPT && c->status == NV_OK) {
		kicked_task = c->object;
	}
	return 0;
}

static int may_write(uint32_t cap, bool force)
{
	return 0;
}

/* In place of the registry: this driver is known. */
const struct rbt_backend *rbt_backend_by_id(uint32_t id)
{
	static struct rbt_backend backend;

	backend = rbt_backend_nvidia;
	backend.may_write = may_write;
	return &backend;
}

/* Of this task, with all the channels but the one that has gone. */
static struct rbt_record make_record(const struct rbt_task *task)
{
	struct rbt_record rec = RBT_RECORD_INIT;

	rec.backend = RBT_BACKEND_NVIDIA;
	rec.tasks = calloc(1, sizeof(*rec.tasks));
	rec.channels = calloc(N, sizeof(*rec.channels));
	rec.n_tasks = 1;
	for (uint32_t i = 0; i < N; i++) {
		if (CHANNEL + i != dead_channel) {
			rec.channels[rec.n_channels++] = CHANNEL + i;
		}
	}
	rec.tasks[0] = *task;
	rec.tasks[0].n_channels = rec.n_channels;
	CHECK_INT(rbt_record_check(&rec), 0);
	return rec;
}

static struct rbt_holding *put(struct rbt_holdings *hs, const struct rbt_task *task)
{
	struct rbt_record rec = make_record(task);

	CHECK_INT(rbt_holdings_put(hs, 1, true, &rec), 0);
	return rbt_holdings_find(hs, 1);
}

static void expect(int count)
{
	for (uint32_t i = 0; i < N; i++) {
		if (CHANNEL + i != dead_channel) {
			CHECK_INT(disables[i], count);
		}
	}
}

static void take_off(struct rbt_holding *h)
{
	CHECK_INT(rbt_holding_act(h, &(struct rbt_action){.op = RBT_ACT_SUSPEND}), 0);
	expect(1);
}

static void let_back(struct rbt_holding *h)
{
	CHECK_INT(rbt_holding_resume(h, RBT_SCOPE_ALL), 0);
	expect(0);
}

static const struct rbt_task a_task = {.handle = 0x5c000100,
	.subdevice = 0x5c000003,
	.kind = RBT_TASK_COPY,
	.runlist = 9,
	.id = 3,
	.valid = RBT_TASK_HAS_ID | RBT_TASK_HAS_RUNLIST};

/* Taken off, and once more when its record is another. */
static void update(const struct rbt_task *before, const struct rbt_task *after)
{
	struct rbt_holdings hs = {0};

	memset(disables, 0, sizeof(disables));
	take_off(put(&hs, before));
	struct rbt_holding *h = put(&hs, after);
	take_off(h);
	let_back(h);
	rbt_holdings_finish(&hs);
}

static void test_updates(void)
{
	struct rbt_task less = a_task;

	update(&a_task, &a_task);
	/* What was not known becomes known. */
	less.runlist = 0;
	less.valid = RBT_TASK_HAS_ID;
	update(&less, &a_task);
	less = a_task;
	less.kind = RBT_TASK_OTHER;
	update(&less, &a_task);
	less.id = 0;
	less.valid = RBT_TASK_HAS_RUNLIST;
	update(&less, &a_task);
}

/* Another object under the same handles is not off, whatever the first was. */
static void test_handles_used_again(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_task other = a_task;

	take_off(put(&hs, &a_task));
	memset(disables, 0, sizeof(disables));
	other.id++;
	struct rbt_holding *h = put(&hs, &other);
	take_off(h);
	let_back(h);
	rbt_holdings_finish(&hs);
}

/* RM meets a channel that has gone when it has carried out half of a batch. */
static void test_half_a_batch(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = put(&hs, &a_task);

	dead_channel = CHANNEL + 2;
	take_off(h);
	let_back(h);
	take_off(h);
	h = put(&hs, &a_task); /* without it */
	take_off(h);
	let_back(h);
	dead_channel = 0;
	rbt_holdings_finish(&hs);
}

#define OTHER_TASK (a_task.handle + 1)

/* Of two tasks, of two channels each, the first n_tasks; the last of them with n_channels. */
static struct rbt_holding *put_some(
	struct rbt_holdings *hs, uint32_t n_tasks, uint32_t n_channels, uint32_t flags)
{
	struct rbt_record rec = RBT_RECORD_INIT;

	rec.backend = RBT_BACKEND_NVIDIA;
	rec.flags = flags;
	rec.tasks = calloc(2, sizeof(*rec.tasks));
	rec.channels = calloc(N, sizeof(*rec.channels));
	rec.n_tasks = n_tasks;
	rec.n_channels = n_tasks * 2 - 2 + n_channels;
	for (uint32_t i = 0; i < N; i++) {
		rec.channels[i] = CHANNEL + i;
	}
	for (uint32_t i = 0; i < n_tasks; i++) {
		rec.tasks[i] = a_task;
		rec.tasks[i].handle += i;
		rec.tasks[i].kind = RBT_TASK_COMPUTE;
		rec.tasks[i].own_timeslice_us = 2048;
		rec.tasks[i].valid |= RBT_TASK_HAS_OWN_TIMESLICE;
		rec.tasks[i].first_channel = i * 2;
		rec.tasks[i].n_channels = i + 1 < n_tasks ? 2 : n_channels;
	}
	CHECK_INT(rbt_record_check(&rec), 0);
	CHECK_INT(rbt_holdings_put(hs, 1, true, &rec), 0);
	return rbt_holdings_find(hs, 1);
}

static struct rbt_holding *put_all_off(struct rbt_holdings *hs)
{
	struct rbt_holding *h = put_some(hs, 2, 2, 0);

	memset(disables, 0, sizeof(disables));
	CHECK_INT(rbt_holding_act(h, &(struct rbt_action){.op = RBT_ACT_SET_SLICE, .value = 1}), 0);
	take_off(h);
	CHECK_INT((int)slice_us, 1);
	n_calls = kicked_task = 0;
	return h;
}

/* Nobody would let back later what is off and not in the record any more. */
static void test_unnamed_tasks(void)
{
	struct rbt_holdings hs = {0};

	put_all_off(&hs);
	struct rbt_holding *h = put_some(&hs, 1, 2, RBT_RECORD_PARTIAL);
	CHECK(disables[0] == 1 && disables[1] == 1);
	CHECK(disables[2] == 0 && disables[3] == 0);
	CHECK_INT((int)slice_us, 2048);
	CHECK_INT(kicked_task, OTHER_TASK);
	CHECK(h->applied.is_off && h->applied.slices_changed);
	/* When it is named again, it is taken off again, once. */
	h = put_some(&hs, 2, 2, 0);
	take_off(h);
	let_back(h);
	/* One that was let back and not kicked yet is kicked. */
	kicked_task = 0;
	put_some(&hs, 1, 2, 0);
	CHECK_INT(kicked_task, OTHER_TASK);
	rbt_holdings_finish(&hs);
}

static void test_unnamed_channels(void)
{
	struct rbt_holdings hs = {0};

	put_all_off(&hs);
	struct rbt_holding *h = put_some(&hs, 2, 1, RBT_RECORD_PARTIAL);
	CHECK(disables[0] == 1 && disables[1] == 1 && disables[2] == 1 && disables[3] == 0);
	CHECK_INT((int)slice_us, 1); /* of the task, which is named */
	CHECK_INT(rbt_holding_resume(h, RBT_SCOPE_ALL), 0);
	expect(0);
	rbt_holdings_finish(&hs);
}

/* What has gone is not spoken to, as far as that is known. */
static void test_gone(void)
{
	struct rbt_holdings hs = {0};

	put_all_off(&hs);
	dead_task = OTHER_TASK;
	put_some(&hs, 1, 2, 0);
	CHECK_INT(n_calls, 0);
	CHECK_INT(kicked_task, 0);
	dead_task = 0;
	rbt_holdings_finish(&hs);
	put_all_off(&hs);
	put_some(&hs, 2, 1, 0);
	CHECK_INT(n_calls, 0);
	rbt_holdings_finish(&hs);
}

/* It is said once, and tried again: with the next record, or when the program is let back. */
static void test_cannot_be_undone(void)
{
	struct rbt_holdings hs = {0};

	put_all_off(&hs);
	refuses = true;
	CHECK(put_some(&hs, 1, 2, 0)->restore_failed);
	refuses = false;
	struct rbt_holding *h = put_some(&hs, 1, 1, RBT_RECORD_PARTIAL);
	CHECK(disables[0] == 1 && disables[1] == 0 && disables[2] == 0 && disables[3] == 0);
	CHECK_INT(h->rec.n_tasks, 1);
	rbt_holdings_finish(&hs);
	put_all_off(&hs);
	refuses = true;
	h = put_some(&hs, 1, 1, RBT_RECORD_PARTIAL);
	expect(1);
	refuses = false;
	let_back(h);
	rbt_holdings_finish(&hs);
	put_all_off(&hs);
	refuses = true;
	h = put_some(&hs, 1, 2, 0);
	refuses = false;
	/* Named again, it is not taken off a second time. */
	h = put_some(&hs, 2, 2, 0);
	take_off(h);
	let_back(h);
	rbt_holdings_finish(&hs);
}

/* Each call with a client that is not there is a line in the kernel log. */
static void test_client_has_gone(void)
{
	struct rbt_holdings hs = {0};
	struct rbt_holding *h = put_all_off(&hs);

	has_no_client = true;
	n_asked = 0;
	CHECK_INT(rbt_holding_resume(h, RBT_SCOPE_ALL), 0);
	CHECK_INT(n_asked, 1);
	CHECK(!h->applied.is_off);
	CHECK_INT(rbt_holding_act(h, &(struct rbt_action){.op = RBT_ACT_KICK}), 0);
	CHECK_INT(n_asked, 2);
	has_no_client = false;
	rbt_holdings_finish(&hs);
}

int main(void)
{
	test_updates();
	test_handles_used_again();
	test_half_a_batch();
	test_unnamed_tasks();
	test_unnamed_channels();
	test_gone();
	test_cannot_be_undone();
	test_client_has_gone();
	return check_result();
}
