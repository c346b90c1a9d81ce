/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: the four moments in the life of a task at which a policy is asked. src/daemon/events.c
 * makes them, and nothing else does.
 *
 * A task has exactly one INIT and, however it ends, exactly one DESTROY. SCHEDULE and WORK come in
 * between, any number of times.
 */
#ifndef RBT_SCHED_EVENT_H
#define RBT_SCHED_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/core.h"

enum rbt_moment {
	RBT_MOMENT_INIT, /* the program has made the task */
	/* The task is about to run for the first time; or a turn of its program is about to begin;
	 * or the program takes no turns, and the core asks whether it may run (ask.c). */
	RBT_MOMENT_SCHEDULE,
	RBT_MOMENT_WORK,    /* the program has submitted work since the last such event */
	RBT_MOMENT_DESTROY, /* the task is gone */
};

/* Valid bits of struct rbt_event_task: unknown is not zero. */
enum {
	RBT_EVENT_HAS_GPU = 1 << 0,
	RBT_EVENT_HAS_RUNLIST = 1 << 1,
	RBT_EVENT_HAS_TSG = 1 << 2,
	RBT_EVENT_HAS_TIMESLICE = 1 << 3,
};

enum rbt_event_engine { RBT_EVENT_COMPUTE, RBT_EVENT_COPY, RBT_EVENT_OTHER };

struct rbt_event_task {
	uint64_t id; /* never reused, by no other task of any program; never 0 */
	uint32_t valid;
	uint32_t gpu; /* index, as in the core */
	enum rbt_event_engine engine;
	uint32_t runlist, tsg; /* together unique on a GPU, while the task lives */
	uint32_t n_channels;
	uint64_t timeslice_us; /* its own */
	uint64_t created_ns;   /* when the daemon heard of it */
};

/* Submissions of a program since its last event of this kind. Counts are the program's word. */
struct rbt_event_work {
	uint64_t interval_ns; /* the time since then */
	uint64_t busy_ns;     /* for how much of it the program used the GPU, or was kept off it */
	uint64_t n_launches, n_graphs, n_copies, n_memsets, n_syncs;
	uint64_t n_bursts; /* pauses between a synchronisation and the next submission */
};

struct rbt_event {
	enum rbt_moment moment;
	uint64_t time_ns;
	void *owner; /* of the program, as in rbt_sched_add() */
	int32_t pid;
	uint32_t uid;
	uint32_t priority; /* set by users */
	/* SCHEDULE: the task has never run and waits at the gate, rather than for a turn. A policy
	 * that refuses it for too long is overruled, and not ejected. */
	bool is_first_run;
	/* SCHEDULE: the program cannot be suspended, and so runs whatever the answer is. */
	bool cannot_suspend;
	/* At WORK the program's oldest compute task, because boards do not tell tasks apart. */
	struct rbt_event_task task;
	union {
		struct rbt_sched_load load; /* SCHEDULE: of the task's GPU */
		struct rbt_event_work work; /* WORK */
		uint64_t used_ns; /* DESTROY: GPU time that its program used while it was there */
	};
};

/*
 * A reader of events that decides. Called for each event, on the daemon's thread; must not block.
 * *ret_said is "keep" at first; what is said at DESTROY changes nothing. At SCHEDULE, false keeps
 * the program off: the core asks if its policy does (policy.h). It must not call the core, nor set
 * another reader: a reader that is to be replaced is replaced later, from the daemon's loop.
 */
struct rbt_event_reader {
	void *ctx;
	bool wants_work; /* it reads WORK events; otherwise none are made */
	bool (*read)(void *ctx, const struct rbt_event *event, struct rbt_policy_output *ret_said);
};

#endif
