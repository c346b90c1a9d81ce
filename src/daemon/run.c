/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/peers/server.h"
#include "daemon/program.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/proc.h"
#include "util/time.h"

static bool is_used(const struct run *r)
{
	for (uint32_t i = 0; r->ledger != NULL && i < RBT_LEDGER_SLOTS; i++) {
		if (atomic_load(&r->ledger->slots[i].pid) != 0) {
			return true;
		}
	}
	return false;
}

static bool has_programs(struct daemon *d, const struct run *r)
{
	const struct program *p;

	LIST_FOREACH (p, &d->programs, entries) {
		if (p->run.run == r) {
			return true;
		}
	}
	return false;
}

static void run_destroy(struct run *r)
{
	LIST_REMOVE(r, entries);
	rbt_ledger_unmap(r->ledger);
	rbt_close(&r->fd);
	free(r);
}

static void clear_slot(struct run *r, uint32_t slot)
{
	if (!rbt_ledger_clear_slot(r->ledger, slot)) {
		r->needs_audit = true;
	}
}

/* Whether the slot's process is still the program that it was when it got the slot. If /proc does
 * not show it, the process counts as the same for as long as it lives. */
static bool is_alive(const struct run *r, uint32_t slot)
{
	uint64_t image, then = atomic_load(&r->ledger->slots[slot].image);
	pid_t pid = (pid_t)atomic_load(&r->ledger->slots[slot].pid);

	return rbt_proc_image(pid, &image) == 0 &&
	       (image == then || image == RBT_IMAGE_HIDDEN || then == RBT_IMAGE_HIDDEN);
}

static const struct program *owner_of(struct daemon *d, const struct run *r, uint32_t slot)
{
	const struct program *p;

	LIST_FOREACH (p, &d->programs, entries) {
		if (p->run.run == r && p->run.slot == (int)slot) {
			return p;
		}
	}
	return NULL;
}

/* Slots of processes that have ended are cleared. Slots of processes that are not connected at
 * present are looked at again. */
static void look_at_slots(struct daemon *d, struct run *r)
{
	for (uint32_t i = 0; r->ledger != NULL && i < RBT_LEDGER_SLOTS; i++) {
		if (atomic_load(&r->ledger->slots[i].pid) == 0 || owner_of(d, r, i) != NULL) {
			continue;
		}
		if (is_alive(r, i)) {
			r->needs_look = true;
		} else {
			clear_slot(r, i);
		}
	}
}

/* A process has one slot, in one run: it may have called exec, and may have a new name. */
static void forget_pid(struct daemon *d, pid_t pid)
{
	struct run *r;

	LIST_FOREACH (r, &d->runs.list, entries) {
		for (uint32_t i = 0; r->ledger != NULL && i < RBT_LEDGER_SLOTS; i++) {
			if ((pid_t)atomic_load(&r->ledger->slots[i].pid) == pid) {
				clear_slot(r, i);
				r->needs_look = true;
			}
		}
	}
}

/* Returns 0, or -errno; then each process counts for itself. */
static int need_ledger(struct run *r)
{
	if (r->ledger != NULL) {
		return 0;
	}
	r->fd = rbt_ledger_create_fd();
	if (r->fd < 0) {
		return r->fd;
	}
	int error = rbt_ledger_map(r->fd, &r->ledger);
	if (error < 0) {
		rbt_close(&r->fd);
	}
	return error;
}

static int send_ledger(struct run *r, struct program *p)
{
	struct rbt_msg_ledger msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_LEDGER},
	};
	uint64_t image;

	if (rbt_proc_image(p->pid, &image) < 0) {
		return -ESRCH;
	}
	int slot = rbt_ledger_take_slot(r->ledger, (uint32_t)p->pid, image);
	if (slot < 0) {
		return slot;
	}
	msg.slot = (uint32_t)slot;
	int error = rbt_send(p->peer->source.fd, &msg, sizeof(msg), &r->fd, 1, MSG_DONTWAIT);
	if (error < 0) {
		clear_slot(r, msg.slot);
		return error;
	}
	p->run.slot = slot;
	return 0;
}

/* Passes the limit on, and the ledger to all programs that do not have it yet. */
static void update(struct daemon *d, struct run *r)
{
	struct program *p;
	int error = r->limit != 0 ? need_ledger(r) : 0;

	if (error < 0) {
		rbt_warn("a memory limit holds for each process by itself: no ledger: %s",
			strerror(-error));
	}
	if (r->ledger == NULL) {
		return;
	}
	atomic_store(&r->ledger->limit, r->limit);
	LIST_FOREACH (p, &d->programs, entries) {
		if (p->run.run != r || p->run.slot >= 0 || p->peer == NULL) {
			continue;
		}
		error = send_ledger(r, p);
		if (error == -ENOSPC) {
			rbt_debug("process %d counts its memory for itself: its run has too many "
				  "processes",
				(int)p->pid);
		} else if (error < 0) {
			r->needs_look = true;
		}
	}
}

static struct run *find(struct daemon *d, uid_t uid, const char *name)
{
	struct run *r;

	LIST_FOREACH (r, &d->runs.list, entries) {
		if (r->uid == uid && strcmp(r->name, name) == 0) {
			return r;
		}
	}
	return NULL;
}

static struct run *obtain(struct daemon *d, const struct program *p, const char *name)
{
	struct run *r = find(d, p->uid, name);

	if (r != NULL) {
		return r;
	}
	r = calloc(1, sizeof(*r));
	if (r == NULL) {
		return NULL;
	}
	snprintf(r->name, sizeof(r->name), "%s", name);
	r->uid = p->uid;
	r->fd = -1;
	r->limit = p->treat.memory;
	LIST_INSERT_HEAD(&d->runs.list, r, entries);
	return r;
}

