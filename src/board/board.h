/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ends of a board (layout.h): the program makes it, the daemon maps and reads it.
 *
 * The program never waits. The daemon may sleep until a program becomes busy:
 *
 *   daemon: rbt_board_doze()                program, at a submission
 *   asleep = 1, ++tick                      counter + 1
 *   2 us pass                               tick has changed? then asleep: 1 -> 0, wake
 *   counters as before? then sleep
 *
 * The program has no barrier between its store and its load, because a barrier would cost more than
 * the rest of the submission. Its store may therefore become visible a moment after it has read the
 * old tick, and then it wakes nobody. So the daemon checks the counters once more after that moment
 * has passed, and only then relies on being woken.
 */
#ifndef RBT_BOARD_BOARD_H
#define RBT_BOARD_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "board/layout.h"

/* create.c, for the program; system calls only. */

/* Fills in the fields that are written once. */
void rbt_board_init(struct rbt_board *b);

/* A memfd of the right size whose size can never change, for the daemon to map. Returns an fd or
 * -errno. */
int rbt_board_create_fd(void);

/* board.c, for the daemon. */

/*
 * Maps the fd that a program sent, if it can be read without harm: a memfd of exactly our size that
 * can neither shrink nor be sealed any further. fd is borrowed. -EBADF: not a memfd, -EPERM: not
 * sealed or not writable, -EBADMSG: wrong size or no board, -EPROTONOSUPPORT: another version, or
 * -errno.
 */
int rbt_board_map(int fd, struct rbt_board **ret);
void rbt_board_unmap(struct rbt_board *b); /* accepts NULL */

/* A copy of the board, with values within bounds. */
struct rbt_board_reading {
	uint64_t n[RBT_BOARD_KINDS];
	uint64_t n_syncs, n_polls;
	uint64_t active_ns; /* last known activity, never in the future; 0: none seen */
	bool in_sync;       /* a thread waits for the GPU */
	bool in_flight;     /* there may be submissions after the last synchronisation */
	bool in_request;    /* requests are open, and no deadline has passed */
	uint32_t requests_open;
	uint64_t n_requests, n_late, deadline_ns;
	uint64_t n_pending;
	bool announces; /* its requests are told by the program itself */
	uint32_t gaps[RBT_BOARD_GAPS];
};

/* The values that one reader remembers between its readings of a board; zeroed at first. */
struct rbt_board_reader {
	uint64_t n[RBT_BOARD_SLOTS];
	uint64_t active_ns[RBT_BOARD_SLOTS];
	uint64_t n_syncs; /* of all slots */
	bool seen;
};

/*
 * Reads the board. active_ns is exact if the program has synchronised since it last submitted.
 * Otherwise, if there are submissions since the last reading, it is now_ns, the latest possible
 * time. The first reading only notes the counters. Then the tick moves on, so that the program's
 * next submission leaves its time.
 */
void rbt_board_read(struct rbt_board *b, struct rbt_board_reader *w, uint64_t now_ns,
	struct rbt_board_reading *ret);

/* The last activity that the reader has seen, in any slot, as of its last reading; 0: none. Unlike
 * active_ns, this is not the time of the reading for a program that is still active. */
uint64_t rbt_board_last_seen(const struct rbt_board_reader *w);

/* The lengths of all requests so far. Without HAS_LENGTHS they are known to within a power of two.
 * Does not affect any reading. */
void rbt_board_read_lengths(const struct rbt_board *b, struct rbt_hist *ret);

/* Submissions to its compute tasks so far, and launches among them. They show the daemon whether
 * the program makes progress. Does not affect any reading. */
struct rbt_board_progress {
	uint64_t n, n_launches;
};
struct rbt_board_progress rbt_board_progress(const struct rbt_board *b);

/* Submissions of all kinds and synchronisations so far: another number if there was one since. Does
 * not affect any reading. */
uint64_t rbt_board_count(const struct rbt_board *b);

/* Submissions of all kinds. */
uint64_t rbt_board_submissions(const struct rbt_board_reading *r);

/* Whether the program counts as busy, by a window of the daemon's own: the board's may be
 * forged. */
bool rbt_board_is_busy(const struct rbt_board_reading *r, uint64_t now_ns, uint64_t window_ns);

/* Whether a thread waits for the GPU, or a request is open. Does not affect any reading. */
bool rbt_board_is_in_use(const struct rbt_board *b, uint64_t now_ns);

/* From now on (see above) the next submission, or the begin of a synchronisation, wakes the thread
 * that waits on b->asleep. */
void rbt_board_sleep(struct rbt_board *b);

/*
 * The same for a reader that does not read again: waits, without giving up the processor, for two
 * microseconds, in which a store leaves any core's buffer. False, and awake, if the program has
 * submitted since the last reading, or waits for the GPU.
 */
bool rbt_board_doze(struct rbt_board *b, const struct rbt_board_reader *w);

/* From now on only the end of the last open request wakes the thread that waits on b->asleep.
 * False, and awake, if no request is open. */
bool rbt_board_await_end(struct rbt_board *b);

/* From now on the next return of a synchronisation wakes the thread that waits on b->asleep; so
 * does the begin or end of a request, but no submission. False, and awake, if one has returned
 * since the last reading. Waits as rbt_board_doze() does. */
bool rbt_board_await_sync(struct rbt_board *b, const struct rbt_board_reader *w);

/* Ends the sleep, of whatever kind it is. Returns whether the program had ended it before. */
bool rbt_board_awake(struct rbt_board *b);

#endif
