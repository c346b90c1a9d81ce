/* SPDX-License-Identifier: Apache-2.0 */
#include "act/holding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "act/replace.h"
#include "util/log.h"
#include "util/time.h"

/* Failures are logged once per LINE_NS. After a quiet time, as many lines as fit into LINES_NS may
 * come at once. */
#define LINE_NS  (10 * RBT_NS_PER_S)
#define LINES_NS (100 * RBT_NS_PER_S)

/* Longer than any turn, and longer than the time after which an owner kicks an inactive program. */
#define UNSURE_NS (5 * RBT_NS_PER_S)

static void destroy(struct rbt_holding *h)
{
	rbt_record_finish(&h->rec);
	free(h->channel_off);
	free(h);
}

void rbt_holdings_finish(struct rbt_holdings *hs)
{
	for (size_t i = 0; i < hs->n; i++) {
		destroy(hs->list[i]);
	}
	free(hs->list);
	*hs = (struct rbt_holdings){0};
}

struct rbt_holding *rbt_holdings_find(struct rbt_holdings *hs, uint32_t id)
{
	for (size_t i = 0; i < hs->n; i++) {
		if (hs->list[i]->id == id) {
			return hs->list[i];
		}
	}
	return NULL;
}

/* Makes room for one more holding. Returns 0 or -ENOMEM. */
static int grow(struct rbt_holdings *hs)
{
	if (hs->n < hs->capacity) {
		return 0;
	}
	size_t capacity = hs->capacity > 0 ? hs->capacity * 2 : 16;
	struct rbt_holding **list = realloc(hs->list, capacity * sizeof(struct rbt_holding *));
	if (list == NULL) {
		return -ENOMEM;
	}
	hs->list = list;
	hs->capacity = capacity;
	return 0;
}

/* Returns NULL if there is no memory. */
static struct rbt_holding *add(struct rbt_holdings *hs, uint32_t id)
{
	struct rbt_holding *h = grow(hs) == 0 ? calloc(1, sizeof(*h)) : NULL;

	if (h != NULL) {
		h->id = id;
		h->rec = RBT_RECORD_INIT;
		h->applied.level = RBT_LEVEL_OWN;
		h->applied.interleave = RBT_INTERLEAVE_OWN;
		hs->list[hs->n++] = h;
	}
	return h;
}

void rbt_holdings_drop(struct rbt_holdings *hs, uint32_t id)
{
	for (size_t i = 0; i < hs->n; i++) {
		if (hs->list[i]->id == id) {
			destroy(hs->list[i]);
			hs->list[i] = hs->list[--hs->n];
			return;
		}
	}
}

/* Returns the backend, if writing with capability `cap` is allowed. Otherwise returns NULL and sets
 * *ret_error. */
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

/* Whether the action sets a slice for this task. Slices are not restored for a task whose own slice
 * is unknown. A task that its program is still setting up is left alone. */
static bool gets_slice(const struct rbt_task *t, const struct rbt_action *action)
{
	uint64_t us = action->value;

	if (t->gpu != action->minor) {
		return false;
	}
	if (action->runlists == 0) {
		return t->kind == RBT_TASK_COMPUTE && !is_new(t) && (us != 0 || has_own_slice(t));
	}
	return t->kind == RBT_TASK_COPY && has_own_slice(t) && us < t->own_timeslice_us &&
	       (action->runlists == RBT_ALL_RUNLISTS ||
		       (rbt_task_runlists(t) & action->runlists) != 0);
}

static int set_slice(
	struct rbt_holding *h, const struct rbt_backend *b, const struct rbt_action *action)
{
	int first = 0;

	for (uint32_t i = 0; i < h->rec.n_tasks; i++) {
		const struct rbt_task *t = &h->rec.tasks[i];
		uint64_t us = action->value != 0 ? action->value : t->own_timeslice_us;

		if (gets_slice(t, action)) {
			note_error(&first, b->set_timeslice(&h->rec, t, us));
		}
	}
	return first;
}

