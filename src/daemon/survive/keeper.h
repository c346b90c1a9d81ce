/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: a process that starts rubatod again after it was killed. It lives beside a daemon
 * that was started on demand (a service manager does this for --system), in a session of its own,
 * and holds no device file, no lock and no connection. It restores nothing itself: the new daemon
 * puts back what the old one left, from the state file, and programs connect to it by themselves.
 *
 * An orderly end of the daemon dismisses the keeper. When daemons die too often (util/deaths.h),
 * it waits before it starts the next one.
 */
#ifndef RBT_DAEMON_SURVIVE_KEEPER_H
#define RBT_DAEMON_SURVIVE_KEEPER_H

#include <stdint.h>
#include <sys/types.h>

#include "daemon/loop.h"

/* What the keeper calls itself, for ps(1). */
#define RBT_KEEPER_NAME "rubato-keeper"

/* In the daemon: its keeper. */
struct keeper {
	struct source pipe; /* -1: there is no keeper */
	pid_t pid;
	uint64_t retry_ns; /* when to start another one, since it has died; 0: not */
	char *const *argv; /* how the daemon was started */
};

struct keeper_plan {
	const char *dir;       /* the daemon's runtime directory */
	const char *lock_path; /* which a living daemon holds */
	char *const *argv;     /* how the daemon was started */
};

/* Forks a keeper of the calling process. Its pid, or -errno. *ret_fd belongs to the caller: it
 * reports EPOLLERR when the keeper has died. The plan is only read in the new process. */
pid_t keeper_start(const struct keeper_plan *plan, int *ret_fd);

/* The caller is about to end as it should: nobody is to be started. Closes *fd. */
void keeper_dismiss(int *fd);

#endif
