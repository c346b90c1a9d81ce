/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's thread, among a program's other threads. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "check.h"
#include "shim/sys.h"

#define N_STARTS 1000

static _Atomic bool is_over, has_failed;
static _Atomic unsigned n_started;

static void note_start(void)
{
	n_started++;
}

/* Changes nothing, and needs no rights, but concerns all threads. */
static void *set_ids(void *arg)
{
	while (!is_over) {
		has_failed = setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1) < 0 || has_failed;
	}
	return NULL;
}

/* The shim starts the agent with signals blocked, as in any of the program's calls. */
static void test_start_during_setuid(void)
{
	pthread_t thread;

	CHECK_INT(pthread_create(&thread, NULL, set_ids, NULL), 0);
	for (unsigned i = 0; i < N_STARTS; i++) {
		uint64_t before = shim_sys_block_signals();
		CHECK_INT(shim_raw_start_thread(note_start), 0);
		shim_sys_restore_signals(before);
		while (n_started <= i) {
			usleep(10);
		}
	}
	is_over = true;
	CHECK_INT(pthread_join(thread, NULL), 0);
	CHECK(!has_failed);
}

static void test_signals_stay_as_they_were(void)
{
	sigset_t mask;

	CHECK_INT(shim_raw_start_thread(note_start), 0);
	CHECK_INT(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
	CHECK_INT(sigismember(&mask, SIGTERM), 0);
}

int main(void)
{
	alarm(120); /* ends a test that hangs */
	test_start_during_setuid();
	test_signals_stay_as_they_were();
	return check_result();
}
