/* SPDX-License-Identifier: Apache-2.0 */
/* The shim among a program's threads, signals and children. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "test_shim_world.h"
#include "util/time.h"

static void reentry_is_recorded_later(void)
{
	struct shim_guard g;

	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	CHECK(shim_enter(&g) == 0);
	unsigned before = world.n_calls;
	CHECK(rm_alloc_tsg(CLIENT, DEVICE, TSG(0), NV_ENGINE_TYPE_GRAPHICS) == 0);
	CHECK(world.n_calls == before + 1 && !known(CLIENT, TSG(0), SHIM_TASK));
	shim_leave(&g);
	rm_nothing();
	CHECK(known(CLIENT, TSG(0), SHIM_TASK) && !table()->lossy && table()->n_late == 0);
}

static void *hold_until_told(void *arg)
{
	_Atomic int *stage = arg;
	struct shim_guard g;

	CHECK(shim_enter(&g) == 0);
	*stage = 1;
	while (*stage != 2) {
		sched_yield();
	}
	shim_leave(&g);
	return NULL;
}

static pthread_t start_holder(_Atomic int *stage)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, hold_until_told, stage) == 0);
	while (*stage != 1) {
		sched_yield();
	}
	return thread;
}

/* Not even while another thread's own call waits for the driver. */
static void nobody_waits_for_the_lock(void)
{
	_Atomic int stage = 0;

	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	pthread_t thread = start_holder(&stage);
	uint64_t begin_ns = rbt_now_ns();
	for (uint32_t i = 0; i < 16; i++) {
		CHECK(rm_alloc_tsg(CLIENT, DEVICE, TSG(i), NV_ENGINE_TYPE_GRAPHICS) == 0);
		CHECK(rm_alloc(CLIENT, TSG(i), TSG(i) + 1, NV_CLASS_CHANNEL_HOPPER) == 0);
	}
	CHECK(rm_free(CLIENT, TSG(3)) == 0);
	CHECK(rbt_now_ns() - begin_ns < 50 * RBT_NS_PER_MS);
	CHECK(!known(CLIENT, TSG(0), SHIM_TASK));
	stage = 2;
	pthread_join(thread, NULL);
	/* Whatever the next call is, all of it is there afterwards, in order. */
	rm_nothing();
	CHECK(known(CLIENT, TSG(0), SHIM_TASK) && known(CLIENT, TSG(15) + 1, SHIM_CHANNEL));
	CHECK(!known(CLIENT, TSG(3), SHIM_TASK) && count_objects() == 3 + 30);
	CHECK(shim_find(table(), CLIENT, TSG(0))->t.creator_tid == (uint32_t)gettid());
	CHECK(!table()->lossy && table()->n_late == 0);
}

