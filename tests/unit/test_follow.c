/* SPDX-License-Identifier: Apache-2.0 */
/* When a policy hears of submissions: soon after a program has changed its rate, seldom if it goes
 * on as before, and never more than every 10 ms. And what it is told when it is asked. */
#include <string.h>
#include <time.h>

#include "check.h"
#include "sched/class.h"
#include "test_follow_world.h"
#include "util/time.h"

#define MS RBT_NS_PER_MS

static struct world w;

/* What the reader was told of each program. */
static struct {
	unsigned n_work, n_asked;
	uint64_t n_launches, last_ns;
	struct rbt_event last;
} told[WORLD_MAX];

static bool is_ending; /* the last event of a program comes when it ends */

static bool hear(void *ctx, const struct rbt_event *event, struct rbt_policy_output *ret_said)
{
	unsigned i = (unsigned)event->pid - 1000;

	if (event->moment == RBT_MOMENT_WORK) {
		CHECK(is_ending || told[i].last_ns == 0 ||
			event->time_ns >= told[i].last_ns + PACE_MIN_NS);
		CHECK_INT(event->task.engine, RBT_EVENT_COMPUTE);
		told[i].last_ns = event->time_ns;
		told[i].n_work++;
		told[i].n_launches += event->work.n_launches;
	}
	told[i].n_asked += event->moment == RBT_MOMENT_SCHEDULE;
	told[i].last = *event;
	return true;
}

static const struct rbt_event_reader reader = {.wants_work = true, .read = hear};

static unsigned all_normal(unsigned i)
{
	return RBT_PRIORITY_NORMAL;
}

static unsigned mixed(unsigned i)
{
	return i < 2 ? 13 : i < 5 ? RBT_PRIORITY_NORMAL : 2;
}

static void begin(unsigned n, unsigned (*priority_of)(unsigned i), bool asks)
{
	memset(told, 0, sizeof(told));
	world_init(&w, n, priority_of, asks);
	events_set_policy(&w.d, &reader);
}

static void end(void)
{
	is_ending = true;
	world_finish(&w);
	is_ending = false;
}

static void pause_ns(uint64_t ns)
{
	struct timespec t = {
		.tv_sec = (time_t)(ns / RBT_NS_PER_S), .tv_nsec = (long)(ns % RBT_NS_PER_S)};

	nanosleep(&t, NULL);
}

/* The pace by itself: it becomes slower while nothing changes, and fast again when it does. */
static void test_pace(void)
{
	struct pace p = {0};
	uint64_t now_ns = 1000 * MS, waits_ms[] = {10, 20, 40, 80, 160};

	for (unsigned i = 0; i < 5; i++) {
		pace_told(&p, now_ns, i == 0 ? 1000 : 100 * waits_ms[i - 1],
			i == 0 ? 10 * MS : waits_ms[i - 1] * MS);
		CHECK_INT(pace_due(&p), now_ns + waits_ms[i] * MS);
		now_ns += waits_ms[i] * MS;
	}
	pace_told(&p, now_ns, 16000, 160 * MS);
	CHECK_INT(pace_due(&p), UINT64_MAX); /* the tick is enough */
	pace_told(&p, now_ns, 50000, 250 * MS);
	CHECK_INT(pace_due(&p), UINT64_MAX);
	/* More than twice as many as before; fewer than half. */
	pace_told(&p, now_ns, 101000, 250 * MS);
	CHECK_INT(pace_due(&p), now_ns + 10 * MS);
	pace_told(&p, now_ns, 50, 10 * MS);
	CHECK_INT(pace_due(&p), now_ns + 10 * MS);
	/* A few are no change, and a pause is one. */
	pace_told(&p, now_ns, 54, 10 * MS);
	CHECK_INT(pace_due(&p), now_ns + 20 * MS);
	pace_told(&p, now_ns, 5400, 1000 * MS);
	CHECK_INT(pace_due(&p), now_ns + 10 * MS);
	/* Silence is looked at less and less often. */
	pace_silent(&p, now_ns + 9 * MS);
	CHECK_INT(pace_due(&p), now_ns + 10 * MS);
	for (unsigned i = 1; i < 6; i++) {
		now_ns = pace_due(&p);
		pace_silent(&p, now_ns);
		CHECK_INT(pace_due(&p), i < 5 ? now_ns + waits_ms[i] * MS : UINT64_MAX);
	}
	CHECK_INT(pace_round_ns(0), 10 * MS);
	CHECK_INT(pace_round_ns(64), 30 * MS);
}

