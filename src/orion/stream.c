/* SPDX-License-Identifier: Apache-2.0 */
#include "orion/stream.h"

#include <pthread.h>

#include "orion/capture.h"
#include "orion/driver.h"
#include "rubato/orion.h"

#define N_STREAMS  2048u /* a power of two; PyTorch has some 100 */
#define N_CONTEXTS 16u   /* with default streams of one client */

static struct orion_stream streams[N_STREAMS];
static _Atomic uint32_t n_streams; /* no entry from here on was ever used */
/* By handle: indices into streams, plus one. Entries of destroyed streams stay until reused, so
 * that searches go on behind them. */
static _Atomic uint32_t index_of[2 * N_STREAMS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	_Atomic(CUcontext) ctx;
	struct orion_stream *stream;
} defaults[RUBATO_ORION_MAX_CLIENTS][N_CONTEXTS];

_Atomic int orion_busy_streams;

static uint32_t hash(uintptr_t handle)
{
	return (uint32_t)((uint64_t)handle * 0x9e3779b97f4a7c15u >> 40) % (2 * N_STREAMS);
}

static struct orion_stream *find(uintptr_t handle)
{
	for (uint32_t i = hash(handle), n = 0; n < 2 * N_STREAMS;
		n++, i = (i + 1) % (2 * N_STREAMS)) {
		uint32_t at = atomic_load_explicit(&index_of[i], memory_order_acquire);
		if (at == 0) {
			return NULL;
		}
		if (atomic_load_explicit(&streams[at - 1].handle, memory_order_acquire) == handle) {
			return &streams[at - 1];
		}
	}
	return NULL;
}

static void fill(struct orion_stream *s, CUstream handle)
{
	unsigned flags = 0;

	s->ctx = NULL;
	/* A capture that another thread has begun forbids nothing of this. */
	orion_driver.stream_ctx(handle, &s->ctx);
	s->blocks = orion_driver.stream_flags(handle, &flags) == CUDA_SUCCESS &&
		    (flags & CU_STREAM_NON_BLOCKING) == 0;
	s->is_default = false;
	s->is_joined = false;
	s->client = -1;
	s->work = 0;
	s->is_probing = false;
	s->calls = s->n_dirty = 0;
	s->behind = 0;
	s->dirty = 0;
}

/* An entry that was never used, or one whose stream is gone; plus one; 0: there is none. */
static uint32_t find_free(void)
{
	if (n_streams < N_STREAMS) {
		return n_streams + 1;
	}
	for (uint32_t i = 0; i < N_STREAMS; i++) {
		if (streams[i].handle == 0) {
			return i + 1;
		}
	}
	return 0;
}

/* Puts a stream into the hash. An entry whose stream is gone stays in the hash, maybe at several
 * places, and is used again by whoever comes past it. The lock is held. */
static struct orion_stream *insert(CUstream handle)
{
	uint32_t i = hash((uintptr_t)handle), at = 0;

	for (uint32_t n = 0; n < 2 * N_STREAMS; n++, i = (i + 1) % (2 * N_STREAMS)) {
		at = index_of[i];
		if (at == 0 || streams[at - 1].handle == 0) {
			break;
		}
	}
	at = at != 0 ? at : find_free();
	if (at == 0 || streams[at - 1].handle != 0) {
		return NULL;
	}
	fill(&streams[at - 1], handle);
	atomic_store_explicit(&streams[at - 1].handle, (uintptr_t)handle, memory_order_release);
	n_streams = at > n_streams ? at : n_streams;
	atomic_store_explicit(&index_of[i], at, memory_order_release);
	return &streams[at - 1];
}

struct orion_stream *orion_stream_get(CUstream handle)
{
	struct orion_stream *s = find((uintptr_t)handle);

	if (s == NULL) {
		pthread_mutex_lock(&lock);
		s = find((uintptr_t)handle);
		s = s != NULL ? s : insert(handle);
		pthread_mutex_unlock(&lock);
	}
	return s;
}

/* A thread ends, and so does its stream. */
static pthread_key_t own_key;
static bool has_own_key;

static void end_own(void *data)
{
	orion_stream_done(data, orion_stream_submitted(data));
}

static void make_own_key(void)
{
	has_own_key = pthread_key_create(&own_key, end_own) == 0;
}

struct orion_stream *orion_stream_own(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static _Thread_local struct orion_stream own;

	if (own.handle == 0) {
		own.handle = (uintptr_t)CU_STREAM_PER_THREAD;
		own.client = -1;
		pthread_once(&once, make_own_key);
		if (has_own_key) {
			pthread_setspecific(own_key, &own);
		}
	}
	return &own;
}

static CUstream handle_of(const struct orion_stream *s)
{
	return (CUstream)atomic_load_explicit(&s->handle, memory_order_relaxed);
}

