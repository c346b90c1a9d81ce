/* SPDX-License-Identifier: Apache-2.0 */
/* The gate in the shim: a task's first GPFIFO_SCHEDULE is held back while the daemon says so, and
 * never otherwise. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "board/board.h"
#include "board/gate.h"
#include "shim/submit.h"
#include "test_shim_world.h"
#include "util/fd.h"

static struct rbt_board *board;

/* Maps the board that the shim has sent, if it has sent another one. */
static void take_messages(void)
{
	for (;;) {
		struct received *m = daemon_receive();
		if (m->type == 0 || m->type == UINT32_MAX) {
			return;
		}
		if (m->type == RBT_MSG_BOARD) {
			rbt_board_unmap(board);
			CHECK(rbt_board_map(m->fd, &board) == 0);
			CHECK(rbt_gate_is_there(board));
		}
		rbt_close(&m->fd);
	}
}

static void start(void)
{
	world_start("2", "", NULL);
	daemon_listen();
	shim_submit_enable();
	make_client(CLIENT, 1);
}

/* A compute task as libcuda leaves it before it schedules it. */
static void make_group(uint32_t tsg)
{
	CHECK(rm_alloc_tsg(CLIENT, DEVICE, tsg, NV_ENGINE_TYPE_GRAPHICS) == 0);
	CHECK(rm_alloc(CLIENT, tsg, tsg + 1, NV_CLASS_CHANNEL_HOPPER) == 0);
	CHECK(rm_token(CLIENT, tsg + 1, 1) == 0);
}

static void start_with_group(void)
{
	start();
	make_group(TSG(0));
	CHECK(daemon_accept());
	take_messages();
	CHECK(board != NULL);
}

/* The task's place on the board; RBT_BOARD_GATES: it has none. */
static uint32_t place_of(uint32_t tsg)
{
	uint32_t i = 0;

	while (i < RBT_BOARD_GATES && board->asks[i] != rbt_gate_task(CLIENT, tsg)) {
		i++;
	}
	return i;
}

static void say(uint32_t tsg, uint64_t until_ns)
{
	CHECK(place_of(tsg) < RBT_BOARD_GATES);
	rbt_gate_write(board, place_of(tsg), rbt_gate_task(CLIENT, tsg), until_ns);
}

static void shut(uint32_t tsg)
{
	say(tsg, shim_raw_now_ns() + RBT_GATE_LEASE_NS);
}

static bool is_held(uint32_t tsg)
{
	unsigned before = world.n_calls;
	uint32_t status = rm_schedule(CLIENT, tsg, true);

	CHECK(status == NV_OK || status == NV_ERR_BUSY_RETRY);
	/* The driver is called, or is not. */
	CHECK((status == NV_OK) == (world.n_calls > before));
	CHECK(shim_find(table(), CLIENT, tsg)->t.scheduled == (status == NV_OK));
	return status == NV_ERR_BUSY_RETRY;
}

static void without_a_word_it_is_open(void)
{
	start_with_group();
	CHECK(place_of(TSG(0)) < RBT_BOARD_GATES && board->expects_gate == 0);
	CHECK(!is_held(TSG(0)));
	CHECK(place_of(TSG(0)) == RBT_BOARD_GATES);
}

static void it_is_shut_while_the_daemon_says_so(void)
{
	start_with_group();
	for (int i = 0; i < 100; i++) {
		shut(TSG(0));
		CHECK(is_held(TSG(0)));
		world.clock_ns += 100000000;
	}
	say(TSG(0), RBT_GATE_UNTIL_OPEN);
	CHECK(!is_held(TSG(0)));
	CHECK(place_of(TSG(0)) == RBT_BOARD_GATES);
}

/* A daemon that is dead or stopped does not renew its answer. */
static void the_lease_runs_out(void)
{
	start_with_group();
	shut(TSG(0));
	CHECK(is_held(TSG(0)));
	world.clock_ns += RBT_GATE_LEASE_NS - 500000000;
	CHECK(is_held(TSG(0)));
	world.clock_ns += 500000000;
	CHECK(!is_held(TSG(0)));
}

