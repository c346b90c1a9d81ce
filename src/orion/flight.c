/* SPDX-License-Identifier: Apache-2.0 */
/* Launches between their call and their end on the GPU, which events tell. */
#include "orion/capture.h"
#include "orion/driver.h"
#include "orion/impl.h"
#include "orion/kernel.h"
#include "orion/stream.h"

bool orion_flight_lets(const struct client *c, const struct rbt_kernel_facts *facts)
{
	const struct scheduler *s = &orion_scheduler;
	struct orion_view view = {
		.hp_is_busy = orion_busy_streams > 0,
		.hp = {.kind = s->hp_kind, .sms = s->hp_sms},
		.n_sms = s->n_sms,
		.be_in_flight = s->n_in_flight,
		.be_ns = s->in_flight_ns,
		.budget_ns = s->budget_ns,
	};

	return c->next - c->oldest < N_SLOTS && orion_config.policy->lets(&view, facts);
}

struct orion_flight orion_flight_take(struct client *c, const struct rbt_kernel_facts *facts)
{
	struct scheduler *s = &orion_scheduler;
	struct orion_flight f = {.client = (int)(c - orion_clients)};

	if (c->next - c->oldest == N_SLOTS) {
		return f; /* overdue: it goes unfollowed */
	}
	struct slot *slot = &c->slots[c->next % N_SLOTS];
	/* Of what is not known, one launch at a time. */
	slot->expected_ns = facts->duration_ns != 0 ? facts->duration_ns : s->budget_ns;
	slot->state = SLOT_CALLED;
	slot->kernel = NULL;
	s->n_in_flight++;
	s->in_flight_ns += slot->expected_ns;
	/* Corrected when the launch is over. Already now, so that no client gets ahead by its
	 * launches in flight. */
	c->gpu_ns += slot->expected_ns;
	f.generation = s->generation;
	f.slot = c->next++;
	return f;
}

static bool make_events(struct slot *slot)
{
	CUcontext ctx = NULL;

	if (orion_driver.ctx_get_current(&ctx) != CUDA_SUCCESS || ctx == NULL) {
		return false;
	}
	if (slot->ctx == ctx && slot->start != NULL && slot->end != NULL) {
		return true;
	}
	if (slot->ctx != NULL && slot->start != NULL) {
		orion_driver.event_destroy(slot->start);
	}
	if (slot->ctx != NULL && slot->end != NULL) {
		orion_driver.event_destroy(slot->end);
	}
	slot->start = slot->end = NULL;
	slot->ctx = ctx;
	return orion_driver.event_create(&slot->start, 0) == CUDA_SUCCESS &&
	       orion_driver.event_create(&slot->end, 0) == CUDA_SUCCESS;
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
		rbt_kernel_measured(slot->kernel, ns);
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

static void poll_client(struct client *c, bool has_context)
{
	struct scheduler *s = &orion_scheduler;

	while (c->oldest != c->next) {
		struct slot *slot = &c->slots[c->oldest % N_SLOTS];

		if (is_pending(slot, has_context)) {
			return;
		}
		measure(c, slot);
		s->n_in_flight--;
		s->in_flight_ns -= slot->expected_ns;
		c->oldest++;
	}
}

void orion_flight_poll(bool has_context)
{
	if (orion_scheduler.n_in_flight == 0) {
		return;
	}
	int mode = orion_capture_relax();
	for (int i = 0; i < orion_config.n_clients; i++) {
		poll_client(&orion_clients[i], has_context);
	}
	orion_capture_restore(mode);
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
	orion_scheduler.in_flight_ns = 0;
	for (int i = 0; i < RUBATO_ORION_MAX_CLIENTS; i++) {
		orion_clients[i].oldest = orion_clients[i].next = 0;
		orion_clients[i].gpu_ns = 0;
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
				slot->state = SLOT_OVER;
			}
		}
	}
	pthread_mutex_unlock(&orion_scheduler.lock);
}
