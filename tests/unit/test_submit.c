/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's end of a board: functions of a driver that is made up here are wrapped, called and
 * counted. Each test runs in a process of its own. Built a second time for the thread sanitizer.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "board/board.h"
#include "cuda/intercept.h"
#include "shim/hints.h"
#include "shim/submit.h"
#include "shim/sys.h"
#include "util/time.h"

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s: failed: %s\n", __FILE__, __LINE__, __func__,   \
				#cond);                                                            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

typedef uintptr_t a_;
typedef int launch_fn(a_, a_, a_, a_, a_, a_, a_, a_, a_, a_, a_);
typedef int copy_fn(a_, a_, a_, a_);
typedef int sync_fn(a_);

static _Atomic unsigned n_real;
static int result;
static unsigned sync_us;

/* The driver's; two of each, as if they were versions of it. */
static int launch_1(a_ a, a_ b, a_ c, a_ d, a_ e, a_ f, a_ g, a_ h, a_ i, a_ j, a_ k)
{
	n_real++;
	CHECK(a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8 &&
		i == 9 && j == 10 && k == 11);
	return result;
}

static int launch_2(a_ a, a_ b, a_ c, a_ d, a_ e, a_ f, a_ g, a_ h, a_ i, a_ j, a_ k)
{
	n_real++;
	return result + 1;
}

static int copy(a_ a, a_ b, a_ c, a_ d)
{
	n_real++;
	CHECK(a == UINTPTR_MAX && b == UINTPTR_MAX - 1 && c == 7 && d == 0);
	return result;
}

static int wait_for(a_ a)
{
	n_real++;
	CHECK(a == 0x5eed);
	usleep(sync_us);
	return result;
}

static void *wrap(const char *name, void *real)
{
	return rubato_count_v1(name, real);
}

#define WRAP(type, name, real) ((type *)(uintptr_t)wrap(name, (void *)(uintptr_t)(real)))
#define LAUNCH(fn)             (fn)(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)

static struct rbt_board *share(void)
{
	struct rbt_board *b = NULL;
	int fd = shim_board_share();

	CHECK(fd >= 0 && rbt_board_map(fd, &b) == 0);
	close(fd);
	return b;
}

static struct rbt_board_reader watch;

static struct rbt_board_reading look(struct rbt_board *b)
{
	struct rbt_board_reading r;

	rbt_board_read(b, &watch, rbt_now_ns(), &r);
	return r;
}

static void calls_pass_through(void)
{
	struct rbt_board *b = share();
	launch_fn *launch = WRAP(launch_fn, "cuLaunchKernel", launch_1);
	copy_fn *async = WRAP(copy_fn, "cuMemcpyHtoDAsync_v2_ptsz", copy);
	sync_fn *sync = WRAP(sync_fn, "cuStreamSynchronize", wait_for);

	CHECK(launch != launch_1 && async != copy && sync != wait_for);
	for (int i = 0; i < 10; i++) {
		result = i;
		errno = 100 + i;
		CHECK(LAUNCH(launch) == i && errno == 100 + i);
		CHECK(async(UINTPTR_MAX, UINTPTR_MAX - 1, 7, 0) == i && errno == 100 + i);
		CHECK(sync(0x5eed) == i && errno == 100 + i);
		/* As if somebody looked in between. */
		look(b);
	}
	struct rbt_board_reading r = look(b);
	CHECK(n_real == 30 && r.n[RBT_BOARD_LAUNCH] == 10 && r.n[RBT_BOARD_COPY] == 10);
	CHECK(r.n[RBT_BOARD_GRAPH] == 0 && r.n_syncs == 10);
}

static void the_stack_is_left_alone(void)
{
	launch_fn *launch = WRAP(launch_fn, "cuLaunchKernel", launch_1);
	copy_fn *async = WRAP(copy_fn, "cuMemcpyAsync", copy);
	volatile uintptr_t before[16], after[16];

	for (int round = 0; round < 100; round++) {
		for (uintptr_t i = 0; i < 16; i++) {
			before[i] = i * 3;
			after[i] = i * 5;
		}
		LAUNCH(launch);
		async(UINTPTR_MAX, UINTPTR_MAX - 1, 7, 0);
		for (uintptr_t i = 0; i < 16; i++) {
			CHECK(before[i] == i * 3 && after[i] == i * 5);
		}
	}
}

