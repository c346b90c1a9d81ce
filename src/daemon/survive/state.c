/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state file. It lists every program that may be found suspended or with a changed slice if
 * daemon and hand are killed together, with the records needed to restore it. It is a sequence of
 * entries, each followed by an encoded record. It is replaced as a whole by rename(). If an entry
 * cannot be parsed, the rest of the file is ignored.
 */
#include "daemon/survive/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/apply.h"
#include "daemon/attach/borrow.h"
#include "daemon/daemon.h"
#include "daemon/handlink.h"
#include "daemon/peers/crowd.h"
#include "daemon/program.h"
#include "daemon/schedule.h"
#include "daemon/survive/home.h"
#include "proto/message.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/proc.h"
#include "util/time.h"

#define STATE_MAGIC    0x31747362u
#define STATE_MAX_SIZE (64u << 20)

struct entry {
	uint32_t magic;
	int32_t pid;
	uint64_t start_time;
	uint32_t size;    /* of the record that follows */
	uint32_t is_left; /* it could not be restored, and the hand no longer has it */
};

struct unhealed {
	LIST_ENTRY(unhealed) entries;
	/* It was restored with the record in the file. The program may have set a slice after that
	 * record was written. Then its next record says so, and it is restored once more. */
	bool is_healed;
	bool is_said; /* the failure to restore it has been logged */
	struct entry entry;
	char record[];
};

static bool still_lives(const struct entry *e)
{
	uint64_t start_time;

	return rbt_proc_start_time(e->pid, &start_time) == 0 && start_time == e->start_time;
}

static void forget(struct unhealed *u)
{
	LIST_REMOVE(u, entries);
	free(u);
}

static void forget_the_dead(struct daemon *d)
{
	struct unhealed *u, *next;

	for (u = LIST_FIRST(&d->state.unhealed); u != NULL; u = next) {
		next = LIST_NEXT(u, entries);
		if (!still_lives(&u->entry)) {
			forget(u);
		}
	}
}

static int write_program(struct daemon *d, FILE *f, struct program *p)
{
	static char buf[RBT_RECORD_MSG_MAX];
	struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		struct rbt_holding *mine = h->mine;
		ssize_t n = -1;

		/* An agent restores its program by itself. */
		if (mine != NULL && (mine->rec.flags & RBT_RECORD_AGENT) == 0) {
			n = rbt_record_encode(&mine->rec, RBT_MSG_RECORD, buf, sizeof(buf));
		}
		if (n < 0) {
			continue;
		}
		struct entry e = {
			.magic = STATE_MAGIC,
			.pid = p->pid,
			.start_time = p->start_time,
			.size = (uint32_t)n,
			.is_left = !h->in_hand && (rbt_applied_has_any_off(&mine->applied) ||
							  mine->applied.slices_changed ||
							  mine->applied.interleave_changed),
		};
		if (fwrite(&e, sizeof(e), 1, f) != 1 || fwrite(buf, (size_t)n, 1, f) != 1) {
			return -EIO;
		}
	}
	return 0;
}

/* Whether the policy wants the program to be changed. */
static bool is_ruled(const struct program *p)
{
	return p->sched.interleave != RBT_INTERLEAVE_OWN ||
	       p->sched.output.timeslice_us != RBT_POLICY_KEEP ||
	       p->sched.output.priority != RBT_POLICY_KEEP;
}

/* A program without special treatment counts, too: it may be kept off for another one, or because
 * the policy gives turns to all. Changes also count until they are undone, even if they are no
 * longer wanted. */
bool state_is_needed(struct daemon *d)
{
	struct program *p;

	LIST_FOREACH (p, &d->programs, entries) {
		if (!program_is_plain(p) || program_is_changed(p) || is_ruled(p)) {
			return true;
		}
	}
	return !LIST_EMPTY(&d->programs) && schedule_takes_turns(d, RBT_PRIORITY_NORMAL);
}

