/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From futexes to a file descriptor: lets a daemon that waits in epoll be woken by boards. One
 * thread, started with the first board, sleeps on all of them.
 *
 * A board is waited for once: what a program does to its futex afterwards, however often, wakes
 * nobody until it is added again. One that wakes the thread for nothing, again and again, is looked
 * at every 10 ms for a while instead.
 */
#ifndef RBT_BOARD_WAITER_H
#define RBT_BOARD_WAITER_H

#include "board/board.h"

struct rbt_board_waiter;

/* 0 or -errno. The thread has all signals blocked. */
int rbt_board_waiter_create(struct rbt_board_waiter **ret);
void rbt_board_waiter_destroy(struct rbt_board_waiter *w); /* accepts NULL */

/* Readable when rbt_board_waiter_next() has something. Borrowed. */
int rbt_board_waiter_fd(const struct rbt_board_waiter *w);

/*
 * Waits for the next edge of a board that has gone to sleep (rbt_board_rest(), rbt_board_sleep(),
 * rbt_board_await_end()), in the way it has when it is added.
 * The board is borrowed until it is removed or has been returned by next. Again: no effect. 0 or
 * -errno.
 */
int rbt_board_waiter_add(struct rbt_board_waiter *w, struct rbt_board *b);

/* Afterwards it may be unmapped; nothing more is heard of it. */
void rbt_board_waiter_remove(struct rbt_board_waiter *w, struct rbt_board *b);

/* A board that has woken, or NULL. */
struct rbt_board *rbt_board_waiter_next(struct rbt_board_waiter *w);

#endif
