/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/requests.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/list.h"
#include "daemon/park/park.h"
#include "daemon/peers/allowed.h"
#include "daemon/peers/rights.h"
#include "daemon/policy/answers.h"
#include "daemon/program.h"
#include "daemon/reconcile.h"
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

/* Finds a program that is known and that the peer may act on. Otherwise answers, and returns
 * NULL. */
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

/*
 * Takes in the records of a program that wait because the program sends too many, so that an order
 * is about the tasks that it has now. The tool is charged for it.
 */
static void catch_up(struct daemon *d, const struct peer *peer, pid_t pid)
{
	const struct program *p = program_find(d, pid);

	if (p != NULL && p->peer != NULL && p->peer != peer) {
		peer_listen(d, p->peer);
	}
}

/* Carries a change out at once, so that the answer tells its result: 0, or -errno, and -EAGAIN when
 * nothing can be done at present. The program may be gone or released afterwards. */
static int reconcile_for(struct daemon *d, pid_t pid)
{
	struct client *h;

	d->dirty = true;
	if (reconcile(d) < 0) {
		return -EAGAIN;
	}
	struct program *p = program_find(d, pid);
	if (p == NULL) {
		return 0;
	}
	LIST_FOREACH (h, &p->clients, entries) {
		if (!program_is_plain(p) && !holding_may(h->mine, RBT_CAP_TIMESLICE)) {
			p->error = -EPROTONOSUPPORT;
		}
	}
	return p->error;
}

static void answer_untold(struct peer *peer, const struct program *p, uint32_t cap)
{
	char why[sizeof(((struct rbt_msg_program *)0)->note)] = "its driver's version is not known";

	if (p != NULL) {
		program_why_not(p, cap, why, sizeof(why));
	}
	answer(peer, -EPROTONOSUPPORT, "%s; see `rubato doctor`%s", why,
		cap == RBT_CAP_TIMESLICE ? ", or use --force" : "");
}

static void answer_reconciled(struct daemon *d, struct peer *peer, pid_t pid, int r)
{
	struct program *p = program_find(d, pid);

	switch (-r) {
	case 0:
		answer(peer, 0, "%s", p != NULL ? list_note(d, p) : "");
		return;
	case EPROTONOSUPPORT:
		answer_untold(peer, p, RBT_CAP_TIMESLICE);
		return;
	case EPERM:
	case EACCES:
		answer(peer, r, "the driver refused it (%s); see `rubato doctor`", strerror(-r));
		return;
	case EAGAIN:
		answer(peer, r, "cannot be done now; try again in a few seconds");
		return;
	case ENXIO:
		answer(peer, r, "has no such queue any more");
		return;
	case ETIMEDOUT:
		answer(peer, -EBUSY, "the program does not answer; is it stopped?");
		return;
	default:
		answer(peer, r, "%s", strerror(-r));
	}
}

static void allow_force(struct program *p)
{
	struct client *h;

	p->treat.force = 1;
	p->treat.said |= RBT_TREAT_BIT(FORCE);
	LIST_FOREACH (h, &p->clients, entries) {
		h->mine->force = true;
		h->in_hand = false;
	}
}

/* Whether a task of the program would get a longer slice than its driver gives. */
static bool is_longer(const struct program *p, uint64_t timeslice_us)
{
	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		const struct rbt_sched_tasks *tasks = &p->sched.params.tasks[gpu];
		if (tasks->n_compute > 0 && timeslice_us > rbt_sched_fair_slice_us(tasks)) {
			return true;
		}
	}
	return false;
}

/* The same for a program that is still to come: whether it would be so on every device here. */
static bool is_longer_everywhere(uint64_t timeslice_us)
{
	bool any = false;

	for (const struct rbt_backend *const *b = rbt_backends; *b != NULL; b++) {
		struct rbt_sched_tasks tasks = {
			.no_slices = !(*b)->has_slices, .own_us = (*b)->default_slice_us};
		if ((*b)->check_driver() == -ENODEV) {
			continue;
		}
		if (timeslice_us <= rbt_sched_fair_slice_us(&tasks)) {
			return false;
		}
		any = true;
	}
	return any;
}

/* Whether the peer may give a program a longer slice than its driver's; answers if not. */
static bool check_longer(struct daemon *d, struct peer *peer)
{
	bool is_trusted = may_raise(peer, RBT_PRIORITY_MAX);

	if (!is_trusted) {
		answer(peer, -EPERM, "a slice longer than the driver's " LIST_RAISING,
			d->admins.group);
	}
	return is_trusted;
}