static bool is_same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* Takes the ledger that the program brings, if it is the run's, or the run has none yet. Returns
 * whether the program keeps its slot. */
static bool take_ledger(struct run *r, const struct program *p, int fd, uint32_t slot)
{
	if (r->ledger == NULL) {
		int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (copy < 0 || rbt_ledger_map(copy, &r->ledger) < 0) {
			rbt_close(&copy);
			return false;
		}
		r->fd = copy;
		r->limit = atomic_load(&r->ledger->limit);
		r->needs_audit = true;
		r->needs_look = true;
	}
	return is_same_file(fd, r->fd) && slot < RBT_LEDGER_SLOTS &&
	       (pid_t)atomic_load(&r->ledger->slots[slot].pid) == p->pid;
}

/* The run of a program that was started without `rubato run`: its container, or itself. */
static void name_run(struct program *p, char name[RBT_RUN_NAME_MAX])
{
	const char *container = program_place(p, rbt_now_ns())->container_id;

	if (container[0] != '\0') {
		snprintf(name, RBT_RUN_NAME_MAX, "container-%.48s", container);
	} else {
		snprintf(name, RBT_RUN_NAME_MAX, "pid-%d-%" PRIu64, (int)p->pid, p->start_time);
	}
}

int run_join(struct daemon *d, struct program *p, const struct rbt_msg_run *msg, int fd)
{
	struct rbt_ledger *brought = NULL;
	char name[RBT_RUN_NAME_MAX];
	int error = fd >= 0 ? rbt_ledger_map(fd, &brought) : 0;

	rbt_ledger_unmap(brought);
	if (error < 0 || memchr(msg->name, '\0', sizeof(msg->name)) == NULL) {
		return -EBADMSG;
	}
	snprintf(name, sizeof(name), "%s", msg->name);
	if (name[0] == '\0') {
		name_run(p, name);
	}
	run_leave(d, p);
	struct run *r = obtain(d, p, name);
	if (r == NULL) {
		return -ENOMEM;
	}
	p->run.run = r;
	if (fd >= 0 && take_ledger(r, p, fd, msg->slot)) {
		p->run.slot = (int)msg->slot;
	} else {
		forget_pid(d, p->pid);
	}
	run_follow(p);
	update(d, r);
	return 0;
}

void run_leave(struct daemon *d, struct program *p)
{
	struct run *r = p->run.run;

	p->run = (struct program_run){.slot = -1};
	if (r == NULL) {
		return;
	}
	look_at_slots(d, r);
	if (!is_used(r) && !has_programs(d, r)) {
		run_destroy(r);
	}
}

void run_follow(struct program *p)
{
	const struct run *r = p->run.run;

	if (r != NULL) {
		p->treat.memory = r->limit;
		p->treat.said &= ~RBT_TREAT_BIT(MEMORY);
		p->treat.said |= r->limit != 0 ? RBT_TREAT_BIT(MEMORY) : 0;
	}
}

void run_renice(struct daemon *d, struct program *p)
{
	struct run *r = p->run.run;
	struct program *q;

	if (r == NULL || r->limit == p->treat.memory) {
		return;
	}
	r->limit = p->treat.memory;
	LIST_FOREACH (q, &d->programs, entries) {
		if (q->run.run == r) {
			run_follow(q);
		}
	}
	update(d, r);
}

void run_tick(struct daemon *d)
{
	struct run *r, *next;

	for (r = LIST_FIRST(&d->runs.list); r != NULL; r = next) {
		next = LIST_NEXT(r, entries);
		if (r->needs_look) {
			r->needs_look = false;
			look_at_slots(d, r);
			update(d, r);
		}
		if (r->needs_audit && r->ledger != NULL) {
			r->needs_audit = !rbt_ledger_audit(r->ledger);
		}
		if (!is_used(r) && !has_programs(d, r)) {
			run_destroy(r);
		}
	}
}

bool run_needs_tick(const struct daemon *d)
{
	const struct run *r;

	LIST_FOREACH (r, &d->runs.list, entries) {
		if (r->needs_look || r->needs_audit) {
			return true;
		}
	}
	return false;
}

/* Only NVIDIA's driver is asked for memory by calls that the shim can refuse. */
bool run_is_bound(const struct program *p)
{
	const struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		if (h->backend != RBT_BACKEND_NVIDIA) {
			return false;
		}
	}
	return p->peer != NULL && p->run.run != NULL;
}

void run_fill(const struct program *p, struct rbt_program_memory *ret)
{
	const struct run *r = p->run.run;

	*ret = (struct rbt_program_memory){.limit_bytes = p->treat.memory};
	ret->flags = run_is_bound(p) ? RBT_MEMORY_IS_BOUND : 0;
	if (r == NULL || r->ledger == NULL || p->run.slot < 0) {
		return;
	}
	ret->flags |= RBT_MEMORY_HAS_COUNT;
	for (uint32_t gpu = 0; gpu < RBT_LEDGER_GPUS; gpu++) {
		uint64_t total = atomic_load(&r->ledger->totals[gpu]);

		ret->count_bytes += atomic_load(&r->ledger->slots[p->run.slot].bytes[gpu]);
		ret->run_bytes = total > ret->run_bytes ? total : ret->run_bytes;
	}
}

void run_finish(struct daemon *d)
{
	struct run *r;

	while ((r = LIST_FIRST(&d->runs.list)) != NULL) {
		run_destroy(r);
	}
}
