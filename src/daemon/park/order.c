/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of users: what is refused, and how an accepted one begins. */
#include "daemon/park/order.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "board/park.h"
#include "daemon/daemon.h"
#include "daemon/park/check.h"
#include "daemon/peers/rights.h"
#include "daemon/program.h"
#include "daemon/reconcile.h"
#include "util/fd.h"
#include "util/proc.h"
#include "util/time.h"

#define GB 1e9

/* A refusal, before it is sent. */
struct park_refusal {
	int error;
	char text[PARKED_TEXT];
};

__attribute__((format(printf, 3, 4))) static int refuse(
	struct park_refusal *r, int error, const char *fmt, ...)
{
	va_list ap;

	r->error = error;
	va_start(ap, fmt);
	vsnprintf(r->text, sizeof(r->text), fmt, ap);
	va_end(ap);
	return error;
}

__attribute__((format(printf, 3, 4))) static void answer(
	const struct peer *peer, int error, const char *fmt, ...)
{
	struct rbt_msg_result msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_RESULT}, .error = error};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg.text, sizeof(msg.text), fmt, ap);
	va_end(ap);
	/* A tool that does not read its answers loses them. */
	(void)rbt_send(peer->source.fd, &msg, sizeof(msg), NULL, 0, MSG_DONTWAIT);
}

/* The programs of a group are those that have its turns, whoever parks them. */
static uint64_t group_of(const struct program *p)
{
	uint64_t hash = 14695981039346656037ull ^ p->uid;

	for (const char *c = p->treat.group; *c != '\0'; c++) {
		hash = (hash ^ (unsigned char)*c) * 1099511628211ull;
	}
	return p->group.id != 0 ? hash | 1 : 0;
}

static bool is_named(const struct rbt_msg_park *m, pid_t pid)
{
	for (uint32_t i = 0; i < m->n; i++) {
		if (m->pids[i] == pid) {
			return true;
		}
	}
	return false;
}

static int check_group(struct daemon *d, const struct program *p, const struct rbt_msg_park *m,
	struct park_refusal *r)
{
	const struct program *q;

	LIST_FOREACH (q, &d->programs, entries) {
		if (p->group.id != 0 && q->group.id == p->group.id && !is_named(m, q->pid)) {
			return refuse(r, -EINVAL,
				"is a rank of group %s; name all its ranks, also %d",
				p->treat.group, (int)q->pid);
		}
	}
	return 0;
}

/* Whether the driver can do it with this program. */
static int check_driver(
	const struct program *p, const struct rbt_msg_park *m, struct park_refusal *r)
{
	const struct client *h = LIST_FIRST(&p->clients);
	const struct rbt_backend *b = h != NULL ? rbt_backend_by_id(h->backend) : NULL;
	char why[PARKED_TEXT];

	if (h == NULL) {
		return refuse(r, -ENXIO, "does not use a GPU");
	}
	if (b == NULL || b->may_park == NULL) {
		return refuse(r, -EOPNOTSUPP, "its GPU's driver cannot park programs");
	}
	if ((m->flags & RBT_PARK_FORCE) == 0 && b->may_park(why, sizeof(why)) < 0) {
		return refuse(r, -EPROTONOSUPPORT, "%.120s; --force tries it", why);
	}
	return 0;
}

/* A process of the same run could use up the limit meanwhile, unless the program's library keeps
 * its memory charged. Then the program's memory would be refused on its way back, and the program
 * lost. */
static int check_limit(struct daemon *d, const struct program *p, const struct rbt_msg_park *m,
	struct park_refusal *r)
{
	const struct program *q;

	if (p->reader.board != NULL && rbt_park_keeps(p->reader.board)) {
		return 0;
	}
	LIST_FOREACH (q, &d->programs, entries) {
		if (q != p && p->run.run != NULL && p->run.run->limit != 0 &&
			q->run.run == p->run.run && (m->flags & RBT_PARK_FORCE) == 0) {
			return refuse(r, -EBUSY,
				"shares a memory limit with process %d, which could take its memory; "
				"--force tries it",
				(int)q->pid);
		}
	}
	return 0;
}

