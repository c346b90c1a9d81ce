/* SPDX-License-Identifier: Apache-2.0 */
/* Boards that wake who waits in poll(2). The boards are plain memory: a futex does not mind. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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
	/* An end of requests, for which no edge is taken. */
	rbt_board_waiter_remove(w, &b[1]);
	b[1].requests_open = 1;
	CHECK(rbt_board_await_end(&b[1]));
	CHECK_INT(rbt_board_waiter_add(w, &b[1]), 0);
	edge(&b[1]);
	CHECK(!readable(w, 20));
	b[1].asleep = 0;
	syscall(SYS_futex, &b[1].asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
	CHECK(readable(w, 2000) && rbt_board_waiter_next(w) == &b[1]);
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

/* CPU time of all threads but ours, in ns: the waiter's. */
static uint64_t others_ns(void)
{
	struct timespec all, mine;

	CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all) == 0);
	CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mine) == 0);
	return (uint64_t)(all.tv_sec - mine.tv_sec) * RBT_NS_PER_S + (uint64_t)all.tv_nsec -
	       (uint64_t)mine.tv_nsec;
}

/* Wakes without an edge, as fast as it can, at a board that is waited for. */
static void *wake_for_nothing(void *data)
{
	struct rbt_board *b = data;

	while (atomic_load_explicit(&b->n_used, memory_order_relaxed) == 0) {
		syscall(SYS_futex, &b->asleep, FUTEX_WAKE, 10, NULL, NULL, 0);
	}
	return NULL;
}

/* It costs little, and only the board itself is heard of late. */
static void wakes_for_nothing_cost_little(void)
{
	struct rbt_board_waiter *w;
	struct rbt_board *b = make_boards(2);
	pthread_t waker;
	struct timespec cpu;
	clockid_t clock;

	CHECK_INT(rbt_board_waiter_create(&w), 0);
	CHECK_INT(rbt_board_waiter_add(w, &b[0]), 0);
	CHECK_INT(rbt_board_waiter_add(w, &b[1]), 0);
	CHECK(pthread_create(&waker, NULL, wake_for_nothing, &b[0]) == 0);
	CHECK(pthread_getcpuclockid(waker, &clock) == 0);
	usleep(400000);
	uint64_t all_ns = others_ns();
	CHECK(clock_gettime(clock, &cpu) == 0);
	uint64_t waker_ns = (uint64_t)cpu.tv_sec * RBT_NS_PER_S + (uint64_t)cpu.tv_nsec;
	CHECK(all_ns < waker_ns + 40 * RBT_NS_PER_MS);
	CHECK(!readable(w, 0));
	/* The neighbour is heard at once, by what a busy machine calls so. */
	for (int i = 0; i < 20; i++) {
		edge(&b[1]);
		CHECK(readable(w, 200) && rbt_board_waiter_next(w) == &b[1]);
		rbt_board_sleep(&b[1]);
		CHECK_INT(rbt_board_waiter_add(w, &b[1]), 0);
	}
	edge(&b[0]);
	CHECK(readable(w, 2000) && rbt_board_waiter_next(w) == &b[0]);
	b[0].n_used = 1;
	pthread_join(waker, NULL);
	rbt_board_waiter_destroy(w);
	munmap(b, 2 * sizeof(*b));
}

/* Some sandboxes refuse the call instead of not knowing it. */
static void refuse_futex_waitv(int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 449, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = 4, .filter = code};

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0);
}

static void works_without_the_call(int error)
{
	struct rbt_board_waiter *w;
	struct rbt_board *b = make_boards(1);

	refuse_futex_waitv(error);
	CHECK_INT(rbt_board_waiter_create(&w), 0);
	CHECK_INT(rbt_board_waiter_add(w, b), 0);
	usleep(300000);
	CHECK(others_ns() < 60 * RBT_NS_PER_MS);
	for (int i = 0; i < 5; i++) {
		edge(b);
		CHECK(readable(w, 2000) && rbt_board_waiter_next(w) == b);
		rbt_board_sleep(b);
		CHECK_INT(rbt_board_waiter_add(w, b), 0);
	}
	rbt_board_waiter_destroy(w);
}

static void in_a_child(void (*test)(int), int arg)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0) {
		test(arg);
		_exit(check_result());
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void)
{
	in_a_child(works_without_the_call, ENOSYS);
	in_a_child(works_without_the_call, EPERM);
	in_a_child(works_without_the_call, EIO);
	an_edge_wakes();
	removed_ones_may_go();
	more_than_the_kernel_takes_at_once();
	a_flood_is_not_heard();
	wakes_for_nothing_cost_little();
	return check_result();
}
