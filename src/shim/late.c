/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads do not wait for each other in the shim: the thread with the lock may be in a driver call
 * of our own, which waits for the driver's locks. A thread that finds the lock taken leaves its
 * event here and goes on.
 */
#include <stddef.h>

#include "shim/shim.h"

enum { EMPTY, WRITING, READY };

bool shim_late_put(struct shim *s, const struct shim_event *ev)
{
	for (size_t i = 0; i < SHIM_MAX_LATE; i++) {
		struct shim_late *late = &s->late[i];
		uint32_t empty = EMPTY;
		if (atomic_compare_exchange_strong(&late->state, &empty, WRITING)) {
			/* Counted first, so that the count is never too small: otherwise a thread
			 * could overtake its own event. */
			s->n_late++;
			late->ev = *ev;
			late->ev.serial = ++s->serial;
			late->state = READY;
			return true;
		}
	}
	return false;
}

bool shim_late_take(struct shim *s, struct shim_event *ret)
{
	struct shim_late *first = NULL;

	for (size_t i = 0; s->n_late > 0 && i < SHIM_MAX_LATE; i++) {
		struct shim_late *late = &s->late[i];
		if (late->state == READY && (first == NULL || late->ev.serial < first->ev.serial)) {
			first = late;
		}
	}
	if (first == NULL) {
		return false;
	}
	*ret = first->ev;
	first->state = EMPTY;
	s->n_late--;
	return true;
}
