/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AMD: the queues that a program has made on /dev/kfd, and the agent that suspends and resumes
 * them. The driver accepts UPDATE_QUEUE only from the process that owns the queues, so this is done
 * inside the program, by a thread of ours. The thread is started with the first queue, blocks all
 * signals, and does nothing unless the daemon's hand tells it to (proto/agent.h). It ends a while
 * after the last queue.
 *
 * The program's own settings (ring, percentage, priority) are remembered, and restored when a queue
 * is resumed. The program's calls are passed on unchanged. A call that changes or destroys a queue
 * waits only if the agent is in the driver with the same queue, where it would wait anyway.
 *
 * Like the whole table, this is accessed only between shim_enter() and shim_leave(), except for
 * atomic members.
 */
#ifndef RBT_SHIM_KFD_H
#define RBT_SHIM_KFD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "backend/amd/kfd_abi.h"
#include "board/gauge.h"
#include "proto/agent.h"
#include "shim/sys.h"

struct shim;
struct shim_event;

struct shim_queue {
	bool used;
	bool off;     /* by us; the program's own call puts it back on */
	bool leveled; /* its priority is set by us */
	bool stale;   /* the agent may have set it back to an earlier state */
	bool held;    /* shall be off, whatever happens to its kind */
	uint32_t gpu_id, type, creator_tid;
	uint64_t serial;             /* order of recording */
	struct kfd_update_queue own; /* the program's settings */
	uint64_t wptr_at, rptr_at;
	struct rbt_gauge_queue gauge;
};

/* What one call says about a queue; part of an event. */
struct shim_queue_event {
	uint32_t gpu_id, type;
	struct kfd_update_queue own;
	uint64_t wptr_at, rptr_at;
};

/* The plan of one poll: addresses to read, and the values found. */
struct shim_poll {
	struct iovec from[2 * KFD_MAX_QUEUES];
	uint64_t values[2 * KFD_MAX_QUEUES];
	uint16_t queue[KFD_MAX_QUEUES];
};

struct shim_kfd {
	/* The program's calls under way that change a queue; and the queue with which the agent is
	 * in the driver, plus 1. Each side sets its own mark first and then checks the other's, so
	 * both are never in the driver with the same queue. */
	_Atomic uint32_t in_call[KFD_MAX_QUEUES];
	_Atomic uint32_t acting_on;
	/* Queues whose last settings by the program are unknown: such a queue is left alone. Also
	 * whether there has been one. */
	_Atomic bool unknown[KFD_MAX_QUEUES];
	_Atomic bool lossy;
	/* The program stopped waiting for the agent, which was about to act. */
	_Atomic bool overtaken[KFD_MAX_QUEUES];

	bool dirty, told;          /* as for a client */
	bool partial;              /* a queue could not be recorded */
	uint64_t left_ns;          /* since when queues are not followed any more; 0: they are */
	uint32_t n_queues, n_used; /* ids [0, n_used) have been in use */

	/* Orders from the hand. */
	uint32_t off_kinds; /* RBT_AGENT_* */
	uint32_t n_held;    /* queues with `held` */
	uint32_t level;     /* enum rbt_agent_level */
	uint64_t deadline_ns;
	uint64_t retry_ns; /* a queue did not obey: time of the next attempt; 0: all did */
	uint32_t poll_us;
	uint64_t poll_ns; /* time of the next poll; 0: none */

	/* A suspend that is not done and not answered yet, because the program is using its
	 * queues. */
	bool owes;
	uint32_t owed_seq, owed_before; /* off_kinds */
	uint32_t owed_queue;            /* was not held before: its number plus 1; 0: none */
	uint64_t owed_until_ns;

	bool can_poll;               /* at queues */
	struct rbt_board_slot *slot; /* of the agent's, on the board; NULL: not yet */
	struct rbt_gauge_state gauge;
	struct shim_poll poll;
	struct shim_queue queues[KFD_MAX_QUEUES];
};

/* observe_kfd.c */

/* Passes one 'K' ioctl to the driver, and learns from it. */
int rbt_shim_call_kfd(int fd, unsigned long request, void *arg);
void shim_kfd_learn(struct shim *s, const struct shim_event *ev);
uint32_t shim_kfd_kind(uint32_t type); /* RBT_AGENT_* */
/* As in the record and in requests to the agent; never 0. */
uint16_t shim_kfd_serial(const struct shim_queue *q);
/* The queue is not held any more, as by RBT_AGENT_HOLD_QUEUE. */
void shim_kfd_release(struct shim_kfd *k, uint32_t id);

/* settle_kfd.c */

/* How long the agent waits if another thread is using the table. */
#define SHIM_AGENT_BUSY_NS 50000ull
/* When a queue that did not obey is tried again. */
#define SHIM_AGENT_RETRY_NS 20000000ull
/* How often the agent checks that the daemon has all news. */
#define SHIM_AGENT_LINKED_NS 250000000ull
/* Gives all queues the state that they should have. Returns the first error. -EAGAIN, if a queue
 * that should be off is in use by the program, counts last. -ESTALE counts only for queues that
 * should be off. */
int shim_kfd_settle(struct shim *s, uint64_t now_ns, uint32_t *ret_n_off);
/* Suspends and resumes a queue, which exists. Returns 0 or -errno. */
int shim_kfd_preempt(struct shim *s, uint32_t id);
/* Returns the earlier time. b_ns may be 0, which means never. */
static inline uint64_t shim_earlier(uint64_t a_ns, uint64_t b_ns)
{
	return b_ns != 0 && b_ns < a_ns ? b_ns : a_ns;
}

/* send_kfd.c: as for clients in send.c */
bool shim_kfd_has_queues(const struct shim *s);
int shim_kfd_send(struct shim *s, int sock);
void shim_kfd_disconnect(struct shim *s);
/* The agent has ended: the daemon is told that it cannot act on this program any more. */
void shim_kfd_withdraw(struct shim *s);

/* agent.c */

/* Starts the agent, if it has something to do and can be started. */
void shim_agent_ensure(struct shim *s);
/* Whether the agent runs in this process. */
bool shim_agent_is_up(void);
/* The agent has a new socket to the hand. */
void shim_agent_poke(void);
/* The agent's life; for shim_raw_start_thread(). */
void shim_agent_run(void);
/* Ends the agent, under the lock. Returns false if a queue is still suspended; then it has to be
 * called again. The program's next call starts another agent. */
bool shim_agent_end(struct shim *s, uint64_t now_ns);
/* One round of the agent, under the lock. Returns when the next is due; UINT64_MAX: at the next
 * order. */
uint64_t shim_agent_step(struct shim *s, uint64_t now_ns);
/* Obeys an order of the hand. Returns true if there is a reply, and fills it in. */
bool shim_agent_obey(struct shim *s, const struct rbt_agent_request *req, uint64_t now_ns,
	struct rbt_agent_reply *ret);

/* poll_kfd.c: polls the queues, and writes their state to the board, in a slot of the calling
 * thread. */
void shim_kfd_poll(struct shim *s, uint64_t now_ns);
/* Ends the polling: the slot says that nothing is active, and is given back. */
void shim_kfd_stop_polling(struct shim *s, uint64_t now_ns);
/* Whether this process may read its own memory the way that cannot fault. */
bool shim_kfd_can_poll(void);

#endif