static void versions_are_the_drivers(void)
{
	void *one = (void *)(uintptr_t)launch_1, *two = (void *)(uintptr_t)launch_2;
	void *first = wrap("cuLaunchKernel", one);

	CHECK(wrap("cuLaunchKernel", one) == first && wrap("cuLaunchKernel_ptsz", one) == first);
	CHECK(wrap("cuLaunchKernel", two) != first && wrap("cuLaunchKernel", two) != two);
	CHECK(LAUNCH((launch_fn *)(uintptr_t)first) == 0);
	CHECK(LAUNCH(WRAP(launch_fn, "cuLaunchKernel", launch_2)) == 1);
	/* What is not counted, not known, or not there. */
	CHECK(wrap("cuMemAllocAsync", one) == one && wrap("cuLaunchHostFunc", one) == one);
	CHECK(wrap("cuLaunchKernelX", two) == two && wrap("cuLaunchKerne", two) == two);
	CHECK(wrap("", one) == one && wrap("_v2", one) == one && wrap("_ptsz", one) == one);
	CHECK(wrap("cuGetExportTable", one) == one && wrap(NULL, one) == one);
	CHECK(wrap("cuLaunchKernel", NULL) == NULL);
}

static void more_than_there_are_wrappers(void)
{
	unsigned n = 0;

	/* Addresses that nobody calls. */
	for (uintptr_t i = 1; i < 10000; i++) {
		n += wrap("cuGraphLaunch", (void *)i) != (void *)i;
		wrap("cuEventSynchronize", (void *)i);
	}
	CHECK(n == 192);
	CHECK(wrap("cuGraphLaunch", (void *)10001) == (void *)10001);
	CHECK(wrap("cuGraphLaunch", (void *)1) != (void *)1);
	CHECK(wrap("cuEventSynchronize", (void *)10001) == (void *)10001);
}

static void inactive_programs_get_the_real_thing(void)
{
	void *one = (void *)(uintptr_t)launch_1;

	CHECK(wrap("cuLaunchKernel", one) == one);
	CHECK(!shim_submit_enabled() && rubato_request_begin(5) == 0);
	rubato_request_end();
}

static void a_board_for_each_connection(void)
{
	launch_fn *launch = WRAP(launch_fn, "cuLaunchKernel", launch_1);

	LAUNCH(launch);
	LAUNCH(launch);
	struct rbt_board *first = share();
	CHECK(look(first).n[RBT_BOARD_LAUNCH] == 2);
	LAUNCH(launch);
	CHECK(look(first).n[RBT_BOARD_LAUNCH] == 3);
	struct rbt_board *second = share();
	LAUNCH(launch);
	CHECK(look(second).n[RBT_BOARD_LAUNCH] == 4 && look(first).n[RBT_BOARD_LAUNCH] == 3);
	/* The old daemon, should it live, has no say any more. */
	rbt_board_sleep(first);
	LAUNCH(launch);
	CHECK(first->asleep == 1);
	shim_board_unshare();
	CHECK(second->tick == 0);
	LAUNCH(launch);
	CHECK(second->slots[1].tick == 0);
}

static void *wait_for_edge(void *data)
{
	struct rbt_board *b = data;

	while (b->asleep == 1) {
		syscall(SYS_futex, &b->asleep, FUTEX_WAIT, 1, NULL, NULL, 0);
	}
	return NULL;
}

static void *wait_for_end(void *data)
{
	struct rbt_board *b = data;

	while (b->asleep == RBT_BOARD_AWAITS_END) {
		syscall(SYS_futex, &b->asleep, FUTEX_WAIT, RBT_BOARD_AWAITS_END, NULL, NULL, 0);
	}
	return NULL;
}

