/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/activity.h"
#include "daemon/attach/adopt.h"
#include "daemon/daemon.h"
#include "daemon/edge.h"
#include "daemon/handlink.h"
#include "daemon/metrics/accounting.h"
#include "daemon/peers/crowd.h"
#include "daemon/peers/devicefile.h"
#include "daemon/peers/server.h"
#include "daemon/survive/byhand.h"
#include "daemon/survive/state.h"
#include "sched/class.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/owner.h"
#include "util/proc.h"
#include "util/time.h"

/* Programs have one or two clients, and one more for each library that opens the driver by
 * itself. */
#define MAX_HOLDS 64
/* How long the program's place is taken to be the same. */
#define MOVED_NS (5 * RBT_NS_PER_S)

struct program *program_find(struct daemon *d, pid_t pid)
{
	struct program *p;

	LIST_FOREACH (p, &d->programs, entries) {
		if (p->pid == pid) {
			return p;
		}
	}
	return NULL;
}

struct program *program_next(struct daemon *d, pid_t after)
{
	struct program *p, *best = NULL;

	LIST_FOREACH (p, &d->programs, entries) {
		if (p->pid > after && !p->awaited && (best == NULL || p->pid < best->pid)) {
			best = p;
		}
	}
	return best;
}

static void on_exit_of_program(struct daemon *d, struct source *s, uint32_t events)
{
	struct program *p = RBT_OWNER_OF(s, struct program, pidfd);

	if (p->peer != NULL) {
		peer_destroy(d, p->peer); /* releases the program too */
	} else {
		program_release(d, p);
	}
}

/* Looks the process up in /proc, if the pid is still its own. */
static int identify(struct program *p)
{
	int r = rbt_proc_start_time(p->pid, &p->start_time);

	if (r == 0) {
		r = rbt_proc_uid(p->pid, &p->uid);
	}
	/* This comes last: while the process lives, no other process has its pid. */
	return r == 0 && rbt_pidfd_has_exited(p->pidfd.fd) ? -ESRCH : r;
}

/* 0, or -errno with nothing kept. */
static int program_init(struct daemon *d, struct program *p, int pidfd)
{
	int fd = pidfd >= 0 ? fcntl(pidfd, F_DUPFD_CLOEXEC, 0) : pidfd;

	if (fd < 0) {
		return pidfd >= 0 ? -errno : pidfd;
	}
	p->treat = RBT_TREATMENT_INIT;
	p->run.slot = -1;
	p->sched.output = RBT_POLICY_OUTPUT_INIT;
	p->sched.interleave = RBT_INTERLEAVE_OWN;
	accounting_start(p);
	p->pidfd = (struct source){.fd = fd, .ready = on_exit_of_program};
	LIST_INIT(&p->clients);
	int r = identify(p);
	if (r == 0) {
		r = user_charge(d, p->user, 1);
	}
	if (r == 0 && (r = watch(d, &p->pidfd)) < 0) {
		user_discharge(d, p->user, 1);
	}
	if (r < 0) {
		rbt_close(&p->pidfd.fd);
	}
	return r;
}

struct program *program_obtain(
	struct daemon *d, pid_t pid, int pidfd, struct user *payer, int *ret_error)
{
	struct program *p = program_find(d, pid);

	/* A program of the same pid has ended, and its event has not arrived yet. */
	if (p != NULL && rbt_pidfd_has_exited(p->pidfd.fd)) {
		program_release(d, p);
		p = NULL;
	}
	if (p != NULL) {
		return p;
	}
	p = calloc(1, sizeof(*p));
	int r = -ENOMEM;
	if (p != NULL) {
		p->pid = pid;
		p->user = payer;
		r = program_init(d, p, pidfd);
	}
	if (r < 0) {
		free(p);
		*ret_error = r;
		return NULL;
	}
	LIST_INSERT_HEAD(&d->programs, p, entries);
	byhand_apply(d, p);
	return p;
}