/* What a driver does badly, or for ever. */
static int check_process(const struct program *p, const struct parked *k,
	const struct rbt_msg_park *m, struct park_refusal *r)
{
	uint64_t room = check_host_memory(p->pid), managed = check_managed_bytes(p->pid);

	if (check_is_stopped(p->pid)) {
		return refuse(r, -EBUSY, PARKED_STOPPED);
	}
	if (park_bytes(k) > room) {
		return refuse(r, -ENOMEM,
			"has %.1f GB on the GPU, and only %.1f GB of host memory are available",
			(double)park_bytes(k) / GB, (double)room / GB);
	}
	if (managed > 0 && (m->flags & RBT_PARK_FORCE) == 0) {
		return refuse(r, -EOPNOTSUPP,
			"has %.1f GB of managed memory, which does not survive; --force tries it",
			(double)managed / GB);
	}
	return 0;
}

/* Notes the memory that it has now on each GPU. */
static int measure(const struct program *p, struct parked *k, struct park_refusal *r)
{
	const struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		const struct rbt_backend *b = rbt_backend_by_id(h->backend);
		int n = b->usage(&h->mine->rec, p->pid, k->gpus, PARKED_GPUS);
		if (n > 0) {
			/* The driver counts per process: one client's answer is the program's. */
			k->backend = h->backend;
			k->n_gpus = (uint32_t)n;
			return 0;
		}
	}
	return refuse(r, -EIO, "its memory on the GPU is not known");
}

static struct parked *make(struct daemon *d, pid_t pid, uint64_t start_time)
{
	struct parked *k = calloc(1, sizeof(*k));

	if (k != NULL) {
		k->pid = pid;
		k->start_time = start_time;
		k->state = -1;
		LIST_INSERT_HEAD(&d->parking.list, k, entries);
	}
	return k;
}

/* Checks one program of an order to park. 0; or -errno, with a refusal. */
static int check(struct daemon *d, struct peer *peer, const struct program *p,
	const struct rbt_msg_park *m, struct park_refusal *r)
{
	const struct parked *k = park_find(d, p);
	struct parked probe = {.pid = p->pid};

	if (peer != NULL && !may_touch(peer, program_owner(p))) {
		return refuse(r, -EPERM, "belongs to another user");
	}
	if (k != NULL && k->phase == RBT_PARK_LOST) {
		return refuse(r, k->error, "%s", k->text);
	}
	/* The user's order takes the place of ours. */
	if (k != NULL && k->is_idle && k->is_wanted_off) {
		return 0;
	}
	/* Only an order to come back that has not begun can be withdrawn. */
	if (k != NULL) {
		return k->is_wanted_off ? refuse(r, -EALREADY, "is parked already")
		       : k->phase == RBT_PARK_WAITING
			       ? 0
			       : refuse(r, -EBUSY, "is coming back; try again when it is there");
	}
	int e = check_driver(p, m, r);
	e = e < 0 ? e : check_group(d, p, m, r);
	e = e < 0 ? e : check_limit(d, p, m, r);
	e = e < 0 ? e : measure(p, &probe, r);
	return e < 0 ? e : check_process(p, &probe, m, r);
}

/* The longest own slice of its compute tasks. */
static uint64_t own_slice_us(const struct program *p)
{
	const struct client *h;
	uint64_t longest = p->kept_slice_us;

	LIST_FOREACH (h, &p->clients, entries) {
		const struct rbt_record *rec = &h->mine->rec;
		for (uint32_t i = 0; i < rec->n_tasks; i++) {
			const struct rbt_task *t = &rec->tasks[i];
			if (t->kind == RBT_TASK_COMPUTE && t->own_timeslice_us > longest &&
				(t->valid & RBT_TASK_HAS_OWN_TIMESLICE) != 0) {
				longest = t->own_timeslice_us;
			}
		}
	}
	return longest;
}

