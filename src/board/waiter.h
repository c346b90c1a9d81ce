/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for boards, for files and for a moment, all at once. Who waits sleeps on the boards'
 * futexes itself: between a program's first submission and what is done about it there is one
 * wake-up. A thread sleeps on the files, and wakes who waits through a futex of ours.
 *
 * A board is waited for once: what a program does to its futex afterwards, however often, wakes
 * nobody until it is added again. One that wakes us for nothing, again and again, is looked at
 * every 10 ms for a while instead.
 *
 * Kernels before 5.16 and some sandboxes have no call to wait for several futexes, and there may be
 * no room for a thread: then files are waited for, and boards looked at every millisecond.
 *
 * To be used by one thread.
 */
#ifndef RBT_BOARD_WAITER_H
#define RBT_BOARD_WAITER_H

#include "board/board.h"

struct rbt_board_waiter;

/* files_fd: what is readable when any of the files is, such as an epoll; borrowed. 0 or -errno. */
int rbt_board_waiter_create(int files_fd, struct rbt_board_waiter **ret);
void rbt_board_waiter_destroy(struct rbt_board_waiter *w); /* accepts NULL */

/*
 * Waits for the next edge of a board that has gone to sleep (rbt_board_rest(), rbt_board_sleep(),
 * rbt_board_await_end(), rbt_board_await_sync()), in the way it has when it is added.
 * The board is borrowed until it is removed or has been returned by next. Again: no effect. 0 or
 * -errno.
 */
int rbt_board_waiter_add(struct rbt_board_waiter *w, struct rbt_board *b);

/* Afterwards it may be unmapped; nothing more is heard of it. */
void rbt_board_waiter_remove(struct rbt_board_waiter *w, struct rbt_board *b);

/* Until a board has woken, files_fd is readable, or the monotonic clock says until_ns (UINT64_MAX:
 * never). Whether files_fd is or was readable since rbt_board_waiter_rewatch(). */
bool rbt_board_waiter_wait(struct rbt_board_waiter *w, uint64_t until_ns);

/* A board that has woken, or NULL. Those that were added since the last wait are for the next: a
 * program that is quick could keep us here for ever. */
struct rbt_board *rbt_board_waiter_next(struct rbt_board_waiter *w);

/* There is nothing more to be read: files_fd is to be watched again. */
void rbt_board_waiter_rewatch(struct rbt_board_waiter *w);

#endif
