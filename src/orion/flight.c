/* SPDX-License-Identifier: Apache-2.0 */
/* Launches between their call and their end on the GPU, which events tell. */
#include "orion/capture.h"
#include "orion/driver.h"
#include "orion/impl.h"
#include "orion/kernel.h"
#include "orion/stream.h"
#include "util/time.h"

/*
 * An event costs a microsecond or two, and so does a question about it: more than many kernels
 * take. So a launch of known duration gets an event only if the client's launches without one since
 * the last event take that long together.
 */
#define UNFOLLOWED_NS 50000u

static uint64_t remaining_ns(uint64_t now_ns)
{
	const struct scheduler *s = &orion_scheduler;

	return s->end_ns > now_ns ? s->end_ns - now_ns : 0;
}

bool orion_flight_lets(const struct client *c, const struct rbt_kernel_facts *facts)
{
	const struct scheduler *s = &orion_scheduler;
	const struct orion_policy *policy = orion_config.policy;
	struct orion_view view = {
		.hp_is_busy = orion_busy_streams > 0,
		.hp = {.kind = s->hp_kind, .sms = s->hp_sms},
		.n_sms = s->n_sms,
		.be_ns = remaining_ns(rbt_now_ns()),
		.budget_ns = s->budget_ns,
	};

	/* A start with another policy may have come since the caller looked. */
	return policy->lets == NULL ||
	       (c->next - c->oldest < N_SLOTS && policy->lets(&view, facts));
}

bool orion_flight_is_stale(const struct client *c)
{
	return c->next - c->oldest >= N_SLOTS / 2 ||
	       orion_scheduler.in_flight_ns > 2 * orion_scheduler.budget_ns;
}

struct orion_flight orion_flight_take(struct client *c, const struct rbt_kernel_facts *facts)
{
	struct scheduler *s = &orion_scheduler;
	struct orion_flight f = {.client = (int)(c - orion_clients)};
	const bool is_known = facts->duration_ns != 0;
	const uint64_t ns = is_known ? facts->duration_ns : s->budget_ns, now_ns = rbt_now_ns();

	f.is_behind = s->end_ns > now_ns;
	s->end_ns = now_ns + remaining_ns(now_ns) + ns;
	/* Corrected when the launch is over. Already now, so that no client gets ahead by its
	 * launches in flight. */
	c->gpu_ns += ns;
	if (is_known && !facts->is_rough && c->unfollowed_ns + ns < UNFOLLOWED_NS) {
		c->unfollowed_ns += ns;
		s->unfollowed_ns += ns;
		return f;
	}
	if (c->next - c->oldest == N_SLOTS) {
		return f; /* overdue */
	}
	struct slot *slot = &c->slots[c->next % N_SLOTS];
	slot->is_known = is_known;
	slot->is_behind = f.is_behind;
	slot->expected_ns = ns;
	slot->before_ns = c->unfollowed_ns;
	slot->state = SLOT_CALLED;
	slot->kernel = NULL;
	s->n_in_flight++;
	s->in_flight_ns += slot->before_ns + ns;
	s->unfollowed_ns -= slot->before_ns;
	c->unfollowed_ns = 0;
	f.generation = s->generation;
	f.slot = c->next++;
	return f;
}

/* The slot's events are of the context. The lock is held: other contexts may be ending. */
static bool has_events(struct slot *slot, CUcontext ctx)
{
	if (slot->ctx == ctx && slot->start != NULL && slot->end != NULL) {
		return true;
	}
	if (slot->start != NULL) {
		orion_driver.event_destroy(slot->start);
	}
	if (slot->end != NULL) {
		orion_driver.event_destroy(slot->end);
	}
	slot->start = slot->end = NULL;
	slot->ctx = ctx;
	return orion_driver.event_create(&slot->start, 0) == CUDA_SUCCESS &&
	       orion_driver.event_create(&slot->end, 0) == CUDA_SUCCESS;
}

static bool make_events(struct slot *slot)
{
	CUcontext ctx = NULL;

	if (orion_driver.ctx_get_current(&ctx) != CUDA_SUCCESS || ctx == NULL) {
		return false;
	}
	pthread_mutex_lock(&orion_scheduler.lock);
	bool has = has_events(slot, ctx);
	pthread_mutex_unlock(&orion_scheduler.lock);
	return has;
}

/* The slot belongs to the calling thread until the launch's end is recorded. NULL: the scheduler
 * was stopped meanwhile. */
static struct slot *own_slot(const struct orion_flight *f)
{
	return f->generation != 0 && f->generation == orion_scheduler.generation
		       ? &orion_clients[f->client].slots[f->slot % N_SLOTS]
		       : NULL;
}

void orion_flight_start(const struct orion_flight *f, CUstream stream, struct rbt_kernel *kernel)
{
	struct slot *slot = own_slot(f);

	if (slot != NULL && make_events(slot) && kernel != NULL &&
		orion_driver.event_record(slot->start, stream) == CUDA_SUCCESS) {
		slot->kernel = kernel;
	}
}