void park_keep_slices(const struct program *p, struct rbt_record *rec)
{
	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		struct rbt_task *t = &rec->tasks[i];
		if (t->kind == RBT_TASK_COMPUTE && t->own_timeslice_us < p->kept_slice_us) {
			t->own_timeslice_us = p->kept_slice_us;
			t->valid |= RBT_TASK_HAS_OWN_TIMESLICE;
		}
	}
}

static uint64_t end_of(const struct rbt_msg_park *m)
{
	return m->for_ms > 0 ? rbt_now_ns() + m->for_ms * RBT_NS_PER_MS : 0;
}

/* The program does not come back by itself any more. */
static void stay_off(struct program *p, struct parked *k, const struct rbt_msg_park *m)
{
	k->is_idle = false;
	k->until_ns = end_of(m);
	if (p->reader.board != NULL) {
		rbt_park_end(p->reader.board);
	}
}

static int accept_off(
	struct daemon *d, struct program *p, const struct rbt_msg_park *m, struct park_refusal *r)
{
	struct parked *k = park_find_pid(d, p->pid, p->start_time);

	if (k != NULL && k->phase != RBT_PARK_RUNNING && k->is_idle && k->is_wanted_off) {
		stay_off(p, k, m);
		return 0;
	}
	if (k != NULL && k->phase == RBT_PARK_WAITING) {
		stay_off(p, k, m);
		k->is_wanted_off = true;
		k->phase = RBT_PARK_PARKED;
		k->error = 0;
		k->text[0] = '\0';
		return 0;
	}
	if (k != NULL) {
		park_drop(k);
	}
	k = make(d, p->pid, p->start_time);
	if (k == NULL) {
		return refuse(r, -ENOMEM, "no memory");
	}
	k->is_wanted_off = true;
	k->is_read = true;
	k->is_forced = (m->flags & RBT_PARK_FORCE) != 0;
	k->group = group_of(p);
	k->until_ns = end_of(m);
	k->phase = RBT_PARK_LEAVING;
	p->kept_slice_us = own_slice_us(p);
	return measure(p, k, r);
}

/* Removes what an order has made that cannot be carried out. */
static void withdraw(struct daemon *d, const struct rbt_msg_park *m)
{
	for (uint32_t i = 0; i < m->n; i++) {
		const struct program *p = program_find(d, m->pids[i]);
		struct parked *k = p != NULL ? park_find(d, p) : NULL;
		if (k != NULL && k->phase == RBT_PARK_LEAVING && k->job == NULL) {
			park_drop(k);
		}
	}
	d->dirty = true;
}

/* The first program that is named, and the named ones of its group. */
static struct rbt_msg_park first_group(struct daemon *d, const struct rbt_msg_park *m)
{
	const struct program *first = program_find(d, m->pids[0]);
	struct rbt_msg_park ret = *m;

	ret.n = 1;
	for (uint32_t i = 1; i < m->n; i++) {
		const struct program *p = program_find(d, m->pids[i]);
		if (first != NULL && p != NULL && p != first && first->group.id != 0 &&
			p->group.id == first->group.id) {
			ret.pids[ret.n++] = m->pids[i];
		}
	}
	return ret;
}

/* Checks all programs before the first change. */
static void check_all(
	struct daemon *d, struct peer *peer, const struct rbt_msg_park *m, struct park_refusal *r)
{
	for (uint32_t i = 0; i < m->n && r->error == 0; i++) {
		const struct program *p = program_find(d, m->pids[i]);
		if (p == NULL || p->awaited) {
			refuse(r, -ESRCH, "is not managed");
		} else {
			(void)check(d, peer, p, m, r);
		}
	}
}

/* Out of its turns: the core knows no tasks of it any more, so it gets its own slices back and is
 * resumed. A suspended program could not be locked. */
static void leave_turns(struct daemon *d, const struct rbt_msg_park *m, struct park_refusal *r)
{
	d->dirty = true;
	if (reconcile(d) < 0) {
		refuse(r, -EAGAIN, "cannot be done now; try again in a few seconds");
	}
	for (uint32_t i = 0; i < m->n && r->error == 0; i++) {
		const struct program *p = program_find(d, m->pids[i]);
		if (p != NULL && program_is_changed(p)) {
			refuse(r, -EBUSY, "the driver did not give it its own slices back");
		}
	}
}

