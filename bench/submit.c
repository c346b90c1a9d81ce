/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What counting adds to a launch, and to a launch with a synchronisation: functions that do
 * nothing, called directly and through the wrappers that programs get, in alternating batches of
 * one run. Without a daemon; with one that looks every millisecond, as while a latency program is
 * busy; and with one that sleeps again after each look, so that each costs the program a wake.
 *
 * The wrappers are those of librubato.so, linked in: how a program comes by them plays no part
 * afterwards. What a launch itself costs is in docs/benchmarks.md.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "board/board.h"
#include "median.h"
#include "shim/submit.h"
#include "shim/wrap.h"
#include "util/time.h"

#define BATCH  20000
#define ROUNDS 101

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

/* Not known to the compiler, as in a program. */
static launch_fn *volatile launches[2] = {launch_nothing, launch_nothing};
static sync_fn *volatile syncs[2] = {wait_for_nothing, wait_for_nothing};

static double time_batch_ns(int which, bool with_sync)
{
	launch_fn *launch = launches[which];
	sync_fn *sync = syncs[which];
	uint64_t start_ns = rbt_now_ns();

	for (int i = 0; i < BATCH; i++) {
		launch(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
		if (with_sync) {
			sync(1);
		}
	}
	return (double)(rbt_now_ns() - start_ns) / BATCH;
}

enum daemon { ABSENT, LOOKING, SLEEPING };
static _Atomic int what_daemon_does;
static struct rbt_board *board;

static void *be_daemon(void *data)
{
	static struct rbt_board_watch watch;
	struct rbt_board_reading r;

	for (;;) {
		usleep(1000);
		if (what_daemon_does != ABSENT) {
			rbt_board_look(board, &watch, rbt_now_ns(), &r);
		}
		if (what_daemon_does == SLEEPING) {
			rbt_board_sleep(board);
		}
	}
	return data;
}

static void measure(const char *daemon, bool with_sync)
{
	static double plain_ns[ROUNDS], counted_ns[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		plain_ns[i] = time_batch_ns(0, with_sync);
		counted_ns[i] = time_batch_ns(1, with_sync);
	}
	double plain = median(plain_ns, ROUNDS), counted = median(counted_ns, ROUNDS);
	printf("{\"call\": \"%s\", \"daemon\": \"%s\", \"plain_ns\": %.2f, \"counted_ns\": %.2f, \"added_ns\": %.2f}\n",
		with_sync ? "launch and synchronise" : "launch", daemon, plain, counted,
		counted - plain);
}

int main(void)
{
	static const char *const names[] = {"absent", "looks every ms", "sleeps after each look"};
	pthread_t thread;

	setenv("RUBATO_PRIORITY", "13", 1);
	launches[1] = (launch_fn *)(uintptr_t)rubato_shim_wrap_v1(
		"cuLaunchKernel", (void *)(uintptr_t)launch_nothing);
	syncs[1] = (sync_fn *)(uintptr_t)rubato_shim_wrap_v1(
		"cuStreamSynchronize", (void *)(uintptr_t)wait_for_nothing);
	int fd = shim_board_share();
	if (fd < 0 || rbt_board_map(fd, &board) < 0 ||
		pthread_create(&thread, NULL, be_daemon, NULL) != 0) {
		fprintf(stderr, "submit: cannot make a board\n");
		return 1;
	}
	for (int what = ABSENT; what <= SLEEPING; what++) {
		what_daemon_does = what;
		usleep(5000);
		measure(names[what], false);
		measure(names[what], true);
	}
	uint64_t n = board->slots[1].n[RBT_BOARD_LAUNCH];
	if (n != 6ull * ROUNDS * BATCH) {
		fprintf(stderr, "submit: %llu launches were counted\n", (unsigned long long)n);
		return 1;
	}
	return 0;
}
