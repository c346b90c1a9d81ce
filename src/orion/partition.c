/* SPDX-License-Identifier: Apache-2.0 */
#include "orion/partition.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "orion/capture.h"
#include "orion/driver.h"
#include "orion/impl.h"
#include "orion/stream.h"

#define N_GREEN 16u /* contexts with partitions */

/* Of one client in one context. */
struct orion_partition {
	_Atomic uint32_t wanted_sms; /* what the rest was made for */
	CUstream stream;             /* NULL: it could not be made */
	CUevent before, behind;
};

/* Drivers before 555 lack some of these. */
#define GREEN_CALLS(DO)                                                                            \
	DO(get_resource, cuDeviceGetDevResource, (CUdevice, struct CUdevResource *, int))          \
	DO(split, cuDevSmResourceSplitByCount,                                                     \
		(struct CUdevResource *, unsigned *, const struct CUdevResource *,                 \
			struct CUdevResource *, unsigned, unsigned))                               \
	DO(describe, cuDevResourceGenerateDesc,                                                    \
		(CUdevResourceDesc *, struct CUdevResource *, unsigned))                           \
	DO(create, cuGreenCtxCreate, (CUgreenCtx *, CUdevResourceDesc, CUdevice, unsigned))        \
	DO(destroy, cuGreenCtxDestroy, (CUgreenCtx))                                               \
	DO(stream_create, cuGreenCtxStreamCreate, (CUstream *, CUgreenCtx, unsigned, int))         \
	DO(stream_destroy, cuStreamDestroy_v2, (CUstream))

static struct {
#define MEMBER(member, symbol, parameters) CUresult(*member) parameters;
	GREEN_CALLS(MEMBER)
#undef MEMBER
} calls;

/* The lock is held for all that follows, except in enter and leave. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	CUcontext ctx;
	uint32_t wanted_sms;
	CUgreenCtx green; /* NULL: it could not be made */
} greens[N_GREEN];

