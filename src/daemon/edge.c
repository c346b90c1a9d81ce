/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/edge.h"

#include "daemon/program.h"

struct edge edge_take(struct program *p)
{
	struct edge e = {.was = p->released};
	struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		unsigned was = rbt_applied_take_edges(&h->mine->applied);
		unsigned is = rbt_applied_state(&h->mine->applied);

		e.was |= was;
		e.is |= is;
		e.gone |= is & ~was;
		e.back |= was & ~is;
	}
	/* A suspended client that was released counts as resumed, unless another is still so. */
	e.back |= p->released & ~e.is;
	p->released = 0;
	return e;
}

void edge_release(struct program *p, struct client *h)
{
	p->released |= h->mine != NULL ? rbt_applied_take_edges(&h->mine->applied) : 0;
}
