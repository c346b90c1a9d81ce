/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools when inspecting a process takes for ever: here, because the inspector is stopped.
 * (tests/e2e/test_system.py has a program that brings it about.)
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "cli/inspect.h"
#include "util/proc.h"
#include "util/time.h"

static char command[256];

static pid_t start_program(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "mute");
		pause();
		_exit(0);
	}
	return pid;
}

struct children {
	pid_t known[3], found;
};

static int find_other(pid_t pid, void *data)
{
	struct children *c = data;
	pid_t parent;

	if (rbt_proc_parent(pid, &parent) == 0 && parent == getpid() && pid != c->known[0] &&
		pid != c->known[1] && pid != c->known[2]) {
		c->found = pid;
	}
	return 0;
}

/* Stops the inspector: the child of ours that is not a program. */
static pid_t stop_inspector(const pid_t programs[3])
{
	struct children c = {.known = {programs[0], programs[1], programs[2]}};

	CHECK_INT(inspect_command(getpid(), command, sizeof(command)), 0);
	CHECK(strstr(command, "test_inspect") != NULL);
	CHECK_INT(rbt_proc_each(find_other, &c), 0);
	CHECK(c.found > 0 && kill(c.found, SIGSTOP) == 0);
	return c.found;
}

/* Whether it was by its name, as when nothing is known, and within a second. */
static bool is_left_alone(pid_t pid)
{
	uint64_t began_ns = rbt_now_ns();

	CHECK_INT(inspect_command(pid, command, sizeof(command)), 0);
	CHECK(strcmp(command, "[mute]") == 0);
	return rbt_now_ns() - began_ns < RBT_NS_PER_S;
}

int main(void)
{
	pid_t programs[] = {start_program(), start_program(), start_program()};
	struct rbt_record *recs = NULL;
	size_t n = 0;

	alarm(60);
	CHECK_INT(inspect_tasks(programs[0], &recs, &n), -ENXIO);
	CHECK(inspect_cpu_ns() > 0);
	pid_t inspector = stop_inspector(programs);
	/* It is waited for once, and the inspector does not stay. */
	CHECK(!is_left_alone(programs[0]));
	CHECK_INT(kill(inspector, 0), -1);
	CHECK(is_left_alone(programs[0]));
	CHECK_INT(inspect_tasks(programs[0], &recs, &n), -ETIME);
	/* Other programs are inspected, but not if their user has more of this kind. */
	CHECK_INT(inspect_tasks(programs[1], &recs, &n), -ENXIO);
	stop_inspector(programs);
	CHECK(!is_left_alone(programs[1]));
	CHECK(is_left_alone(programs[2]));
	CHECK_INT(inspect_tasks(programs[2], &recs, &n), -ETIME);
	for (size_t i = 0; i < 3; i++) {
		kill(programs[i], SIGKILL);
		CHECK_INT(waitpid(programs[i], NULL, 0), programs[i]);
	}
	CHECK_INT(inspect_command(programs[2], command, sizeof(command)), -ESRCH);
	return check_result();
}
