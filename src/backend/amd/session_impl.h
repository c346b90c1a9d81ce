/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of a session. Fields belong to the session's thread unless they are under the lock. */
#ifndef RBT_BACKEND_AMD_SESSION_IMPL_H
#define RBT_BACKEND_AMD_SESSION_IMPL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "backend/amd/session.h"

struct job {
	int (*fn)(struct rbt_amd_session *s, void *arg);
	void *arg;
	int result;
	bool done;
};

struct rbt_amd_session {
	pid_t pid;
	bool is_child;        /* a child of this process: its exit status is not ours to take */
	int kfd, wake, pidfd; /* wake: an eventfd for jobs, stops and the end */
	int events[2];        /* a pipe: the kernel writes one byte, which an eventfd refuses */
	uint32_t runtime_state;
	uint32_t room;                   /* room of the next snapshot, in queues */
	uint32_t held, grace;            /* RBT_AMD_* */
	bool held_queue[KFD_MAX_QUEUES]; /* held alone */
	uint32_t n_held_queues;
	bool enabled, gone; /* gone: the target has ended */
	_Atomic uint64_t n_changes;
	struct poller *poller; /* session_poll.c's; NULL: none */
	uint64_t poll_ns;      /* time of the next poll; UINT64_MAX: never */
	pthread_t thread;
	/* Blocks until the target stops or ends, and reports it. */
	pthread_t watcher;
	bool has_watcher;
	sem_t handled;
	pthread_mutex_t lock; /* protects the following */
	pthread_cond_t changed;
	struct job *job;
	bool ending, started;
	int start_result;
};

/* session_dbg.c: operations, on the session's thread. 0 (or a count), or -errno. */
int dbg_enable(struct rbt_amd_session *s);
void dbg_disable(struct rbt_amd_session *s);
int dbg_snapshot(struct rbt_amd_session *s, struct kfd_queue_entry **ret, uint32_t *ret_n);
int dbg_suspend(struct rbt_amd_session *s, uint32_t *ids, uint32_t n, uint32_t grace);
int dbg_resume(struct rbt_amd_session *s, uint32_t *ids, uint32_t n);
int dbg_hold(struct rbt_amd_session *s, uint32_t kinds, uint32_t grace);
int dbg_release(struct rbt_amd_session *s, uint32_t kinds);
int dbg_hold_queue(struct rbt_amd_session *s, uint32_t id);
int dbg_release_queue(struct rbt_amd_session *s, uint32_t id);
/* Takes all pending events, and answers them. */
void dbg_take_events(struct rbt_amd_session *s);

/* session_poll.c, on the session's thread. 0 or -errno. */
int poller_begin(struct rbt_amd_session *s, int board_fd, uint32_t interval_us);
void poller_end(struct rbt_amd_session *s);
/* Queues have come or gone. */
void poller_changed(struct rbt_amd_session *s);
/* Polls, if it is time. */
void poller_run(struct rbt_amd_session *s, uint64_t now_ns);

/* session_trace.c: ptrace, on the session's thread. */
int trace_seize(struct rbt_amd_session *s);
/* Starts the watcher. 0 or -errno. */
int trace_watch(struct rbt_amd_session *s);
void trace_unwatch(struct rbt_amd_session *s);
/* Handles the target's stops and passes its signals on; sets `gone`. */
void trace_handle(struct rbt_amd_session *s);

#endif