/* Whether the peer may give a program this treatment; answers if not. */
static bool check_rights(struct daemon *d, struct peer *peer, const struct rbt_treatment *old,
	const struct rbt_treatment *now)
{
	bool is_trusted = may_raise(peer, RBT_PRIORITY_MAX);
	uint32_t raised = 0;

	if (now->priority > old->priority && !may_raise(peer, now->priority)) {
		raised |= RBT_TREAT_BIT(PRIORITY);
	}
	if (now->weight > old->weight && !is_trusted) {
		raised |= RBT_TREAT_BIT(WEIGHT);
	}
	if (!is_trusted && limits_take_more(d, &old->limits, &now->limits)) {
		raised |= RBT_TREAT_BIT(MAX_RESERVE) | RBT_TREAT_BIT(MIN_SHARE);
	}
	if (raised != 0) {
		answer(peer, -EPERM, "%s " LIST_RAISING, list_raising_text(raised),
			d->admins.group);
	}
	return raised == 0;
}

/* Whether the peer may renice the program in this way; answers if not. */
static bool check_renice(struct daemon *d, struct peer *peer, const struct program *p,
	const struct rbt_treatment *old, const struct rbt_treatment *over)
{
	struct rbt_treatment now = *old;

	rbt_treatment_merge(&now, over);
	if (over->timeslice_us != 0 && over->timeslice_us < RBT_TURN_MIN_US &&
		list_has_no_slices(p)) {
		answer(peer, -EOPNOTSUPP, LIST_NO_SLICES);
		return false;
	}
	if (!check_rights(d, peer, old, &now)) {
		return false;
	}
	return !is_longer(p, over->timeslice_us) || check_longer(d, peer);
}

/* A limit stays granted if a user without the right to raise changes it: check_rights() has made
 * sure that it did not become more. */
static uint32_t new_grants(const struct peer *peer, uint32_t old, const struct rbt_treatment *over)
{
	const uint32_t trust = RBT_TREAT_BIT(PRIORITY);
	bool is_trusted = may_raise(peer, RBT_PRIORITY_MAX);
	uint32_t granted = (old & ~over->reset) | (is_trusted ? over->said : 0);

	if (((over->said | over->reset) & (trust | RBT_TREAT_BIT(TIMESLICE))) != 0) {
		granted = is_trusted ? granted | trust : granted & ~trust;
	}
	return granted;
}

/* Reads the treatment at the end of a message; answers and returns false if it is wrong. */
static bool read_treatment(
	struct peer *peer, const void *buf, size_t size, struct rbt_treatment *ret)
{
	const size_t head = offsetof(struct rbt_msg_renice, treat);
	int r = size < head ? -EBADMSG
			    : rbt_treatment_decode((const char *)buf + head, size - head, ret);

	if (r == -EINVAL) {
		answer(peer, r, "priority, timeslice, weight or limit out of range");
	} else if (r < 0) {
		answer(peer, r, "not understood");
	}
	return r == 0;
}

/* Answers whether a program that is still to come may have a treatment. */
static void on_may(struct daemon *d, struct peer *peer, const void *buf, size_t size)
{
	struct rbt_treatment over, now = RBT_TREATMENT_INIT;
	char why[sizeof(((struct rbt_msg_program *)0)->note)];

	if (!read_treatment(peer, buf, size, &over)) {
		return;
	}
	rbt_treatment_merge(&now, &over);
	if (!check_rights(d, peer, &RBT_TREATMENT_INIT, &now) ||
		(is_longer_everywhere(now.timeslice_us) && !check_longer(d, peer))) {
		return;
	}
	bool is_special = rbt_class_of(now.priority) != RBT_CLASS_NORMAL || now.timeslice_us != 0;
	bool force = now.force != 0 && may_raise(peer, RBT_PRIORITY_MAX);
	int r = is_special ? drivers_may(RBT_CAP_TIMESLICE, force, why, sizeof(why)) : 0;
	answer(peer, r, "%s", r < 0 ? why : "");
}

