/* SPDX-License-Identifier: Apache-2.0 */
/* What rubatod knows of a program's queues. KFD tells their priority and percentage, and whether
 * they are suspended, to no other process. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd_kfd.h"
#include "util/proc.h"
#include "util/runtime.h"

/* Reads the program's tasks from one daemon. Returns false if it does not manage the program. */
static bool ask(uid_t uid, pid_t pid, struct kfd_known *ret)
{
	static char buf[RBT_MSG_MAX];
	struct rbt_msg_program msg;
	int sock = daemon_connect(uid);

	if (sock < 0) {
		return false;
	}
	ssize_t n = daemon_list(sock, pid - 1, 0, LIST_TIMEOUT_S, buf, sizeof(buf));
	close(sock);
	if (n <= 0) {
		return false;
	}
	memcpy(&msg, buf, sizeof(msg));
	if (msg.pid != pid) {
		return false;
	}
	ret->is_waiting = (msg.flags & RBT_PROGRAM_WAITING) != 0;
	ret->n = msg.n_tasks < RBT_RECORD_MAX_TASKS ? msg.n_tasks : RBT_RECORD_MAX_TASKS;
	memcpy(ret->tasks, buf + sizeof(msg), ret->n * sizeof(ret->tasks[0]));
	return true;
}

void kfd_known_read(pid_t pid, struct kfd_known *ret)
{
	uid_t owner;

	ret->n = 0;
	/* Another user's daemon answers root alone. */
	if (!ask(RBT_UID_SYSTEM, pid, ret) && !ask(geteuid(), pid, ret) && geteuid() == 0 &&
		rbt_proc_uid(pid, &owner) == 0 && owner != 0) {
		(void)ask(owner, pid, ret);
	}
}

const struct rbt_task_state *kfd_known_find(const struct kfd_known *k, uint32_t id)
{
	for (uint32_t i = 0; i < k->n; i++) {
		if (k->tasks[i].backend == RBT_BACKEND_AMD && k->tasks[i].task.handle == id) {
			return &k->tasks[i];
		}
	}
	return NULL;
}

const char *kfd_known_state(const struct kfd_known *k, const struct rbt_task_state *t)
{
	bool is_alone = (t->suspended & RBT_TASK_OFF_ALONE) != 0;

	return t->suspended == 0 ? "running" : k->is_waiting && !is_alone ? "waiting" : "suspended";
}
