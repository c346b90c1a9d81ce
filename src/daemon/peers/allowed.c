/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which actions a program's driver accepts. An unknown driver may accept timeslices but no
 * suspends, or neither. The backend has found that out by a driver trial.
 */
#include "daemon/peers/allowed.h"

#include <errno.h>
#include <stdio.h>

#include "daemon/program.h"
#include "sched/class.h"

bool holding_may(const struct rbt_holding *mine, uint32_t cap)
{
	const struct rbt_backend *b = rbt_backend_by_id(mine->rec.backend);

	return b != NULL && b->may_write(cap, mine->force) == 0;
}

bool program_may(const struct program *p, uint32_t cap)
{
	const struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		if (!holding_may(h->mine, cap)) {
			return false;
		}
	}
	return true;
}

static void explain(const struct rbt_backend *b, uint32_t cap, char *buf, size_t size)
{
	if (b->why_not != NULL) {
		b->why_not(cap, buf, size);
	} else {
		snprintf(buf, size, "the version of the %s driver is unknown", b->name);
	}
}

void program_why_not(const struct program *p, uint32_t cap, char *buf, size_t size)
{
	const struct client *h;

	snprintf(buf, size, "%s", "");
	LIST_FOREACH (h, &p->clients, entries) {
		const struct rbt_holding *mine = h->mine;
		const struct rbt_backend *b = rbt_backend_by_id(mine->rec.backend);
		if (b != NULL && b->may_write(cap, mine->force) == -EPROTONOSUPPORT) {
			explain(b, cap, buf, size);
			return;
		}
	}
}

uint32_t program_missing_cap(const struct program *p)
{
	if (program_is_plain(p)) {
		return 0;
	}
	if (!program_may(p, RBT_CAP_TIMESLICE)) {
		return RBT_CAP_TIMESLICE;
	}
	return rbt_class_of(p->treat.priority) == RBT_CLASS_LATENCY &&
			       !program_may(p, RBT_CAP_SUSPEND)
		       ? RBT_CAP_SUSPEND
		       : 0;
}

int drivers_may(uint32_t cap, bool force, char *buf, size_t size)
{
	for (const struct rbt_backend *const *b = rbt_backends; *b != NULL; b++) {
		if ((*b)->may_write(cap, force) == -EPROTONOSUPPORT) {
			explain(*b, cap, buf, size);
			return -EPROTONOSUPPORT;
		}
	}
	return 0;
}