/* From now on the second stream is behind the first one's work. */
static void put_behind(CUstream first, CUstream second)
{
	CUevent event;

	if (orion_driver.event_create(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
		return;
	}
	if (orion_driver.event_record(event, first) == CUDA_SUCCESS) {
		orion_driver.stream_wait_event(second, event, 0);
	}
	/* The driver keeps it until it has happened. */
	orion_driver.event_destroy(event);
}

static struct orion_stream *find_default(int client, CUcontext ctx)
{
	for (uint32_t i = 0; i < N_CONTEXTS; i++) {
		if (atomic_load_explicit(&defaults[client][i].ctx, memory_order_acquire) == ctx) {
			return defaults[client][i].stream;
		}
	}
	return NULL;
}

/* The lock is held. */
static struct orion_stream *make_default(int client, bool is_hp, CUcontext ctx)
{
	struct orion_stream *s = NULL;
	CUstream handle;
	int least = 0, greatest = 0;
	uint32_t i = 0;

	while (i < N_CONTEXTS && defaults[client][i].ctx != NULL) {
		i++;
	}
	int mode = orion_capture_relax();
	if (i < N_CONTEXTS && orion_driver.ctx_priorities(&least, &greatest) == CUDA_SUCCESS &&
		orion_driver.stream_create(&handle, 0, is_hp ? greatest : least) == CUDA_SUCCESS) {
		s = insert(handle);
	}
	orion_capture_restore(mode);
	if (s != NULL) {
		s->ctx = ctx;
		s->is_default = true;
		s->client = client;
		defaults[client][i].stream = s;
		atomic_store_explicit(&defaults[client][i].ctx, ctx, memory_order_release);
	}
	return s;
}

/* The default stream is behind all blocking streams, and this one is behind it. */
void orion_stream_catch_up(const struct orion_stream *s)
{
	put_behind(CU_STREAM_LEGACY, handle_of(s));
}

/* What the program has submitted so far, to whichever stream, comes first. */
static void join(struct orion_stream *s)
{
	pthread_mutex_lock(&lock);
	if (!s->is_joined) {
		orion_stream_catch_up(s);
		atomic_store_explicit(&s->is_joined, true, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
}

struct orion_stream *orion_stream_default(int client, bool is_hp)
{
	CUcontext ctx = NULL;

	if (orion_driver.ctx_get_current(&ctx) != CUDA_SUCCESS || ctx == NULL) {
		return NULL;
	}
	struct orion_stream *s = find_default(client, ctx);
	if (s == NULL) {
		pthread_mutex_lock(&lock);
		s = find_default(client, ctx);
		s = s != NULL ? s : make_default(client, is_hp, ctx);
		pthread_mutex_unlock(&lock);
	}
	if (s != NULL && !atomic_load_explicit(&s->is_joined, memory_order_acquire)) {
		join(s);
	}
	return s;
}

/* The lock is held. The probe's event stays with the entry if it can be used in another context;
 * it cannot, so it is left to its context's end. */
static void drop(struct orion_stream *s)
{
	orion_stream_done(s, orion_stream_submitted(s));
	s->probe = NULL;
	s->is_probing = false;
	s->handle = 0;
}

void orion_stream_forget_context(CUcontext ctx)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < n_streams; i++) {
		if (streams[i].handle != 0 && streams[i].ctx == ctx) {
			drop(&streams[i]);
		}
	}
	for (uint32_t c = 0; c < RUBATO_ORION_MAX_CLIENTS; c++) {
		for (uint32_t i = 0; i < N_CONTEXTS; i++) {
			if (defaults[c][i].ctx == ctx) {
				defaults[c][i].ctx = NULL;
			}
		}
	}
	pthread_mutex_unlock(&lock);
}

/* Whatever is submitted to blocking streams from now on comes after this one's work. */
static void leave(const struct orion_stream *s)
{
	orion_driver.ctx_set_current(s->ctx);
	if (orion_captures == 0) {
		put_behind(handle_of(s), CU_STREAM_LEGACY);
		return;
	}
	/* A call on the default stream would end captures of blocking streams. */
	int mode = orion_capture_relax();
	orion_driver.stream_synchronize(handle_of(s));
	orion_capture_restore(mode);
}

void orion_streams_leave(void)
{
	CUcontext ctx = NULL;

	orion_driver.ctx_get_current(&ctx);
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < n_streams; i++) {
		struct orion_stream *s = &streams[i];

		if (s->handle != 0 && s->is_default && s->is_joined) {
			leave(s);
			s->is_joined = false;
		} else if (!s->is_default) {
			s->client = -1;
		}
		orion_stream_done(s, orion_stream_submitted(s));
	}
	pthread_mutex_unlock(&lock);
	orion_driver.ctx_set_current(ctx);
}