static int write_all(struct daemon *d, FILE *f)
{
	struct program *p;
	struct unhealed *u;
	bool any = state_is_needed(d);
	int r = 0;

	LIST_FOREACH (p, &d->programs, entries) {
		if (r == 0 && any) {
			r = write_program(d, f, p);
		}
	}
	LIST_FOREACH (u, &d->state.unhealed, entries) {
		u->entry.is_left = 1;
		if (r == 0 && !u->is_healed &&
			(fwrite(&u->entry, sizeof(u->entry), 1, f) != 1 ||
				fwrite(u->record, u->entry.size, 1, f) != 1)) {
			r = -EIO;
		}
	}
	return r;
}

/* Writes a new file, and sets *ret_size. Returns 0 or -errno. */
static int write_new(struct daemon *d, const char *path, long *ret_size)
{
	FILE *f = NULL;
	int r = rbt_fopen_plain(path, true, &f);

	r = r < 0 ? r : write_all(d, f);
	*ret_size = f == NULL ? 0 : ftell(f);
	if (f != NULL && fclose(f) != 0 && r == 0) {
		r = -errno;
	}
	return r;
}

void state_write(struct daemon *d)
{
	char tmp[176];
	long size;

	forget_the_dead(d);
	if (!home_is_ours(d)) {
		return;
	}
	snprintf(tmp, sizeof(tmp), "%s.new", d->home.state_path);
	int r = write_new(d, tmp, &size);
	/* On a full disk there is room for one of the two files. */
	if (r < 0 && unlink(d->home.state_path) == 0) {
		r = write_new(d, tmp, &size);
	}
	/* Without the file, two other safety nets remain, so a full disk is no reason to stop. The
	 * failure is logged once, because the file is written with every change. */
	if (r < 0 && !d->state.is_lost && line_is_due(&d->home.said_ns)) {
		rbt_warn("state file %s: %s", d->home.state_path, strerror(-r));
	}
	d->state.is_lost = r < 0;
	if (r == 0 && size > 0 && rename(tmp, d->home.state_path) == 0) {
		return;
	}
	unlink(tmp);
	unlink(d->home.state_path);
}

static int heal_one(struct daemon *d, const struct unhealed *u)
{
	struct rbt_record rec;
	int r = rbt_record_decode(u->record, u->entry.size, &rec);

	if (r < 0) {
		return r;
	}
	rec.fd = borrow_device(d, u->entry.pid, u->entry.start_time, &rec);
	if (rec.fd < 0) {
		r = rec.fd;
		rbt_record_finish(&rec);
		return r;
	}
	struct rbt_holding h = {.rec = rec, .force = true};
	rbt_holding_assume_changed(&h);
	r = rbt_holding_restore(&h);
	rbt_record_finish(&h.rec);
	return r;
}

static void keep_unhealed(struct daemon *d, const struct entry *e, const char *record)
{
	struct unhealed *u = malloc(sizeof(*u) + e->size);

	if (u != NULL) {
		u->is_healed = u->is_said = false;
		u->entry = *e;
		memcpy(u->record, record, e->size);
		LIST_INSERT_HEAD(&d->state.unhealed, u, entries);
	}
}

static void read_entries(struct daemon *d, const char *buf, size_t size)
{
	struct entry e;

	for (size_t at = 0; size - at >= sizeof(e); at += e.size) {
		memcpy(&e, buf + at, sizeof(e));
		at += sizeof(e);
		if (e.magic != STATE_MAGIC || e.pid <= 0 || e.size > size - at) {
			rbt_warn("state file %s is damaged; the rest is ignored",
				d->home.state_path);
			return;
		}
		if (still_lives(&e)) {
			keep_unhealed(d, &e, buf + at);
		}
	}
}

