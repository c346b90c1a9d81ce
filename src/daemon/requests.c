/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/list.h"
#include "daemon/survive/byhand.h"
#include "daemon/survive/state.h"
#include "proto/message.h"
#include "sched/class.h"
#include "util/fd.h"
#include "util/proc.h"
#include "util/time.h"

__attribute__((format(printf, 3, 4))) static void answer(
	struct peer *peer, int error, const char *fmt, ...)
{
	struct rbt_msg_result msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_RESULT},
		.error = error,
		.priority = peer->answer_priority,
	};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg.text, sizeof(msg.text), fmt, ap);
	va_end(ap);
	/* A tool that does not read its answers loses them. */
	rbt_send(peer->source.fd, &msg, sizeof(msg), NULL, 0, MSG_DONTWAIT);
}

/* What is reached by name must be known and the asker's to touch; says so if not. */
static struct program *find_for(struct daemon *d, struct peer *peer, pid_t pid)
{
	struct program *p = program_find(d, pid);

	if (p == NULL || p->awaited) {
		answer(peer, -ESRCH, "is not managed");
		return NULL;
	}
	if (!may_touch(peer, program_owner(p))) {
		answer(peer, -EPERM, "belongs to another user");
		return NULL;
	}
	return p;
}

/* Carries a change out now, so that the answer tells what became of it: 0, or -errno, and -EAGAIN
 * when nothing can be done at present. The program may be gone afterwards, or let go. */
static int settle(struct daemon *d, pid_t pid)
{
	struct hold *h;

	d->dirty = true;
	if (reconcile(d) < 0) {
		return -EAGAIN;
	}
	struct program *p = program_find(d, pid);
	if (p == NULL) {
		return 0;
	}
	LIST_FOREACH (h, &p->holds, link) {
		if (!program_is_plain(p) &&
			!hold_may(rbt_holdings_find(&d->mine, h->id), RBT_CAP_TIMESLICE)) {
			p->error = -EPROTONOSUPPORT;
		}
	}
	return p->error;
}

static void answer_untold(
	struct daemon *d, struct peer *peer, const struct program *p, uint32_t cap)
{
	char why[sizeof(((struct rbt_msg_program *)0)->note)] = "its driver's version is not known";

	if (p != NULL) {
		program_why_not(d, p, cap, why, sizeof(why));
	}
	answer(peer, -EPROTONOSUPPORT, "%s; see `rubato doctor`%s", why,
		cap == RBT_CAP_TIMESLICE ? ", or use --force" : "");
}

static void answer_settled(struct daemon *d, struct peer *peer, pid_t pid, int r)
{
	struct program *p = program_find(d, pid);

	switch (-r) {
	case 0:
		answer(peer, 0, "%s", p != NULL ? list_note(d, p) : "");
		return;
	case EPROTONOSUPPORT:
		answer_untold(d, peer, p, RBT_CAP_TIMESLICE);
		return;
	case EPERM:
	case EACCES:
		answer(peer, r, "the driver refused it (%s); see `rubato doctor`", strerror(-r));
		return;
	case EAGAIN:
		answer(peer, r, "cannot be done now; try again in a few seconds");
		return;
	default:
		answer(peer, r, "%s", strerror(-r));
	}
}

static void allow_force(struct daemon *d, struct program *p)
{
	struct hold *h;

	p->force = true;
	LIST_FOREACH (h, &p->holds, link) {
		rbt_holdings_find(&d->mine, h->id)->force = true;
		h->in_hand = false;
	}
}

/* Whether a task of the program would get more than its driver gives. */
static bool is_longer(const struct program *p, uint64_t timeslice_us)
{
	for (uint32_t gpu = 0; gpu < RBT_SCHED_MAX_GPUS; gpu++) {
		const struct rbt_sched_tasks *tasks = &p->params.tasks[gpu];
		if (tasks->n_compute > 0 && timeslice_us > tasks->own_us) {
			return true;
		}
	}
	return false;
}