/* Two clocks that do not agree. */
static void a_lease_that_is_too_long_does_not_count(void)
{
	start_with_group();
	say(TSG(0), shim_raw_now_ns() + 2 * RBT_GATE_LEASE_NS);
	CHECK(!is_held(TSG(0)));
}

static void only_the_first_time_is_asked_about(void)
{
	start_with_group();
	uint32_t i = place_of(TSG(0));
	CHECK(!is_held(TSG(0)));
	rbt_gate_write(
		board, i, rbt_gate_task(CLIENT, TSG(0)), shim_raw_now_ns() + RBT_GATE_LEASE_NS);
	CHECK(rm_schedule(CLIENT, TSG(0), false) == NV_OK);
	CHECK(rm_schedule(CLIENT, TSG(0), true) == NV_OK);
}

static void other_calls_and_tasks_pass(void)
{
	uint64_t us = 2048;

	start_with_group();
	CHECK(rm_alloc_tsg(CLIENT, DEVICE, TSG(1), NV_ENGINE_TYPE_COPY0) == NV_OK);
	CHECK(place_of(TSG(1)) == RBT_BOARD_GATES);
	make_group(TSG(2));
	shut(TSG(0));
	CHECK(rm_set_timeslice(CLIENT, TSG(0), us) == NV_OK);
	CHECK(rm_schedule(CLIENT, TSG(0) + 1, true) == NV_OK);
	CHECK(rm_schedule(0xc1d00002, TSG(0), true) == NV_OK);
	CHECK(!is_held(TSG(1)) && !is_held(TSG(2)));
	CHECK(is_held(TSG(0)));
}

/* A place is used again: what was said about its last task does not count for the next one. */
static void an_answer_is_about_one_task(void)
{
	start_with_group();
	uint32_t i = place_of(TSG(0));
	shut(TSG(0));
	CHECK(is_held(TSG(0)));
	CHECK(rm_free(CLIENT, TSG(0)) == NV_OK);
	CHECK(board->asks[i] == 0);
	make_group(TSG(1));
	CHECK(place_of(TSG(1)) == i);
	CHECK(!is_held(TSG(1)));
}

static void there_are_so_many_places(void)
{
	start_with_group();
	for (uint32_t t = 1; t <= RBT_BOARD_GATES; t++) {
		make_group(TSG(t));
	}
	CHECK(place_of(TSG(RBT_BOARD_GATES)) == RBT_BOARD_GATES);
	CHECK(!is_held(TSG(RBT_BOARD_GATES)));
	for (uint32_t t = 0; t < RBT_BOARD_GATES; t++) {
		shut(TSG(t));
		CHECK(is_held(TSG(t)));
	}
	CHECK(rm_free(CLIENT, CLIENT) == NV_OK && table()->gate.n == 0);
	for (uint32_t i = 0; i < RBT_BOARD_GATES; i++) {
		CHECK(board->asks[i] == 0);
	}
}

static void a_missing_answer_is_waited_for_a_second(void)
{
	setenv(RBT_ENV_GATE, "1", 1);
	start_with_group();
	CHECK(board->expects_gate == 1);
	/* From the first attempt on. */
	world.clock_ns += 3 * RBT_GATE_MISSING_NS;
	CHECK(is_held(TSG(0)));
	world.clock_ns += RBT_GATE_MISSING_NS - 500000000;
	CHECK(is_held(TSG(0)));
	world.clock_ns += 500000000;
	CHECK(!is_held(TSG(0)));
	/* One that comes in time counts. */
	make_group(TSG(1));
	CHECK(is_held(TSG(1)));
	say(TSG(1), RBT_GATE_UNTIL_OPEN);
	CHECK(!is_held(TSG(1)));
	make_group(TSG(2));
	CHECK(is_held(TSG(2)));
	shut(TSG(2));
	world.clock_ns += RBT_GATE_MISSING_NS + 500000000;
	CHECK(is_held(TSG(2)));
}

static void without_a_daemon_there_is_no_gate(void)
{
	setenv(RBT_ENV_GATE, "1", 1);
	world_start("2", "", "1");
	shim_submit_enable();
	shim_request_begin(0); /* it has a board all the same */
	make_client(CLIENT, 1);
	make_group(TSG(0));
	CHECK(!is_held(TSG(0)));
}

