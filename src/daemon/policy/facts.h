/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says of a process, for the hook task_init. */
#ifndef RBT_DAEMON_POLICY_FACTS_H
#define RBT_DAEMON_POLICY_FACTS_H

#include <stdint.h>
#include <sys/types.h>

#include "rubato/policy_abi.h"

struct policy_facts {
	uint64_t as_of_ns; /* 0: not looked up yet */
	uint32_t valid;    /* GPU_SCHED_HAS_COMM, GPU_SCHED_HAS_CGROUP */
	uint64_t cgroup_id;
	char comm[GPU_SCHED_COMM_SIZE];
};

/* Looks the process up, unless that was done less than a second ago: a program makes its tasks one
 * behind the other. */
void facts_look_up(struct policy_facts *f, pid_t pid, uint64_t now_ns);

#endif