/* Every submission is told once, soon after its program begins. */
static void test_all_is_told(void)
{
	begin(3, all_normal, false);
	world_run(&w);
	CHECK(!told[0].n_work && world_next(&w) < rbt_now_ns() + PACE_MAX_NS);
	for (unsigned round = 0; round < 200; round++) {
		world_submit(&w, 0, RBT_BOARD_LAUNCH, 3);
		world_submit(&w, 1, RBT_BOARD_LAUNCH, round % 2 == 0 ? 500 : 0);
		world_run(&w);
		pause_ns(MS / 2);
	}
	CHECK(told[0].n_work >= 2 && told[1].n_work >= 2);
	CHECK_INT(told[2].n_work, 0);
	/* What was told is not looked at again. */
	pause_ns(15 * MS);
	world_run(&w);
	CHECK_INT(w.progs[0].p.work.board_count, rbt_board_count(w.progs[0].p.reader.board));
	end();
	CHECK_INT(told[0].n_launches, 600);
	CHECK_INT(told[1].n_launches, 50000);
}

/* The loop wakes by itself for a program that has changed its rate, and leaves one that has not to
 * the tick. */
static void test_wakes(void)
{
	uint64_t now_ns;
	unsigned n = 0;

	begin(1, all_normal, false);
	world_run(&w);
	while (world_next(&w) != UINT64_MAX && n < 100) {
		now_ns = rbt_now_ns();
		if (world_next(&w) > now_ns) {
			pause_ns(world_next(&w) - now_ns);
		}
		/* As many as there is time: a busy machine makes no other rate of it. */
		world_submit(&w, 0, RBT_BOARD_LAUNCH, (rbt_now_ns() - now_ns) / 10000);
		world_run(&w);
		n++;
	}
	CHECK(n >= 5 && n < 100);
	CHECK(told[0].n_work >= 4 && told[0].n_work <= n);
	/* Nothing more is told before the tick, unless the loop wakes for another reason. */
	n = told[0].n_work;
	world_submit(&w, 0, RBT_BOARD_MEMSET, 1);
	CHECK_INT(world_next(&w), UINT64_MAX);
	pause_ns(15 * MS);
	world_tick(&w);
	CHECK_INT(told[0].n_work, n + 1);
	/* A program that begins again after a pause is worth waking for. */
	events_woke(&w.d, &w.progs[0].p, rbt_now_ns() + 2 * PACE_MAX_NS);
	CHECK(world_next(&w) <= rbt_now_ns() + 11 * MS);
	end();
}

/* Without the hook, or without a policy, nobody looks at the boards. */
static void test_nothing_without_hook(void)
{
	struct rbt_event_reader deaf = reader;

	deaf.wants_work = false;
	begin(2, all_normal, false);
	events_set_policy(&w.d, &deaf);
	for (unsigned i = 0; i < 2; i++) {
		world_submit(&w, 0, RBT_BOARD_LAUNCH, 100);
		CHECK_INT(world_next(&w), UINT64_MAX);
		world_run(&w);
		CHECK_INT(world_next(&w), UINT64_MAX);
		CHECK_INT(w.progs[0].p.work.board_count, 0);
		events_set_policy(&w.d, NULL);
	}
	end();
	CHECK_INT(told[0].n_work, 0);
}

/* A question has the facts of the GPU: classes, load, channels. */
static void test_questions(void)
{
	const struct rbt_sched_load *load = &told[9].last.load;

	begin(10, mixed, true);
	for (unsigned i = 0; i < 2000 && told[9].n_asked == 0; i++) {
		uint64_t now_ns = rbt_now_ns();

		if (world_next(&w) > now_ns) {
			pause_ns(world_next(&w) - now_ns < 5 * MS ? world_next(&w) - now_ns
								  : 5 * MS);
		}
		world_run(&w);
	}
	CHECK(told[9].n_asked > 0 && told[0].n_asked > 0 && told[3].n_asked > 0);
	CHECK_INT(told[9].last.moment, RBT_MOMENT_SCHEDULE);
	CHECK_INT(load->n[RBT_CLASS_LATENCY], 2);
	CHECK_INT(load->n[RBT_CLASS_NORMAL], 3);
	CHECK_INT(load->n[RBT_CLASS_BEST_EFFORT], 5);
	CHECK(load->permille <= 1000);
	CHECK_INT(told[9].last.task.n_channels, 5);
	end();
}

int main(void)
{
	test_pace();
	test_all_is_told();
	test_wakes();
	test_nothing_without_hook();
	test_questions();
	return check_result();
}
