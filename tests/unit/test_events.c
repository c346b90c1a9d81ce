/* SPDX-License-Identifier: Apache-2.0 */
/* Events: a task has one INIT and one DESTROY, whatever becomes of its records; work and questions
 * are told with the program's counts and the GPU's. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "daemon/daemon.h"
#include "daemon/events.h"

#define MAX_TASKS 16
#define MAX_IDS   100000

static struct daemon d;
static struct program prog;
static struct client client;
static struct rbt_holding mine;
static struct rbt_task tasks[MAX_TASKS];

/* What the reader was told. */
static struct {
	unsigned n[RBT_MOMENT_DESTROY + 1];
	struct rbt_event last, first_init;
	unsigned n_inits[MAX_IDS], n_destroys[MAX_IDS];
	struct rbt_policy_output says;
	bool refuses;
} told;

static bool hear(void *ctx, const struct rbt_event *event, struct rbt_policy_output *ret_said)
{
	CHECK(ctx == &told && event->owner == &prog && event->pid == 77);
	CHECK(event->task.id > 0 && event->task.id < MAX_IDS);
	told.n[event->moment]++;
	told.last = *event;
	told.n_inits[event->task.id] += event->moment == RBT_MOMENT_INIT;
	told.n_destroys[event->task.id] += event->moment == RBT_MOMENT_DESTROY;
	*ret_said = told.says;
	return !told.refuses;
}

static struct rbt_event_reader reader = {.ctx = &told, .wants_work = true, .read = hear};

static void begin(void)
{
	memset(&d, 0, sizeof(d));
	memset(&prog, 0, sizeof(prog));
	memset(&client, 0, sizeof(client));
	memset(&mine, 0, sizeof(mine));
	memset(&told, 0, sizeof(told));
	memset(tasks, 0, sizeof(tasks));
	told.says = RBT_POLICY_OUTPUT_INIT;
	prog.pid = 77;
	prog.sched.output = RBT_POLICY_OUTPUT_INIT;
	client.mine = &mine;
	client.backend = RBT_BACKEND_NVIDIA;
	mine.rec.tasks = tasks;
	for (uint32_t i = 0; i < MAX_TASKS; i++) {
		tasks[i] = (struct rbt_task){.handle = 100 + i,
			.id = i,
			.runlist = 8,
			.valid = RBT_TASK_HAS_RUNLIST | RBT_TASK_HAS_ID};
	}
	CHECK_INT(rbt_gpu_index(&d.gpu_table, RBT_BACKEND_NVIDIA, 0), 0);
	LIST_INSERT_HEAD(&d.programs, &prog, entries);
	LIST_INSERT_HEAD(&prog.clients, &client, entries);
	events_set_policy(&d, &reader);
}

static void put(uint32_t n)
{
	mine.rec.n_tasks = n;
	events_take_record(&d, &prog, &client);
}

static void check_told(unsigned n_inits, unsigned n_destroys)
{
	CHECK_INT(told.n[RBT_MOMENT_INIT], n_inits);
	CHECK_INT(told.n[RBT_MOMENT_DESTROY], n_destroys);
}

/* Every task that there was has ended, and nothing happened twice. */
static void check_all_ended(void)
{
	for (uint64_t id = 1; id < MAX_IDS; id++) {
		CHECK(told.n_inits[id] <= 1 && told.n_inits[id] == told.n_destroys[id]);
	}
	CHECK_INT(client.tasks.n, 0);
}