/* Changes the treatment, or leaves the old one if the driver refuses. */
static void treat(struct daemon *d, struct peer *peer, struct program *p,
	const struct rbt_treatment *over, bool force)
{
	struct rbt_treatment old = p->treat, now = old;
	uint32_t granted = p->rights.granted;
	uint64_t start_time = p->start_time;
	pid_t pid = p->pid;

	rbt_treatment_merge(&now, over);
	now.reset = 0;
	program_set_treatment(p, &now, new_grants(peer, granted, over));
	run_renice(d, p);
	/* Forcing once is enough: a forced change must be undone without being forced again. */
	if (force && p->treat.force == 0 && may_raise(peer, RBT_PRIORITY_MAX)) {
		allow_force(p);
	}
	peer->answer_priority = now.priority;
	int r = reconcile_for(d, pid);
	p = program_find(d, pid);
	if (r == 0) {
		byhand_note(d, pid, start_time, true);
	}
	if (r == 0 && p != NULL) {
		/* The note about keys refused at the start is out of date. */
		p->rights.refused &= ~over->said;
	} else if (r < 0 && p != NULL) {
		program_set_treatment(p, &old, granted);
		run_renice(d, p);
		reconcile_for(d, pid);
	}
	answer_reconciled(d, peer, pid, r);
}

static void on_renice(struct daemon *d, struct peer *peer, pid_t pid, const void *buf, size_t size)
{
	struct rbt_treatment over;

	if (!read_treatment(peer, buf, size, &over)) {
		return;
	}
	struct program *p = find_for(d, peer, pid);
	if (p == NULL) {
		return;
	}
	bool force = over.force != 0;
	/* The program's launcher or rule chooses its group. */
	over.said &= ~(RBT_TREAT_BIT(GROUP) | RBT_TREAT_BIT(FORCE));
	over.reset &= ~(RBT_TREAT_BIT(GROUP) | RBT_TREAT_BIT(FORCE));
	/* A limit that is not in force any more gives no right to it. */
	struct rbt_treatment had = p->treat;
	had.limits = limits_in_force(d, p);
	if (check_renice(d, peer, p, &had, &over)) {
		treat(d, peer, p, &over, force);
	}
}

/* Resumes also what this daemon did not suspend: another one may have, and died. */
static void resume(struct program *p)
{
	struct client *h;

	p->suspend.is_ordered = false;
	p->suspend.until_ns = 0;
	p->suspend.queues.n = 0;
	LIST_FOREACH (h, &p->clients, entries) {
		rbt_holding_assume_off(h->mine);
	}
}

static void on_suspend(struct daemon *d, struct peer *peer, const struct rbt_msg_suspend *msg)
{
	catch_up(d, peer, msg->pid);
	struct program *p = find_for(d, peer, msg->pid);

	if (p == NULL) {
		return;
	}
	if (msg->for_ms > UINT64_MAX / RBT_NS_PER_MS / 2) {
		answer(peer, -EINVAL, "duration out of range");
		return;
	}
	if (program_is_partial(p)) {
		answer(peer, -E2BIG, "it has more tasks than are known: half of it would go on");
		return;
	}
	uint64_t start_time = p->start_time;
	if (!program_may(p, RBT_CAP_SUSPEND)) {
		answer_untold(peer, p, RBT_CAP_SUSPEND);
		return;
	}
	bool was_suspended = p->suspend.is_ordered;
	p->suspend.is_ordered = true;
	p->suspend.until_ns = msg->for_ms == 0 ? 0 : rbt_now_ns() + msg->for_ms * RBT_NS_PER_MS;
	int r = reconcile_for(d, msg->pid);
	p = program_find(d, msg->pid);
	if (p != NULL && r == 0) {
		p->account.n_suspends += !was_suspended;
		byhand_note(d, msg->pid, start_time, false);
	}
	/* A half suspended program is worse than a running one. */
	if (p != NULL && r < 0) {
		resume(p);
		reconcile_for(d, msg->pid);
	}
	answer_reconciled(d, peer, msg->pid, r);
}

static void on_resume(struct daemon *d, struct peer *peer, const struct rbt_msg_pid *msg)
{
	uint64_t start_time;
	uid_t uid;

	/* The program runs already, though its tasks are not known yet. */
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
	if (!program_may(p, RBT_CAP_SUSPEND)) {
		answer_untold(peer, p, RBT_CAP_SUSPEND);
		return;
	}
	resume(p);
	int r = reconcile_for(d, msg->pid);
	if (r == 0) {
		byhand_note(d, msg->pid, start_time, false);
	}
	answer_reconciled(d, peer, msg->pid, r);
}

/* Whether single queues of the program can be changed, and it has these; answers if not. */
static bool check_queues(
	struct peer *peer, const struct program *p, const struct rbt_msg_queues *msg)
{
	if (msg->n == 0 || msg->n > RBT_RECORD_MAX_TASKS ||
		msg->for_ms > UINT64_MAX / RBT_NS_PER_MS / 2) {
		answer(peer, -EINVAL, "duration or number of queues out of range");
		return false;
	}
	if (!queues_are_possible(p)) {
		answer(peer, -EOPNOTSUPP,
			"the tasks of its GPU cannot be suspended one by one; without --queue all of "
			"them are");
		return false;
	}
	for (uint32_t i = 0; i < msg->n; i++) {
		if (!queues_exist(p, msg->ids[i])) {
			answer(peer, -ENXIO, "has no queue %u", msg->ids[i]);
			return false;
		}
	}
	if (!program_may(p, RBT_CAP_SUSPEND)) {
		answer_untold(peer, p, RBT_CAP_SUSPEND);
		return false;
	}
	return true;
}