void orion_stream_each(bool (*fn)(struct orion_stream *s, void *data), void *data)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < n_streams; i++) {
		if (streams[i].handle != 0 && !fn(&streams[i], data)) {
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

static void mark_dirty(struct orion_stream *s, struct orion_stream *first, int client)
{
	const uint64_t bit = UINT64_C(1) << client;

	if ((s->dirty & bit) == 0) {
		atomic_fetch_or(&s->dirty, bit);
		first->n_dirty++;
	}
}

struct order {
	struct orion_stream *first;
	int client;
};

static bool order_one(struct orion_stream *s, void *data)
{
	const struct order *o = data;
	const uint64_t bit = UINT64_C(1) << o->client;

	if (s->ctx != o->first->ctx || (atomic_fetch_and(&s->dirty, ~bit) & bit) == 0) {
		return true;
	}
	if (orion_capture_is(s)) {
		mark_dirty(s, o->first, o->client);
	} else {
		put_behind(handle_of(s), handle_of(o->first));
	}
	return true;
}

/* Its work may go on after its end: the default streams of clients that have used it are put behind
 * that. The lock is held. */
static void order_last(struct orion_stream *s)
{
	CUcontext ctx = NULL;

	orion_driver.ctx_get_current(&ctx);
	orion_driver.ctx_set_current(s->ctx);
	for (int i = 0; i < RUBATO_ORION_MAX_CLIENTS; i++) {
		struct order o = {.first = find_default(i, s->ctx), .client = i};
		if (o.first != NULL) {
			order_one(s, &o);
		}
	}
	orion_driver.ctx_set_current(ctx);
}

void orion_stream_forget(CUstream handle)
{
	pthread_mutex_lock(&lock);
	struct orion_stream *s = find((uintptr_t)handle);
	if (s != NULL) {
		if (s->dirty != 0) {
			order_last(s);
		}
		if (s->probe != NULL) {
			orion_driver.event_destroy(s->probe);
		}
		drop(s);
	}
	pthread_mutex_unlock(&lock);
}

static void order_default(struct orion_stream *s, int client)
{
	if (s->n_dirty > 0) {
		struct order o = {.first = s, .client = client};
		s->n_dirty = 0;
		orion_stream_each(order_one, &o);
	}
}

struct orion_stream *orion_stream_order(struct orion_stream *s, int client)
{
	if (s->is_default) {
		order_default(s, client);
		return s;
	}
	const bool is_own = handle_of(s) == CU_STREAM_PER_THREAD;
	CUcontext ctx = s->blocks ? s->ctx : NULL;
	if (is_own && orion_driver.ctx_get_current(&ctx) != CUDA_SUCCESS) {
		ctx = NULL;
	}
	struct orion_stream *first = ctx != NULL ? find_default(client, ctx) : NULL;
	if (first == NULL || orion_capture_is(s)) {
		return NULL;
	}
	const uint64_t calls = (uint64_t)(client + 1) << 32 | first->calls;
	if (is_own || s->behind != calls) {
		put_behind(handle_of(first), handle_of(s));
		s->behind = calls;
	}
	return first;
}

void orion_stream_ordered(struct orion_stream *s, struct orion_stream *first, int client)
{
	if (s == first) {
		s->calls++;
	} else if (handle_of(s) == CU_STREAM_PER_THREAD) {
		/* Now: other threads cannot do it. It may also be the thread's stream in several
		 * contexts. */
		put_behind(handle_of(s), handle_of(first));
	} else {
		mark_dirty(s, first, client);
	}
}

#define SUBMITTED(work) ((uint32_t)((work) >> 32))
#define DONE(work)      ((uint32_t)(work))

void orion_stream_submit(struct orion_stream *s)
{
	uint64_t old = atomic_fetch_add(&s->work, UINT64_C(1) << 32);

	if (SUBMITTED(old) == DONE(old)) {
		atomic_fetch_add(&orion_busy_streams, 1);
	}
}

uint32_t orion_stream_submitted(const struct orion_stream *s)
{
	return SUBMITTED(atomic_load(&s->work));
}

bool orion_stream_is_busy(const struct orion_stream *s)
{
	uint64_t work = atomic_load(&s->work);

	return SUBMITTED(work) != DONE(work);
}

void orion_stream_done(struct orion_stream *s, uint32_t submitted)
{
	uint64_t old = atomic_load(&s->work), new;

	do {
		if ((int32_t)(submitted - DONE(old)) <= 0) {
			return; /* known, or a later wait was faster */
		}
		new = (old & ~UINT64_C(0xffffffff)) | submitted;
	} while (!atomic_compare_exchange_weak(&s->work, &old, new));
	if (SUBMITTED(new) == DONE(new) && atomic_fetch_sub(&orion_busy_streams, 1) == 1) {
		orion_scheduler_on_idle();
	}
}
