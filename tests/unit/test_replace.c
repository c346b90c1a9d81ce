/* SPDX-License-Identifier: Apache-2.0 */
/* When a holding's record is replaced: which channels are off, and which tasks are left over. */
#include "act/replace.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

#define N_TASKS    2
#define N_CHANNELS 5

/* Nothing here goes to a device. */
const struct rbt_backend *rbt_backend_by_id(uint32_t id)
{
	return NULL;
}

/* Two tasks with three and two channels. */
static struct rbt_holding make(uint32_t valid)
{
	struct rbt_holding h = {.rec = RBT_RECORD_INIT};

	h.rec.tasks = calloc(N_TASKS, sizeof(*h.rec.tasks));
	h.rec.channels = calloc(N_CHANNELS, sizeof(*h.rec.channels));
	if (h.rec.tasks == NULL || h.rec.channels == NULL) {
		abort();
	}
	h.rec.tasks[0] =
		(struct rbt_task){.handle = 0x5c000010, .id = 6, .n_channels = 3, .valid = valid};
	h.rec.tasks[1] = (struct rbt_task){
		.handle = 0x5c000020, .id = 7, .first_channel = 3, .n_channels = 2, .valid = valid};
	for (uint32_t i = 0; i < N_CHANNELS; i++) {
		h.rec.channels[i] = 0x5c000030 + i;
	}
	h.rec.backend = RBT_BACKEND_NVIDIA;
	h.rec.n_tasks = N_TASKS;
	h.rec.n_channels = N_CHANNELS;
	return h;
}

static void finish(struct rbt_holding *h)
{
	rbt_record_finish(&h->rec);
	free(h->channel_off);
	*h = (struct rbt_holding){.rec = RBT_RECORD_INIT};
}

/* What is off is known of the object, not of its handle. */
static void test_inherit(void)
{
	struct rbt_holding before = make(RBT_TASK_HAS_ID), next = make(RBT_TASK_HAS_ID);

	CHECK_INT(rbt_holding_inherit_off(&next, &before), 0);
	CHECK(next.channel_off == NULL);
	CHECK_INT(rbt_holding_mark_channels(&before), 0);
	before.channel_off[1] = false;
	/* The first task has another channel in place of its third; the second is another. */
	next.rec.channels[2] = 0x5c000099;
	next.rec.tasks[1].id = 8;
	next.rec.tasks[0].runlist = 3; /* is known by now */
	next.rec.tasks[0].valid |= RBT_TASK_HAS_RUNLIST;
	CHECK_INT(rbt_holding_inherit_off(&next, &before), 0);
	CHECK(next.channel_off[0] && !next.channel_off[1] && !next.channel_off[2]);
	CHECK(!next.channel_off[3] && !next.channel_off[4]);
	finish(&before);
	finish(&next);
	CHECK_INT(rbt_holding_mark_channels(&next), 0); /* of none */
	CHECK(next.channel_off == NULL);
}

static void test_subtract(void)
{
	const uint32_t valid = RBT_TASK_HAS_OWN_TIMESLICE;
	struct rbt_holding next = make(valid), left = make(valid), all = make(valid);

	rbt_holding_subtract(&left, &next.rec);
	CHECK_INT(left.rec.n_tasks, 0);
	finish(&left);
	/* The second alone, with one of its channels. */
	next.rec.tasks[0] = next.rec.tasks[1];
	next.rec.tasks[0].n_channels = next.rec.n_tasks = 1;
	left = make(valid);
	rbt_holding_subtract(&left, &next.rec);
	CHECK_INT(left.rec.n_tasks, 1);
	CHECK(memcmp(&left.rec.tasks[0], &all.rec.tasks[0], sizeof(struct rbt_task)) == 0);
	finish(&left);
	/* The other channel may be there too, if not all is said. */
	next.rec.flags = RBT_RECORD_PARTIAL;
	left = make(valid);
	CHECK_INT(rbt_holding_mark_channels(&left), 0);
	left.channel_off[3] = false;
	rbt_holding_subtract(&left, &next.rec);
	CHECK_INT(left.rec.n_tasks, 2);
	CHECK_INT(left.rec.tasks[1].n_channels, 1);
	CHECK_INT(left.rec.channels[3], all.rec.channels[4]);
	CHECK(left.channel_off[3]);
	CHECK_INT(left.rec.tasks[1].valid, 0);
	finish(&left);
	finish(&next);
	finish(&all);
}

static void test_append(void)
{
	struct rbt_holding a = make(0), b = make(0);

	CHECK_INT(rbt_holding_append(&a, &b), 0);
	CHECK_INT(a.rec.n_tasks, N_TASKS * 2);
	CHECK(a.channel_off == NULL);
	CHECK_INT(rbt_record_check(&a.rec), 0);
	/* What is off stays so. */
	CHECK_INT(rbt_holding_mark_channels(&b), 0);
	uint32_t n = a.rec.n_channels;
	CHECK_INT(rbt_holding_append(&a, &b), 0);
	CHECK_INT(rbt_record_check(&a.rec), 0);
	CHECK(!a.channel_off[n - 1] && a.channel_off[n] && a.channel_off[a.rec.n_channels - 1]);
	CHECK_INT(a.rec.channels[n + 1], b.rec.channels[b.rec.tasks[0].first_channel + 1]);
	/* As much as there is room for. */
	while (a.rec.n_tasks < RBT_RECORD_MAX_TASKS &&
		a.rec.n_channels < RBT_RECORD_MAX_CHANNELS - 8) {
		CHECK_INT(rbt_holding_append(&a, &b), 0);
	}
	for (int i = 0; i < 4; i++) {
		CHECK_INT(rbt_holding_append(&a, &b), 0);
	}
	CHECK_INT(rbt_record_check(&a.rec), 0);
	finish(&a);
	finish(&b);
}

int main(void)
{
	test_inherit();
	test_subtract();
	test_append();
	return check_result();
}
