/* SPDX-License-Identifier: Apache-2.0 */
/* Boards that wake who waits in poll(2). The boards are plain memory: a futex does not mind. */
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "board/waiter.h"
#include "check.h"
#include "util/time.h"

#define MANY 300

static bool readable(struct rbt_board_waiter *w, int timeout_ms)
{
	struct pollfd p = {.fd = rbt_board_waiter_fd(w), .events = POLLIN};

	return poll(&p, 1, timeout_ms) == 1;
}

static struct rbt_board *make_boards(size_t n)
{
	struct rbt_board *b = mmap(
		NULL, n * sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(b != MAP_FAILED);
	for (size_t i = 0; i < n; i++) {
		rbt_board_sleep(&b[i]);
	}
	return b;
}

/* As the program does. */
static void edge(struct rbt_board *b)
{
	uint32_t one = 1;

	if (atomic_compare_exchange_strong(&b->asleep, &one, 0)) {
		syscall(SYS_futex, &b->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
}

static void an_edge_wakes(void)
{
	struct rbt_board_waiter *w;
	struct rbt_board *b = make_boards(3);

	CHECK_INT(rbt_board_waiter_create(&w), 0);
	CHECK(rbt_board_waiter_next(w) == NULL && !readable(w, 0));
	for (int i = 0; i < 3; i++) {
		CHECK_INT(rbt_board_waiter_add(w, &b[i]), 0);
		CHECK_INT(rbt_board_waiter_add(w, &b[i]), 0);
	}
	CHECK(!readable(w, 20));
	for (int round = 0; round < 50; round++) {
		struct rbt_board *which = &b[round % 3];
		edge(which);
		CHECK(readable(w, 2000));
		CHECK(rbt_board_waiter_next(w) == which);
		CHECK(rbt_board_waiter_next(w) == NULL && !readable(w, 0));
		/* Nobody listens until it is added again. */
		rbt_board_sleep(which);
		edge(which);
		CHECK(!readable(w, 1));
		rbt_board_sleep(which);
		CHECK_INT(rbt_board_waiter_add(w, which), 0);
	}
	/* Quicker than it could be added. */
	CHECK(!rbt_board_awake(&b[0]));
	rbt_board_waiter_remove(w, &b[0]);
	CHECK_INT(rbt_board_waiter_add(w, &b[0]), 0);
	CHECK(readable(w, 2000) && rbt_board_waiter_next(w) == &b[0]);
	rbt_board_waiter_destroy(w);
	rbt_board_waiter_destroy(NULL);
	munmap(b, 3 * sizeof(*b));
}

static void removed_ones_may_go(void)
{
	struct rbt_board_waiter *w;

	CHECK_INT(rbt_board_waiter_create(&w), 0);
	struct rbt_board *keep = make_boards(2);
	CHECK_INT(rbt_board_waiter_add(w, &keep[0]), 0);
	for (int round = 0; round < 200; round++) {
		struct rbt_board *b = make_boards(2);
		CHECK_INT(rbt_board_waiter_add(w, &b[0]), 0);
		CHECK_INT(rbt_board_waiter_add(w, &b[1]), 0);
		if (round % 3 == 0) {
			edge(&b[1]);
		}
		if (round % 6 == 0) {
			CHECK(readable(w, 2000));
		}
		rbt_board_waiter_remove(w, &b[0]);
		rbt_board_waiter_remove(w, &b[1]);
		rbt_board_waiter_remove(w, &b[1]);
		munmap(b, 2 * sizeof(*b));
		CHECK(rbt_board_waiter_next(w) == NULL);
	}
	edge(&keep[0]);
	CHECK(readable(w, 2000) && rbt_board_waiter_next(w) == &keep[0]);
	rbt_board_waiter_destroy(w);
	munmap(keep, 2 * sizeof(*keep));
}

static void more_than_the_kernel_takes_at_once(void)
{
	struct rbt_board_waiter *w;
	struct rbt_board *b = make_boards(MANY), *got;
	static unsigned seen[MANY];

	CHECK_INT(rbt_board_waiter_create(&w), 0);
	for (int i = 0; i < MANY; i++) {
		CHECK_INT(rbt_board_waiter_add(w, &b[i]), 0);
	}
	for (int i = 0; i < MANY; i++) {
		edge(&b[i]);
	}
	for (int n = 0; n < MANY;) {
		if (!readable(w, 2000)) {
			break;
		}
		while ((got = rbt_board_waiter_next(w)) != NULL) {
			seen[got - b]++;
			n++;
		}
	}
	for (int i = 0; i < MANY; i++) {
		CHECK_INT(seen[i], 1);
	}
	rbt_board_waiter_destroy(w);
	munmap(b, MANY * sizeof(*b));
}

/* A program that does nothing but wake costs the thread nothing. */
static void a_flood_is_not_heard(void)
{
	struct rbt_board_waiter *w;
	struct rbt_board *b = make_boards(1);
	struct timespec before, after;
	clockid_t cpu;

	CHECK_INT(rbt_board_waiter_create(&w), 0);
	CHECK_INT(rbt_board_waiter_add(w, b), 0);
	edge(b);
	CHECK(readable(w, 2000) && rbt_board_waiter_next(w) == b);
	CHECK(clock_getcpuclockid(0, &cpu) == 0 && clock_gettime(cpu, &before) == 0);
	uint64_t end_ns = rbt_now_ns() + 50 * RBT_NS_PER_MS;
	unsigned n = 0;
	while (rbt_now_ns() < end_ns) {
		b->asleep = n++ % 5;
		syscall(SYS_futex, &b->asleep, FUTEX_WAKE, 10, NULL, NULL, 0);
	}
	CHECK(clock_gettime(cpu, &after) == 0 && !readable(w, 0));
	/* One thread's worth of time in all: ours. */
	double used_s = (double)(after.tv_sec - before.tv_sec) +
			(double)(after.tv_nsec - before.tv_nsec) / 1e9;
	CHECK(used_s < 0.075);
	rbt_board_waiter_destroy(w);
	munmap(b, sizeof(*b));
}

int main(void)
{
	an_edge_wakes();
	removed_ones_may_go();
	more_than_the_kernel_takes_at_once();
	a_flood_is_not_heard();
	return check_result();
}
