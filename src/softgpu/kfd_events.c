/* SPDX-License-Identifier: Apache-2.0 */
/* Events that programs make and set. Nothing here sets them, and nobody is made to wait. */
#include <errno.h>
#include <stdlib.h>

#include "softgpu/kfd_model.h"

/* As long as the page is not mapped, which it cannot be here; the first slot is the driver's. */
#define MAX_SIGNAL_EVENTS 255u
#define FIRST_SIGNAL_ID   1u
#define FIRST_OTHER_ID    0x40000000u
#define EVENT_PAGE        (2ull << 62)
#define MAX_OTHER_EVENTS  4096u

static struct kfd_event *find_event(struct kfd_process *p, uint32_t id)
{
	for (struct kfd_event *e = p->events; e != NULL; e = e->next) {
		if (e->id == id) {
			return e;
		}
	}
	return NULL;
}

/* The smallest free number, as the driver's. */
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
		/* A page of the program's own is named by a handle: of memory that it has. */
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

void kfd_free_events(struct kfd_process *p)
{
	struct kfd_event *next;

	for (struct kfd_event *e = p->events; e != NULL; e = next) {
		next = e->next;
		free(e);
	}
	p->events = NULL;
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

/*
 * Asks all at once, and does not wait: who would wait is told at once that the time is over
 * (assumed; the programs that run here wait for nothing).
 */
int64_t kfd_wait_events(struct kfd_call *c)
{
	struct kfd_wait_events *a = &c->arg.wait_events;
	struct kfd_event_data data;
	uint32_t n_set = 0;

	for (uint32_t i = 0; i < a->n_events; i++) {
		uint64_t at = a->events_ptr + (uint64_t)i * sizeof(data);
		if (c->kfd->ops.read(c->kfd->ops.data, c->caller.pid, at, &data, sizeof(data)) <
			0) {
			a->result = KFD_WAIT_FAIL;
			return -EFAULT;
		}
		struct kfd_event *e = find_event(c->process, data.event_id);
		if (e == NULL) {
			a->result = KFD_WAIT_FAIL;
			return -EINVAL;
		}
		n_set += e->set;
		e->set = e->set && !e->auto_reset;
	}
	a->result = n_set == a->n_events || (!a->all && n_set > 0) ? KFD_WAIT_COMPLETE
								   : KFD_WAIT_TIMEOUT;
	return 0;
}