static void the_edge_wakes(void)
{
	struct rbt_board *b = share();
	launch_fn *launch = WRAP(launch_fn, "cuLaunchKernel", launch_1);
	pthread_t thread;

	LAUNCH(launch);
	look(b);
	for (unsigned round = 1; round <= 20; round++) {
		CHECK(rbt_board_doze(b, &watch));
		CHECK(pthread_create(&thread, NULL, wait_for_edge, b) == 0);
		if (round % 2 == 0) {
			usleep(1000);
		}
		for (int i = 0; i < 5; i++) {
			LAUNCH(launch);
		}
		CHECK(b->asleep == 0);
		pthread_join(thread, NULL);
		CHECK(!rbt_board_doze(b, &watch));
		look(b);
	}
	/* A request that is told wakes as well. */
	CHECK(rbt_board_doze(b, &watch));
	CHECK(rubato_request_begin(0) == 1);
	CHECK(b->asleep == 0);
	CHECK(!rbt_board_doze(b, &watch));
	rubato_request_end();
	/* A daemon that waits for the end of requests is woken by the end of the last one only. */
	CHECK(rubato_request_begin(0) == 1 && rubato_request_begin(0) == 1);
	CHECK(rbt_board_await_end(b));
	LAUNCH(launch);
	rubato_request_end();
	CHECK(b->asleep == RBT_BOARD_AWAITS_END);
	CHECK(pthread_create(&thread, NULL, wait_for_end, b) == 0);
	rubato_request_end();
	CHECK(b->asleep == 0);
	pthread_join(thread, NULL);
	/* So does waiting for what was submitted long ago; and who waits does not rest. */
	look(b);
	CHECK(rbt_board_doze(b, &watch));
	uint32_t depth = shim_sync_begin();
	CHECK(b->asleep == 0 && !rbt_board_doze(b, &watch));
	shim_sync_end(depth);
	CHECK(rbt_board_doze(b, &watch));
}

static int not_ready(a_ a)
{
	return a == 1 ? 600 : 0;
}

static void polling_is_activity(void)
{
	struct rbt_board *b = share();
	sync_fn *query = WRAP(sync_fn, "cuStreamQuery", not_ready);

	look(b);
	CHECK(query(0) == 0 && look(b).n_polls == 0 && rbt_board_doze(b, &watch));
	CHECK(query(1) == 600 && b->asleep == 0);
	struct rbt_board_reading r = look(b);
	CHECK(r.n_polls == 1 && r.active_ns > 0 && r.n_syncs == 0);
}

static uint64_t n_gaps(const struct rbt_board_reading *r)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < RBT_BOARD_GAPS; i++) {
		n += r->gaps[i];
	}
	return n;
}

static void ends_are_exact_and_gaps_known(void)
{
	struct rbt_board *b = share();
	launch_fn *launch = WRAP(launch_fn, "cuLaunchKernel", launch_1);
	sync_fn *sync = WRAP(sync_fn, "cuCtxSynchronize", wait_for);

	look(b);
	sync_us = 2000;
	LAUNCH(launch);
	uint64_t before_ns = rbt_now_ns();
	sync(0x5eed);
	uint64_t end_ns = rbt_now_ns();
	usleep(5000);
	struct rbt_board_reading r = look(b);
	CHECK(r.active_ns > before_ns && r.active_ns <= end_ns);
	LAUNCH(launch);
	r = look(b);
	CHECK(r.active_ns > end_ns);
	/* 5 ms or more. */
	unsigned class = rbt_board_bucket(5 * RBT_NS_PER_MS, RBT_BOARD_GAP_UNIT_NS, RBT_BOARD_GAPS);
	CHECK(n_gaps(&r) == 1);
	for (unsigned i = 0; i < class; i++) {
		CHECK(r.gaps[i] == 0);
	}
	/* Without a synchronisation nothing is measured. */
	LAUNCH(launch);
	LAUNCH(launch);
	r = look(b);
	CHECK(n_gaps(&r) == 1);
}

static void *sync_in_turn(void *data)
{
	launch_fn *launch = WRAP(launch_fn, "cuLaunchKernel", launch_1);

	for (int i = 0; i < 1000; i++) {
		shim_sync_end(shim_sync_begin());
		LAUNCH(launch);
	}
	return data;
}

/* Whoever submits at once has had a gap too; on the next board still. */
static void short_gaps_are_known(void)
{
	const uint64_t n = 100000;
	struct rbt_board *b = share();

	look(b);
	for (int i = 0; i < 100; i++) {
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, sync_in_turn, NULL) == 0);
		pthread_join(thread, NULL);
	}
	for (int round = 0; round < 2; round++) {
		struct rbt_board_reading r = look(b);
		uint64_t known = n_gaps(&r);
		/* Of which one in eight is looked at, and counts for eight. Some may take no time
		 * by the clock, nearly none more than 16 us. */
		CHECK(known <= n / 8 * 9 && known > n / 2 && r.gaps[0] > known / 2);
		b = share();
	}
}

