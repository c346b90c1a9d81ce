/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What users have said of programs goes before any rule until the program ends, which may be later
 * than we do: so it is kept in a file, an entry a program, which is replaced as a whole.
 */
#include <stdio.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "sched/class.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/proc.h"

#define BYHAND_MAGIC 0x32646e68u

struct entry {
	uint32_t magic;
	int32_t pid;
	uint64_t start_time;
	struct wish wish;
};

void byhand_write(struct daemon *d)
{
	const struct sighting *k;
	char path[160], tmp[168];

	/* What nobody goes before need not be kept. */
	if (d->rules.n == 0 || !home_is_ours(d)) {
		return;
	}
	snprintf(path, sizeof(path), "%s/by-hand", d->runtime_dir);
	snprintf(tmp, sizeof(tmp), "%s.new", path);
	FILE *f = NULL;
	(void)rbt_fopen_plain(tmp, true, &f);
	for (size_t i = 0; f != NULL && i < SIGHTING_LISTS; i++) {
		LIST_FOREACH (k, &d->sightings[i], link) {
			struct entry e = {BYHAND_MAGIC, k->pid, k->start_time, k->wish};
			if (k->is_by_hand) {
				fwrite(&e, sizeof(e), 1, f);
			}
		}
	}
	bool is_written = f != NULL && ferror(f) == 0;
	is_written = f != NULL && fclose(f) == 0 && is_written;
	is_written = is_written && rename(tmp, path) == 0;
	if (!is_written && !d->byhand_is_lost) {
		rbt_warn("%s cannot be written: after a restart, rules go before users", path);
	}
	if (!is_written) {
		unlink(tmp);
	}
	d->byhand_is_lost = !is_written;
}

static bool is_good(const struct entry *e)
{
	const struct wish *w = &e->wish;

	return e->magic == BYHAND_MAGIC && w->priority <= RBT_PRIORITY_MAX && w->weight >= 1 &&
	       w->weight <= RBT_WEIGHT_MAX && w->timeslice_us <= RBT_TIMESLICE_MAX_US &&
	       rbt_limits_are_right(&w->limits);
}

void byhand_read(struct daemon *d)
{
	uint64_t start_time;
	struct entry e;
	char path[160];

	snprintf(path, sizeof(path), "%s/by-hand", d->runtime_dir);
	FILE *f = NULL;
	(void)rbt_fopen_plain(path, false, &f);
	while (f != NULL && fread(&e, sizeof(e), 1, f) == 1 && is_good(&e)) {
		if (rbt_proc_start_time(e.pid, &start_time) == 0 && start_time == e.start_time) {
			adopt_keep(d, e.pid, e.start_time, &e.wish);
		}
	}
	if (f != NULL) {
		fclose(f);
	}
}