static const char *find_calls(void)
{
#define FIND(member, symbol, parameters)                                                           \
	calls.member = (CUresult(*) parameters)(uintptr_t)orion_driver_symbol(#symbol);            \
	if (calls.member == NULL) {                                                                \
		return "the driver is older than branch 555";                                      \
	}
	GREEN_CALLS(FIND)
#undef FIND
	return NULL;
}

/* NULL, or why there is no partition. */
static const char *make_green(uint32_t wanted_sms, CUgreenCtx *ret)
{
	struct CUdevResource all, some;
	CUdevResourceDesc desc;
	CUdevice device;
	unsigned n = 1;
	const char *why = find_calls();

	if (why != NULL) {
		return why;
	}
	if (orion_driver.ctx_device(&device) != CUDA_SUCCESS || !orion_driver_is_primary(device)) {
		return "the program's context is not the device's primary one";
	}
	if (calls.get_resource(device, &all, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS ||
		wanted_sms >= all.sm.smCount ||
		calls.split(&some, &n, &all, NULL, 0, wanted_sms) != CUDA_SUCCESS || n != 1) {
		return "this GPU cannot be divided so";
	}
	if (calls.describe(&desc, &some, 1) != CUDA_SUCCESS ||
		calls.create(ret, desc, device, CU_GREEN_CTX_DEFAULT_STREAM) != CUDA_SUCCESS) {
		return "the driver makes no green context";
	}
	fprintf(stderr, "rubato: orion: kernels of best-effort clients run on %u of %u SMs\n",
		some.sm.smCount, all.sm.smCount);
	return NULL;
}

/* Made once for each context and number; NULL: it cannot be made, which is said once. */
static CUgreenCtx get_green(CUcontext ctx, uint32_t wanted_sms)
{
	uint32_t free_one = N_GREEN;

	for (uint32_t i = 0; i < N_GREEN; i++) {
		if (greens[i].ctx == ctx && greens[i].wanted_sms == wanted_sms) {
			return greens[i].green;
		}
		free_one = greens[i].ctx == NULL ? i : free_one;
	}
	if (free_one == N_GREEN) {
		return NULL;
	}
	CUgreenCtx green = NULL;
	const char *why = make_green(wanted_sms, &green);
	if (why != NULL) {
		fprintf(stderr, "rubato: orion: RUBATO_ORION_PARTITION=%u is ignored: %s\n",
			wanted_sms, why);
		green = NULL;
	}
	greens[free_one].ctx = ctx;
	greens[free_one].wanted_sms = wanted_sms;
	greens[free_one].green = green;
	return green;
}

static void clear(struct orion_partition *p)
{
	if (p->stream != NULL) {
		/* Kernels of an earlier start: their order towards other streams is kept. */
		calls.stream_destroy(p->stream);
		orion_driver.event_destroy(p->before);
		orion_driver.event_destroy(p->behind);
	}
	p->stream = NULL;
	p->wanted_sms = 0;
}

static void fill(struct orion_partition *p, CUgreenCtx green)
{
	int least = 0, greatest = 0;
	CUstream stream;

	if (green == NULL || orion_driver.ctx_priorities(&least, &greatest) != CUDA_SUCCESS ||
		calls.stream_create(&stream, green, CU_STREAM_NON_BLOCKING, least) !=
			CUDA_SUCCESS) {
		return;
	}
	if (orion_driver.event_create(&p->before, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
		calls.stream_destroy(stream);
		return;
	}
	if (orion_driver.event_create(&p->behind, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
		orion_driver.event_destroy(p->before);
		calls.stream_destroy(stream);
		return;
	}
	p->stream = stream;
}

static struct orion_partition *make(struct orion_stream *s, uint32_t wanted_sms)
{
	pthread_mutex_lock(&lock);
	struct orion_partition *p = s->partition;
	if (p == NULL) {
		p = calloc(1, sizeof(*p));
	}
	if (p != NULL && p->wanted_sms != wanted_sms) {
		int mode = orion_capture_relax();
		clear(p);
		fill(p, get_green(s->ctx, wanted_sms));
		orion_capture_restore(mode);
		/* Last: a thread that reads it uses the rest. */
		atomic_store_explicit(&p->wanted_sms, wanted_sms, memory_order_release);
		atomic_store_explicit(&s->partition, p, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
	return p;
}

/* Several threads of a client may share the events: a later record only makes a wait longer. */
static bool put_behind(CUstream first, CUevent event, CUstream second)
{
	return orion_driver.event_record(event, first) == CUDA_SUCCESS &&
	       orion_driver.stream_wait_event(second, event, 0) == CUDA_SUCCESS;
}

CUstream orion_partition_enter(struct orion_stream *s)
{
	const uint32_t wanted_sms = orion_config.partition_sms;

	if (wanted_sms == 0) {
		return NULL;
	}
	struct orion_partition *p = atomic_load_explicit(&s->partition, memory_order_acquire);
	if (p == NULL || atomic_load_explicit(&p->wanted_sms, memory_order_acquire) != wanted_sms) {
		p = make(s, wanted_sms);
	}
	if (p == NULL || p->stream == NULL ||
		!put_behind((CUstream)s->handle, p->before, p->stream)) {
		return NULL;
	}
	return p->stream;
}

void orion_partition_leave(struct orion_stream *s)
{
	struct orion_partition *p = s->partition;

	if (!put_behind(p->stream, p->behind, (CUstream)s->handle)) {
		orion_driver.stream_synchronize(p->stream);
	}
}

static bool clear_one(struct orion_stream *s, void *data)
{
	struct orion_partition *p = s->partition;

	if (p != NULL && s->ctx == data) {
		if (p->stream != NULL) {
			orion_driver.stream_synchronize(p->stream);
		}
		clear(p);
	}
	return true;
}

void orion_partition_forget_context(CUcontext ctx)
{
	pthread_mutex_lock(&lock);
	orion_stream_each(clear_one, ctx);
	for (uint32_t i = 0; i < N_GREEN; i++) {
		if (greens[i].ctx == ctx && greens[i].green != NULL) {
			calls.destroy(greens[i].green);
		}
		if (greens[i].ctx == ctx) {
			greens[i].ctx = NULL;
		}
	}
	pthread_mutex_unlock(&lock);
}
