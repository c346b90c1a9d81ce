/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of `rubato trace` and the daemon.
 *
 * The daemon records while a tool that has sent a TRACE is connected. Events are numbered, and the
 * tool asks for those from a number on. So the daemon never waits for a tool: a slow tool finds
 * that the oldest events have been overwritten.
 */
#ifndef RBT_PROTO_TRACE_H
#define RBT_PROTO_TRACE_H

#include <assert.h>
#include <stdint.h>

#include "backend/gpus.h"
#include "proto/protocol.h"

/* The state of a program from time_ns on, until its next event. */
enum {
	RBT_TRACE_WANTS = 1 << 0,     /* it wants the GPU, as far as is known */
	RBT_TRACE_SEEN = 1 << 1,      /* that is known: it has a board */
	RBT_TRACE_OFF = 1 << 2,       /* kept off for a turn or a reserve */
	RBT_TRACE_SUSPENDED = 1 << 3, /* by command */
	RBT_TRACE_REQUEST = 1 << 4,   /* it has an announced request */
	RBT_TRACE_RESERVES = 1 << 5,  /* lower priorities are kept off for it */
	RBT_TRACE_GONE = 1 << 6,      /* the daemon knows it no longer; this is its last event */
	RBT_TRACE_PARKED = 1 << 7,    /* its memory is off the GPU, or on its way */
};

struct rbt_trace_event {
	uint64_t time_ns;    /* CLOCK_MONOTONIC */
	uint64_t start_time; /* of the process: with its pid, this names the program for ever */
	int32_t pid;
	uint32_t flags; /* RBT_TRACE_* */
	uint32_t gpus;  /* on which it has compute tasks: one bit per GPU of the message */
	uint32_t priority;
	char name[16]; /* of its main thread; not NUL-terminated if all bytes are used */
};

enum { RBT_TRACE_AFRESH = 1 }; /* `next` is ignored: first the state of each program, as of now */

/* Answered with TRACE_EVENTS, or with a RESULT. */
struct rbt_msg_trace {
	struct rbt_msg_header h;
	uint64_t next; /* the number of the first event that is wanted */
	uint32_t flags;
	uint32_t pad;
};

/* struct rbt_trace_event[n] follow. */
struct rbt_msg_trace_events {
	struct rbt_msg_header h;
	uint64_t first; /* number of the first event below; above `next`: the others are lost */
	/* When this was written, on the events' clock. If no event follows, none has happened until
	 * then. */
	uint64_t now_ns;
	uint32_t n;
	uint32_t pad;
	struct rbt_gpu gpus[RBT_MAX_GPUS]; /* by bit */
};

#define RBT_TRACE_MAX                                                                              \
	((RBT_MSG_MAX - sizeof(struct rbt_msg_trace_events)) / sizeof(struct rbt_trace_event))

static_assert(sizeof(struct rbt_trace_event) == 48, "wire");
static_assert(sizeof(struct rbt_msg_trace) == 24, "wire");
static_assert(sizeof(struct rbt_msg_trace_events) == 32 + 8 * RBT_MAX_GPUS, "wire");

#endif
