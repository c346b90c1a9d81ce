/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What counting adds to a launch, and to a launch with a synchronisation: functions called directly
 * and through the wrappers that programs get, in alternating batches of one run. Functions that do
 * nothing, and functions that take some microseconds and most of the first cache, as a driver's do:
 * there a clock's barriers and memory that nobody has touched meanwhile cost more. Without a
 * daemon; with one that looks every millisecond, as while a latency program is busy; and with one
 * that sleeps again after each look, so that each costs the program a wake.
 *
 * The wrappers are those of librubato.so, linked in: how a program comes by them plays no part
 * afterwards. What a launch itself costs is in docs/benchmarks.md.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "board/board.h"
#include "cuda/intercept.h"
#include "median.h"
#include "shim/submit.h"
#include "util/time.h"

#define BATCH       4000
#define WORK_BATCH  50
#define ROUNDS      501
#define WORK_WORDS  8192 /* 64 KiB */
#define WORK_ROUNDS 4

typedef uintptr_t a_;
typedef int launch_fn(a_, a_, a_, a_, a_, a_, a_, a_, a_, a_, a_);
typedef int sync_fn(a_);

static int launch_nothing(a_ a, a_ b, a_ c, a_ d, a_ e, a_ f, a_ g, a_ h, a_ i, a_ j, a_ k)
{
	return 0;
}

static int wait_for_nothing(a_ a)
{
	return 0;
}

/* As much code as the first cache holds, and as many jumps as are predicted. */
static __attribute__((noinline)) void walk_code(void)
{
#if defined(__x86_64__)
	__asm__ volatile(".rept 1024\n\tjmp 1f\n\t.p2align 6\n1:\n\t.endr");
#endif
}

static uint64_t work(void)
{
	static volatile uint64_t words[WORK_WORDS];
	uint64_t sum = 1;

	/* A word a line, each after the one before. */
	for (int i = 0; i < WORK_ROUNDS * WORK_WORDS; i += 8) {
		sum = sum * 5 + words[i % WORK_WORDS];
		words[i % WORK_WORDS] = sum;
	}
	walk_code();
	return sum;
}

static int launch_work(a_ a, a_ b, a_ c, a_ d, a_ e, a_ f, a_ g, a_ h, a_ i, a_ j, a_ k)
{
	return work() == 0;
}

static int wait_at_work(a_ a)
{
	return work() == 0;
}

enum { PLAIN, COUNTED };
enum { DOES_NOTHING, WORKS };

/* Not known to the compiler, as in a program. */
static launch_fn *volatile launches[2][2] = {{launch_nothing}, {launch_work}};
static sync_fn *volatile syncs[2][2] = {{wait_for_nothing}, {wait_at_work}};

static int batch_of(int driver)
{
	return driver == WORKS ? WORK_BATCH : BATCH;
}

static double time_batch_ns(int driver, int which, bool with_sync)
{
	launch_fn *launch = launches[driver][which];
	sync_fn *sync = syncs[driver][which];
	int n = batch_of(driver);
	uint64_t start_ns = rbt_now_ns();

	for (int i = 0; i < n; i++) {
		launch(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
		if (with_sync) {
			sync(1);
		}
	}
	return (double)(rbt_now_ns() - start_ns) / n;
}

enum daemon { ABSENT, LOOKING, SLEEPING };
static _Atomic int what_daemon_does;
static struct rbt_board *board;

static void *be_daemon(void *data)
{
	static struct rbt_board_reader watch;
	struct rbt_board_reading r;

	for (;;) {
		usleep(1000);
		if (what_daemon_does != ABSENT) {
			rbt_board_read(board, &watch, rbt_now_ns(), &r);
		}
		if (what_daemon_does == SLEEPING) {
			rbt_board_sleep(board);
		}
	}
	return data;
}

static void measure(const char *daemon, int driver, bool with_sync)
{
	static double ns[2][ROUNDS], added_ns[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		/* In turns first and second: whoever comes second finds caches warm. */
		int first = i % 2;
		ns[first][i] = time_batch_ns(driver, first, with_sync);
		ns[!first][i] = time_batch_ns(driver, !first, with_sync);
		added_ns[i] = ns[COUNTED][i] - ns[PLAIN][i];
	}
	double plain = median(ns[PLAIN], ROUNDS), added = median(added_ns, ROUNDS);
	printf("{\"call\": \"%s\", \"driver\": \"%s\", \"daemon\": \"%s\", \"plain_ns\": %.2f, "
	       "\"counted_ns\": %.2f, \"added_ns\": %.2f, \"added_percent\": %.2f}\n",
		with_sync ? "launch and synchronise" : "launch",
		driver == WORKS ? "works" : "does nothing", daemon, plain,
		median(ns[COUNTED], ROUNDS), added, 100 * added / plain);
}

static void wrap_all(void)
{
	for (int i = 0; i < 2; i++) {
		launches[i][COUNTED] = (launch_fn *)(uintptr_t)rubato_count_v1(
			"cuLaunchKernel", (void *)(uintptr_t)launches[i][PLAIN]);
		syncs[i][COUNTED] = (sync_fn *)(uintptr_t)rubato_count_v1(
			"cuStreamSynchronize", (void *)(uintptr_t)syncs[i][PLAIN]);
	}
}

int main(void)
{
	static const char *const names[] = {"absent", "looks every ms", "sleeps after each look"};
	uint64_t expected = 0;
	pthread_t thread;

	setenv("RUBATO_TREAT", "class=latency", 1);
	wrap_all();
	int fd = shim_board_share();
	if (fd < 0 || rbt_board_map(fd, &board) < 0 ||
		pthread_create(&thread, NULL, be_daemon, NULL) != 0) {
		fprintf(stderr, "submit: cannot make a board\n");
		return 1;
	}
	for (int i = 0; i < 12; i++) {
		int what = i / 4, driver = i / 2 % 2;
		what_daemon_does = what;
		usleep(5000);
		measure(names[what], driver, i % 2 == 1);
		expected += (uint64_t)ROUNDS * batch_of(driver);
	}
	uint64_t n = board->slots[1].n[RBT_BOARD_LAUNCH];
	if (n != expected) {
		fprintf(stderr, "submit: %llu launches were counted\n", (unsigned long long)n);
		return 1;
	}
	return 0;
}