static void without_counting_there_is_no_gate(void)
{
	setenv(RBT_ENV_GATE, "1", 1);
	world_start("2", "", NULL);
	daemon_listen();
	make_client(CLIENT, 1);
	make_group(TSG(0));
	CHECK(table()->gate.n == 0 && !is_held(TSG(0)));
}

static void other_drivers_have_no_gate(void)
{
	start_with_group();
	world.driver_version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15";
	shut(TSG(0));
	CHECK(!is_held(TSG(0)));
}

static void no_driver_version_has_no_gate(void)
{
	start_with_group();
	world.driver_version = NULL;
	shut(TSG(0));
	CHECK(!is_held(TSG(0)));
}

static void other_devices_have_no_gate(void)
{
	int other = memfd_create("framebuffer", MFD_CLOEXEC);
	struct nv_control c = {
		.client = CLIENT, .object = TSG(0), .cmd = NV_CTRL_TSG_GPFIFO_SCHEDULE};

	start_with_group();
	shut(TSG(0));
	world.foreign = true;
	CHECK(rbt_shim_call(other, NV_IOCTL_CONTROL, &c) == 0 && c.status == NV_OK);
	world.foreign = false;
	CHECK(is_held(TSG(0)));
	close(other);
}

/* Only the status is written, and errno stays. */
static void nothing_else_changes(void)
{
	uint8_t enable[3] = {1, 0, 0};
	struct nv_control c = {.client = CLIENT,
		.object = TSG(0),
		.cmd = NV_CTRL_TSG_GPFIFO_SCHEDULE,
		.flags = 0x77,
		.params = (uintptr_t)enable,
		.params_size = sizeof(enable),
		.status = 0x55};
	struct nv_control expected = c;

	start_with_group();
	shut(TSG(0));
	expected.status = NV_ERR_BUSY_RETRY;
	errno = 4711;
	CHECK(rbt_shim_call(world.device_fd, NV_IOCTL_CONTROL, &c) == 0 && errno == 4711);
	CHECK(memcmp(&c, &expected, sizeof(c)) == 0 && enable[0] == 1);
}

/* The next daemon gets another board, and the same questions. */
static void the_next_daemon_is_asked(void)
{
	start_with_group();
	shut(TSG(0));
	CHECK(is_held(TSG(0)));
	rbt_close(&world.peer);
	world.clock_ns += SHIM_LOOK_NS + 1;
	/* A call that is held back, too, finds the new daemon. */
	(void)is_held(TSG(0));
	CHECK(daemon_accept());
	struct rbt_board *old = board;
	board = NULL;
	take_messages();
	CHECK(board != NULL);
	shut(TSG(0));
	CHECK(is_held(TSG(0)));
	rbt_board_unmap(old);
}

static void a_child_asks_nothing(void)
{
	int status;

	start_with_group();
	shut(TSG(0));
	pid_t pid = fork();
	if (pid == 0) {
		unsigned before = world.n_calls;
		CHECK(rm_schedule(CLIENT, TSG(0), true) == NV_OK && world.n_calls == before + 1);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(is_held(TSG(0)));
}

int main(void)
{
	static const struct test tests[] = {
		TEST(without_a_word_it_is_open),
		TEST(it_is_shut_while_the_daemon_says_so),
		TEST(the_lease_runs_out),
		TEST(a_lease_that_is_too_long_does_not_count),
		TEST(only_the_first_time_is_asked_about),
		TEST(other_calls_and_tasks_pass),
		TEST(an_answer_is_about_one_task),
		TEST(there_are_so_many_places),
		TEST(a_missing_answer_is_waited_for_a_second),
		TEST(without_a_daemon_there_is_no_gate),
		TEST(without_counting_there_is_no_gate),
		TEST(other_drivers_have_no_gate),
		TEST(no_driver_version_has_no_gate),
		TEST(other_devices_have_no_gate),
		TEST(nothing_else_changes),
		TEST(the_next_daemon_is_asked),
		TEST(a_child_asks_nothing),
	};

	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
