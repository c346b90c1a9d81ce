/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: a process that starts rubatod again after it was killed. It accompanies a daemon that
 * was started on demand; for --system, a service manager does this. It has a session of its own,
 * and holds no device file, no lock and no connection. It restores nothing itself: the new daemon
 * restores from the state file, and programs connect to the new daemon by themselves.
 *
 * An orderly end of the daemon dismisses the keeper. If daemons die too often (util/deaths.h), the
 * keeper waits before it starts the next one. The keeper ends once the new daemon has a keeper of
 * its own. If the new daemon is killed before that, the keeper starts another one.
 */
#ifndef RBT_DAEMON_SURVIVE_KEEPER_H
#define RBT_DAEMON_SURVIVE_KEEPER_H

#include <stdint.h>
#include <sys/types.h>

#include "daemon/loop.h"

/* The keeper's process name, for ps(1). */
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
	const char *lock_path; /* the file that a living daemon has locked */
	char *const *argv;     /* how the daemon was started */
};

/* Forks a keeper for the calling process. Returns its pid, or -errno. *ret_fd belongs to the
 * caller, and reports EPOLLERR when the keeper has died. Only the new process reads the plan. */
pid_t keeper_start(const struct keeper_plan *plan, int *ret_fd);

/* Tells the keeper that the caller is about to end in an orderly way, so that it starts no daemon.
 * Closes *fd. */
void keeper_dismiss(int *fd);

#endif