void program_set_group(struct daemon *d, struct program *p, bool is_shared, const char *name)
{
	struct program *q;

	/* The name is that of a group of its own user, so that no program can join, and stall,
	 * another user's group. */
	p->group.is_shared = is_shared;
	memset(p->treat.group, 0, sizeof(p->treat.group));
	memcpy(p->treat.group, name, strnlen(name, sizeof(p->treat.group) - 1));
	p->treat.said &= ~RBT_TREAT_BIT(GROUP);
	p->treat.said |= name[0] != '\0' ? RBT_TREAT_BIT(GROUP) : 0;
	p->group.id = 0;
	d->dirty = true;
	if (name[0] == '\0') {
		return;
	}
	LIST_FOREACH (q, &d->programs, entries) {
		if (q != p && q->group.id != 0 && q->group.is_shared == is_shared &&
			(is_shared || q->uid == p->uid) && strcmp(q->treat.group, name) == 0) {
			p->group.id = q->group.id;
			return;
		}
	}
	p->group.id = ++d->last_group;
}

/* Negative if the hand could not do it, or there is no hand. */
static int restore_by_hand(struct daemon *d, struct client *h)
{
	const struct rbt_applied *a = &h->mine->applied;
	int first = 0, r;

	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		if (a->slice_us[gpu] != 0 && (r = hand_set_slice(d, h, gpu, 0, 0)) < 0) {
			first = r;
		}
		if (a->copy_runlists[gpu] != 0 &&
			(r = hand_set_slice(d, h, gpu, RBT_ALL_RUNLISTS, 0)) < 0) {
			first = r;
		}
	}
	if (a->interleave_changed) {
		(void)hand_set_interleave(d, h, RBT_INTERLEAVE_OWN);
		first = a->interleave_changed ? -EIO : first;
	}
	if (a->is_off && (r = hand_resume(d, h)) < 0) {
		first = r;
	}
	for (uint32_t i = a->n_tasks_off; i-- > 0;) {
		/* A lost hand has changed the list. */
		if (i < a->n_tasks_off && (r = hand_resume_task(d, h, a->tasks_off[i])) < 0) {
			first = r;
		}
	}
	return first;
}

static void client_release(struct daemon *d, struct program *p, struct client *h)
{
	int r = h->mine != NULL ? restore_by_hand(d, h) : 0;

	/* The daemon restores through its own copy of the file. If that fails too, the record is
	 * kept for later. (A process without the right to write has changed nothing before,
	 * either.) */
	r = r < 0 ? rbt_holding_restore(h->mine) : 0;
	if (r < 0 && r != -EPERM && r != -EACCES) {
		state_keep(d, p, &h->mine->rec);
	}
	edge_release(p, h);
	events_end_client(d, p, h);
	/* If the hand dies now, nothing is left to be done for this client. */
	LIST_REMOVE(h, entries);
	p->n_clients--;
	/* The hand may have an older record, even if it lacks the current one. */
	if (d->hand.pid > 0) {
		hand_drop(d, h->id);
	}
	rbt_holdings_drop(&d->mine, h->id);
	rbt_close(&h->board_fd);
	user_discharge(d, p->user, 1);
	free(h);
}

void program_release(struct daemon *d, struct program *p)
{
	struct client *h, *next;
	struct peer *peer;

	accounting_end(d, p);
	trace_end(d, p);
	gate_release(p);
	schedule_forget(d, p);
	adopt_released(d, p);
	for (h = LIST_FIRST(&p->clients); h != NULL; h = next) {
		next = LIST_NEXT(h, entries);
		client_release(d, p, h);
	}
	if (p->peer != NULL) {
		p->peer->program = NULL;
	}
	LIST_FOREACH (peer, &d->server.peers, entries) {
		peer->attached = peer->attached == p ? NULL : peer->attached;
	}
	LIST_REMOVE(p, entries);
	run_leave(d, p);
	unwatch(d, &p->pidfd);
	user_discharge(d, p->user, 1);
	rbt_board_unmap(p->reader.board);
	free(p);
	d->dirty = true;
}