static int restore_slices(struct rbt_holding *h, const struct rbt_backend *b)
{
	int first = 0;

	for (uint32_t i = 0; h->applied.slices_changed && i < h->rec.n_tasks; i++) {
		const struct rbt_task *t = &h->rec.tasks[i];

		if (t->kind != RBT_TASK_OTHER && has_own_slice(t) && !is_new(t)) {
			note_error(&first, b->set_timeslice(&h->rec, t, t->own_timeslice_us));
		}
	}
	return first;
}

/* All tasks of the program, since a policy speaks of programs. A task that its program is still
 * setting up is left alone. */
static int set_interleave(
	struct rbt_holding *h, const struct rbt_backend *b, const struct rbt_action *action)
{
	int first = 0;

	if (b->set_interleave == NULL) {
		return -EOPNOTSUPP;
	}
	for (uint32_t i = 0; i < h->rec.n_tasks; i++) {
		const struct rbt_task *t = &h->rec.tasks[i];

		if (!is_new(t)) {
			note_error(&first, b->set_interleave(&h->rec, t, (uint32_t)action->value));
		}
	}
	return first;
}

static int renew(struct rbt_holding *h, const struct rbt_backend *b, uint64_t deadline_ns)
{
	return b->renew != NULL ? b->renew(&h->rec, deadline_ns) : 0;
}

static int kick(struct rbt_holding *h, const struct rbt_backend *b, enum rbt_scope scope)
{
	int r = b->kick != NULL ? b->kick(&h->rec, scope) : 0;

	if (r < 0) {
		rbt_debug("client %#x cannot be kicked: %s", h->rec.client, strerror(-r));
	}
	return r;
}

static int suspend(
	struct rbt_holding *h, const struct rbt_backend *b, const struct rbt_action *action)
{
	int r = rbt_holding_make_room(h);

	r = r < 0 ? r : b->suspend(&h->rec, h->channel_off, action->scope, action->mode);
	(void)renew(h, b, action->value);
	return r;
}

static int act_on_task(
	struct rbt_holding *h, const struct rbt_backend *b, const struct rbt_action *action)
{
	if (b->suspend_task == NULL) {
		return -EOPNOTSUPP;
	}
	if (action->op == RBT_ACT_RESUME_TASK) {
		return b->resume_task(&h->rec, action->task);
	}
	/* A suspend that the note has no room for could not be undone later. */
	if (!rbt_applied_has_task_off(&h->applied, action->task)) {
		return -ENOSPC;
	}
	int r = b->suspend_task(&h->rec, action->task);
	(void)renew(h, b, action->value);
	/* Unlike a task that needs no resume any more, this is no success: whoever ordered it must
	 * know. */
	return r == -ENOENT ? -ESTALE : r;
}

static int carry_out(
	struct rbt_holding *h, const struct rbt_backend *b, const struct rbt_action *action)
{
	switch (action->op) {
	case RBT_ACT_SET_SLICE:
		return set_slice(h, b, action);
	case RBT_ACT_RESTORE_SLICES:
		return restore_slices(h, b);
	case RBT_ACT_SUSPEND:
		return suspend(h, b, action);
	case RBT_ACT_RESUME:
		return b->resume(&h->rec, h->channel_off, action->scope);
	case RBT_ACT_RENEW:
		return renew(h, b, action->value);
	case RBT_ACT_KICK:
		return kick(h, b, action->scope);
	case RBT_ACT_SUSPEND_TASK:
	case RBT_ACT_RESUME_TASK:
		return act_on_task(h, b, action);
	case RBT_ACT_LEVEL:
		return b->set_level != NULL ? b->set_level(&h->rec, (uint32_t)action->value)
					    : -EOPNOTSUPP;
	case RBT_ACT_INTERLEAVE:
		return set_interleave(h, b, action);
	default:
		return -EINVAL;
	}
}