/* Changes the orders for the queues that the message names. */
static int change_queues(struct queue_orders *orders, const struct rbt_msg_queues *msg)
{
	uint64_t until_ns = msg->for_ms == 0 ? 0 : rbt_now_ns() + msg->for_ms * RBT_NS_PER_MS;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < msg->n; i++) {
		if (msg->h.type == RBT_MSG_SUSPEND_QUEUES) {
			r = queues_add(orders,
				(struct queue_order){.handle = msg->ids[i], .until_ns = until_ns});
		} else {
			(void)queues_remove(orders, msg->ids[i]);
		}
	}
	return r;
}

static void on_queues(struct daemon *d, struct peer *peer, const void *buf)
{
	static struct rbt_msg_queues msg; /* large, as the next one */
	static struct queue_orders before;

	memcpy(&msg, buf, sizeof(msg));
	catch_up(d, peer, msg.pid);
	struct program *p = find_for(d, peer, msg.pid);
	if (p == NULL || !check_queues(peer, p, &msg)) {
		return;
	}
	if (msg.h.type == RBT_MSG_RESUME_QUEUES && p->suspend.is_ordered) {
		answer(peer, -EBUSY,
			"is suspended as a whole; `rubato resume %d` resumes all of it",
			(int)p->pid);
		return;
	}
	uint64_t start_time = p->start_time;
	before = p->suspend.queues;
	int r = change_queues(&p->suspend.queues, &msg);
	r = r < 0 ? r : reconcile_for(d, msg.pid);
	p = program_find(d, msg.pid);
	if (r == 0 && p != NULL && msg.h.type == RBT_MSG_SUSPEND_QUEUES &&
		!queues_are_off(p, msg.ids, msg.n)) {
		/* The program has destroyed one of them, and its record is on the way. A tool sends
		 * the record of an attached program. */
		r = p->peer != NULL ? -EAGAIN : -ENXIO;
	}
	if (r == 0) {
		byhand_note(d, msg.pid, start_time, false);
	} else if (p != NULL && msg.h.type == RBT_MSG_SUSPEND_QUEUES) {
		p->suspend.queues = before;
		reconcile_for(d, msg.pid);
	}
	answer_reconciled(d, peer, msg.pid, r);
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
	if (r < 0 && LIST_EMPTY(&p->clients)) {
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
		struct rbt_msg_suspend suspend;
		struct rbt_msg_trace trace;
	} msg;

	memset(&msg, 0, sizeof(msg));
	memcpy(&msg, buf, size < sizeof(msg) ? size : sizeof(msg));
	if (park_handles(msg.h.type)) {
		park_handle(d, peer, buf, size);
		return;
	}
	if (policy_handles(msg.h.type)) {
		policy_handle(d, peer, buf, size, fds, n_fds);
		return;
	}
	if (msg.h.type == RBT_MSG_ATTACH) {
		on_attach(d, peer, buf, size, fds, n_fds);
	} else if (msg.h.type == RBT_MSG_RENICE) {
		on_renice(d, peer, msg.pid.pid, buf, size);
	} else if (msg.h.type == RBT_MSG_MAY) {
		on_may(d, peer, buf, size);
	} else if (msg.h.type == RBT_MSG_SUSPEND && size == sizeof(msg.suspend)) {
		on_suspend(d, peer, &msg.suspend);
	} else if (msg.h.type == RBT_MSG_RESUME && size == sizeof(msg.pid)) {
		on_resume(d, peer, &msg.pid);
	} else if ((msg.h.type == RBT_MSG_SUSPEND_QUEUES || msg.h.type == RBT_MSG_RESUME_QUEUES) &&
		   size == sizeof(struct rbt_msg_queues)) {
		on_queues(d, peer, buf);
	} else if (msg.h.type == RBT_MSG_LIST && size == sizeof(msg.pid)) {
		on_list(d, peer, &msg.pid);
	} else if (msg.h.type == RBT_MSG_TRACE && size == sizeof(msg.trace)) {
		trace_answer(d, peer, &msg.trace);
	} else {
		answer(peer, -EBADMSG, "not understood");
	}
}