static struct client *find_client(struct program *p, uint32_t backend, uint32_t client)
{
	struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		if (h->backend == backend && h->client == client) {
			return h;
		}
	}
	return NULL;
}

/* NULL and *ret_error: -EDQUOT, -ENOMEM. */
static struct client *make_client(
	struct daemon *d, struct program *p, const struct rbt_record *rec, int *ret_error)
{
	*ret_error = p->n_clients < MAX_HOLDS ? user_charge(d, p->user, 1) : -EDQUOT;
	if (*ret_error < 0) {
		return NULL;
	}
	struct client *h = calloc(1, sizeof(*h));
	if (h == NULL) {
		user_discharge(d, p->user, 1);
		*ret_error = -ENOMEM;
		return NULL;
	}
	h->id = d->next_holding_id++;
	h->program = p;
	h->backend = rec->backend;
	h->client = rec->client;
	h->board_fd = -1;
	p->n_clients++;
	LIST_INSERT_HEAD(&p->clients, h, entries);
	return h;
}

/* The program goes on, and is known to have unknown tasks: so it takes no turns, rather than half
 * of them. */
static void leave_out(struct daemon *d, struct program *p)
{
	if (!p->has_more && user_may_be_named(p->user)) {
		rbt_warn("process %d has more clients than the %u that are taken in", (int)p->pid,
			p->n_clients);
	}
	d->dirty = d->dirty || !p->has_more;
	p->has_more = true;
}

/* A client belongs to one process, also when others have a copy of the file. Otherwise a few forked
 * processes would get turns for a single task. */
static bool is_anothers(struct daemon *d, const struct program *p, const struct rbt_record *rec)
{
	struct program *q;

	LIST_FOREACH (q, &d->programs, entries) {
		if (q != p && rec->n_tasks > 0 &&
			find_client(q, rec->backend, rec->client) != NULL &&
			!rbt_pidfd_has_exited(q->pidfd.fd)) {
			return true;
		}
	}
	return false;
}

/*
 * Checks a record. From outside, it comes with the device's file; from the program's own shim, with
 * that or with a connection to its agent, which is sent once. If clients are processes, the client
 * must be this process, or a program could have others acted on.
 */
static int check_record(struct daemon *d, struct program *p, const struct client *h,
	struct rbt_record *rec, bool from_shim)
{
	const struct rbt_backend *b = rbt_backend_by_id(rec->backend);
	bool has_agent = (rec->flags & RBT_RECORD_AGENT) != 0;
	const struct rbt_record *old = h != NULL ? &h->mine->rec : NULL;

	if (b == NULL) {
		return -EOPNOTSUPP;
	}
	if ((b->client_is_pid && rec->client != (uint32_t)p->pid) ||
		(b->check_file != NULL && has_agent != from_shim)) {
		return -EBADMSG;
	}
	if (has_agent && rec->fd < 0 && old != NULL && (old->flags & RBT_RECORD_AGENT) != 0) {
		rec->fd = fcntl(old->fd, F_DUPFD_CLOEXEC, 0);
	}
	if (rec->fd < 0) {
		return -EBADMSG;
	}
	int r = !has_agent              ? check_device_fd(rec)
		: b->check_file != NULL ? b->check_file(rec)
					: -EBADF;
	/* The program does not decide which GPU it uses, nor that it has tasks which take turns. */
	r = r == 0 && b->complete != NULL ? b->complete(rec, p->pid) : r;
	return r == 0 && is_anothers(d, p, rec) ? -EBUSY : r;
}

/* Gives the program's GPUs their index. Logs it once if there are too many. */
static void number_gpus(
	struct daemon *d, struct program *p, struct client *h, const struct rbt_record *rec)
{
	bool was_beyond = program_is_beyond(p);
	char name[RBT_GPU_NAME_MAX];