static void more_news_than_room_is_lossy(void)
{
	_Atomic int stage = 0;

	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	pthread_t thread = start_holder(&stage);
	rm_nothing();
	CHECK(table()->n_late == 0);
	for (uint32_t i = 0; i < SHIM_MAX_LATE; i++) {
		rm_alloc_tsg(CLIENT, DEVICE, TSG(i), NV_ENGINE_TYPE_GRAPHICS);
	}
	CHECK(!table()->lossy);
	uint64_t begin_ns = rbt_now_ns();
	rm_alloc_tsg(CLIENT, DEVICE, TSG(SHIM_MAX_LATE), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(table()->lossy && rbt_now_ns() - begin_ns < 2 * RBT_NS_PER_S);
	stage = 2;
	pthread_join(thread, NULL);
	rm_nothing();
	CHECK(count_objects() == 3 + SHIM_MAX_LATE);
}

/* Freed, on another thread, when its making was not yet recorded. */
static void late_and_freed(void)
{
	_Atomic int stage = 0;

	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	pthread_t thread = start_holder(&stage);
	rm_alloc_tsg(CLIENT, DEVICE, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	stage = 2;
	pthread_join(thread, NULL);
	rm_free(CLIENT, TSG(0));
	CHECK(!known(CLIENT, TSG(0), SHIM_TASK));
}

static _Atomic int n_signals;

static void on_signal(int signo)
{
	n_signals++;
	rm_alloc_tsg(CLIENT, DEVICE, TSG(9), NV_ENGINE_TYPE_GRAPHICS);
}

static void signals_wait_for_the_lock(void)
{
	struct shim_guard g;

	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	signal(SIGUSR1, on_signal);
	CHECK(shim_enter(&g) == 0);
	raise(SIGUSR1);
	CHECK(n_signals == 0);
	shim_leave(&g);
	CHECK(n_signals == 1 && known(CLIENT, TSG(9), SHIM_TASK) && !table()->lossy);
}

static void check_child(void)
{
	CHECK(count_objects() == 0);
	CHECK(rm_alloc_tsg(CLIENT, DEVICE, TSG(1), NV_ENGINE_TYPE_GRAPHICS) == 0);
	CHECK(count_objects() == 0);
	make_client(0xc1d00055, 1);
	CHECK(count_objects() == 3 && table()->pid == getpid() && !table()->lossy);
}

static void expect_success(pid_t pid)
{
	int status;

	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void forked_child_starts_empty(void)
{
	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	pid_t pid = fork();
	if (pid == 0) {
		check_child();
		_exit(0);
	}
	expect_success(pid);
	CHECK(count_objects() == 3 && table()->lock_tid == 0);
	rm_alloc_tsg(CLIENT, DEVICE, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(known(CLIENT, TSG(0), SHIM_TASK));
}

static void child_behind_libcs_back_starts_empty(void)
{
	struct shim_guard g;

	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	/* In the middle of things, too. */
	CHECK(shim_enter(&g) == 0);
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0) {
		check_child();
		_exit(0);
	}
	shim_leave(&g);
	expect_success(pid);
	CHECK(count_objects() == 3);
}

static void fork_during_another_threads_turn(void)
{
	_Atomic int stage = 0;
	pthread_t thread;

	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	CHECK(pthread_create(&thread, NULL, hold_until_told, &stage) == 0);
	while (stage != 1) {
		sched_yield();
	}
	pid_t pid = fork();
	if (pid == 0) {
		check_child();
		_exit(0);
	}
	expect_success(pid);
	CHECK(table()->lock_tid != 0);
	stage = 2;
	pthread_join(thread, NULL);
	CHECK(table()->lock_tid == 0 && count_objects() == 3);
}

static void *hold_for_a_while(void *arg)
{
	_Atomic int *stage = arg;
	struct shim_guard g;

	CHECK(shim_enter(&g) == 0);
	*stage = 1;
	usleep(50000);
	*stage = 2;
	shim_leave(&g);
	return NULL;
}

static void fork_waits_for_another_threads_turn(void)
{
	_Atomic int stage = 0;
	pthread_t thread;

	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	CHECK(pthread_create(&thread, NULL, hold_for_a_while, &stage) == 0);
	while (stage != 1) {
		sched_yield();
	}
	world.clock_stopped = true;
	pid_t pid = fork();
	if (pid == 0) {
		_exit(stage == 2 ? 0 : 1);
	}
	expect_success(pid);
	pthread_join(thread, NULL);
	CHECK(table()->lock_tid == 0);
}

static int speak_in_the_parents_memory(void *arg)
{
	rm_alloc_tsg(CLIENT, DEVICE, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	return 0;
}

/* As posix_spawn() makes them. */
static void vfork_child_keeps_out(void)
{
	static char stack[65536] __attribute__((aligned(16)));

	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	expect_success(clone(speak_in_the_parents_memory, stack + sizeof(stack),
		CLONE_VM | CLONE_VFORK | SIGCHLD, NULL));
	CHECK(count_objects() == 3 && table()->pid == getpid());
	rm_alloc_tsg(CLIENT, DEVICE, TSG(0), NV_ENGINE_TYPE_GRAPHICS);
	CHECK(count_objects() == 4);
}

static void *make_and_free(void *arg)
{
	uint32_t client = 0xc1d00100 + (uint32_t)(uintptr_t)arg;

	for (int i = 0; i < 300; i++) {
		rm_alloc(0, 0, client, NV_CLASS_ROOT_CLIENT);
		rm_alloc(client, client, DEVICE, NV_CLASS_DEVICE);
		for (uint32_t t = 0; t < 4; t++) {
			rm_alloc_tsg(client, DEVICE, TSG(t), NV_ENGINE_TYPE_COPY0);
			rm_alloc(client, TSG(t), TSG(t) + 1, NV_CLASS_CHANNEL_HOPPER);
			rm_schedule(client, TSG(t), true);
		}
		rm_free(client, TSG(2));
		rm_free(client, client);
	}
	return NULL;
}

static void threads_share_the_table(void)
{
	pthread_t threads[4];

	world_start("8", NULL, "1");
	make_client(CLIENT, 0);
	for (uintptr_t i = 0; i < 4; i++) {
		CHECK(pthread_create(&threads[i], NULL, make_and_free, (void *)i) == 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
	}
	rm_nothing();
	/* A machine may be so busy that even the room for late news was full for too long; the
	 * table then says so. */
	CHECK(table()->n_late == 0 && (table()->lossy || count_objects() == 3));
	CHECK(table()->lock_tid == 0);
	for (uint32_t i = 0; i < 4; i++) {
		rm_free(0xc1d00100 + i, 0xc1d00100 + i);
	}
	CHECK(count_objects() == 3);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(reentry_is_recorded_later),
		TEST(nobody_waits_for_the_lock),
		TEST(more_news_than_room_is_lossy),
		TEST(late_and_freed),
		TEST(signals_wait_for_the_lock),
		TEST(forked_child_starts_empty),
		TEST(child_behind_libcs_back_starts_empty),
		TEST(fork_during_another_threads_turn),
		TEST(fork_waits_for_another_threads_turn),
		TEST(vfork_child_keeps_out),
		TEST(threads_share_the_table),
	};

	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
