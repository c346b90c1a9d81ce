/* SPDX-License-Identifier: Apache-2.0 */
/* Events that programs make, set and wait for. No GPU here sets any. */
#include <errno.h>
#include <stdlib.h>

#include "softgpu/kfd/model.h"
#include "util/time.h"

/* The limit while the page is not mapped, which is impossible here; the first slot is the
 * driver's. */
#define MAX_SIGNAL_EVENTS 255u
#define FIRST_SIGNAL_ID   1u
#define FIRST_OTHER_ID    0x40000000u
#define EVENT_PAGE        (2ull << 62)
#define MAX_OTHER_EVENTS  4096u
#define MAX_WAITED        64u /* the driver's limit is memory; assumed */
#define FOR_EVER          UINT32_MAX

static struct kfd_event *find_event(struct kfd_process *p, uint32_t id)
{
	for (struct kfd_event *e = p->events; e != NULL; e = e->next) {
		if (e->id == id) {
			return e;
		}
	}
	return NULL;
}

/* The smallest free number, as in the driver. */
static uint32_t free_id(struct kfd_process *p, uint32_t first)
{
	uint32_t id = first;

	while (find_event(p, id) != NULL) {
		id++;
	}
	return id;
}

/* Debuggers' events share the page with programs' own; others have no slot in it. */
static bool has_slot(uint32_t type)
{
	return type == KFD_EVENT_SIGNAL || type == KFD_EVENT_DEBUG;
}

int64_t kfd_create_event(struct kfd_call *c)
{
	struct kfd_create_event *a = &c->arg.create_event;
	struct kfd_process *p = c->process;
	uint32_t *n = has_slot(a->type) ? &p->n_signal_events : &p->n_other_events;

	if (a->page_offset != 0) {
		/* A page of the program's own is named by a handle of its memory. */
		return -EINVAL;
	}
	if (*n >= (has_slot(a->type) ? MAX_SIGNAL_EVENTS : MAX_OTHER_EVENTS)) {
		return -ENOSPC;
	}
	struct kfd_event *e = calloc(1, sizeof(*e));
	if (e == NULL) {
		return -ENOMEM;
	}
	e->id = free_id(p, has_slot(a->type) ? FIRST_SIGNAL_ID : FIRST_OTHER_ID);
	e->type = a->type;
	e->auto_reset = a->auto_reset != 0;
	e->age = 1;
	e->next = p->events;
	p->events = e;
	++*n;
	if (has_slot(a->type)) {
		a->page_offset = EVENT_PAGE;
		a->slot = e->id;
	}
	a->event_id = a->trigger_data = e->id;
	return 0;
}

int64_t kfd_destroy_event(struct kfd_call *c)
{
	struct kfd_process *p = c->process;

	for (struct kfd_event **at = &p->events; *at != NULL; at = &(*at)->next) {
		struct kfd_event *e = *at;
		if (e->id == c->arg.event.event_id) {
			*at = e->next;
			--*(has_slot(e->type) ? &p->n_signal_events : &p->n_other_events);
			free(e);
			return 0;
		}
	}
	return -EINVAL;
}

static int64_t change(struct kfd_call *c, bool set)
{
	struct kfd_event *e = find_event(c->process, c->arg.event.event_id);

	if (e == NULL || e->type != KFD_EVENT_SIGNAL) {
		return -EINVAL;
	}
	e->set = set;
	e->age += set;
	return 0;
}

int64_t kfd_set_event(struct kfd_call *c)
{
	return change(c, true);
}

int64_t kfd_reset_event(struct kfd_call *c)
{
	return change(c, false);
}

static struct kfd_wait *find_wait(struct kfd_process *p, int tid)
{
	struct kfd_wait *w = p->waits;

	while (w != NULL && w->tid != tid) {
		w = w->next;
	}
	return w;
}

static void end_wait(struct kfd_process *p, struct kfd_wait *w)
{
	struct kfd_wait **at = &p->waits;

	while (*at != NULL && *at != w) {
		at = &(*at)->next;
	}
	if (*at != NULL) {
		*at = w->next;
		free(w);
	}
}

/* The deadline; or the result, if there is nothing to wait for. */
static int64_t begin_wait(struct kfd_call *c, uint64_t seen)
{
	struct kfd_wait_events *a = &c->arg.wait_events;
	struct kfd_wait *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		a->result = KFD_WAIT_FAIL;
		return -ENOMEM;
	}
	w->tid = c->caller.tid;
	w->seen = seen;
	w->until_ns = a->timeout_ms == FOR_EVER
			      ? UINT64_MAX
			      : kfd_now_ns(c->kfd) + a->timeout_ms * (uint64_t)RBT_NS_PER_MS;
	w->next = c->process->waits;
	c->process->waits = w;
	return RBT_KFD_WAIT;
}

/* Finds the events that are set, or were set during the wait; auto-reset events are reset. */
static int64_t check_events(struct kfd_call *c, uint64_t *seen)
{
	const struct kfd_wait_events *a = &c->arg.wait_events;
	struct kfd_event_data data;

	for (uint32_t i = 0; i < a->n_events; i++) {
		uint64_t at = a->events_ptr + (uint64_t)i * sizeof(data);
		if (c->kfd->ops.read(c->kfd->ops.data, c->caller.pid, at, &data, sizeof(data)) <
			0) {
			return -EFAULT;
		}
		struct kfd_event *e = find_event(c->process, data.event_id);
		if (e == NULL) {
			return -EINVAL;
		}
		*seen |= e->set ? 1ull << i : 0;
		e->set = e->set && !e->auto_reset;
	}
	return 0;
}

int64_t kfd_wait_events(struct kfd_call *c)
{
	struct kfd_wait_events *a = &c->arg.wait_events;
	struct kfd_wait *w = find_wait(c->process, c->caller.tid);
	uint64_t seen = w != NULL ? w->seen : 0;

	if (a->n_events > MAX_WAITED) {
		a->result = KFD_WAIT_FAIL;
		return -ENOMEM;
	}
	int64_t r = check_events(c, &seen);
	uint32_t n_seen = (uint32_t)__builtin_popcountll(seen);
	if (r < 0) {
		/* An event that was destroyed during the wait. */
		r = r == -EINVAL && w != NULL ? -EIO : r;
		a->result = KFD_WAIT_FAIL;
	} else if (n_seen == a->n_events || (!a->all && n_seen > 0)) {
		a->result = KFD_WAIT_COMPLETE;
	} else if (a->timeout_ms == 0 || (w != NULL && kfd_now_ns(c->kfd) >= w->until_ns)) {
		a->result = KFD_WAIT_TIMEOUT;
	} else if (w == NULL) {
		return begin_wait(c, seen);
	} else {
		w->seen = seen;
		return RBT_KFD_WAIT;
	}
	end_wait(c->process, w);
	return r;
}

uint64_t rbt_kfd_next_wait_ns(const struct rbt_kfd *kfd)
{
	uint64_t next_ns = UINT64_MAX;

	for (const struct kfd_process *p = kfd->processes; p != NULL; p = p->next) {
		for (const struct kfd_wait *w = p->waits; w != NULL; w = w->next) {
			next_ns = w->until_ns < next_ns ? w->until_ns : next_ns;
		}
	}
	return next_ns;
}

void kfd_free_events(struct kfd_process *p)
{
	struct kfd_event *next;

	for (struct kfd_event *e = p->events; e != NULL; e = next) {
		next = e->next;
		free(e);
	}
	p->events = NULL;
	while (p->waits != NULL) {
		end_wait(p, p->waits);
	}
}
