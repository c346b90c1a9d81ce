/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/facts.h"

#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "util/cgroup.h"
#include "util/fd.h"
#include "util/time.h"

#define FRESH_NS RBT_NS_PER_S

static void look_up_comm(struct policy_facts *f, pid_t pid)
{
	char path[64], name[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	ssize_t n = rbt_read_file(path, name, sizeof(name));
	if (n <= 0) {
		return;
	}
	memcpy(f->comm, name, strnlen(name, sizeof(f->comm) - 1));
	f->comm[strcspn(f->comm, "\n")] = '\0';
	f->valid |= GPU_SCHED_HAS_COMM;
}

/* A cgroup's id is the number of its folder. */
static void look_up_cgroup(struct policy_facts *f, pid_t pid)
{
	static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	char path[64], text[4096], folder[4200];
	struct rbt_cgroup_line line = {0};
	const char *rest = text;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	ssize_t n = rbt_read_file(path, text, sizeof(text));
	if (n <= 0) {
		return;
	}
	while (!line.is_v2) {
		if (!rbt_cgroup_next(&rest, &line)) {
			return;
		}
	}
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		struct statfs fs;
		struct stat st;

		snprintf(folder, sizeof(folder), "%s%.*s", mounts[i], (int)line.length, line.path);
		if (statfs(folder, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC &&
			stat(folder, &st) == 0) {
			f->cgroup_id = st.st_ino;
			f->valid |= GPU_SCHED_HAS_CGROUP;
			return;
		}
	}
}

void facts_look_up(struct policy_facts *f, pid_t pid, uint64_t now_ns)
{
	if (f->as_of_ns != 0 && now_ns - f->as_of_ns < FRESH_NS) {
		return;
	}
	*f = (struct policy_facts){.as_of_ns = now_ns};
	look_up_comm(f, pid);
	look_up_cgroup(f, pid);
}