static void on_off(struct daemon *d, struct peer *peer, const struct rbt_msg_park *named)
{
	struct rbt_msg_park m = first_group(d, named);
	struct park_refusal r = {0};

	check_all(d, peer, &m, &r);
	for (uint32_t i = 0; i < m.n && r.error == 0; i++) {
		(void)accept_off(d, program_find(d, m.pids[i]), &m, &r);
	}
	if (r.error == 0) {
		leave_turns(d, &m, &r);
	}
	if (r.error != 0) {
		withdraw(d, &m);
	} else {
		park_write(d);
		park_tick(d, rbt_now_ns());
	}
	answer(peer, r.error, "%s", r.text);
}

int park_order_idle(struct daemon *d, struct program *p, uint64_t n_calls)
{
	struct rbt_msg_park m = {.n = 1, .pids = {p->pid}};
	struct park_refusal r = {0};

	(void)check(d, NULL, p, &m, &r);
	if (r.error == 0) {
		(void)accept_off(d, p, &m, &r);
	}
	struct parked *k = r.error == 0 ? park_find(d, p) : NULL;
	if (k != NULL) {
		k->is_idle = true;
		k->n_calls = n_calls;
		leave_turns(d, &m, &r);
	}
	/* That has taken some milliseconds. */
	p = program_find(d, m.pids[0]);
	if (r.error == 0 && (p == NULL || p->reader.board == NULL ||
				    rbt_park_calls(p->reader.board) != n_calls)) {
		refuse(&r, -EAGAIN, "is not idle any more");
	}
	if (r.error != 0) {
		withdraw(d, &m);
		return r.error;
	}
	park_write(d);
	park_tick(d, rbt_now_ns());
	return 0;
}

static int accept_back(struct daemon *d, struct peer *peer, pid_t pid, const struct rbt_msg_park *m,
	struct park_refusal *r)
{
	struct parked *list[RBT_PARK_MAX];
	uint64_t start_time;
	uid_t owner;

	if (rbt_proc_start_time(pid, &start_time) < 0 || rbt_proc_uid(pid, &owner) < 0) {
		return refuse(r, -ESRCH, "no such process");
	}
	if (!may_touch(peer, owner)) {
		return refuse(r, -EPERM, "belongs to another user");
	}
	if (check_is_stopped(pid)) {
		return refuse(r, -EBUSY, PARKED_STOPPED);
	}
	struct parked *k = park_find_pid(d, pid, start_time);
	if (k != NULL && k->phase == RBT_PARK_LOST) {
		return refuse(r, k->error, "%s", k->text);
	}
	if (k != NULL && k->phase == RBT_PARK_RUNNING) {
		park_drop(k);
		k = NULL;
	}
	if (k == NULL) {
		/* Another tool, or a daemon whose file is lost, may have parked it: the driver
		 * knows. */
		k = make(d, pid, start_time);
		if (k == NULL) {
			return refuse(r, -ENOMEM, "no memory");
		}
		k->phase = RBT_PARK_PARKED;
		k->is_asked = true;
	}
	size_t n = park_group(d, k, list, RBT_PARK_MAX);
	for (size_t i = 0; i < n; i++) {
		list[i]->is_wanted_off = false;
		list[i]->until_ns = 0;
		list[i]->is_forced = (m->flags & RBT_PARK_FORCE) != 0;
		list[i]->is_no_wait = (m->flags & RBT_PARK_NO_WAIT) != 0;
		list[i]->error = 0;
		list[i]->text[0] = '\0';
		list[i]->retry_ns = 0;
	}
	return 0;
}

static void on_back(struct daemon *d, struct peer *peer, const struct rbt_msg_park *m)
{
	struct park_refusal r = {0};

	(void)accept_back(d, peer, m->pids[0], m, &r);
	park_write(d);
	park_tick(d, rbt_now_ns());
	answer(peer, r.error, "%s", r.text);
}

