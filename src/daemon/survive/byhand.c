/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The renices and suspends that users ordered. They hold until the process ends or runs another
 * program, which can be longer than the connection of its shim, and longer than the daemon lives.
 * So they are kept by pid and start time, in memory and in a file. The file has one entry per
 * process and is replaced as a whole.
 */
#include "daemon/survive/byhand.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/peers/crowd.h"
#include "daemon/program.h"
#include "daemon/survive/home.h"
#include "sched/class.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/proc.h"
#include "util/time.h"

#define BYHAND_MAGIC 0x34646e68u
/* The limit for treatments of all versions. */
#define TREAT_SIZE_MAX 4096

/* An entry of the file. A treatment follows, which begins with its size, and then n_queues orders
 * for single queues. */
struct entry {
	uint32_t magic;
	int32_t pid;
	uint64_t start_time;
	uint64_t said_ns;
	uint64_t resume_at_ns;
	uint32_t granted;
	uint32_t has_treat, is_suspended;
	uint32_t n_queues;
};
static_assert(sizeof(struct entry) == 48, "file");
static_assert(sizeof(struct queue_order) == 16, "file");

struct said *byhand_find(const struct daemon *d, pid_t pid, uint64_t start_time)
{
	struct said *said;

	LIST_FOREACH (said, &d->byhand.said, entries) {
		if (said->pid == pid && said->start_time == start_time) {
			return said;
		}
	}
	return NULL;
}

static struct said *obtain(struct daemon *d, pid_t pid, uint64_t start_time)
{
	struct said *said = byhand_find(d, pid, start_time);

	if (said == NULL && (said = calloc(1, sizeof(*said))) != NULL) {
		said->pid = pid;
		said->start_time = start_time;
		said->treat = RBT_TREATMENT_INIT;
		LIST_INSERT_HEAD(&d->byhand.said, said, entries);
	}
	return said;
}

static void forget(struct said *said)
{
	LIST_REMOVE(said, entries);
	free(said);
}

static void forget_the_dead(struct daemon *d)
{
	struct said *said, *next;
	uint64_t start_time;

	for (said = LIST_FIRST(&d->byhand.said); said != NULL; said = next) {
		next = LIST_NEXT(said, entries);
		if (rbt_proc_start_time(said->pid, &start_time) < 0 ||
			start_time != said->start_time) {
			forget(said);
		}
	}
}

void byhand_forget(struct daemon *d, const struct program *p)
{
	struct said *said = byhand_find(d, p->pid, p->start_time);

	if (said != NULL) {
		forget(said);
		byhand_write(d);
	}
}

void byhand_finish(struct daemon *d)
{
	while (!LIST_EMPTY(&d->byhand.said)) {
		forget(LIST_FIRST(&d->byhand.said));
	}
}

void byhand_want(struct daemon *d, const struct program *p)
{
	struct said *said = byhand_find(d, p->pid, p->start_time);

	if (said != NULL) {
		said->is_wanted = true;
	}
}

bool byhand_is_wanting(const struct daemon *d)
{
	const struct said *said;

	LIST_FOREACH (said, &d->byhand.said, entries) {
		if (said->is_wanted) {
			return true;
		}
	}
	return false;
}

void byhand_note(struct daemon *d, pid_t pid, uint64_t start_time, bool is_treat)
{
	struct said *said = obtain(d, pid, start_time);
	struct program *p = program_find(d, pid);

	if (p != NULL && p->start_time != start_time) {
		p = NULL;
	}
	if (said == NULL) {
		return;
	}
	said->said_ns = rbt_now_ns();
	/* The order may be a resume before the program was found; an earlier renice of it still
	 * holds. */
	said->is_wanted = said->is_wanted && p == NULL && !is_treat;
	said->has_treat = said->has_treat || is_treat;
	if (p != NULL || is_treat) {
		/* A program that is back to normal may have been dropped by the daemon. */
		said->treat = p != NULL ? p->treat : RBT_TREATMENT_INIT;
		said->granted = p != NULL ? p->rights.granted : 0;
	}
	said->is_suspended = p != NULL && p->suspend.is_ordered;
	said->resume_at_ns = p != NULL ? p->suspend.until_ns : 0;
	said->queues.n = 0;
	if (p != NULL) {
		said->queues = p->suspend.queues;
	}
	byhand_write(d);
	if (p != NULL && is_treat && p->rule[0] != '\0') {
		p->rule[0] = '\0';
		d->dirty = true; /* the program may have been kept only because of the rule */
	}
}

