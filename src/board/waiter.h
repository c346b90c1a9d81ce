/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for boards, files and a timeout, all at once. The caller sleeps on the boards' futexes
 * itself: only one wake-up lies between a program's first submission and the daemon's reaction. A
 * thread sleeps on the files, and wakes the caller through a futex of ours.
 *
 * Each board is waited for once: later changes of its futex, however many, have no effect until the
 * board is added again. A board that repeatedly wakes us for nothing is polled every 10 ms for a
 * while instead.
 *
 * Kernels before 5.16 and some sandboxes cannot wait for several futexes, and making a thread may
 * fail. Then the files are waited for, and boards are polled every millisecond.
 *
 * To be used by one thread.
 */
#ifndef RBT_BOARD_WAITER_H
#define RBT_BOARD_WAITER_H

#include "board/board.h"

struct rbt_board_waiter;

/* files_fd is a file, such as an epoll, that is readable when any of the caller's files is;
 * borrowed. 0 or -errno. */
int rbt_board_waiter_create(int files_fd, struct rbt_board_waiter **ret);
void rbt_board_waiter_destroy(struct rbt_board_waiter *w); /* accepts NULL */

/*
 * Waits for the next event of a board that was put to sleep by rbt_board_doze(), rbt_board_sleep(),
 * rbt_board_await_end() or rbt_board_await_sync(). The board is borrowed until it is removed or
 * returned by rbt_board_waiter_next(). Adding it again has no effect. 0 or -errno.
 */
int rbt_board_waiter_add(struct rbt_board_waiter *w, struct rbt_board *b);

/* Afterwards the board may be unmapped. */
void rbt_board_waiter_remove(struct rbt_board_waiter *w, struct rbt_board *b);

/* Returns when a board has woken, files_fd is readable, or the monotonic clock has reached until_ns
 * (UINT64_MAX: never). The result says whether files_fd is, or was, readable since
 * rbt_board_waiter_rewatch(). */
bool rbt_board_waiter_wait(struct rbt_board_waiter *w, uint64_t until_ns);

/* A board that has woken, or NULL. Boards that were added since the last wait are left for the next
 * one: otherwise a quick program could keep the daemon here for ever. */
struct rbt_board *rbt_board_waiter_next(struct rbt_board_waiter *w);

/* All files have been read: files_fd is watched again. */
void rbt_board_waiter_rewatch(struct rbt_board_waiter *w);

#endif
