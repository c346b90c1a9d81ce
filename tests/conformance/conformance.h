/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance suite: what every backend must do, on the software GPU and, unchanged, on
 * hardware. One line a check: "ok NAME", "skip NAME: why" or "FAIL NAME: why".
 */
#ifndef RBT_TESTS_CONFORMANCE_H
#define RBT_TESTS_CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/backend.h"

struct options {
	const struct rbt_backend *backend;
	pid_t pid;                /* the program to look at; 0: start `target` */
	const char *shim;         /* the library to look through; NULL: from outside */
	const char *target;       /* uses the device until it is killed, and says so in a line */
	const char *state;        /* prints the software GPU's state as JSON; NULL on hardware */
	uint64_t tasks, channels; /* what the program has; 0: any number */
};

struct context {
	struct options opt;
	struct rbt_device_info device;
	pid_t pid;
	int pidfd;
	struct rbt_record *records; /* owned */
	size_t n_records;
};

/* report.c */
void ok(const char *name);
void fail(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void skip(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* ok() or fail() with both values; returns whether they are the same. */
bool expect(const char *name, int result, int expected);
unsigned failures(void);

/* target.c */
/* Starts the target program with up to one option and a value, and waits for its first line. pid or
 * -errno. */
pid_t target_start(const char *path, const char *option, const char *value);
/* Targets from now on have the library preloaded, and its daemon at this socket. */
void target_preload(const char *library, const char *socket);
void target_stop(pid_t pid); /* kills and reaps; 0 is no target */
/* Discovers with a pidfd of its own. */
int discover(const struct rbt_backend *be, pid_t pid, struct rbt_record **ret, size_t *ret_n);
void free_records(struct rbt_record *records, size_t n);
size_t open_fds(void);
/* Runs fn as an ordinary user in a child, and returns what it returned. Root alone can. */
int as_nobody(int (*fn)(void *data), void *data);
bool has_cap_sys_nice(void);

/* state.c: what the software GPU knows of the groups of some records; only with --state. */
struct state {
	uint64_t channels, enabled, disabled_full, disabled_scheduling, log_lines;
	uint64_t timeslice_us; /* of the last group */
};
int state_read(
	const struct options *opt, const struct rbt_record *records, size_t n, struct state *ret);

/* The checks. */
void check_probe(struct context *ctx);
void check_discover(struct context *ctx);
void check_timeslice(struct context *ctx);
void check_suspend(struct context *ctx);
void check_suspend_task(struct context *ctx);
void check_many_channels(struct context *ctx);
void check_interleave(struct context *ctx);
void check_preempt(struct context *ctx);
void check_stats(struct context *ctx);
void check_errors(struct context *ctx);
void check_exit_while_discovering(struct context *ctx);

/* shim.c: the same through what the shim sends, in place of all that discover. */
void check_shim(struct context *ctx);

#endif