/* How much of a move is done. Either side shows it: the host's memory grows as the GPU's
 * shrinks. */
static uint64_t done_bytes(struct daemon *d, const struct parked *k)
{
	const struct program *p = program_find(d, k->pid);
	const struct client *h = p != NULL ? LIST_FIRST(&p->clients) : NULL;
	const struct rbt_backend *b = h != NULL ? rbt_backend_by_id(h->backend) : NULL;
	struct rbt_gpu_usage list[PARKED_GPUS];
	uint64_t total = park_bytes(k), there = 0, rss = check_resident_bytes(k->pid), moved = 0;
	bool is_off = k->phase == RBT_PARK_LEAVING;

	int n = b != NULL && b->usage != NULL ? b->usage(&h->mine->rec, k->pid, list, PARKED_GPUS)
					      : 0;
	for (int i = 0; i < n; i++) {
		there += list[i].bytes;
	}
	if (k->job == NULL) {
		return k->phase == RBT_PARK_PARKED || k->phase == RBT_PARK_RUNNING ? total : 0;
	}
	if (is_off) {
		moved = rss > k->rss_bytes ? rss - k->rss_bytes : 0;
		there = n > 0 && there < total ? total - there : 0;
	} else {
		moved = rss < k->rss_bytes ? k->rss_bytes - rss : 0;
	}
	moved = there > moved ? there : moved;
	return moved < total ? moved : total;
}

static void on_state(struct daemon *d, struct peer *peer, const struct rbt_msg_pid *m)
{
	struct rbt_msg_parked msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_PARKED},
		.pid = m->pid,
		.phase = RBT_PARK_RUNNING,
	};
	struct parked *k = NULL;
	uint64_t start_time;

	park_tick(d, rbt_now_ns());
	if (rbt_proc_start_time(m->pid, &start_time) == 0) {
		k = park_find_pid(d, m->pid, start_time);
	} else {
		msg.error = -ESRCH;
	}
	if (k != NULL) {
		/* An order whose program was not looked at yet is on its way. */
		msg.phase = !k->is_read && k->job != NULL && k->phase == RBT_PARK_PARKED
				    ? RBT_PARK_COMING_BACK
				    : k->phase;
		if (k->phase == RBT_PARK_PARKED && !k->is_wanted_off) {
			msg.phase = RBT_PARK_COMING_BACK;
		}
		msg.error = k->error;
		msg.is_overdue = k->job != NULL && rbt_now_ns() > k->job->deadline_ns;
		msg.total_bytes = park_bytes(k);
		msg.done_bytes = done_bytes(d, k);
		memcpy(msg.text, k->text, sizeof(k->text));
	}
	(void)rbt_send(peer->source.fd, &msg, sizeof(msg), NULL, 0, MSG_DONTWAIT);
}

bool park_handles(uint32_t type)
{
	return type == RBT_MSG_PARK || type == RBT_MSG_PARK_STATE;
}

void park_handle(struct daemon *d, struct peer *peer, const void *buf, size_t size)
{
	struct rbt_msg_header h;
	struct rbt_msg_park m;
	struct rbt_msg_pid pid;

	memcpy(&h, buf, sizeof(h));
	if (h.type == RBT_MSG_PARK_STATE && size == sizeof(pid)) {
		memcpy(&pid, buf, sizeof(pid));
		on_state(d, peer, &pid);
		return;
	}
	if (h.type != RBT_MSG_PARK || size != sizeof(m)) {
		answer(peer, -EBADMSG, "not understood");
		return;
	}
	memcpy(&m, buf, sizeof(m));
	if (m.n == 0 || m.n > RBT_PARK_MAX) {
		answer(peer, -EBADMSG, "not understood");
	} else if ((m.flags & RBT_PARK_BACK) != 0) {
		on_back(d, peer, &m);
	} else {
		on_off(d, peer, &m);
	}
}