static bool is_about_slices(const struct rbt_action *action)
{
	return action->op == RBT_ACT_SET_SLICE || action->op == RBT_ACT_RESTORE_SLICES ||
	       action->op == RBT_ACT_LEVEL || action->op == RBT_ACT_INTERLEAVE;
}

int rbt_holding_act(struct rbt_holding *h, const struct rbt_action *action)
{
	int first = 0, error = 0;
	uint32_t cap = is_about_slices(action) ? RBT_CAP_TIMESLICE : RBT_CAP_SUSPEND;
	const struct rbt_backend *b = writer(h, cap, &error);

	rbt_holding_apply(h, action, RBT_UNDERWAY);
	note_error(&first, b == NULL ? error : carry_out(h, b, action));
	rbt_holding_apply(h, action, first);
	return first;
}

int rbt_holding_resume(struct rbt_holding *h, enum rbt_scope scope)
{
	struct rbt_action action = {.op = RBT_ACT_RESUME, .scope = scope, .at_ns = rbt_now_ns()};

	return rbt_holding_act(h, &action);
}

int rbt_holding_resume_tasks(struct rbt_holding *h)
{
	int first = 0;

	for (uint32_t i = h->applied.n_tasks_off; i-- > 0;) {
		struct rbt_action action = {
			.op = RBT_ACT_RESUME_TASK, .task = h->applied.tasks_off[i]};
		note_error(&first, rbt_holding_act(h, &action));
	}
	return first;
}

static void kick_now(struct rbt_holding *h)
{
	struct rbt_action action = {.op = RBT_ACT_KICK, .scope = h->applied.kick_scope};

	(void)rbt_holding_act(h, &action);
}

void rbt_holdings_let_go(struct rbt_holdings *hs, uint32_t id)
{
	struct rbt_holding *h = rbt_holdings_find(hs, id);

	if (h != NULL && h->applied.is_unsure) {
		kick_now(h);
	}
	rbt_holdings_drop(hs, id);
}

static uint64_t kick_due_ns(const struct rbt_applied *a, uint64_t now_ns)
{
	if (!a->is_unsure) {
		return UINT64_MAX;
	}
	if (a->is_kicked) {
		return now_ns;
	}
	return a->is_off ? UINT64_MAX : a->on_ns + UNSURE_NS;
}

uint64_t rbt_holdings_kick(struct rbt_holdings *hs, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	for (size_t i = 0; i < hs->n; i++) {
		uint64_t due_ns = kick_due_ns(&hs->list[i]->applied, now_ns);

		if (due_ns <= now_ns && due_ns != UINT64_MAX) {
			kick_now(hs->list[i]);
		} else if (due_ns < next_ns) {
			next_ns = due_ns;
		}
	}
	return next_ns;
}

/* Logs a failure once per holding, because restoring is repeated. The number of lines is limited
 * over all holdings as well, because a program could connect and be refused any number of times. */
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
	static const struct rbt_action action = {.op = RBT_ACT_RESTORE_SLICES};
	int error;

	/* A process without the right to write cannot have changed slices. */
	if (writer(h, RBT_CAP_TIMESLICE, &error) == NULL) {
		rbt_holding_apply(h, &action, 0);
		return 0;
	}
	int r = rbt_holding_act(h, &action);
	if (r < 0) {
		note_failure(h, "restore timeslices of", r);
	}
	return r;
}

static int restore_interleave(struct rbt_holding *h)
{
	static const struct rbt_action action = {
		.op = RBT_ACT_INTERLEAVE, .value = RBT_INTERLEAVE_OWN};

	if (!h->applied.interleave_changed) {
		return 0;
	}
	int r = rbt_holding_act(h, &action);
	if (!h->applied.interleave_changed) {
		return 0;
	}
	note_failure(h, "restore the interleave level of", r);
	return r;
}

