/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of the hand.
 */
#ifndef RBT_DAEMON_HANDLINK_H
#define RBT_DAEMON_HANDLINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/loop.h"
#include "sched/core.h"

struct client;

struct handlink {
	struct source socket;
	pid_t pid;
	uint32_t seq;
	int cpu; /* that the hand is to run on; -1: any */
	uint64_t started_ns;
	uint64_t retry_ns; /* not before this, after it died too often */
	unsigned n_deaths;
	bool any_off;        /* a suspend may be in force, to be renewed */
	pid_t dying_pid;     /* a hand that was killed and has not ended yet; 0: none */
	int old_fd;          /* the lock of a previous daemon's hand that is still at work; -1 */
	uint64_t awaited_ns; /* since when either of these two is waited for */
	char lock_path[160]; /* hands share this lock for as long as they live */
};

/* Starts the hand, if there is none. 0; -EAGAIN: not now; or -errno. So do those below. */
int hand_ensure(struct daemon *d);
int hand_put(struct daemon *d, struct client *h);
int hand_drop(struct daemon *d, uint32_t id);
/* Of its compute tasks, or, with runlists, of its copy tasks on these: as RBT_ACT_SET_SLICE. */
int hand_set_slice(
	struct daemon *d, struct client *h, uint32_t gpu, uint64_t runlists, uint64_t us);
/* how: not RBT_ON. */
int hand_suspend(struct daemon *d, struct client *h, enum rbt_off how, uint64_t deadline_ns);
int hand_resume(struct daemon *d, struct client *h);
/* Resumes all but its compute tasks. */
int hand_resume_others(struct daemon *d, struct client *h);
int hand_set_level(struct daemon *d, struct client *h, uint32_t level);
int hand_set_interleave(struct daemon *d, struct client *h, uint32_t level);
/* One task, whatever happens to the others. */
int hand_suspend_task(struct daemon *d, struct client *h, uint32_t handle, uint64_t deadline_ns);
int hand_resume_task(struct daemon *d, struct client *h, uint32_t handle);
/* Makes the device look at resumed tasks; the hand does so after it has answered. */
int hand_kick(struct daemon *d, struct client *h);
/* 0: no more. The board is h->board_fd, if it has one. */
int hand_poll(struct daemon *d, struct client *h, uint32_t interval_us);
int hand_lock(struct daemon *d, uint32_t gpu, bool keep);
/* Renews every suspend. Returns how many had lapsed, or -errno; *ret_failed: the driver refused
 * some of what the hand then wanted to restore. */
int hand_renew(struct daemon *d, uint64_t deadline_ns, bool *ret_failed);
/* Looks whether a hand that was lost, or that a previous daemon has left, has gone. */
void hand_tick(struct daemon *d);
/* Whether there is such a hand, which can undo what this daemon does. */
bool hand_is_awaited(const struct daemon *d);
/* At the start: a hand whose daemon was killed restores everything. Waits for it, for a moment. */
void hand_await_old(struct daemon *d);
void hand_stop(struct daemon *d);

#endif
