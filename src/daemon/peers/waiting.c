/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/peers/waiting.h"

#include <stdbool.h>

#include "daemon/daemon.h"
#include "daemon/peers/server.h"
#include "daemon/program.h"

void waiting_forget(struct daemon *d, const struct peer *peer)
{
	struct waiting *w = &d->waiting;

	if (w->peer == peer) {
		rbt_record_finish(&w->rec);
		w->peer = NULL;
	}
}

int waiting_take(struct daemon *d)
{
	struct waiting *w = &d->waiting;
	const struct peer *peer = w->peer;

	if (peer == NULL) {
		return 0;
	}
	w->peer = NULL;
	w->n_taken++;
	park_keep_slices(peer->program, &w->rec);
	return program_put_record(d, peer->program, &w->rec, true);
}

int waiting_put(struct daemon *d, struct peer *peer, struct rbt_record *rec)
{
	struct waiting *w = &d->waiting;
	bool is_same =
		w->peer == peer && w->rec.backend == rec->backend && w->rec.client == rec->client;
	int r = is_same ? 0 : waiting_take(d);

	if (r < 0) {
		rbt_record_finish(rec);
		return r;
	}
	/* The link to an agent comes with the first record only. */
	if (is_same && rec->fd < 0) {
		rec->fd = w->rec.fd;
		w->rec.fd = -1;
	}
	waiting_forget(d, peer);
	w->peer = peer;
	w->rec = *rec;
	return 0;
}
