/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of parked programs: what users ordered, and how much memory each program had. The next
 * daemon reads it, asks the driver where each program is, and goes on.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/park/park.h"
#include "daemon/peers/crowd.h"
#include "daemon/survive/home.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/proc.h"

#define PARKED_MAGIC 0x316b7270u

/* A file without ENTRY_IDLE is that of an older daemon. */
enum { ENTRY_OFF = 1, ENTRY_IDLE = 2 };

struct entry {
	uint32_t magic;
	int32_t pid;
	uint64_t start_time, until_ns, group;
	uint32_t order; /* ENTRY_* */
	uint32_t is_forced;
	uint32_t backend, n_gpus;
	struct rbt_gpu_usage gpus[PARKED_GPUS];
};
static_assert(sizeof(struct entry) == 48 + 16 * PARKED_GPUS, "file");

static int write_all(const struct daemon *d, FILE *f)
{
	const struct parked *k;

	LIST_FOREACH (k, &d->parking.list, entries) {
		if (k->phase == RBT_PARK_RUNNING) {
			continue; /* it is kept only for a tool that asks how its order ended */
		}
		struct entry e = {
			.magic = PARKED_MAGIC,
			.pid = k->pid,
			.start_time = k->start_time,
			.until_ns = k->until_ns,
			.group = k->group,
			.order = (k->is_wanted_off ? ENTRY_OFF : 0) | (k->is_idle ? ENTRY_IDLE : 0),
			.is_forced = k->is_forced,
			.backend = k->backend,
			.n_gpus = k->n_gpus,
		};
		memcpy(e.gpus, k->gpus, sizeof(e.gpus));
		if (fwrite(&e, sizeof(e), 1, f) != 1) {
			return -EIO;
		}
	}
	return 0;
}

static bool is_needed(const struct daemon *d)
{
	const struct parked *k;

	LIST_FOREACH (k, &d->parking.list, entries) {
		if (k->phase != RBT_PARK_RUNNING) {
			return true;
		}
	}
	return false;
}

void park_write(struct daemon *d)
{
	char path[160], tmp[168];
	FILE *f = NULL;

	if (!home_is_ours(d)) {
		return;
	}
	snprintf(path, sizeof(path), "%s/parked", d->home.dir);
	snprintf(tmp, sizeof(tmp), "%s.new", path);
	if (!is_needed(d)) {
		unlink(path);
		return;
	}
	int r = rbt_fopen_plain(tmp, true, &f);
	r = r < 0 ? r : write_all(d, f);
	if (f != NULL && fclose(f) != 0) {
		r = -errno;
	}
	if (r < 0 || rename(tmp, path) < 0) {
		unlink(tmp);
		if (line_is_due(&d->home.said_ns)) {
			rbt_warn("%s cannot be written: if rubatod is killed, parked programs "
				 "come back only with `rubato unpark`",
				path);
		}
	}
}

static bool take(struct daemon *d, const struct entry *e)
{
	uint64_t start_time;

	if (e->magic != PARKED_MAGIC || e->n_gpus > PARKED_GPUS) {
		return false;
	}
	struct parked *k = calloc(1, sizeof(*k));
	if (k == NULL || rbt_proc_start_time(e->pid, &start_time) < 0 ||
		start_time != e->start_time) {
		free(k);
		return true;
	}
	k->pid = e->pid;
	k->start_time = e->start_time;
	k->until_ns = e->until_ns;
	k->group = e->group;
	/* Nobody could wake this daemon: the board is lost with the last one. */
	k->is_wanted_off = e->order == ENTRY_OFF;
	k->is_forced = e->is_forced != 0;
	k->backend = e->backend;
	k->n_gpus = e->n_gpus;
	memcpy(k->gpus, e->gpus, sizeof(k->gpus));
	k->phase = RBT_PARK_PARKED;
	k->state = -1;
	LIST_INSERT_HEAD(&d->parking.list, k, entries);
	return true;
}

void park_read(struct daemon *d)
{
	char path[160];
	struct entry e;
	FILE *f = NULL;

	snprintf(path, sizeof(path), "%s/parked", d->home.dir);
	(void)rbt_fopen_plain(path, false, &f);
	while (f != NULL && fread(&e, sizeof(e), 1, f) == 1 && take(d, &e)) {
	}
	if (f != NULL) {
		fclose(f);
	}
}