void orion_flight_end(const struct orion_flight *f, CUstream stream, CUresult result)
{
	struct slot *slot = own_slot(f);

	if (slot == NULL) {
		return;
	}
	bool is_recorded = result == CUDA_SUCCESS && slot->end != NULL &&
			   orion_driver.event_record(slot->end, stream) == CUDA_SUCCESS;
	pthread_mutex_lock(&orion_scheduler.lock);
	if (own_slot(f) != NULL) {
		slot->state = is_recorded ? SLOT_RECORDED : SLOT_OVER;
	}
	pthread_mutex_unlock(&orion_scheduler.lock);
}

static void measure(struct client *c, struct slot *slot)
{
	float ms = 0;

	if (slot->kernel != NULL && slot->state == SLOT_RECORDED &&
		orion_driver.event_elapsed(&ms, slot->start, slot->end) == CUDA_SUCCESS) {
		uint64_t ns = ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
		if (slot->is_behind) {
			rbt_kernel_measured(slot->kernel, ns);
		} else {
			rbt_kernel_measured_roughly(slot->kernel, ns);
		}
		c->gpu_ns += ns;
		c->gpu_ns -= slot->expected_ns;
	}
}

/* Without a current context the driver may refuse a question about an event, which would look as if
 * the event had come. Scheduler threads have no context of their own. */
static bool is_pending(const struct slot *slot, bool has_context)
{
	if (slot->state != SLOT_RECORDED) {
		return slot->state == SLOT_CALLED;
	}
	if (!has_context) {
		orion_driver.ctx_set_current(slot->ctx);
	}
	return orion_driver.event_query(slot->end) == CUDA_ERROR_NOT_READY;
}

/* Returns how long the client's oldest launch may have been running of what it takes; 0: it has
 * none. */
static uint64_t poll_client(struct client *c, bool has_context)
{
	struct scheduler *s = &orion_scheduler;

	while (c->oldest != c->next) {
		struct slot *slot = &c->slots[c->oldest % N_SLOTS];

		if (is_pending(slot, has_context)) {
			return slot->before_ns + (slot->is_known ? slot->expected_ns : 0);
		}
		measure(c, slot);
		s->n_in_flight--;
		s->in_flight_ns -= slot->before_ns + slot->expected_ns;
		c->oldest++;
	}
	return 0;
}

void orion_flight_poll(bool has_context)
{
	struct scheduler *s = &orion_scheduler;
	uint64_t running_ns = 0;

	if (s->n_in_flight == 0) {
		return;
	}
	int mode = orion_capture_relax();
	for (int i = 0; i < orion_config.n_clients; i++) {
		running_ns += poll_client(&orion_clients[i], has_context);
	}
	orion_capture_restore(mode);
	/* The end was predicted. Now it is known which launches are still to come, and so between
	 * which times it must be. */
	const uint64_t first_ns = rbt_now_ns() + s->in_flight_ns - running_ns;
	const uint64_t last_ns = first_ns + running_ns + s->unfollowed_ns;
	s->end_ns = s->end_ns < first_ns ? first_ns : s->end_ns > last_ns ? last_ns : s->end_ns;
}

static void begin_probe(struct orion_stream *s)
{
	if (s->probe == NULL &&
		orion_driver.event_create(&s->probe, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
		s->probe = NULL;
		return;
	}
	/* In this order: what is submitted meanwhile may be before the event, not behind it. */
	s->probed = orion_stream_submitted(s);
	s->is_probing = orion_driver.event_record(s->probe, (CUstream)s->handle) == CUDA_SUCCESS;
}

static bool probe_one(struct orion_stream *s, void *data)
{
	if (!s->is_probing && !orion_stream_is_busy(s)) {
		return true;
	}
	orion_driver.ctx_set_current(s->ctx);
	if (s->is_probing) {
		CUresult r = orion_driver.event_query(s->probe);
		if (r == CUDA_ERROR_NOT_READY) {
			return true;
		}
		s->is_probing = false;
		/* After an error nothing in this context runs any more. */
		orion_stream_done(s, s->probed);
	}
	if (orion_stream_is_busy(s) && !orion_capture_is(s)) {
		begin_probe(s);
	}
	return true;
}

void orion_flight_probe(void)
{
	if (orion_busy_streams > 0) {
		orion_stream_each(probe_one, NULL);
	}
}

void orion_flight_reset(void)
{
	orion_scheduler.n_in_flight = 0;
	orion_scheduler.in_flight_ns = orion_scheduler.unfollowed_ns = 0;
	orion_scheduler.end_ns = 0;
	for (int i = 0; i < RUBATO_ORION_MAX_CLIENTS; i++) {
		orion_clients[i].oldest = orion_clients[i].next = 0;
		orion_clients[i].gpu_ns = orion_clients[i].unfollowed_ns = 0;
	}
}

void orion_scheduler_forget_context(CUcontext ctx)
{
	pthread_mutex_lock(&orion_scheduler.lock);
	for (int i = 0; i < RUBATO_ORION_MAX_CLIENTS; i++) {
		for (uint32_t k = 0; k < N_SLOTS; k++) {
			struct slot *slot = &orion_clients[i].slots[k];
			if (slot->ctx == ctx) {
				slot->ctx = NULL;
				slot->start = slot->end = NULL;
				slot->kernel = NULL;
				/* A launch that has not got to its own events yet is in another
				 * context. */
				if (slot->state == SLOT_RECORDED) {
					slot->state = SLOT_OVER;
				}
			}
		}
	}
	pthread_mutex_unlock(&orion_scheduler.lock);
}