static void test_records(void)
{
	begin();
	put(0);
	check_told(0, 0);
	put(2);
	check_told(2, 0);
	put(2); /* the same again */
	check_told(2, 0);
	put(5);
	check_told(5, 0);
	CHECK(told.last.task.id == 5 && told.last.task.tsg == 4 && told.last.task.runlist == 8);
	put(3);
	check_told(5, 2);
	/* In another order, and one of them twice. */
	struct rbt_task first = tasks[0];
	tasks[0] = tasks[2];
	tasks[2] = tasks[3] = first;
	put(4);
	check_told(5, 2);
	/* A handle that belongs to another task by now. */
	tasks[1].id = 40;
	put(3);
	check_told(6, 3);
	CHECK_INT(told.last.task.id, 6);
	/* What becomes known is no news. */
	tasks[5] = (struct rbt_task){.handle = 500};
	tasks[3] = tasks[5];
	put(4);
	check_told(7, 3);
	CHECK_INT(told.last.task.valid, RBT_EVENT_HAS_GPU);
	tasks[3] = (struct rbt_task){.handle = 500,
		.id = 3,
		.runlist = 9,
		.valid = RBT_TASK_HAS_ID | RBT_TASK_HAS_RUNLIST};
	put(4);
	check_told(7, 3);
	/* Another record altogether. */
	for (uint32_t i = 0; i < 4; i++) {
		tasks[i].handle = 900 + i;
	}
	put(4);
	check_told(11, 7);
	events_end_client(&d, &prog, &client);
	check_told(11, 11);
	events_end_client(&d, &prog, &client);
	check_told(11, 11);
	check_all_ended();
}

/* Any record after any other. */
static void test_random(uint64_t seed)
{
	begin();
	for (unsigned round = 0; round < 2000; round++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < MAX_TASKS; i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			uint32_t bits = (uint32_t)(seed >> 32);
			if ((bits & 3) == 0) {
				continue;
			}
			tasks[n++] = (struct rbt_task){.handle = bits >> 4 & 15,
				.id = bits >> 8 & 1,
				.valid = (bits >> 12 & 3) != 0 ? RBT_TASK_HAS_ID : 0};
		}
		put(n);
		CHECK(client.tasks.n <= n);
		CHECK_INT(told.n[RBT_MOMENT_INIT] - told.n[RBT_MOMENT_DESTROY], client.tasks.n);
		if (round % 100 == 99) {
			events_end_client(&d, &prog, &client);
		}
	}
	CHECK(told.n[RBT_MOMENT_INIT] > 1000);
	check_all_ended();
}

/* A policy that comes later hears of the tasks there are; what it says ends with it. */
static void test_policy(void)
{
	struct rbt_policy_output keep = RBT_POLICY_OUTPUT_INIT;

	begin();
	events_set_policy(&d, NULL);
	put(3);
	check_told(0, 0);
	told.says.priority = 3;
	d.dirty = false;
	events_set_policy(&d, &reader);
	check_told(3, 0);
	CHECK(d.dirty && prog.sched.output.priority == 3);
	CHECK_INT(prog.sched.output.weight, RBT_POLICY_KEEP);
	/* The same again changes nothing. */
	d.dirty = false;
	put(4);
	CHECK(!d.dirty);
	/* Nor does a last word about a task that is gone. */
	told.says.priority = 9;
	put(2);
	check_told(4, 2);
	CHECK(!d.dirty && prog.sched.output.priority == 3);
	events_set_policy(&d, NULL);
	CHECK(d.dirty && memcmp(&prog.sched.output, &keep, sizeof(keep)) == 0);
	events_end_client(&d, &prog, &client);
	check_told(4, 2);
}

static void test_questions(void)
{
	struct rbt_sched_params params = {.priority = 2};
	struct rbt_sched_prog *handle;

	begin();
	params.tasks[0].n_compute = 1;
	CHECK_INT(rbt_sched_create(&(struct rbt_sched_config){0}, NULL, NULL, &d.sched.core), 0);
	CHECK_INT(rbt_sched_add(d.sched.core, 1, &params, &prog, &handle), 0);
	tasks[0].kind = RBT_TASK_COPY;
	tasks[1].gpu = 5; /* of which the core knows nothing */
	tasks[3].kind = RBT_TASK_OTHER;
	tasks[2].n_channels = 6;
	put(5);
	CHECK(events_admit(&d, &prog));
	CHECK_INT(told.n[RBT_MOMENT_SCHEDULE], 2);
	CHECK_INT(told.last.load.n[RBT_CLASS_BEST_EFFORT], 1);
	told.refuses = true;
	told.says.weight = 9;
	CHECK(!events_admit(&d, &prog));
	CHECK_INT(told.n[RBT_MOMENT_SCHEDULE], 3); /* one refusal is enough */
	CHECK_INT(told.last.task.n_channels, 6);
	CHECK_INT(prog.sched.output.weight, 9);
	events_set_policy(&d, NULL);
	CHECK(events_admit(&d, &prog));
	events_end_client(&d, &prog, &client);
	rbt_sched_destroy(d.sched.core);
}

