/* SPDX-License-Identifier: Apache-2.0 */
/* The gate in the daemon: who is asked, what is written on the board, and what becomes of a task
 * that is refused. */
#include <string.h>

#include "board/board.h"
#include "board/gate.h"
#include "check.h"
#include "daemon/daemon.h"
#include "daemon/gate.h"
#include "util/time.h"

#define CLIENT 0xc1d00001u
#define TASK   0x5c000003u

static struct daemon d;
static struct program prog;
static struct client client;
static struct rbt_holding mine;
static struct rbt_task tasks[RBT_BOARD_GATES + 2];
static struct rbt_board board;
static struct rbt_sched_policy asking;

static struct {
	unsigned n, n_first;
	uint64_t last;
	bool refuses;
	uint64_t refuses_only; /* a task's id; 0: all */
} told;

static bool hear(void *ctx, const struct rbt_event *event, struct rbt_policy_output *ret_said)
{
	if (event->moment != RBT_MOMENT_SCHEDULE) {
		return true;
	}
	told.n++;
	told.n_first += event->is_first_run;
	told.last = event->task.id;
	return !told.refuses || (told.refuses_only != 0 && told.refuses_only != event->task.id);
}

static const struct rbt_event_reader reader = {.read = hear};

static void begin(void)
{
	memset(&d, 0, sizeof(d));
	memset(&prog, 0, sizeof(prog));
	memset(&client, 0, sizeof(client));
	memset(&mine, 0, sizeof(mine));
	memset(&told, 0, sizeof(told));
	memset(&board, 0, sizeof(board));
	rbt_board_init(&board);
	asking = *rbt_sched_policy_find("turns");
	asking.asks = true;
	d.sched.config.policy = &asking;
	CHECK_INT(rbt_sched_create(&d.sched.config, NULL, NULL, &d.sched.core), 0);
	prog.pid = 77;
	prog.sched.output = RBT_POLICY_OUTPUT_INIT;
	prog.reader.board = &board;
	client.mine = &mine;
	client.backend = RBT_BACKEND_NVIDIA;
	client.client = CLIENT;
	mine.rec.tasks = tasks;
	mine.rec.backend = RBT_BACKEND_NVIDIA;
	for (uint32_t i = 0; i < RBT_BOARD_GATES + 2; i++) {
		tasks[i] = (struct rbt_task){
			.handle = TASK + i, .valid = RBT_TASK_IS_NEW | RBT_TASK_HAS_GPU};
	}
	CHECK_INT(rbt_gpu_index(&d.gpu_table, RBT_BACKEND_NVIDIA, 0), 0);
	LIST_INSERT_HEAD(&d.programs, &prog, entries);
	LIST_INSERT_HEAD(&prog.clients, &client, entries);
	client.new_since_ns = 1;
	events_set_policy(&d, &reader);
	gate_run(&d);
}

static void end(void)
{
	events_end_client(&d, &prog, &client);
	rbt_sched_destroy(d.sched.core);
}

/* What the shim does: it asks, then sends the record. */
static void put(uint32_t n)
{
	for (uint32_t i = 0; i < n && i < RBT_BOARD_GATES; i++) {
		board.asks[i] = rbt_gate_task(CLIENT, TASK + i);
	}
	mine.rec.n_tasks = n;
	events_take_record(&d, &prog, &client);
	gate_take(&d, &prog);
}

static enum rbt_gate seen(uint32_t i)
{
	return rbt_gate_read(&board, i, rbt_gate_task(CLIENT, TASK + i), rbt_now_ns());
}

static bool is_untouched(void)
{
	static const struct rbt_board_answer none[RBT_BOARD_GATES];

	return memcmp(&board.answers, &none, sizeof(none)) == 0;
}

/* The loop, when it is time. */
static void wait_and_run(void)
{
	CHECK(gate_next(&d) != UINT64_MAX && gate_next(&d) <= rbt_now_ns() + RBT_NS_PER_S);
	while (rbt_now_ns() < gate_next(&d)) {
	}
	gate_run(&d);
}

static void test_admitted(void)
{
	begin();
	put(1);
	CHECK(told.n == 1 && told.n_first == 1);
	CHECK(seen(0) == RBT_GATE_OPEN && !client.is_held && gate_next(&d) == UINT64_MAX);
	/* It is asked about once. */
	put(1);
	CHECK(told.n == 1 && !gate_holds_any(&prog));
	end();
}