/* Whether the peer may give a program that much; after an answer if not. */
static bool check_rights(
	struct daemon *d, struct peer *peer, const struct wish *old, const struct wish *wish)
{
	bool is_trusted = may_raise(peer, RBT_PRIORITY_MAX);
	bool is_raise = wish->priority > old->priority && !may_raise(peer, wish->priority);
	bool is_heavier = wish->weight > old->weight && !is_trusted;

	if (is_raise || is_heavier ||
		(!is_trusted && limits_take_more(d, &old->limits, &wish->limits))) {
		answer(peer, -EPERM, "%s " LIST_RAISING, list_raising_text(is_raise, is_heavier),
			d->admin_group);
		return false;
	}
	return true;
}

/* Whether the peer may have that; after an answer if not. */
static bool check_renice(struct daemon *d, struct peer *peer, const struct program *p,
	const struct wish *old, const struct wish *wish, uint64_t said_us)
{
	if (wish->priority > RBT_PRIORITY_MAX || said_us > RBT_TIMESLICE_MAX_US ||
		wish->weight > RBT_WEIGHT_MAX || !rbt_limits_are_right(&wish->limits)) {
		answer(peer, -EINVAL, "priority, timeslice, weight or limit out of range");
		return false;
	}
	if (said_us != 0 && list_has_no_slices(d, p)) {
		answer(peer, -EOPNOTSUPP, LIST_NO_SLICES);
		return false;
	}
	if (!check_rights(d, peer, old, wish)) {
		return false;
	}
	if (is_longer(p, said_us) && !may_raise(peer, RBT_PRIORITY_MAX)) {
		answer(peer, -EPERM, "a slice longer than the driver's " LIST_RAISING,
			d->admin_group);
		return false;
	}
	return true;
}

static uint32_t new_limit(uint32_t old, uint32_t said)
{
	return said == 0 ? old : said == RBT_LIMIT_DEFAULT ? 0 : said;
}

/* Whoever has no rights may change one that was granted: it has not become more. */
static bool new_grant(bool was_granted, uint32_t said, bool is_trusted)
{
	return said == 0 ? was_granted : said != RBT_LIMIT_DEFAULT && (was_granted || is_trusted);
}

/* What is not said stays as it is; but a slice goes with its priority. */
static struct wish new_wish(
	const struct peer *peer, const struct wish *old, const struct rbt_msg_renice *msg)
{
	bool is_more = msg->priority != RBT_PRIORITY_KEEP || msg->timeslice_us != 0;
	bool is_trusted = may_raise(peer, RBT_PRIORITY_MAX);
	const struct rbt_limits *said = &msg->limits;

	return (struct wish){
		.priority = msg->priority == RBT_PRIORITY_KEEP ? old->priority : msg->priority,
		.weight = msg->weight != 0 ? msg->weight : old->weight,
		.timeslice_us = is_more ? msg->timeslice_us : old->timeslice_us,
		.limits.max_reserve_ms =
			new_limit(old->limits.max_reserve_ms, said->max_reserve_ms),
		.limits.min_share_permille =
			new_limit(old->limits.min_share_permille, said->min_share_permille),
		.is_trusted = is_more ? is_trusted : old->is_trusted,
		.is_reserve_granted =
			new_grant(old->is_reserve_granted, said->max_reserve_ms, is_trusted),
		.is_share_granted =
			new_grant(old->is_share_granted, said->min_share_permille, is_trusted),
	};
}

/* Of a program that is still to come. */
static void on_may(struct daemon *d, struct peer *peer, const struct rbt_msg_renice *msg)
{
	const struct wish old = {.priority = RBT_PRIORITY_NORMAL, .weight = 1};
	struct wish wish = new_wish(peer, &old, msg);
	bool is_special = rbt_class_of(wish.priority) != RBT_CLASS_NORMAL || wish.timeslice_us != 0;
	bool force = msg->force != 0 && may_raise(peer, RBT_PRIORITY_MAX);
	char why[sizeof(((struct rbt_msg_program *)0)->note)];

	if (!check_rights(d, peer, &old, &wish)) {
		return;
	}
	int r = is_special ? drivers_may(RBT_CAP_TIMESLICE, force, why, sizeof(why)) : 0;
	answer(peer, r, "%s", r < 0 ? why : "");
}