	h->is_beyond = false;
	for (uint32_t i = 0; i < rec->n_tasks && !h->is_beyond; i++) {
		struct rbt_gpu gpu = {.backend = rec->backend, .minor = rec->tasks[i].gpu};

		h->is_beyond = rec->tasks[i].kind != RBT_TASK_OTHER &&
			       rbt_gpu_index(&d->gpu_table, gpu.backend, gpu.minor) < 0;
		if (h->is_beyond && !was_beyond && user_may_be_named(p->user)) {
			rbt_warn("process %d is left alone: it uses GPU %s, and Rubato schedules "
				 "%d other GPUs already, which is its maximum",
				(int)p->pid, rbt_gpu_name(gpu, name), RBT_MAX_GPUS);
		}
	}
}

/* Carries out what a new or changed record means for its program. is_first: of its client; is_kept:
 * an agent applies by itself to new tasks what it was told. */
static void take_up(
	struct daemon *d, struct program *p, struct client *h, bool is_first, bool is_kept)
{
	struct rbt_holding *mine = h->mine;

	if (!rbt_record_is_new(&mine->rec)) {
		h->new_since_ns = 0;
	} else if (h->new_since_ns == 0) {
		h->new_since_ns = rbt_now_ns();
	} else if (rbt_now_ns() >= h->new_since_ns + SETUP_NS && !h->is_held) {
		rbt_record_make_old(&mine->rec);
	}
	number_gpus(d, p, h, &mine->rec);
	enum left left = state_take(d, p->pid, h->backend, h->client);
	/* The program's own slices are set again: this record knows them. */
	if (left != LEFT_NOTHING) {
		rbt_holding_assume_slices(mine);
	}
	/* If the state file was lost, a suspend that an earlier daemon was ordered may still be in
	 * force. A device may count suspends, so it must not be suspended twice. */
	bool may_be_off = left == LEFT_NOTHING && is_first && p->suspend.is_ordered;
	if (left == LEFT_CHANGED || may_be_off) {
		/* A scheduler that was killed has left it changed: restores it before anything
		 * else. */
		rbt_holding_assume_changed(mine);
		/* What the driver refuses stays marked, and is tried again with the rest. */
		rbt_holding_restore(mine);
	}
	/* No program is half suspended: tasks that it has made since would run on. */
	if (p->suspend.is_ordered && program_is_partial(p)) {
		if (user_may_be_named(p->user)) {
			rbt_warn("process %d has more tasks than are known: it is resumed",
				(int)p->pid);
		}
		p->suspend.is_ordered = false;
		p->suspend.until_ns = 0;
		byhand_note(d, p->pid, p->start_time, false);
	}
	queues_take_up(d, p, h);
	h->in_hand = false;
	if (!is_kept) {
		activity_forget(h);
		h->stale = true;
	}
	d->dirty = true;
	events_take_record(d, p, h);
	gate_take(d, p);
}

int program_put_record(struct daemon *d, struct program *p, struct rbt_record *rec, bool from_shim)
{
	struct client *h = find_client(p, rec->backend, rec->client);
	bool is_same_agent = h != NULL && (rec->flags & RBT_RECORD_AGENT) != 0 && rec->fd < 0;
	int r = check_record(d, p, h, rec, from_shim);

	/* From outside, a program with an agent is found that is held already. */
	if (!from_shim && h != NULL && (h->mine->rec.flags & RBT_RECORD_AGENT) != 0) {
		rbt_record_finish(rec);
		return 0;
	}
	if (r < 0) {
		rbt_record_finish(rec);
		return r;
	}
	bool is_first = h == NULL;
	if (is_first) {
		h = make_client(d, p, rec, &r);
	}
	if (h == NULL) {
		rbt_record_finish(rec);
		if (r == -EDQUOT) {
			leave_out(d, p);
			return 0;
		}
		return r;
	}
	r = rbt_holdings_put(&d->mine, h->id, p->treat.force != 0, rec);
	h->mine = rbt_holdings_find(&d->mine, h->id);
	if (r < 0) {
		client_release(d, p, h);
		return r;
	}
	take_up(d, p, h, is_first, is_same_agent);
	return 0;
}

