/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that launch and wait: which of their gaps are looked at, what a daemon sees right after
 * either, and that one which sleeps is woken. Each test runs in a process of its own. Built again
 * for the thread sanitizer, which does not see into thunks.S: launches are counted in C here.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "board/board.h"
#include "shim/submit.h"
#include "util/time.h"

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s: failed: %s\n", __FILE__, __LINE__, __func__,   \
				#cond);                                                            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#define SAMPLE RBT_BOARD_GAP_SAMPLE

static struct rbt_board_reader watch;

static struct rbt_board *share(void)
{
	struct rbt_board *b = NULL;
	int fd = shim_board_share();

	CHECK(fd >= 0 && rbt_board_map(fd, &b) == 0);
	close(fd);
	return b;
}

static struct rbt_board_reading look(struct rbt_board *b)
{
	struct rbt_board_reading r;

	rbt_board_read(b, &watch, rbt_now_ns(), &r);
	return r;
}

static void launch(void)
{
	if (!shim_count(RBT_BOARD_LAUNCH)) {
		shim_count_slow(RBT_BOARD_LAUNCH);
	}
}

static void synchronise(void)
{
	shim_sync_end(shim_sync_begin());
}

static void spin(uint64_t ns)
{
	uint64_t end_ns = rbt_now_ns() + ns;

	while (rbt_now_ns() < end_ns) {
	}
}

static uint64_t all_gaps(const struct rbt_board_reading *r)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < RBT_BOARD_GAPS; i++) {
		n += r->gaps[i];
	}
	return n;
}

/* As a loop that launches and waits, until its gaps are known to be short, and the last one was
 * asked for, or not. */
static void fall_into_a_loop(bool is_asked)
{
	for (unsigned i = 0; i < 100000; i++) {
		launch();
		synchronise();
		if (shim_own.random != 0 && (shim_own.slot->tick == 0) == is_asked) {
			return;
		}
	}
	CHECK(false);
}

static void short_gaps_are_sampled(void)
{
	const unsigned n = 200000;
	struct rbt_board *b = share();
	unsigned n_asked = 0, n_in_a_row = 0, longest = 0;

	look(b);
	fall_into_a_loop(false);
	uint64_t before = 0;
	struct rbt_board_reading r = look(b);
	before = all_gaps(&r);
	for (unsigned i = 0; i < n; i++) {
		launch();
		synchronise();
		bool is_asked = shim_own.slot->tick == 0;
		n_asked += is_asked;
		n_in_a_row = is_asked ? 0 : n_in_a_row + 1;
		longest = n_in_a_row > longest ? n_in_a_row : longest;
	}
	r = look(b);
	/* With others on the processor some are long, and then all are asked for for a while. */
	CHECK(n_asked > n / SAMPLE * 9 / 10 && n_asked < n / SAMPLE * 2);
	CHECK(longest > 2 * SAMPLE && longest < 50 * SAMPLE);
	uint64_t known = all_gaps(&r) - before;
	CHECK(known > n / 2 && known < n / 8 * 9);
	CHECK(r.n_syncs == r.n[RBT_BOARD_LAUNCH]);
}

/* However often what was submitted is waited for. */
static void each_gap_is_asked_for_once(void)
{
	const unsigned n = 50000;
	struct rbt_board *b = share();
	unsigned n_asked = 0;

	look(b);
	fall_into_a_loop(false);
	for (unsigned i = 0; i < n; i++) {
		launch();
		for (unsigned k = 0; k < 5; k++) {
			synchronise();
		}
		n_asked += shim_own.slot->tick == 0;
	}
	CHECK(n_asked > n / SAMPLE * 8 / 10 && n_asked < n / SAMPLE * 2);
}