bool byhand_apply(struct daemon *d, struct program *p)
{
	struct said *said = byhand_find(d, p->pid, p->start_time);

	if (said == NULL) {
		return false;
	}
	said->is_wanted = false;
	if (said->has_treat) {
		program_set_treatment(p, &said->treat, said->granted);
	}
	if (said->is_suspended && (said->resume_at_ns == 0 || said->resume_at_ns > rbt_now_ns())) {
		p->suspend.is_ordered = true;
		p->suspend.until_ns = said->resume_at_ns;
	}
	p->suspend.queues = said->queues;
	(void)queues_expire(&p->suspend.queues, rbt_now_ns());
	d->dirty = true;
	return said->has_treat;
}

static int write_all(const struct daemon *d, FILE *f)
{
	const struct said *said;

	LIST_FOREACH (said, &d->byhand.said, entries) {
		struct entry e = {
			.magic = BYHAND_MAGIC,
			.pid = said->pid,
			.start_time = said->start_time,
			.said_ns = said->said_ns,
			.resume_at_ns = said->resume_at_ns,
			.granted = said->granted,
			.has_treat = said->has_treat,
			.is_suspended = said->is_suspended,
			.n_queues = said->queues.n,
		};
		if (fwrite(&e, sizeof(e), 1, f) != 1 ||
			fwrite(&said->treat, sizeof(said->treat), 1, f) != 1 ||
			fwrite(said->queues.list, sizeof(said->queues.list[0]), said->queues.n,
				f) != said->queues.n) {
			return -EIO;
		}
	}
	return 0;
}

static int write_new(const struct daemon *d, const char *path)
{
	FILE *f = NULL;
	int r = rbt_fopen_plain(path, true, &f);

	r = r < 0 ? r : write_all(d, f);
	if (f != NULL && fclose(f) != 0) {
		r = -errno;
	}
	return r;
}

void byhand_write(struct daemon *d)
{
	char path[160], tmp[168];

	forget_the_dead(d);
	if (!home_is_ours(d)) {
		return;
	}
	snprintf(path, sizeof(path), "%s/by-hand", d->home.dir);
	if (LIST_EMPTY(&d->byhand.said)) {
		unlink(path);
		return;
	}
	snprintf(tmp, sizeof(tmp), "%s.new", path);
	int r = write_new(d, tmp);
	/* On a full disk there is room for one of the two files. */
	if (r < 0 && unlink(path) == 0) {
		r = write_new(d, tmp);
	}
	bool is_written = r == 0 && rename(tmp, path) == 0;
	if (!is_written && !d->byhand.is_lost && line_is_due(&d->home.said_ns)) {
		rbt_warn("%s cannot be written: renices and suspends are lost if rubatod is killed",
			path);
	}
	/* No file is better than an old one, which would suspend a resumed program again. */
	if (!is_written) {
		unlink(tmp);
		unlink(path);
	}
	d->byhand.is_lost = !is_written;
}

static bool read_queues(FILE *f, uint32_t n, struct queue_orders *ret)
{
	struct queue_order order;

	ret->n = 0;
	if (n > RBT_RECORD_MAX_TASKS) {
		return false;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (fread(&order, sizeof(order), 1, f) != 1) {
			return false;
		}
		(void)queues_add(ret, order);
	}
	return true;
}

/* Returns false at the end of the file, and at an entry that is damaged or of another version. */
static bool read_entry(FILE *f, struct entry *ret, struct rbt_treatment *ret_treat,
	struct queue_orders *ret_queues)
{
	static char buf[TREAT_SIZE_MAX];
	uint32_t size;

	if (fread(ret, sizeof(*ret), 1, f) != 1 || ret->magic != BYHAND_MAGIC ||
		fread(&size, sizeof(size), 1, f) != 1 || size < sizeof(size) ||
		size > sizeof(buf)) {
		return false;
	}
	memcpy(buf, &size, sizeof(size));
	return fread(buf + sizeof(size), size - sizeof(size), 1, f) == 1 &&
	       rbt_treatment_decode(buf, size, ret_treat) == 0 &&
	       read_queues(f, ret->n_queues, ret_queues);
}

void byhand_read(struct daemon *d)
{
	static struct queue_orders queues;
	struct rbt_treatment treat;
	struct entry e;
	char path[160];

	snprintf(path, sizeof(path), "%s/by-hand", d->home.dir);
	FILE *f = NULL;
	(void)rbt_fopen_plain(path, false, &f);
	while (f != NULL && read_entry(f, &e, &treat, &queues)) {
		struct said *said = obtain(d, e.pid, e.start_time);
		if (said == NULL) {
			continue;
		}
		said->said_ns = e.said_ns;
		said->treat = treat;
		said->granted = e.granted;
		said->resume_at_ns = e.resume_at_ns;
		said->has_treat = e.has_treat != 0;
		said->is_suspended = e.is_suspended != 0;
		said->queues = queues;
		said->is_wanted = true;
	}
	if (f != NULL) {
		fclose(f);
	}
	forget_the_dead(d);
}
