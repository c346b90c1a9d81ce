/* SPDX-License-Identifier: Apache-2.0 */
#include "act/holding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/time.h"

/* Lines about failures: one in the first time, and as many at once as fit into the second. */
#define LINE_NS  (10 * RBT_NS_PER_S)
#define LINES_NS (100 * RBT_NS_PER_S)

/* Longer than any owner doubts who does nothing, and any turn. */
#define UNSURE_NS (5 * RBT_NS_PER_S)

void rbt_holdings_finish(struct rbt_holdings *hs)
{
	for (size_t i = 0; i < hs->n; i++) {
		rbt_record_finish(&hs->list[i].rec);
	}
	free(hs->list);
	*hs = (struct rbt_holdings){0};
}

struct rbt_holding *rbt_holdings_find(struct rbt_holdings *hs, uint32_t id)
{
	for (size_t i = 0; i < hs->n; i++) {
		if (hs->list[i].id == id) {
			return &hs->list[i];
		}
	}
	return NULL;
}

static int grow(struct rbt_holdings *hs)
{
	size_t capacity = hs->capacity > 0 ? hs->capacity * 2 : 16;
	struct rbt_holding *list = realloc(hs->list, capacity * sizeof(*list));

	if (list == NULL) {
		return -ENOMEM;
	}
	hs->list = list;
	hs->capacity = capacity;
	return 0;
}

void rbt_holdings_drop(struct rbt_holdings *hs, uint32_t id)
{
	struct rbt_holding *h = rbt_holdings_find(hs, id);

	if (h != NULL) {
		rbt_record_finish(&h->rec);
		*h = hs->list[--hs->n];
	}
}

void rbt_holdings_let_go(struct rbt_holdings *hs, uint32_t id)
{
	struct rbt_holding *h = rbt_holdings_find(hs, id);

	if (h != NULL && h->is_unsure) {
		rbt_holding_rouse(h);
	}
	rbt_holdings_drop(hs, id);
}

/* The backend to write what `cap` stands for through, or NULL with *ret_error set. */
static const struct rbt_backend *writer(const struct rbt_holding *h, uint32_t cap, int *ret_error)
{
	const struct rbt_backend *b = rbt_backend_by_id(h->rec.backend);

	*ret_error = b == NULL ? -EOPNOTSUPP : b->may_write(cap, h->force);
	return *ret_error < 0 ? NULL : b;
}

static void note_error(int *first, int r)
{
	if (r < 0 && r != -ENOENT && *first == 0) {
		*first = r;
	}
}

static bool has_own_slice(const struct rbt_task *t)
{
	return (t->valid & RBT_TASK_HAS_OWN_TIMESLICE) != 0;
}

static bool is_new(const struct rbt_task *t)
{
	return (t->valid & RBT_TASK_IS_NEW) != 0;
}

int rbt_holding_set_slice(struct rbt_holding *h, uint32_t gpu, uint64_t us)
{
	int first = 0;
	const struct rbt_backend *b = writer(h, RBT_CAP_TIMESLICE, &first);

	if (b == NULL) {
		return first;
	}
	for (uint32_t i = 0; i < h->rec.n_tasks; i++) {
		const struct rbt_task *t = &h->rec.tasks[i];
		/* What has no slice of its own has none to be given back. What its program is still
		 * setting up is left alone. */
		if (t->kind != RBT_TASK_COMPUTE || t->gpu != gpu || is_new(t) ||
			(us == 0 && !has_own_slice(t))) {
			continue;
		}
		/* Marked before the call: a killed hand must be
		 * undone by the survivor also half-way. */
		h->slices_changed = h->slices_changed || us != 0;
		note_error(
			&first, b->set_timeslice(&h->rec, t, us != 0 ? us : t->own_timeslice_us));
	}
	return first;
}