static void real_gaps_are_all_counted(void)
{
	struct rbt_board *b = share();

	look(b);
	launch();
	for (unsigned i = 0; i < 200; i++) {
		synchronise();
		CHECK(shim_own.slot->tick == 0);
		spin(20000);
		launch();
	}
	struct rbt_board_reading r = look(b);
	CHECK(all_gaps(&r) == 200 && r.gaps[0] == 0);
	/* After short ones they are found by chance, or by a launch after a look, which does not
	 * count what was not asked for. */
	fall_into_a_loop(false);
	r = look(b);
	uint64_t before = all_gaps(&r);
	spin(20000);
	launch();
	CHECK(shim_own.random == 0);
	synchronise();
	CHECK(shim_own.slot->tick == 0);
	r = look(b);
	CHECK(all_gaps(&r) == before);
	spin(20000);
	launch();
	r = look(b);
	CHECK(all_gaps(&r) == before + 1);
	/* What was asked for counts for those that were not. */
	fall_into_a_loop(true);
	r = look(b);
	before = all_gaps(&r);
	spin(20000);
	launch();
	r = look(b);
	CHECK(all_gaps(&r) == before + SAMPLE && shim_own.random == 0);
}

static void check_both_ends(struct rbt_board *b, int mode)
{
	if (mode < 2) {
		fall_into_a_loop(mode == 1);
	}
	launch();
	uint64_t before_ns = rbt_now_ns();
	spin(5000);
	synchronise();
	spin(5000);
	uint64_t after_ns = rbt_now_ns();
	struct rbt_board_reading r = look(b);
	/* Times are good to a microsecond. */
	CHECK(!r.in_flight && !r.in_sync);
	CHECK(r.active_ns > before_ns && r.active_ns < after_ns);
	/* Nothing happens. */
	uint64_t active_ns = r.active_ns;
	spin(2000);
	CHECK(look(b).active_ns == active_ns && !look(b).in_flight);
	launch();
	before_ns = rbt_now_ns();
	r = look(b);
	CHECK(r.in_flight && r.active_ns >= before_ns);
	synchronise();
	CHECK(!look(b).in_flight);
	/* Without a look in between, the launch leaves no time. */
	launch();
	synchronise();
	launch();
	CHECK(look(b).in_flight);
}

static void ends_are_exact_either_way(void)
{
	struct rbt_board *b = share();

	look(b);
	for (unsigned i = 0; i < 30; i++) {
		check_both_ends(b, 2);
		check_both_ends(b, 0);
		check_both_ends(b, 1);
	}
}

static void a_fork_in_the_midst(void)
{
	struct rbt_board *b = share();
	int status;

	look(b);
	fall_into_a_loop(false);
	launch();
	uint32_t depth = shim_sync_begin(), inner = shim_sync_begin();
	pid_t pid = fork();
	if (pid == 0) {
		watch = (struct rbt_board_reader){0};
		struct rbt_board *own = share();
		look(own);
		launch();
		shim_sync_end(inner);
		CHECK(!look(own).in_sync);
		launch();
		shim_sync_end(depth);
		CHECK(!look(own).in_sync);
		launch();
		depth = shim_sync_begin();
		CHECK(look(own).in_sync);
		shim_sync_end(depth);
		struct rbt_board_reading r = look(own);
		CHECK(!r.in_sync && !r.in_flight && r.n_syncs == 3);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(look(b).in_sync);
	shim_sync_end(inner);
	CHECK(look(b).in_sync);
	shim_sync_end(depth);
	struct rbt_board_reading r = look(b);
	CHECK(!r.in_sync && !r.in_flight);
}

static _Atomic unsigned n_also;

static void count_also(uint64_t now_ns)
{
	n_also++;
}

static void something_else_every_now_and_then(void)
{
	struct rbt_board *b = share();

	/* With and without somebody who looks. */
	shim_sync_also(count_also);
	for (unsigned round = 0; round < 2; round++) {
		unsigned before = n_also;
		uint64_t start_ns = rbt_now_ns(), took_ns = 0;
		/* On a busy machine this thread may not run for most of that time. */
		while (took_ns < 50 * RBT_NS_PER_MS ||
			(n_also - before < 5 && took_ns < 20 * RBT_NS_PER_S)) {
			launch();
			synchronise();
			took_ns = rbt_now_ns() - start_ns;
		}
		CHECK(n_also - before >= 5 && n_also - before <= took_ns / (RBT_NS_PER_MS / 20));
		look(b);
	}
}

#define N_THREADS 70 /* more than there are slots */

static pthread_barrier_t barrier;

static void *ping_pong(void *data)
{
	launch();
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 500; i++) {
		launch();
		synchronise();
	}
	pthread_barrier_wait(&barrier);
	return data;
}

