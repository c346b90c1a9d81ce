/* SPDX-License-Identifier: Apache-2.0 */
/* What the intercepted functions have in common: whose call is it, and on which stream? */
#ifndef RBT_ORION_CALL_H
#define RBT_ORION_CALL_H

#include <stdbool.h>

#include "cuda/abi.h"

struct orion_stream;

struct orion_call {
	int client; /* -1: none, so the call passes */
	bool is_hp;
	bool is_captured;            /* or may be: it is not held, and gets no events */
	bool is_inside;              /* orion_call_end() has not come yet */
	struct orion_stream *stream; /* NULL: not followed */
	struct orion_stream *first;  /* what it is ordered towards; NULL: nothing */
};

/*
 * Returns the stream to make the call on: that of the program, or the one in place of its client's
 * default stream. `is_own`: the function's form has the thread's own default stream for NULL.
 * `submits`: the call puts work into the stream.
 */
CUstream orion_call_begin(struct orion_call *call, CUstream stream, bool is_own, bool submits);
/* Nothing more is put into the stream by this call. (It may go on to wait.) */
void orion_call_end(struct orion_call *call);

/*
 * Between these two, default streams are replaced. Stopping waits for calls that are under way, and
 * then puts the program's blocking streams behind the streams that took the default stream's place,
 * so that no order is lost.
 */
void orion_calls_start(void);
void orion_calls_stop(void);

/* A function that can be intercepted. */
struct orion_hook {
	const char *symbol;
	void *fn;
	void **next; /* where the function behind it is noted */
};

/* launch.c has those of launches, hooks.c all others; each ends with an entry without a symbol. */
extern const struct orion_hook orion_launch_hooks[];
extern const struct orion_hook orion_hooks[];
/* Those of functions that end the life of something that is noted. They stay when the scheduler is
 * stopped: the driver uses handles again, and the next start would take them for the old ones. */
extern const struct orion_hook orion_life_hooks[];
/* Before they are there: whose primary contexts the program has already. */
void orion_primaries_find(void);

#define ORION_HOOK(symbol)                                                                         \
	{                                                                                          \
#symbol, (void *)(uintptr_t)hook_##symbol, (void **)&next_##symbol                 \
	}

#endif
