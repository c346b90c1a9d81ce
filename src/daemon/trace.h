/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records the states of programs for `rubato trace` (proto/trace.h), while such a tool is
 * connected. Nothing here waits, and nothing is allocated once recording has begun. The ring
 * overwrites its oldest events, whoever has read them.
 */
#ifndef RBT_DAEMON_TRACE_H
#define RBT_DAEMON_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/trace.h"

struct daemon;
struct peer;
struct program;

struct trace {
	struct rbt_trace_event *ring; /* owned; NULL: no tool reads, and nothing is recorded */
	uint64_t n;                   /* events recorded so far, those of earlier rings included */
	uint32_t n_readers;
};

/* In struct program. */
struct program_trace {
	bool is_told;
	struct rbt_trace_event last; /* if is_told */
};

/* Records the programs whose state has changed. To be called when programs have become busy or
 * idle, and when decisions have been carried out. */
void trace_look(struct daemon *d);
/* The same for one program, as soon as it was taken off or resumed. */
void trace_program(struct daemon *d, struct program *p);
/* Before the program goes. */
void trace_end(struct daemon *d, struct program *p);

/* Answers a TRACE. */
void trace_answer(struct daemon *d, struct peer *peer, const struct rbt_msg_trace *msg);
/* Before the peer goes. */
void trace_forget_peer(struct daemon *d, struct peer *peer);

#endif