int rbt_holding_set_copy_slice(struct rbt_holding *h, uint32_t gpu, uint64_t runlists, uint64_t us)
{
	int first = 0;
	const struct rbt_backend *b = writer(h, RBT_CAP_TIMESLICE, &first);

	if (b == NULL) {
		return first;
	}
	for (uint32_t i = 0; i < h->rec.n_tasks; i++) {
		const struct rbt_task *t = &h->rec.tasks[i];
		bool is_meant =
			runlists == RBT_ALL_RUNLISTS || (rbt_task_runlists(t) & runlists) != 0;

		if (t->kind != RBT_TASK_COPY || t->gpu != gpu || !is_meant || !has_own_slice(t) ||
			us >= t->own_timeslice_us) {
			continue;
		}
		h->slices_changed = h->slices_changed || us != 0;
		note_error(
			&first, b->set_timeslice(&h->rec, t, us != 0 ? us : t->own_timeslice_us));
	}
	return first;
}

int rbt_holding_suspend(struct rbt_holding *h, enum rbt_scope scope, enum rbt_suspend_mode mode,
	uint64_t deadline_ns)
{
	int first = 0;
	const struct rbt_backend *b = writer(h, RBT_CAP_SUSPEND, &first);

	if (b == NULL) {
		return first;
	}
	h->suspended = true;
	h->in_turns = scope == RBT_SCOPE_COMPUTE;
	h->is_unsure = h->is_to_rouse = false;
	note_error(&first, b->suspend(&h->rec, scope, mode));
	rbt_holding_renew(h, deadline_ns);
	return first;
}

void rbt_holding_renew(struct rbt_holding *h, uint64_t deadline_ns)
{
	const struct rbt_backend *b = rbt_backend_by_id(h->rec.backend);

	h->deadline_ns = deadline_ns;
	if (b != NULL && b->renew != NULL) {
		(void)b->renew(&h->rec, deadline_ns);
	}
}

int rbt_holding_resume(struct rbt_holding *h, enum rbt_scope scope)
{
	int first = 0;
	const struct rbt_backend *b = writer(h, RBT_CAP_SUSPEND, &first);

	if (b == NULL) {
		return first;
	}
	note_error(&first, b->resume(&h->rec, scope));
	if (scope != RBT_SCOPE_REST) {
		h->suspended = first < 0;
	}
	h->is_unsure = true;
	h->on_ns = rbt_now_ns();
	h->is_to_rouse = scope != RBT_SCOPE_COMPUTE;
	h->rouse_scope = scope;
	return first;
}

void rbt_holding_rouse(struct rbt_holding *h)
{
	int error;
	const struct rbt_backend *b = writer(h, RBT_CAP_SUSPEND, &error);

	h->is_unsure = h->is_to_rouse = false;
	if (b == NULL || b->rouse == NULL) {
		return;
	}
	int r = b->rouse(&h->rec, h->rouse_scope);
	if (r < 0) {
		rbt_debug("client %#x cannot be roused: %s", h->rec.client, strerror(-r));
	}
}

uint64_t rbt_holdings_rouse(struct rbt_holdings *hs, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	for (size_t i = 0; i < hs->n; i++) {
		struct rbt_holding *h = &hs->list[i];
		uint64_t due_ns = h->is_to_rouse                  ? now_ns
				  : h->is_unsure && !h->suspended ? h->on_ns + UNSURE_NS
								  : UINT64_MAX;

		if (due_ns <= now_ns && due_ns != UINT64_MAX) {
			rbt_holding_rouse(h);
		} else if (due_ns < next_ns) {
			next_ns = due_ns;
		}
	}
	return next_ns;
}

/* Says so once: it is tried again and again. A program could be refused, and come again, as often
 * as it likes: so only some of all are named. */
static void note_failure(struct rbt_holding *h, const char *what, int r)
{
	static uint64_t next_ns;
	uint64_t now_ns = rbt_now_ns();
	bool is_known = h->restore_failed || now_ns + LINES_NS < next_ns;

	if (!is_known) {
		next_ns = (next_ns > now_ns ? next_ns : now_ns) + LINE_NS;
		rbt_warn("could not %s client %#x: %s", what, h->rec.client, strerror(-r));
	}
	h->restore_failed = true;
}

