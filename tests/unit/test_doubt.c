/* SPDX-License-Identifier: Apache-2.0 */
/* A resumed program that does nothing is kicked in time; one that does something never is. */
#include "daemon/doubt.h"

#include "check.h"
#include "util/time.h"

#define MS RBT_NS_PER_MS

static uint64_t now_ns;

/* A program, and how often it was kicked and looked at. */
struct run {
	struct doubt doubt;
	struct rbt_board_progress progress;
	uint64_t kicks, looks;
	bool is_counted, is_moving;
};

static const struct rbt_board_progress *progress_of(const struct run *r)
{
	return r->is_counted ? &r->progress : NULL;
}

static void pass(struct run *r, uint64_t ms)
{
	for (uint64_t i = 0; i < ms; i++) {
		now_ns += MS;
		r->progress.n += r->is_moving;
		if (r->doubt.check_ns != 0 && now_ns >= r->doubt.check_ns) {
			r->looks++;
			r->kicks += doubt_check(&r->doubt, progress_of(r), now_ns);
		}
	}
}

static void off(struct run *r, uint64_t ms)
{
	doubt_taken_off(&r->doubt, progress_of(r), now_ns);
	r->progress.n += 7; /* it submits ahead */
	now_ns += ms * MS;
}

static void on(struct run *r, uint64_t ms)
{
	r->kicks += doubt_let_back(&r->doubt, progress_of(r), now_ns);
	pass(r, ms);
}

static struct run begin(bool is_counted, bool is_moving)
{
	now_ns = 1000 * RBT_NS_PER_S;
	return (struct run){.is_counted = is_counted, .is_moving = is_moving};
}

static void test_moving(void)
{
	struct run r = begin(true, true);

	for (int i = 0; i < 1000; i++) {
		off(&r, 10);
		on(&r, 40);
	}
	CHECK_INT(r.kicks, 0);
	CHECK_INT(r.looks, 0);
	/* Left alone it is looked at a few times, and then not any more. */
	pass(&r, 100000);
	CHECK_INT(r.kicks, 0);
	CHECK(r.looks >= 2 && r.looks <= 4);
	CHECK_INT(r.doubt.check_ns, 0);
}

static void test_still(void)
{
	struct run r = begin(true, false);

	/* After 150 ms of its own time, */
	for (int i = 0; i < 5; i++) {
		off(&r, 10);
		on(&r, 40);
	}
	CHECK_INT(r.kicks, 1);
	/* and ever less often, as long as it does nothing: its work may be long. */
	for (int i = 0; i < 1000; i++) {
		off(&r, 10);
		on(&r, 40);
	}
	CHECK(r.kicks > 10 && r.kicks < 30);
	/* When it has moved for a while, it is doubted as soon as at first. */
	r.is_moving = true;
	for (int i = 0; i < 50; i++) {
		off(&r, 10);
		on(&r, 40);
	}
	r.is_moving = false;
	r.kicks = 0;
	for (int i = 0; i < 6; i++) {
		off(&r, 10);
		on(&r, 40);
	}
	CHECK_INT(r.kicks, 1);
}

/* It works for 100 ms of each 400: no more often than one that does nothing at all. */
static void test_pauses(void)
{
	struct run r = begin(true, false);

	for (int i = 0; i < 8000; i++) {
		r.is_moving = i % 8 < 2;
		off(&r, 10);
		on(&r, 40);
	}
	CHECK(r.kicks > 50 && r.kicks < 400 / 2 + 20);
}

static void test_left_alone(void)
{
	struct run r = begin(true, false);

	off(&r, 10);
	on(&r, 149);
	CHECK_INT(r.kicks, 0);
	pass(&r, 1);
	CHECK_INT(r.kicks, 1);
	pass(&r, 100000);
	CHECK_INT(r.kicks, 1);
	/* It had submitted ahead, and was overlooked all the same. */
	r = begin(true, true);
	off(&r, 10);
	on(&r, 155);
	r.is_moving = false;
	pass(&r, 10000);
	CHECK_INT(r.kicks, 1);
}

/* Turns of 100 ms among eight. */
static void test_turns(void)
{
	struct run r = begin(true, false);

	off(&r, 700);
	for (int i = 0; i < 2; i++) {
		on(&r, 100);
		CHECK_INT(r.kicks, i);
		off(&r, 700);
	}
	on(&r, 100);
	CHECK_INT(r.kicks, 1);
}

static void test_early(void)
{
	struct run r = begin(true, true);

	/* It clears its memory: no work yet. */
	for (int i = 0; i < 100; i++) {
		off(&r, 10);
		on(&r, 40);
	}
	CHECK_INT(r.kicks, 0);
	/* What it launches while it is off is none, either. */
	off(&r, 10);
	r.progress.n_launches += 100;
	on(&r, 40);
	CHECK_INT(r.kicks, 0);
	for (int i = 1; i <= 100; i++) {
		r.progress.n_launches++;
		off(&r, 10);
		on(&r, 40);
		CHECK_INT(r.kicks, i < 8 ? i : 8);
	}
	/* And who has worked before it is first taken off, at once. */
	r = begin(true, true);
	r.progress.n_launches = 100;
	off(&r, 10);
	on(&r, 40);
	CHECK_INT(r.kicks, 1);
}

static void test_unknown(void)
{
	struct run r = begin(false, true);
	uint64_t until_ns = now_ns + 10 * RBT_NS_PER_S;
	unsigned n = 0;

	while (now_ns < until_ns - 50 * MS) {
		off(&r, 10);
		on(&r, 40);
		n++;
	}
	CHECK_INT(r.kicks, n);
	r.kicks = 0;
	for (int i = 0; i < 600; i++) {
		off(&r, 10);
		on(&r, 40);
	}
	CHECK(r.kicks >= 9 && r.kicks <= 11);
	r.kicks = 0;
	pass(&r, 100000);
	CHECK(r.kicks <= 1);
}

/* What a board has counted before it was seen proves nothing. */
static void test_new_board(void)
{
	struct run r = begin(false, false);

	on(&r, 12000);
	do {
		off(&r, 10);
		on(&r, 40);
	} while (r.doubt.kicked_ns != r.doubt.on_ns);
	off(&r, 10);
	r.kicks = 0;
	on(&r, 10);
	r.is_counted = true;
	r.progress = (struct rbt_board_progress){.n = 1000, .n_launches = 1000};
	doubt_new_board(&r.doubt, &r.progress);
	pass(&r, 10000);
	CHECK_INT(r.kicks, 1);
}

/* Its clients are taken off one after another: the time that it is off does not count as on. */
static void test_clients(void)
{
	struct run r = begin(true, false);

	off(&r, 1);
	on(&r, 100);
	off(&r, 1000);
	uint64_t still_ns = r.doubt.still_ns;
	CHECK_INT(still_ns, 100 * MS);
	r.progress.n_launches++;
	off(&r, 1);
	CHECK(r.doubt.still_ns == still_ns && !r.doubt.has_worked);
}

int main(void)
{
	test_clients();
	test_moving();
	test_still();
	test_pauses();
	test_left_alone();
	test_turns();
	test_early();
	test_unknown();
	test_new_board();
	return check_result();
}
