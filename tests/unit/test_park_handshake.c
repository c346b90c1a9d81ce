/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake between calls of a program and a daemon that parks it (board/park.h): each call is
 * seen by the daemon, or has seen that it must wake the daemon. */
#include <pthread.h>
#include <stdatomic.h>

#include "board/park.h"
#include "check.h"

#define ROUNDS  20000
#define CALLERS 2

static struct rbt_board board;
static pthread_barrier_t begin, end;
static bool has_woken[CALLERS];

static void *call(void *data)
{
	bool *woken = data;

	for (int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&begin);
		*woken = rbt_park_enter(&board);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

/* A call that neither side has seen would wait in the driver for ever. */
static void each_call_is_seen(void)
{
	pthread_t threads[CALLERS];
	int n_missed = 0;

	pthread_barrier_init(&begin, NULL, CALLERS + 1);
	pthread_barrier_init(&end, NULL, CALLERS + 1);
	for (int k = 0; k < CALLERS; k++) {
		CHECK(pthread_create(&threads[k], NULL, call, &has_woken[k]) == 0);
	}
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t n_calls = rbt_park_calls(&board);

		pthread_barrier_wait(&begin);
		bool is_parked = rbt_park_begin(&board, n_calls);
		pthread_barrier_wait(&end);
		for (int k = 0; k < CALLERS; k++) {
			n_missed += is_parked && !has_woken[k];
		}
		rbt_park_end(&board);
	}
	for (int k = 0; k < CALLERS; k++) {
		pthread_join(threads[k], NULL);
	}
	CHECK_INT(n_missed, 0);
	CHECK(rbt_park_calls(&board) == (uint64_t)ROUNDS * CALLERS);
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
