/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake between calls of a program and a daemon that parks it (board/park.h): each call is
 * seen by the daemon, or has seen that it must wake the daemon. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "board/park.h"
#include "check.h"

#define ROUNDS 200000
/* The two sides begin at once, give or take some turns of a loop. */
#define JITTER 64

static struct rbt_board board;
static _Atomic int begun, ended;
static bool has_woken;

static void wait_for(_Atomic int *at, int round)
{
	for (int i = 1; atomic_load(at) < round; i++) {
		if (i % 1000 == 0) {
			sched_yield();
		}
	}
}

static void dawdle(int turns)
{
	for (volatile int i = 0; i < turns; i++) {
	}
}

static void *call(void *data)
{
	for (int i = 1; i <= ROUNDS; i++) {
		wait_for(&begun, i);
		dawdle(i * 7 % JITTER);
		has_woken = rbt_park_enter(&board);
		atomic_store(&ended, i);
	}
	return NULL;
}

/* A call that neither side has seen would wait in the driver for ever. */
static void each_call_is_seen(void)
{
	pthread_t thread;
	int n_missed = 0;

	CHECK(pthread_create(&thread, NULL, call, NULL) == 0);
	for (int i = 1; i <= ROUNDS; i++) {
		uint64_t n_calls = rbt_park_calls(&board);

		atomic_store(&begun, i);
		dawdle(i * 11 % (8 * JITTER + 1));
		bool is_parked = rbt_park_begin(&board, n_calls);
		wait_for(&ended, i);
		n_missed += is_parked && !has_woken;
		rbt_park_end(&board);
	}
	pthread_join(thread, NULL);
	CHECK_INT(n_missed, 0);
	CHECK(rbt_park_calls(&board) == ROUNDS);
}

static void bits_are_apart(void)
{
	rbt_park_moves(&board, true);
	CHECK(rbt_park_begin(&board, rbt_park_calls(&board)));
	CHECK(rbt_park_enter(&board));
	rbt_park_end(&board);
	CHECK(board.parking == RBT_BOARD_MOVES && !rbt_park_enter(&board));
	CHECK(!rbt_park_begin(&board, 0) && board.parking == RBT_BOARD_MOVES);
	rbt_park_moves(&board, false);
	CHECK(board.parking == 0);
}

int main(void)
{
	each_call_is_seen();
	bits_are_apart();
	return check_result();
}