static void those_who_share_are_synchronised_too(void)
{
	pthread_t threads[N_THREADS];
	struct rbt_board *b = share();

	look(b);
	pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
	for (unsigned i = 0; i < N_THREADS; i++) {
		CHECK(pthread_create(&threads[i], NULL, ping_pong, NULL) == 0);
	}
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 100; i++) {
		look(b);
	}
	pthread_barrier_wait(&barrier);
	struct rbt_board_reading r = look(b);
	CHECK(r.n[RBT_BOARD_LAUNCH] == N_THREADS * 501 && r.n_syncs == N_THREADS * 500);
	CHECK(!r.in_flight && !r.in_sync && b->slots[0].n_syncs >= 500);
	for (unsigned i = 0; i < RBT_BOARD_THREADS; i++) {
		CHECK(b->slots[i].n_synced == (uint32_t)rbt_board_total(&b->slots[i]));
	}
	for (unsigned i = 0; i < N_THREADS; i++) {
		pthread_join(threads[i], NULL);
	}
}

static atomic_bool is_over;
static _Atomic uint64_t n_seen; /* launches, by the daemon */

static void *play(void *data)
{
	unsigned seed = 1;

	while (!is_over) {
		/* A wait wakes as well: not before the launch has done so. */
		launch();
		while (!is_over && n_seen < shim_own.slot->n[RBT_BOARD_LAUNCH]) {
			sched_yield();
		}
		synchronise();
		unsigned n = (unsigned)rand_r(&seed) % 20;
		for (unsigned i = 0; i < n; i++) {
			launch();
			synchronise();
		}
		spin((unsigned)rand_r(&seed) % 30000);
	}
	return data;
}

/* A daemon that goes to sleep at any moment is woken by the next launch. */
static void no_wake_is_missed(void)
{
	struct rbt_board *b = share();
	uint64_t begin_ns = rbt_now_ns(), end_ns = begin_ns + 1500 * RBT_NS_PER_MS;
	uint64_t give_up_ns = begin_ns + 40 * RBT_NS_PER_S; /* on a machine with more to do */
	const struct timespec patience = {.tv_sec = 5};
	unsigned n_rests = 0;
	pthread_t thread;

	look(b);
	CHECK(pthread_create(&thread, NULL, play, NULL) == 0);
	while (rbt_now_ns() < (n_rests > 100 ? end_ns : give_up_ns)) {
		n_seen = look(b).n[RBT_BOARD_LAUNCH];
		if (!rbt_board_doze(b, &watch)) {
			continue;
		}
		n_rests++;
		while (b->asleep == 1) {
			long r = syscall(SYS_futex, &b->asleep, FUTEX_WAIT, 1, &patience, NULL, 0);
			CHECK(r == 0 || errno != ETIMEDOUT);
		}
	}
	is_over = true;
	pthread_join(thread, NULL);
	CHECK(n_rests > 100);
}

static void a_synchronisation_wakes(void)
{
	struct rbt_board *b = share();

	/* When it returns, whether or not it is the first after a submission. */
	launch();
	look(b);
	for (unsigned round = 1; round <= 4; round++) {
		CHECK(rbt_board_await_sync(b, &watch) && b->asleep == RBT_BOARD_AWAITS_SYNC);
		for (unsigned i = 0; i < round % 3; i++) {
			launch();
		}
		CHECK(b->asleep == RBT_BOARD_AWAITS_SYNC);
		synchronise();
		CHECK(b->asleep == 0);
		synchronise();
		/* One has returned since the last look. */
		CHECK(!rbt_board_await_sync(b, &watch) && b->asleep == 0);
		look(b);
	}
	/* So does a request that is told; its end is for those who await that. */
	CHECK(rbt_board_await_sync(b, &watch));
	shim_request_begin(0);
	CHECK(b->asleep == 0);
	CHECK(rbt_board_await_sync(b, &watch));
	shim_request_end();
	CHECK(b->asleep == RBT_BOARD_AWAITS_SYNC);
	rbt_board_awake(b);
}

static _Atomic uint32_t n_turns, n_played; /* the daemon's, and those that were answered */

/* One synchronisation for each time that the daemon waits for one. */
static void *answer(void *data)
{
	unsigned seed = 1;

	while (!is_over) {
		launch();
		while (!is_over && n_turns == n_played) {
			sched_yield();
		}
		spin((unsigned)rand_r(&seed) % 4000);
		synchronise();
		n_played++;
	}
	return data;
}

