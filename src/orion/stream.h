/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams of the process: to which client each belongs, whether high-priority work is in it,
 * and the streams that take the place of clients' default streams.
 *
 * Entries live in a fixed array and are never freed, so that a pointer to one stays valid; after
 * its stream is destroyed an entry is used again. Look-ups take no lock.
 */
#ifndef RBT_ORION_STREAM_H
#define RBT_ORION_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"

struct orion_partition;

struct orion_stream {
	_Atomic uintptr_t handle; /* 0: this entry is free */
	CUcontext ctx;
	bool blocks;     /* it is ordered towards the default stream */
	bool is_default; /* we made it, in place of a client's default stream */
	/* In a default stream: it was put behind what the program had in its streams before. */
	_Atomic bool is_joined;
	_Atomic int client;                          /* that used it last; -1: none */
	_Atomic(struct orion_partition *) partition; /* of partition.c */
	/*
	 * High-priority work: how many submissions there were (upper half), and up to which of them
	 * all are known to be done (lower half).
	 */
	_Atomic uint64_t work;
	/* The scheduler's question whether they are done: the event, and the submission before
	 * it. */
	CUevent probe;
	uint32_t probed;
	bool is_probing;
	/*
	 * For the order towards the client's default stream. In a default stream: how many calls it
	 * had, and how many other streams are dirty. In another one: up to which of these calls it
	 * is behind the default stream, and which clients (a bit each) have used it since their
	 * default stream was put behind it.
	 */
	_Atomic uint32_t calls, n_dirty;
	_Atomic uint64_t behind; /* of which client's: its index plus one, in the upper half */
	_Atomic uint64_t dirty;
};

/* The entry of a stream of the program; a new one if need be. NULL: there are too many. Not for the
 * default stream or threads' own ones. */
struct orion_stream *orion_stream_get(CUstream handle);
/* The stream in place of this client's default stream in the current context, which is made if need
 * be. NULL: it cannot be made, so the default stream itself must do. */
struct orion_stream *orion_stream_default(int client, bool is_hp);
/* Puts a client's default stream behind the work of all clients so far. */
void orion_stream_catch_up(const struct orion_stream *s);
/* The entry for the calling thread's own default stream. */
struct orion_stream *orion_stream_own(void);
/* A stream is about to be destroyed, or a context with all its streams. */
void orion_stream_forget(CUstream handle);
void orion_stream_forget_context(CUcontext ctx);
/*
 * The streams in place of default streams are not used from now on: puts the default stream behind
 * them, and so all blocking streams, and forgets that clients have used streams. They stay for
 * later.
 */
void orion_streams_leave(void);

/* Calls fn for each entry that is in use until it returns false. */
void orion_stream_each(bool (*fn)(struct orion_stream *s, void *data), void *data);

/*
 * Before a call on a stream of this client: orders it as CUDA orders calls on the default stream
 * and on blocking streams. Only clients that mix these pay for it. Returns the client's default
 * stream in this context; NULL: nothing has to be ordered.
 */
struct orion_stream *orion_stream_order(struct orion_stream *s, int client);
/*
 * After the call, with what was returned. Not before it: another thread of the client could put its
 * stream behind this one in between, and would not do so again.
 */
void orion_stream_ordered(struct orion_stream *s, struct orion_stream *first, int client);

/* High-priority work is about to be put into the stream. */
void orion_stream_submit(struct orion_stream *s);
/* What was submitted so far, for orion_stream_done() after a wait for it. */
uint32_t orion_stream_submitted(const struct orion_stream *s);
void orion_stream_done(struct orion_stream *s, uint32_t submitted);
bool orion_stream_is_busy(const struct orion_stream *s);
/* How many streams have high-priority work. */
extern _Atomic int orion_busy_streams;
/* The last one has none any more. In scheduler.c. */
void orion_scheduler_on_idle(void);

#endif