int rbt_holding_restore_slices(struct rbt_holding *h)
{
	int error = 0, first = 0;
	const struct rbt_backend *b = writer(h, RBT_CAP_TIMESLICE, &error);

	/* Whom we may not write to, we have not written to. */
	for (uint32_t i = 0; h->slices_changed && b != NULL && i < h->rec.n_tasks; i++) {
		const struct rbt_task *t = &h->rec.tasks[i];
		if (t->kind != RBT_TASK_OTHER && has_own_slice(t) && !is_new(t)) {
			note_error(&first, b->set_timeslice(&h->rec, t, t->own_timeslice_us));
		}
	}
	if (first < 0) {
		note_failure(h, "restore timeslices of", first);
		return first;
	}
	h->slices_changed = false;
	return 0;
}

static int restore_running(struct rbt_holding *h)
{
	int error = 0, r = 0;

	if (h->suspended && writer(h, RBT_CAP_SUSPEND, &error) != NULL) {
		r = rbt_holding_resume(h, RBT_SCOPE_ALL);
	}
	if (h->is_unsure) {
		rbt_holding_rouse(h);
	}
	if (r < 0) {
		note_failure(h, "resume", r);
		return r;
	}
	h->suspended = false;
	return 0;
}

int rbt_holding_restore(struct rbt_holding *h)
{
	int first = rbt_holding_restore_slices(h);

	note_error(&first, restore_running(h));
	return first;
}

int rbt_holdings_restore(struct rbt_holdings *hs)
{
	int first = 0;

	for (size_t i = 0; i < hs->n; i++) {
		note_error(&first, rbt_holding_restore_slices(&hs->list[i]));
	}
	for (size_t i = 0; i < hs->n; i++) {
		note_error(&first, restore_running(&hs->list[i]));
	}
	return first;
}

/* A task that has gone has nothing to be undone. */
static void subtract_gone(struct rbt_record *rec, const struct rbt_backend *b)
{
	uint32_t n = 0;
	uint64_t us;

	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		if (b->get_timeslice(rec, &rec->tasks[i], &us) != -ENOENT) {
			rec->tasks[n++] = rec->tasks[i];
		}
	}
	rec->n_tasks = n;
}

/*
 * A program may have more tasks than its next record names (it holds no more, or one was not found
 * this time), and have them still when it is let back. Of the old record, that much is left.
 */
static void undo_unnamed(struct rbt_holding *h, struct rbt_record *rec)
{
	int error;
	const struct rbt_backend *b = writer(h, RBT_CAP_TIMESLICE, &error);
	bool is_changed = h->suspended || h->slices_changed || h->is_unsure;

	/* Of a client without any, nothing is there; of one that is not there, each question is a
	 * line in the kernel log. */
	if (b == NULL || !b->acts_by_task || !is_changed ||
		(rec->n_tasks == 0 && (rec->flags & RBT_RECORD_PARTIAL) == 0)) {
		return;
	}
	rbt_record_subtract(&h->rec, rec);
	subtract_gone(&h->rec, b);
	struct rbt_holding left = *h;
	/* What the driver refuses stays in the record, so that it is tried again. */
	if (rbt_holding_restore(&left) < 0 && rbt_record_append(rec, &h->rec) < 0) {
		rbt_warn("some tasks of client %#x are forgotten: no memory", rec->client);
	}
	h->restore_failed = left.restore_failed;
}

int rbt_holdings_put(struct rbt_holdings *hs, uint32_t id, bool force, struct rbt_record *rec)
{
	struct rbt_holding *h = rbt_holdings_find(hs, id);

	if (h == NULL) {
		if (hs->n == hs->capacity && grow(hs) < 0) {
			rbt_record_finish(rec);
			return -ENOMEM;
		}
		h = &hs->list[hs->n++];
		*h = (struct rbt_holding){.id = id, .rec = RBT_RECORD_INIT};
	}
	if (rbt_record_inherit_off(rec, &h->rec) < 0) {
		rbt_record_finish(rec);
		return -ENOMEM;
	}
	undo_unnamed(h, rec);
	rbt_record_finish(&h->rec);
	h->rec = *rec;
	h->force = force;
	*rec = RBT_RECORD_INIT;
	return 0;
}