static void children_count_for_themselves(void)
{
	struct rbt_board *b = share();
	launch_fn *launch = WRAP(launch_fn, "cuLaunchKernel", launch_1);
	int status;

	LAUNCH(launch);
	rbt_board_sleep(b);
	pid_t pid = fork();
	if (pid == 0) {
		LAUNCH(launch);
		LAUNCH(launch);
		CHECK(look(b).n[RBT_BOARD_LAUNCH] == 1);
		memset(&watch, 0, sizeof(watch));
		struct rbt_board *own = share();
		LAUNCH(launch);
		CHECK(look(own).n[RBT_BOARD_LAUNCH] == 3 && look(b).n[RBT_BOARD_LAUNCH] == 1);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(b->asleep == 1 && look(b).n[RBT_BOARD_LAUNCH] == 1);
	LAUNCH(launch);
	CHECK(look(b).n[RBT_BOARD_LAUNCH] == 2);
}

#define N_CALLS 2000

static void *call_often(void *data)
{
	launch_fn *launch = WRAP(launch_fn, "cuLaunchKernel", launch_2);
	sync_fn *sync = WRAP(sync_fn, "cuStreamSynchronize", wait_for);
	copy_fn *both = WRAP(copy_fn, "cuMemcpyDtoH_v2", copy);

	for (int i = 0; i < N_CALLS; i++) {
		LAUNCH(launch);
	}
	sync(0x5eed);
	/* Counts in C, for the sanitizer to see. */
	for (int i = 0; i < 50; i++) {
		both(UINTPTR_MAX, UINTPTR_MAX - 1, 7, 0);
	}
	rubato_request_begin(1000);
	rubato_request_end();
	return data;
}

static void run_threads(unsigned n, struct rbt_board *b)
{
	pthread_t threads[128];

	for (unsigned i = 0; i < n; i++) {
		CHECK(pthread_create(&threads[i], NULL, call_often, NULL) == 0);
	}
	for (int i = 0; i < 50; i++) {
		look(b);
		rbt_board_sleep(b);
	}
	for (unsigned i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
	}
}

static void threads_lose_nothing(void)
{
	struct rbt_board *b = share();

	run_threads(4, b);
	struct rbt_board_reading r = look(b);
	CHECK(r.n[RBT_BOARD_LAUNCH] == 4ull * N_CALLS && r.n_syncs == 4 * 51 && r.n_requests == 4);
	CHECK(!r.in_sync && r.requests_open == 0 && r.n[RBT_BOARD_COPY] == 200);
	/* More than there are slots. */
	run_threads(100, b);
	r = look(b);
	CHECK(r.n[RBT_BOARD_LAUNCH] == 104ull * N_CALLS && r.n_syncs == 104 * 51 && !r.in_sync);
	/* They have ended: their slots are for others. */
	for (int i = 0; i < 100; i++) {
		run_threads(1, b);
	}
	r = look(b);
	CHECK(r.n[RBT_BOARD_LAUNCH] == 204ull * N_CALLS && r.n_requests == 204);
	CHECK(b->n_used <= RBT_BOARD_THREADS);
}

#define N_WAITERS 60 /* more than there are slots */

static _Atomic unsigned n_rounds, n_done;

static void *wait_and_ask(void *data)
{
	unsigned length = (unsigned)(uintptr_t)data;

	for (unsigned round = 1; n_rounds != UINT32_MAX; round++) {
		while (n_rounds < round) {
			usleep(50);
		}
		if (n_rounds == UINT32_MAX) {
			break;
		}
		rubato_request_begin(length % 2 == 0 ? 0 : 100 * RBT_NS_PER_S);
		uint32_t outer = shim_sync_begin();
		uint32_t inner = shim_sync_begin();
		for (volatile unsigned i = 0; i < length * 200; i = i + 1) {
		}
		shim_sync_end(inner);
		shim_sync_end(outer);
		rubato_request_end();
		n_done++;
	}
	return NULL;
}

/* Whoever ends meanwhile has ended on the new board too. */
static void shared_anew_while_others_wait(void)
{
	pthread_t threads[N_WAITERS];
	struct rbt_board *b = share();

	for (uintptr_t i = 0; i < N_WAITERS; i++) {
		CHECK(pthread_create(&threads[i], NULL, wait_and_ask, (void *)i) == 0);
	}
	for (unsigned round = 1; round <= 100; round++) {
		n_rounds = round;
		do {
			rbt_board_unmap(b);
			b = share();
		} while (n_done < round * N_WAITERS);
		memset(&watch, 0, sizeof(watch));
		struct rbt_board_reading r = look(b);
		CHECK(!r.in_sync && r.requests_open == 0 && r.deadline_ns == 0);
	}
	n_rounds = UINT32_MAX;
	for (unsigned i = 0; i < N_WAITERS; i++) {
		pthread_join(threads[i], NULL);
	}
	/* And who has not, has not. */
	rubato_request_begin(100 * RBT_NS_PER_S);
	uint32_t depth = shim_sync_begin();
	b = share();
	struct rbt_board_reading r = look(b);
	CHECK(r.in_sync && r.requests_open == 1 && r.deadline_ns > rbt_now_ns());
	shim_sync_end(depth);
	rubato_request_end();
	r = look(b);
	CHECK(!r.in_sync && r.requests_open == 0 && r.deadline_ns == 0);
}

static void requests_nest(void)
{
	struct rbt_board *b = share();
	struct rbt_hist lengths;

	CHECK(rubato_request_begin(1) == 1);
	CHECK(rubato_request_begin(UINT64_MAX) == 1);
	CHECK(rubato_request_begin(0) == 1);
	usleep(10);
	struct rbt_board_reading r = look(b);
	CHECK(r.requests_open == 3 && r.deadline_ns > 0 && r.deadline_ns < rbt_now_ns());
	for (int i = 0; i < 5; i++) {
		rubato_request_end();
	}
	r = look(b);
	CHECK(r.requests_open == 0 && r.n_requests == 3 && r.n_late == 1 && r.deadline_ns == 0);
	rbt_board_read_lengths(b, &lengths);
	CHECK(lengths.sum_ns > 0 && lengths.max_ns > 0 && lengths.max_ns <= lengths.sum_ns);
	CHECK(r.announces);
	/* Deeper than is timed. */
	for (int i = 0; i < 20; i++) {
		rubato_request_begin(0);
	}
	for (int i = 0; i < 20; i++) {
		rubato_request_end();
	}
	r = look(b);
	rbt_board_read_lengths(b, &lengths);
	CHECK(r.n_requests == 23 && r.requests_open == 0 && rbt_hist_count(&lengths) == 11);
}

/* Where reading it ends the program; so may libc's clock, whatever comes after. */
static void a_trapped_counter_is_none(void)
{
#if defined(__x86_64__)
	CHECK(shim_raw_has_counter());
	CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
	bool has_counter = shim_raw_has_counter();
	prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
	CHECK(!has_counter);
#endif
	CHECK(shim_raw_has_counter() == (shim_raw_counter() != 0));
}

static const struct {
	const char *name;
	void (*run)(void);
	bool inactive;
} tests[] = {
	{"calls pass through", calls_pass_through, false},
	{"the stack is left alone", the_stack_is_left_alone, false},
	{"versions are the driver's", versions_are_the_drivers, false},
	{"more than there are wrappers", more_than_there_are_wrappers, false},
	{"inactive programs", inactive_programs_get_the_real_thing, true},
	{"a board for each connection", a_board_for_each_connection, false},
	{"one wake at the edge", the_edge_wakes, false},
	{"polling is activity", polling_is_activity, false},
	{"ends are exact and gaps known", ends_are_exact_and_gaps_known, false},
	{"short gaps are known", short_gaps_are_known, false},
	{"children count for themselves", children_count_for_themselves, false},
	{"threads lose nothing", threads_lose_nothing, false},
	{"shared anew while others wait", shared_anew_while_others_wait, false},
	{"requests nest", requests_nest, false},
	{"a trapped counter is none", a_trapped_counter_is_none, false},
};

int main(void)
{
	int failed = 0, status;

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		pid_t pid = fork();
		if (pid == 0) {
			alarm(60);
			if (tests[i].inactive) {
				unsetenv("RUBATO_TREAT");
			} else {
				setenv("RUBATO_TREAT", "class=latency", 1);
			}
			tests[i].run();
			exit(0);
		}
		bool ok = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
		printf("%s %s\n", ok ? "ok" : "NOT OK", tests[i].name);
		fflush(stdout);
		failed += !ok;
	}
	return failed > 0;
}
