/* SPDX-License-Identifier: Apache-2.0 */
#include "util/fork.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_FORKS 64

static struct {
	_Atomic bool *is_apart; /* shared with the new processes */
	pid_t pids[MAX_FORKS];  /* 0: a free entry */
	unsigned own;           /* in the new process: its own entry */
} forks;

/* A process that has ended has closed all files. It is left for its owner to reap. */
static bool has_ended(pid_t pid)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
	       info.si_pid == pid;
}

bool rbt_forks_are_apart(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MAX_FORKS; i++) {
		if (forks.pids[i] != 0 && (forks.is_apart[i] || has_ended(forks.pids[i]))) {
			forks.pids[i] = 0;
		}
		n += forks.pids[i] != 0;
	}
	return n == 0;
}

static int find_place(void)
{
	if (forks.is_apart == NULL) {
		void *page = mmap(NULL, sizeof(*forks.is_apart) * MAX_FORKS, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED) {
			return -errno;
		}
		forks.is_apart = page;
	}
	(void)rbt_forks_are_apart();
	for (int i = 0; i < MAX_FORKS; i++) {
		if (forks.pids[i] == 0) {
			return i;
		}
	}
	return -EAGAIN;
}

pid_t rbt_fork(void)
{
	int place = find_place();

	if (place < 0) {
		return place;
	}
	forks.is_apart[place] = false;
	pid_t pid = fork();
	if (pid < 0) {
		return -errno;
	}
	if (pid == 0) {
		forks.own = (unsigned)place;
	} else {
		forks.pids[place] = pid;
	}
	return pid;
}

void rbt_fork_is_apart(void)
{
	forks.is_apart[forks.own] = true;
}
