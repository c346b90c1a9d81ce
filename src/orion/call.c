/* SPDX-License-Identifier: Apache-2.0 */
#include "orion/call.h"

#include <time.h>

#include "orion/capture.h"
#include "orion/impl.h"
#include "orion/stream.h"
#include "orion/torch.h"

/* A driver call that submits may have to wait for room, but not for long. */
#define STOP_TRIES 20000
#define STOP_NS    100000

static _Atomic bool is_passing = true; /* default streams stay */

void orion_calls_start(void)
{
	/* Ends of captures are not seen while nothing is intercepted. */
	orion_captures = 0;
	is_passing = false;
}

static bool is_anybody_inside(void)
{
	for (int i = 0; i < RUBATO_ORION_MAX_CLIENTS; i++) {
		if (orion_clients[i].n_inside > 0) {
			return true;
		}
	}
	return false;
}

void orion_calls_stop(void)
{
	is_passing = true;
	for (int i = 0; i < STOP_TRIES && is_anybody_inside(); i++) {
		nanosleep(&(struct timespec){.tv_nsec = STOP_NS}, NULL);
	}
	orion_streams_leave();
}

/* The default stream of a thread with a client. */
static CUstream default_stream(struct orion_call *call, CUstream stream)
{
	/* While a capture is under way, calls on the default stream may be errors: the driver's. */
	if (call->client < 0 || orion_captures > 0) {
		return stream;
	}
	struct client *c = &orion_clients[call->client];
	/* In this order: orion_calls_stop() sees that we are inside, or we see that it has
	 * begun. */
	atomic_fetch_add(&c->n_inside, 1);
	if (is_passing) {
		atomic_fetch_sub(&c->n_inside, 1);
		return stream;
	}
	call->is_inside = true;
	call->stream = orion_stream_default(call->client, call->is_hp);
	if (call->stream == NULL) {
		return stream;
	}
	stream = (CUstream)call->stream->handle;
	if (orion_torch_adopt(stream)) {
		orion_stream_catch_up(call->stream);
	}
	return stream;
}

void orion_call_end(struct orion_call *call)
{
	if (call->first != NULL) {
		orion_stream_ordered(call->stream, call->first, call->client);
		call->first = NULL;
	}
	if (call->is_inside) {
		call->is_inside = false;
		atomic_fetch_sub(&orion_clients[call->client].n_inside, 1);
	}
}

static void set_client(struct orion_call *call, int idx)
{
	call->client = idx >= 0 && idx < orion_config.n_clients ? idx : -1;
	call->is_hp = call->client >= 0 && orion_clients[call->client].is_hp;
}

CUstream orion_call_begin(struct orion_call *call, CUstream stream, bool is_own, bool submits)
{
	*call = (struct orion_call){.client = -1};
	set_client(call, orion_client_of_thread());
	if (stream == CU_STREAM_PER_THREAD || (stream == NULL && is_own)) {
		call->stream = orion_stream_own();
	} else if (stream == NULL || stream == CU_STREAM_LEGACY) {
		stream = default_stream(call, stream);
	} else {
		call->stream = orion_stream_get(stream);
	}
	struct orion_stream *s = call->stream;
	if (s != NULL && call->client >= 0) {
		atomic_store_explicit(&s->client, call->client, memory_order_relaxed);
	} else if (call->client < 0) {
		set_client(call, s != NULL && s->client >= 0 ? s->client : orion_config.others);
	}
	/* The default stream cannot be captured, but what is put into it can spoil a capture. */
	call->is_captured = orion_captures > 0 && (s == NULL || orion_capture_is(s));
	if (call->client >= 0 && s != NULL && !call->is_captured) {
		call->first = orion_stream_order(s, call->client);
		if (submits && call->is_hp) {
			orion_stream_submit(s);
		}
	}
	return stream;
}