/* What it was started with and could not have is made up for by what was said since. */
static void forget_wishes(struct program *p, const struct rbt_msg_renice *msg)
{
	if (p != NULL) {
		p->wants_priority = p->wants_priority && msg->priority == RBT_PRIORITY_KEEP;
		p->wants_weight = p->wants_weight && msg->weight == 0;
	}
}

static void on_renice(struct daemon *d, struct peer *peer, const struct rbt_msg_renice *msg)
{
	struct program *p = find_for(d, peer, msg->pid);

	if (p == NULL) {
		return;
	}
	uint64_t start_time = p->start_time;
	struct wish old = program_wish(p), wish = new_wish(peer, &old, msg);
	/* What does not count any more is no reason to have it again. */
	struct wish had = old;
	had.limits = limits_in_force(d, p);
	struct wish more = new_wish(peer, &had, msg);
	if (!check_renice(d, peer, p, &had, &more, msg->timeslice_us)) {
		return;
	}
	program_set_wish(p, &wish);
	/* Once is enough: what was forced must be undone without. */
	if (msg->force && !p->force && may_raise(peer, RBT_PRIORITY_MAX)) {
		allow_force(d, p);
	}
	peer->answer_priority = wish.priority;
	int r = settle(d, msg->pid);
	p = program_find(d, msg->pid);
	if (r == 0) {
		byhand_note(d, msg->pid, start_time, true);
		forget_wishes(p, msg);
	} else if (p != NULL) {
		program_set_wish(p, &old);
		settle(d, msg->pid);
	}
	answer_settled(d, peer, msg->pid, r);
}

/* Also what we did not suspend: somebody else may have, and died. */
static void resume(struct program *p)
{
	struct hold *h;

	p->suspended = false;
	p->resume_at_ns = 0;
	LIST_FOREACH (h, &p->holds, link) {
		h->off = RBT_OFF_COMMAND;
		h->rest_off = true;
	}
}

static void on_suspend(struct daemon *d, struct peer *peer, const struct rbt_msg_suspend *msg)
{
	struct program *p = find_for(d, peer, msg->pid);

	if (p == NULL) {
		return;
	}
	if (msg->for_ms > UINT64_MAX / RBT_NS_PER_MS / 2) {
		answer(peer, -EINVAL, "duration out of range");
		return;
	}
	if (program_is_partial(d, p)) {
		answer(peer, -E2BIG, "it has more tasks than are known: half of it would go on");
		return;
	}
	uint64_t start_time = p->start_time;
	if (!program_may(d, p, RBT_CAP_SUSPEND)) {
		answer_untold(d, peer, p, RBT_CAP_SUSPEND);
		return;
	}
	bool was_suspended = p->suspended;
	p->suspended = true;
	p->resume_at_ns = msg->for_ms == 0 ? 0 : rbt_now_ns() + msg->for_ms * RBT_NS_PER_MS;
	int r = settle(d, msg->pid);
	p = program_find(d, msg->pid);
	if (p != NULL && r == 0) {
		p->account.n_suspends += !was_suspended;
		byhand_note(d, msg->pid, start_time, false);
	}
	/* Half suspended is worse than not at all. */
	if (p != NULL && r < 0) {
		resume(p);
		settle(d, msg->pid);
	}
	answer_settled(d, peer, msg->pid, r);
}