void program_drop_client(struct daemon *d, struct program *p, uint32_t backend, uint32_t client)
{
	struct client *h = find_client(p, backend, client);

	if (h != NULL) {
		client_release(d, p, h);
		d->dirty = true;
	}
}

uint64_t program_wanted_us(const struct program *p)
{
	return p->treat.timeslice_us != 0 ? p->treat.timeslice_us
					  : rbt_priority_timeslice_us(p->treat.priority);
}

void program_end_setup(struct program *p, uint64_t now_ns)
{
	struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		struct rbt_record *rec = &h->mine->rec;
		if (h->new_since_ns != 0 && now_ns >= h->new_since_ns + SETUP_NS && !h->is_held &&
			rbt_record_is_new(rec)) {
			rbt_record_make_old(rec);
			h->in_hand = false;
			h->stale = true;
		}
	}
}

bool program_is_in_setup(const struct program *p, uint64_t now_ns, uint64_t *ret_until_ns)
{
	const struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		/* A task that waits at the gate is not there for the core: it cannot run. */
		if (h->new_since_ns != 0 && now_ns < h->new_since_ns + SETUP_NS && !h->is_held) {
			*ret_until_ns = h->new_since_ns + SETUP_NS;
			return true;
		}
	}
	return false;
}

bool program_is_beyond(const struct program *p)
{
	const struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		if (h->is_beyond) {
			return true;
		}
	}
	return false;
}

bool program_is_partial(const struct program *p)
{
	struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		if (h->mine->rec.flags & RBT_RECORD_PARTIAL) {
			return true;
		}
	}
	return p->has_more;
}

void program_set_treatment(struct program *p, const struct rbt_treatment *t, uint32_t granted)
{
	const uint32_t group = RBT_TREAT_BIT(GROUP);
	struct rbt_treatment old = p->treat;

	p->treat = *t;
	/* The launcher or the rule chooses the group. */
	memcpy(p->treat.group, old.group, sizeof(old.group));
	p->treat.said = (t->said & ~group) | (old.said & group);
	/* A forced change must be undone by force, too. */
	if ((old.force | t->force) != 0) {
		p->treat.force = 1;
		p->treat.said |= RBT_TREAT_BIT(FORCE);
	}
	p->rights.granted = granted;
}

bool program_is_plain(const struct program *p)
{
	const struct rbt_treatment *t = &p->treat;

	return !p->suspend.is_ordered && p->suspend.queues.n == 0 && t->timeslice_us == 0 &&
	       t->priority == RBT_PRIORITY_NORMAL && t->limits.max_reserve_ms == 0 &&
	       t->limits.min_share_permille == 0 && t->memory == 0;
}

bool program_is_changed(const struct program *p)
{
	struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		if (h->mine->applied.interleave_changed) {
			return true;
		}
		for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
			if (rbt_applied_has_any_off(&h->mine->applied) ||
				rbt_applied_has_slices(&h->mine->applied, gpu)) {
				return true;
			}
		}
	}
	return false;
}

void program_drop_closed(struct daemon *d, struct program *p)
{
	struct client *h, *next;

	for (h = LIST_FIRST(&p->clients); h != NULL; h = next) {
		next = LIST_NEXT(h, entries);
		struct rbt_holding *mine = h->mine;
		if (mine->rec.target_fd < 0) {
			continue;
		}
		int same = rbt_same_file(getpid(), mine->rec.fd, p->pid, mine->rec.target_fd);
		/* A comparison that is not allowed proves nothing. */
		if (same == 0 || same == -EBADF || same == -ESRCH) {
			rbt_debug("process %d has closed the device", (int)p->pid);
			client_release(d, p, h);
			d->dirty = true;
		}
	}
}

void program_check_attached(struct daemon *d, struct program *p)
{
	program_drop_closed(d, p);
	if (LIST_EMPTY(&p->clients) && !p->awaited) {
		program_release(d, p);
	}
}