#define MS RBT_NS_PER_MS

/* As if the account had been brought up to date. Returns whether there is nothing left to tell. */
static bool sample(uint64_t at_ns, uint64_t used_ns)
{
	prog.account.sampled_ns = at_ns;
	prog.account.used_ns = used_ns;
	return events_take_work(&d, &prog, false);
}

static void test_work(void)
{
	struct account *a = &prog.account;
	const struct rbt_event_work *work = &told.last.work;

	begin();
	a->since_ns = a->sampled_ns = 10 * MS;
	tasks[0].kind = RBT_TASK_COPY;
	put(3);
	sample(20 * MS, 0);
	CHECK_INT(told.n[RBT_MOMENT_WORK], 0);
	a->last.n[RBT_BOARD_LAUNCH] = 7;
	a->last.n_syncs = 2;
	a->last.n_gaps = 1;
	a->waited_ns = 300; /* it had work, and another program's turn kept it off */
	sample(30 * MS, 500);
	CHECK_INT(told.n[RBT_MOMENT_WORK], 1);
	CHECK(work->interval_ns == 20 * MS && work->busy_ns == 800 && work->n_launches == 7);
	CHECK(work->n_syncs == 2 && work->n_bursts == 1 && work->n_copies == 0);
	CHECK_INT(told.last.task.id, 2); /* the oldest compute task */
	/* A sample that comes too soon loses nothing. */
	a->last.n[RBT_BOARD_COPY] = 3;
	CHECK(!sample(30 * MS, 500));
	CHECK(!sample(40 * MS - 1, 500));
	CHECK_INT(told.n[RBT_MOMENT_WORK], 1);
	/* Silence belongs to the next interval. */
	CHECK(sample(40 * MS, 500));
	CHECK_INT(told.n[RBT_MOMENT_WORK], 2);
	CHECK(work->n_copies == 3 && work->n_launches == 0 && work->interval_ns == 10 * MS);
	CHECK(sample(90 * MS, 600));
	CHECK_INT(told.n[RBT_MOMENT_WORK], 2);
	/* Another board, whose counters begin anew; and one that goes back. */
	account_sum(a, &a->past);
	memset(&a->first, 0, sizeof(a->first));
	a->last = a->first;
	a->last.n[RBT_BOARD_GRAPH] = 4;
	sample(100 * MS, 700);
	CHECK(work->n_graphs == 4 && work->n_launches == 0 && work->busy_ns == 200);
	CHECK_INT(work->interval_ns, 60 * MS);
	a->last.n[RBT_BOARD_GRAPH] = 0;
	a->last.n_syncs = 1;
	sample(110 * MS, 700);
	CHECK(work->n_graphs == 0 && work->n_syncs == 1);
	/* The last event of a program that ends may come sooner. */
	a->last.n_syncs = 3;
	CHECK(!sample(115 * MS, 700));
	CHECK(events_take_work(&d, &prog, true));
	CHECK(work->n_syncs == 2 && work->interval_ns == 5 * MS);
}

/* Follows test_work(). */
static void test_no_work(void)
{
	struct account *a = &prog.account;

	/* A policy without the hook does not hear of it, and the loop does not wake for it. */
	unsigned n = told.n[RBT_MOMENT_WORK];
	reader.wants_work = false;
	a->last.n_syncs = 9;
	CHECK(sample(200 * MS, 700) && !events_want_work(&d) && events_next(&d) == UINT64_MAX);
	CHECK_INT(told.n[RBT_MOMENT_WORK], n);
	reader.wants_work = true;
	/* What the program used while the task was there. */
	put(4);
	a->used_ns = 900;
	put(3);
	CHECK_INT(told.last.used_ns, 200);
	events_end_client(&d, &prog, &client);
	CHECK_INT(told.last.used_ns, 900);
}

int main(void)
{
	test_records();
	for (uint64_t seed = 1; seed <= 5; seed++) {
		test_random(seed);
	}
	test_policy();
	test_questions();
	test_work();
	test_no_work();
	return check_result();
}