static int restore_running(struct rbt_holding *h)
{
	struct rbt_action action = {
		.op = RBT_ACT_RESUME, .scope = RBT_SCOPE_ALL, .at_ns = rbt_now_ns()};
	int error, r = 0;

	if (h->applied.is_off && writer(h, RBT_CAP_SUSPEND, &error) == NULL) {
		rbt_holding_apply(h, &action, 0);
	} else if (h->applied.is_off) {
		r = rbt_holding_act(h, &action);
	}
	note_error(&r, rbt_holding_resume_tasks(h));
	if (h->applied.is_unsure) {
		kick_now(h);
	}
	if (r < 0) {
		note_failure(h, "resume", r);
	}
	return r;
}

int rbt_holding_restore(struct rbt_holding *h)
{
	int first = rbt_holding_restore_slices(h);

	note_error(&first, restore_interleave(h));
	note_error(&first, restore_running(h));
	return first;
}

int rbt_holdings_restore(struct rbt_holdings *hs)
{
	int first = 0;

	for (size_t i = 0; i < hs->n; i++) {
		note_error(&first, rbt_holding_restore_slices(hs->list[i]));
		note_error(&first, restore_interleave(hs->list[i]));
	}
	for (size_t i = 0; i < hs->n; i++) {
		note_error(&first, restore_running(hs->list[i]));
	}
	return first;
}

/* Removes tasks that no longer exist: their changes need no undoing. */
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
 * Undoes the changes of tasks that the next record does not name. Such tasks may still exist: the
 * record may be full, or a scan may have missed one. Leaves only these tasks in the old record.
 */
static void undo_unnamed(struct rbt_holding *h, struct rbt_holding *next)
{
	int error;
	const struct rbt_backend *b = writer(h, RBT_CAP_TIMESLICE, &error);
	bool is_changed = h->applied.is_off || h->applied.slices_changed || h->applied.is_unsure ||
			  h->applied.interleave_changed;

	/* A client without tasks needs no undoing. Every question about a client that is gone would
	 * write a line to the kernel log. */
	if (b == NULL || !b->acts_by_task || !is_changed ||
		(next->rec.n_tasks == 0 && (next->rec.flags & RBT_RECORD_PARTIAL) == 0)) {
		return;
	}
	rbt_holding_subtract(h, &next->rec);
	subtract_gone(&h->rec, b);
	struct rbt_holding left = *h;
	/* Tasks that the driver refuses to restore move to the next record, for another attempt. */
	if (rbt_holding_restore(&left) < 0 && rbt_holding_append(next, h) < 0) {
		rbt_warn("some tasks of client %#x are forgotten: no memory", next->rec.client);
	}
	h->restore_failed = left.restore_failed;
}

/* A task that is gone needs no resume; another one may get its handle. */
static void forget_gone_tasks(struct rbt_holding *h)
{
	for (uint32_t i = h->applied.n_tasks_off; i-- > 0;) {
		struct rbt_action gone = {
			.op = RBT_ACT_RESUME_TASK, .task = h->applied.tasks_off[i]};
		if (!rbt_record_has_task(&h->rec, gone.task)) {
			rbt_holding_apply(h, &gone, 0);
		}
	}
}

int rbt_holdings_put(struct rbt_holdings *hs, uint32_t id, bool force, struct rbt_record *rec)
{
	struct rbt_holding *h = rbt_holdings_find(hs, id), next = {.rec = *rec};

	*rec = RBT_RECORD_INIT;
	h = h != NULL ? h : add(hs, id);
	if (h == NULL || rbt_holding_inherit_off(&next, h) < 0) {
		rbt_record_finish(&next.rec);
		return -ENOMEM;
	}
	undo_unnamed(h, &next);
	rbt_record_finish(&h->rec);
	free(h->channel_off);
	h->rec = next.rec;
	h->channel_off = next.channel_off;
	h->force = force;
	forget_gone_tasks(h);
	return 0;
}
