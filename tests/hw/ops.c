/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend's operations on a running program, by hand: to see what a device makes of an order of
 * them. Lines on standard input, each answered by "error microseconds":
 *   slice US      of the compute tasks; 0: their own
 *   off SCOPE     takes tasks off, preempting what runs; SCOPE: all, compute, rest
 *   keep SCOPE    keeps them from being scheduled; what runs finishes its slice
 *   on SCOPE      lets them back
 *   kick SCOPE   makes the device look at them
 *   preempt       once, the compute tasks
 *
 * usage: ops PID
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "util/proc.h"
#include "util/time.h"

struct target {
	const struct rbt_backend *backend;
	struct rbt_record *records;
	size_t n;
};

static int find(pid_t pid, struct target *t)
{
	int pidfd = rbt_pidfd_open(pid), r = pidfd < 0 ? pidfd : -ENXIO;

	for (size_t i = 0; pidfd >= 0 && rbt_backends[i] != NULL && r < 0; i++) {
		t->backend = rbt_backends[i];
		r = t->backend->discover(pid, pidfd, &t->records, &t->n);
	}
	if (pidfd >= 0) {
		close(pidfd);
	}
	return r;
}

static int each_compute(const struct target *t, const char *word, uint64_t us)
{
	int first = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct rbt_record *rec = &t->records[i];
		for (uint32_t j = 0; j < rec->n_tasks; j++) {
			const struct rbt_task *task = &rec->tasks[j];
			int r = 0;
			if (task->kind != RBT_TASK_COMPUTE) {
				continue;
			}
			if (strcmp(word, "slice") == 0) {
				r = t->backend->set_timeslice(
					rec, task, us != 0 ? us : task->own_timeslice_us);
			} else {
				r = t->backend->preempt(rec, task, 0);
			}
			first = first < 0 ? first : r;
		}
	}
	return first;
}

static int each_record(const struct target *t, const char *word, enum rbt_scope scope)
{
	int first = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct rbt_record *rec = &t->records[i];
		int r = -EINVAL;
		/* Without is_off: the device itself is asked, and not what we know of it. */
		if (strcmp(word, "off") == 0) {
			r = t->backend->suspend(rec, NULL, scope, RBT_SUSPEND_FULL);
		} else if (strcmp(word, "keep") == 0) {
			r = t->backend->suspend(rec, NULL, scope, RBT_SUSPEND_SCHEDULING_ONLY);
		} else if (strcmp(word, "on") == 0) {
			r = t->backend->resume(rec, NULL, scope);
		} else if (strcmp(word, "kick") == 0) {
			r = t->backend->kick != NULL ? t->backend->kick(rec, scope) : 0;
		}
		first = first < 0 ? first : r;
	}
	return first;
}

static int obey(const struct target *t, const char *word, const char *arg)
{
	if (strcmp(word, "slice") == 0 || strcmp(word, "preempt") == 0) {
		return each_compute(t, word, strtoull(arg, NULL, 10));
	}
	return each_record(t, word,
		strcmp(arg, "compute") == 0 ? RBT_SCOPE_COMPUTE
		: strcmp(arg, "rest") == 0  ? RBT_SCOPE_OTHERS
					    : RBT_SCOPE_ALL);
}

int main(int argc, char **argv)
{
	char line[128], word[16], arg[16];
	struct target t = {0};

	if (argc != 2) {
		fprintf(stderr, "usage: ops PID\n");
		return 2;
	}
	int r = find((pid_t)strtol(argv[1], NULL, 10), &t);
	printf("%d 0\n", r);
	fflush(stdout);
	while (r == 0 && fgets(line, sizeof(line), stdin) != NULL) {
		arg[0] = '\0';
		if (sscanf(line, "%15s %15s", word, arg) < 1) {
			continue;
		}
		uint64_t start_ns = rbt_now_ns();
		int error = obey(&t, word, arg);
		printf("%d %llu\n", error,
			(unsigned long long)((rbt_now_ns() - start_ns) / RBT_NS_PER_US));
		fflush(stdout);
	}
	/* Whatever was done is undone. */
	if (r == 0) {
		each_record(&t, "on", RBT_SCOPE_ALL);
		each_compute(&t, "slice", 0);
	}
	rbt_records_free(t.records, t.n);
	return r == 0 ? 0 : 1;
}