/* Nor by the return of the very synchronisation that it is about to wait for. */
static void no_end_is_missed(void)
{
	struct rbt_board *b = share();
	uint64_t begin_ns = rbt_now_ns(), end_ns = begin_ns + 1500 * RBT_NS_PER_MS;
	uint64_t give_up_ns = begin_ns + 40 * RBT_NS_PER_S;
	const struct timespec patience = {.tv_sec = 5};
	const uint32_t asleep = RBT_BOARD_AWAITS_SYNC;
	unsigned n_waits = 0;
	pthread_t thread;

	look(b);
	CHECK(pthread_create(&thread, NULL, answer, NULL) == 0);
	while (rbt_now_ns() < (n_waits > 100 ? end_ns : give_up_ns)) {
		look(b);
		n_turns++;
		if (rbt_board_await_sync(b, &watch)) {
			n_waits++;
			while (b->asleep == asleep) {
				long r = syscall(SYS_futex, &b->asleep, FUTEX_WAIT, asleep,
					&patience, NULL, 0);
				CHECK(r == 0 || errno != ETIMEDOUT);
			}
		}
		while (n_played != n_turns) {
			sched_yield();
		}
	}
	is_over = true;
	pthread_join(thread, NULL);
	CHECK(n_waits > 100);
}

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TRAP_FLAG 0x100

static struct {
	struct rbt_board *board;
	void (*then)(void); /* what the other side does, after so many instructions */
	unsigned n, at;
	uint32_t depth;
	bool is_seen, is_over;
} steps;

static void on_step(int sig, siginfo_t *info, void *context)
{
	ucontext_t *c = context;

	(void)sig, (void)info;
	if (steps.n++ == steps.at) {
		c->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
		steps.then();
	}
}

static void end_it(void)
{
	shim_sync_end(steps.depth);
	steps.is_over = true;
}

static void look_at_it(void)
{
	struct rbt_board_reading r = look(steps.board);

	steps.is_seen = r.in_sync || r.in_flight;
}

/* Whether what it does has that many instructions. */
static bool step_through(void (*what)(void), unsigned at, void (*then)(void))
{
	steps.n = 0;
	steps.at = at;
	steps.then = then;
	__writeeflags(__readeflags() | TRAP_FLAG);
	what();
	__writeeflags(__readeflags() & ~(unsigned long long)TRAP_FLAG);
	return steps.n > at;
}

/* However a look and the end of a synchronisation meet: one that was seen to go on is not waited
 * for when it has returned. */
static void each_end_is_told(void)
{
	struct rbt_board *b = share();
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};

	steps.board = b;
	CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
	look(b);
	/* Before anything is submitted it ends in another way. */
	for (unsigned i = 0, at = 0; i < 4;) {
		if (i >= 2) {
			launch();
		}
		steps.depth = shim_sync_begin();
		steps.is_seen = steps.is_over = false;
		bool has_step = i % 2 == 0 ? step_through(end_it, at, look_at_it)
					   : step_through(look_at_it, at, end_it);
		if (!steps.is_over) {
			end_it();
		}
		/* It is over. */
		CHECK(!steps.is_seen || !rbt_board_await_sync(b, &watch));
		at = has_step ? at + 1 : 0;
		i += !has_step;
	}
}
#else
static void each_end_is_told(void)
{
}
#endif

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"short gaps are sampled", short_gaps_are_sampled},
	{"each gap is asked for once", each_gap_is_asked_for_once},
	{"real gaps are all counted", real_gaps_are_all_counted},
	{"ends are exact either way", ends_are_exact_either_way},
	{"a fork in the midst", a_fork_in_the_midst},
	{"something else every now and then", something_else_every_now_and_then},
	{"those who share are synchronised too", those_who_share_are_synchronised_too},
	{"no wake is missed", no_wake_is_missed},
	{"a synchronisation wakes", a_synchronisation_wakes},
	{"no end is missed", no_end_is_missed},
	{"each end is told", each_end_is_told},
};

int main(void)
{
	int failed = 0, status;

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		pid_t pid = fork();
		if (pid == 0) {
			alarm(60);
			shim_submit_enable();
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
