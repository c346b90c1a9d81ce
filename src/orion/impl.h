/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by client.c, scheduler.c and flight.c. */
#ifndef RBT_ORION_IMPL_H
#define RBT_ORION_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "orion/client.h"
#include "orion/policy.h"
#include "sched/heap.h"

#define N_SLOTS 64u

/* A best-effort launch that the GPU may not have finished. Its events stay for the next launch. */
struct slot {
	CUcontext ctx; /* of the events */
	CUevent start, end;
	struct rbt_kernel *kernel; /* NULL: not measured */
	uint64_t expected_ns;
	uint64_t before_ns; /* what the client's launches take that had no slot before this one */
	bool is_known;      /* otherwise the whole budget is expected */
	bool is_behind;     /* other launches, so that it is measured exactly */
	enum { SLOT_CALLED, SLOT_RECORDED, SLOT_OVER } state;
};

/* A thread that waits in a call. On its own stack. */
struct held {
	struct held *next;
	const struct rbt_kernel_facts *facts;
	_Atomic uint32_t is_free; /* a futex */
	bool is_asleep;           /* the thread waits for it */
	struct orion_flight flight;
};

struct client {
	_Atomic bool is_hp;
	/* All below is the scheduler's, under its lock. */
	struct held *first, *last;
	struct rbt_heap_node node; /* while there are held calls; by the GPU time of the client */
	uint64_t gpu_ns;
	uint64_t unfollowed_ns;     /* what launches take that have no slot and none behind them */
	struct slot slots[N_SLOTS]; /* a ring */
	uint32_t oldest, next;
	pthread_cond_t wake;
	pthread_t thread;
	bool has_thread;
	/* Changed without the lock. */
	_Atomic uint64_t n_launches, n_held, held_ns, n_overdue, n_partitioned;
	_Atomic int n_inside; /* threads that use the stream in place of the default stream */
};

struct scheduler {
	pthread_mutex_t lock;
	_Atomic bool runs;
	_Atomic uint32_t generation;
	uint32_t n_in_flight;
	uint64_t in_flight_ns;  /* what they take from their begin to their end */
	uint64_t unfollowed_ns; /* of all clients */
	uint64_t end_ns;        /* when all launches so far will have ended */
	struct rbt_heap waiting;
	uint64_t turn_ns; /* the GPU time of the client that was let go last */
	_Atomic uint32_t n_held;
	bool has_spinner; /* a thread with a held call looks at the GPU */
	_Atomic uint64_t budget_ns;
	_Atomic uint32_t n_sms;
	/* Of the newest high-priority kernel. */
	_Atomic uint32_t hp_kind, hp_sms;
};

extern struct client orion_clients[RUBATO_ORION_MAX_CLIENTS];
extern struct orion_config orion_config;
extern struct scheduler orion_scheduler;

/* All of these: the scheduler's lock is held. */

/* Whether the client may launch now. */
bool orion_flight_lets(const struct client *c, const struct rbt_kernel_facts *facts);
struct orion_flight orion_flight_take(struct client *c, const struct rbt_kernel_facts *facts);
/* Whether it is time to look which launches are over, although another one may run. */
bool orion_flight_is_stale(const struct client *c);
/* Looks which launches are over. `has_context`: the calling thread is one of the program. */
void orion_flight_poll(bool has_context);
/* Looks whether high-priority work is done that nobody has waited for. For scheduler threads. */
void orion_flight_probe(void);
void orion_flight_reset(void);

#endif
