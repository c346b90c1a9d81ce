/* SPDX-License-Identifier: Apache-2.0 */
/* Resumed programs that make no progress are kicked. */
#include "daemon/kick.h"

#include <errno.h>

#include "daemon/daemon.h"
#include "daemon/doubt.h"
#include "daemon/edge.h"
#include "daemon/handlink.h"
#include "util/log.h"
#include "util/time.h"

/* NULL: the program has no board. */
static const struct rbt_board_progress *progress_of(
	const struct program *p, struct rbt_board_progress *buf)
{
	if (p->reader.board == NULL) {
		return NULL;
	}
	*buf = rbt_board_progress(p->reader.board);
	return buf;
}

static void kick(struct daemon *d, struct program *p)
{
	struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		const struct rbt_backend *b = rbt_backend_by_id(h->backend);
		if (h->mine->applied.is_off || h->mine->applied.is_kicked || b == NULL ||
			b->kick == NULL) {
			continue;
		}
		rbt_debug("process %d is kicked", (int)p->pid);
		/* When the hand was lost, everything was kicked. */
		if (hand_kick(d, h) == -ENOTCONN) {
			return;
		}
	}
}

static void plan(struct daemon *d, const struct program *p)
{
	if (p->doubt.check_ns != 0 && p->doubt.check_ns < d->kick_ns) {
		d->kick_ns = p->doubt.check_ns;
	}
}

void kick_applied(struct daemon *d, struct program *p, const struct edge *edge, uint64_t now_ns)
{
	struct rbt_board_progress buf;

	/* Other holds may be suspended for longer: the driver does not always obey. */
	if ((edge->back & RBT_IS_OFF) != 0) {
		if (doubt_let_back(&p->doubt, progress_of(p, &buf), now_ns)) {
			kick(d, p);
		}
	} else if ((edge->gone & RBT_IS_OFF) != 0) {
		doubt_taken_off(&p->doubt, progress_of(p, &buf), now_ns);
	}
	plan(d, p);
}

void kick_run(struct daemon *d)
{
	uint64_t now_ns = rbt_now_ns();
	struct rbt_board_progress buf;
	struct program *p;

	if (now_ns < d->kick_ns) {
		return;
	}
	d->kick_ns = UINT64_MAX;
	LIST_FOREACH (p, &d->programs, entries) {
		if (p->doubt.check_ns != 0 && p->doubt.check_ns <= now_ns &&
			doubt_check(&p->doubt, progress_of(p, &buf), now_ns)) {
			kick(d, p);
		}
		plan(d, p);
	}
}
