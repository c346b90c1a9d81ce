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

#include "backend/backend.h"
#include "backend/nvidia/rm_abi.h"
#include "check.h"
#include "hand/holding.h"

#define N       4
#define CHANNEL 0x5c001000u

static int disables[N];
static uint32_t dead_channel; /* RM goes through a batch up to where it meets it */

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
	c->status =
		c->cmd == NV_CTRL_FIFO_DISABLE_CHANNELS ? obey((void *)(uintptr_t)c->params) : 0;
	return 0;
}

static int may_write(bool force)
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
	CHECK_INT(rbt_holding_suspend(h, RBT_SCOPE_ALL, RBT_SUSPEND_FULL, 0), 0);
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

int main(void)
{
	test_updates();
	test_handles_used_again();
	test_half_a_batch();
	return check_result();
}