static void test_refused(void)
{
	begin();
	told.refuses = true;
	d.dirty = false;
	put(1);
	CHECK(seen(0) == RBT_GATE_SHUT && client.is_held && d.dirty && told.n == 1);
	CHECK(gate_holds_any(&prog) && gate_is_shut(&prog, CLIENT, TASK));
	CHECK(!gate_is_shut(&prog, CLIENT, TASK + 1) && !gate_is_shut(&prog, CLIENT + 1, TASK));
	/* Its setup does not run out meanwhile. */
	CHECK(client.new_since_ns > 1);
	/* A record is no reason to ask again at once; the time is. */
	put(1);
	CHECK(told.n == 1 && seen(0) == RBT_GATE_SHUT);
	uint64_t until_ns = board.answers[0].until_ns;
	wait_and_run();
	CHECK(told.n == 2 && board.answers[0].until_ns > until_ns);
	CHECK(board.answers[0].until_ns <= rbt_now_ns() + RBT_GATE_LEASE_NS);
	told.refuses = false;
	d.dirty = false;
	client.new_since_ns = 1;
	wait_and_run();
	CHECK(told.n == 3 && seen(0) == RBT_GATE_OPEN && !client.is_held && d.dirty);
	CHECK(client.new_since_ns > 1 && gate_next(&d) == UINT64_MAX);
	/* The shim has scheduled it. */
	board.asks[0] = 0;
	tasks[0].valid &= ~(uint32_t)RBT_TASK_IS_NEW;
	put(0);
	CHECK(!gate_holds_any(&prog));
	end();
}

/* A task that waits at the gate is no reason to keep the program's other tasks off. */
static void test_others_go_on(void)
{
	begin();
	told.refuses = true;
	told.refuses_only = 2;
	put(2);
	CHECK(seen(0) == RBT_GATE_OPEN && seen(1) == RBT_GATE_SHUT && client.is_held);
	told.n = 0;
	CHECK(events_admit(&d, &prog));
	CHECK(told.n == 1 && told.last == 1 && told.n_first == 2);
	end();
}

static void test_policy_ends(void)
{
	begin();
	told.refuses = true;
	put(1);
	CHECK(seen(0) == RBT_GATE_SHUT);
	asking.asks = false;
	events_set_policy(&d, NULL);
	CHECK(gate_next(&d) <= rbt_now_ns());
	gate_run(&d);
	CHECK(seen(0) == RBT_GATE_OPEN && !client.is_held && gate_next(&d) == UINT64_MAX);
	end();
	/* The program goes, or its board does. */
	begin();
	told.refuses = true;
	put(1);
	gate_release(&prog);
	CHECK(seen(0) == RBT_GATE_OPEN);
	end();
}

static void test_no_policy(void)
{
	begin();
	asking.asks = false;
	put(2);
	CHECK(told.n == 0 && is_untouched() && gate_next(&d) == UINT64_MAX);
	/* A program that expects an answer gets one. */
	board.expects_gate = 1;
	put(2);
	CHECK(told.n == 0 && seen(0) == RBT_GATE_OPEN && seen(1) == RBT_GATE_OPEN);
	end();
}

/* A policy that is loaded later is asked about tasks that wait, and tasks that may run. */
static void test_policy_comes(void)
{
	begin();
	asking.asks = false;
	put(1);
	told.refuses = asking.asks = true;
	events_set_policy(&d, &reader);
	gate_run(&d);
	CHECK(told.n == 1 && seen(0) == RBT_GATE_SHUT);
	end();
}

/* Boards are the program's word. */
static void test_lies(void)
{
	begin();
	told.refuses = true;
	board.asks[0] = rbt_gate_task(CLIENT, 0x1234);
	board.asks[1] = rbt_gate_task(0x5678, TASK);
	board.asks[2] = UINT64_MAX;
	gate_take(&d, &prog);
	CHECK(told.n == 0 && is_untouched() && !gate_holds_any(&prog));
	/* A copy task has no first run. */
	tasks[0].kind = RBT_TASK_COPY;
	put(1);
	CHECK(told.n == 0 && is_untouched());
	/* The same task in two places. */
	board.asks[0] = board.asks[1] = rbt_gate_task(CLIENT, TASK + 1);
	mine.rec.n_tasks = 2;
	events_take_record(&d, &prog, &client);
	gate_take(&d, &prog);
	CHECK(told.n == 2 && gate_is_shut(&prog, CLIENT, TASK + 1));
	/* Answers that the program has changed are written again. */
	board.answers[0].until_ns = RBT_GATE_UNTIL_OPEN;
	gate_take(&d, &prog);
	CHECK(gate_is_shut(&prog, CLIENT, TASK + 1));
	CHECK_INT(rbt_gate_read(&board, 0, rbt_gate_task(CLIENT, TASK + 1), rbt_now_ns()),
		RBT_GATE_SHUT);
	end();
}

/* A library with layout 2 or older has other data there, or none. */
static void test_older_layout(void)
{
	begin();
	told.refuses = true;
	board.features = RBT_BOARD_HAS_LENGTHS;
	put(1);
	CHECK(told.n == 0 && is_untouched() && !client.is_held);
	end();
	begin();
	told.refuses = true;
	prog.reader.board = NULL;
	put(1);
	CHECK(told.n == 0 && !client.is_held);
	end();
}

static void test_another_board(void)
{
	begin();
	told.refuses = true;
	put(1);
	memset(&board.answers, 0, sizeof(board.answers));
	gate_forget_board(&prog);
	gate_take(&d, &prog);
	CHECK(seen(0) == RBT_GATE_SHUT && client.is_held);
	end();
}

int main(void)
{
	test_admitted();
	test_refused();
	test_others_go_on();
	test_policy_ends();
	test_no_policy();
	test_policy_comes();
	test_lies();
	test_older_layout();
	test_another_board();
	return check_result();
}