void state_read(struct daemon *d)
{
	struct stat st;
	FILE *f;

	if (rbt_fopen_plain(d->home.state_path, false, &f) < 0) {
		return;
	}
	if (fstat(fileno(f), &st) == 0 && st.st_size > 0 && st.st_size <= STATE_MAX_SIZE) {
		size_t size = (size_t)st.st_size;
		char *buf = malloc(size);
		if (buf != NULL && fread(buf, size, 1, f) == 1) {
			read_entries(d, buf, size);
		}
		free(buf);
	}
	fclose(f);
}

static bool has_unhealed(const struct daemon *d)
{
	const struct unhealed *u;

	LIST_FOREACH (u, &d->state.unhealed, entries) {
		if (!u->is_healed) {
			return true;
		}
	}
	return false;
}

void state_heal(struct daemon *d, bool is_done)
{
	struct unhealed *u, *next;

	for (u = LIST_FIRST(&d->state.unhealed); u != NULL; u = next) {
		next = LIST_NEXT(u, entries);
		int r = u->is_healed || (is_done && !u->entry.is_left) ? 0 : heal_one(d, u);
		u->is_healed = r == 0;
		if (r == -ESRCH || r == -EBADMSG) {
			forget(u);
		} else if (r < 0 && !u->is_said) {
			u->is_said = true;
			rbt_warn("process %d may still be held by a scheduler that died (%s); "
				 "`rubato resume %d` as root restores it",
				(int)u->entry.pid, strerror(-r), (int)u->entry.pid);
		}
	}
	state_write(d);
	d->state.heal_ns = has_unhealed(d) ? rbt_now_ns() + RETRY_NS : 0;
}

void state_tick(struct daemon *d, uint64_t now_ns)
{
	if (d->state.heal_ns != 0 && now_ns >= d->state.heal_ns && !hand_is_awaited(d)) {
		state_heal(d, false);
	}
}

bool state_has_healed(const struct daemon *d, pid_t pid)
{
	const struct unhealed *u;
	bool any = false;

	LIST_FOREACH (u, &d->state.unhealed, entries) {
		if (u->entry.pid == pid && !u->is_healed) {
			return false;
		}
		any = any || (u->entry.pid == pid && still_lives(&u->entry));
	}
	return any;
}

void state_keep(struct daemon *d, const struct program *p, const struct rbt_record *rec)
{
	static char buf[RBT_RECORD_MSG_MAX];
	ssize_t n = rbt_record_encode(rec, RBT_MSG_RECORD, buf, sizeof(buf));
	struct entry e = {
		.magic = STATE_MAGIC,
		.pid = p->pid,
		.start_time = p->start_time,
		.size = n > 0 ? (uint32_t)n : 0,
	};

	/* A program that has ended needs no restoring. */
	if (n <= 0 || rbt_pidfd_has_exited(p->pidfd.fd)) {
		return;
	}
	if (user_may_be_named(p->user)) {
		rbt_warn("process %d may still be held: the driver refused to restore it; `rubato "
			 "resume %d` tries again",
			(int)e.pid, (int)e.pid);
	}
	keep_unhealed(d, &e, buf);
	d->state.heal_ns = rbt_now_ns() + RETRY_NS;
}

enum left state_take(struct daemon *d, pid_t pid, uint32_t backend, uint32_t client)
{
	struct unhealed *u, *next;
	struct rbt_msg_record msg;
	enum left left = LEFT_NOTHING;

	for (u = LIST_FIRST(&d->state.unhealed); u != NULL; u = next) {
		next = LIST_NEXT(u, entries);
		if (u->entry.size < sizeof(msg)) {
			continue;
		}
		memcpy(&msg, u->record, sizeof(msg));
		if (u->entry.pid == pid && msg.backend == backend && msg.client == client) {
			left = !u->is_healed || left == LEFT_CHANGED ? LEFT_CHANGED : LEFT_HEALED;
			forget(u);
		}
	}
	return left;
}

void state_finish(struct daemon *d)
{
	struct unhealed *u;

	while ((u = LIST_FIRST(&d->state.unhealed)) != NULL) {
		forget(u);
	}
}
