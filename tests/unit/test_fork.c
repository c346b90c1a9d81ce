/* SPDX-License-Identifier: Apache-2.0 */
#include "util/fork.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static bool are_apart_soon(void)
{
	for (int tries = 0; tries < 5000; tries++) {
		if (rbt_forks_are_apart()) {
			return true;
		}
		usleep(1000);
	}
	return false;
}

/* Its file is closed when it may go on. */
static pid_t start(int gate[2], bool is_apart)
{
	CHECK(pipe(gate) == 0);
	pid_t pid = rbt_fork();
	if (pid == 0) {
		char end;
		close(gate[1]);
		if (read(gate[0], &end, 1) == 0 && is_apart) {
			rbt_fork_is_apart();
		}
		pause();
		_exit(0);
	}
	CHECK(pid > 0);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
}

int main(void)
{
	int one[2], two[2];

	CHECK(rbt_forks_are_apart());
	pid_t a = start(one, true), b = start(two, false);
	CHECK(!rbt_forks_are_apart());
	close(one[1]);
	/* One is, the other never will be. */
	usleep(20000);
	CHECK(!rbt_forks_are_apart());
	/* One that has ended has nothing either, and is still to be waited for. */
	kill(b, SIGKILL);
	CHECK(are_apart_soon());
	end(b);
	end(a);
	/* A place is used again. */
	for (int i = 0; i < 200; i++) {
		close(one[0]);
		a = start(one, true);
		close(one[1]);
		CHECK(are_apart_soon());
		end(a);
	}
	return check_result();
}