static void on_resume(struct daemon *d, struct peer *peer, const struct rbt_msg_pid *msg)
{
	uint64_t start_time;
	uid_t uid;

	/* It runs already, though its tasks are not known yet. */
	if (program_find(d, msg->pid) == NULL && state_has_healed(d, msg->pid) &&
		rbt_proc_start_time(msg->pid, &start_time) == 0 &&
		rbt_proc_uid(msg->pid, &uid) == 0 && may_touch(peer, uid)) {
		byhand_note(d, msg->pid, start_time, false);
		answer(peer, 0, "%s", "");
		return;
	}
	struct program *p = find_for(d, peer, msg->pid);
	if (p == NULL) {
		return;
	}
	start_time = p->start_time;
	if (!program_may(d, p, RBT_CAP_SUSPEND)) {
		answer_untold(d, peer, p, RBT_CAP_SUSPEND);
		return;
	}
	resume(p);
	int r = settle(d, msg->pid);
	if (r == 0) {
		byhand_note(d, msg->pid, start_time, false);
	}
	answer_settled(d, peer, msg->pid, r);
}

static void on_attach(
	struct daemon *d, struct peer *peer, const void *buf, size_t size, int *fds, size_t n_fds)
{
	struct rbt_record rec;
	uid_t uid;
	int error = 0;

	pid_t pid = n_fds == 2 ? rbt_pidfd_pid(fds[1]) : -EBADMSG;
	if (pid < 0) {
		answer(peer, pid, "cannot be attached: %s", strerror(-pid));
		return;
	}
	int r = rbt_proc_uid(pid, &uid);
	if (r == 0 && !may_touch(peer, uid)) {
		answer(peer, -EPERM, "belongs to another user");
		return;
	}
	r = r < 0 ? r : rbt_record_decode(buf, size, &rec);
	if (r < 0) {
		answer(peer, r, "cannot be attached: %s", strerror(-r));
		return;
	}
	rec.fd = fds[0];
	fds[0] = -1;
	struct program *p = program_obtain(d, pid, fds[1], peer->user, &error);
	if (p == NULL) {
		rbt_record_finish(&rec);
		answer(peer, error, "cannot be attached: %s", strerror(-error));
		return;
	}
	p->awaited = false;
	peer->attached = p;
	r = program_put_record(d, p, &rec, false);
	if (r < 0 && LIST_EMPTY(&p->holds)) {
		program_release(d, p);
	}
	answer(peer, r, "%s", r < 0 ? strerror(-r) : "");
}

static void on_list(struct daemon *d, struct peer *peer, const struct rbt_msg_pid *msg)
{
	static char buf[RBT_MSG_MAX];
	struct program *p = program_next(d, msg->pid);

	if (p == NULL) {
		answer(peer, 0, "%s", "");
		return;
	}
	size_t n = list_fill(d, p, msg->flags, buf, sizeof(buf));
	rbt_send(peer->source.fd, buf, n, NULL, 0, MSG_DONTWAIT);
}

void request_handle(
	struct daemon *d, struct peer *peer, const void *buf, size_t size, int *fds, size_t n_fds)
{
	union {
		struct rbt_msg_header h;
		struct rbt_msg_pid pid;
		struct rbt_msg_renice renice;
		struct rbt_msg_suspend suspend;
	} msg;

	memset(&msg, 0, sizeof(msg));
	memcpy(&msg, buf, size < sizeof(msg) ? size : sizeof(msg));
	if (msg.h.type == RBT_MSG_ATTACH) {
		on_attach(d, peer, buf, size, fds, n_fds);
	} else if (msg.h.type == RBT_MSG_RENICE && size == sizeof(msg.renice)) {
		on_renice(d, peer, &msg.renice);
	} else if (msg.h.type == RBT_MSG_MAY && size == sizeof(msg.renice)) {
		on_may(d, peer, &msg.renice);
	} else if (msg.h.type == RBT_MSG_SUSPEND && size == sizeof(msg.suspend)) {
		on_suspend(d, peer, &msg.suspend);
	} else if (msg.h.type == RBT_MSG_RESUME && size == sizeof(msg.pid)) {
		on_resume(d, peer, &msg.pid);
	} else if (msg.h.type == RBT_MSG_LIST && size == sizeof(msg.pid)) {
		on_list(d, peer, &msg.pid);
	} else {
		answer(peer, -EBADMSG, "not understood");
	}
}
