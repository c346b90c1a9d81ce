/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says now of a program's process. Another process may have its number by the time
 * that /proc is read, so the pidfd is asked afterwards. */
#include <stdio.h>
#include <string.h>

#include "daemon/program.h"
#include "util/fd.h"
#include "util/proc.h"
#include "util/time.h"

/* How long the program's place is taken to be the same. */
#define MOVED_NS   (5 * RBT_NS_PER_S)
#define RENAMED_NS (5 * RBT_NS_PER_S)

uid_t program_owner(const struct program *p)
{
	uid_t uid;

	return rbt_proc_uid(p->pid, &uid) == 0 && !rbt_pidfd_has_exited(p->pidfd.fd) ? uid : p->uid;
}

const struct rbt_place *program_place(struct program *p, uint64_t now_ns)
{
	struct rbt_place at;

	if (p->place.as_of_ns == 0 || now_ns - p->place.as_of_ns > MOVED_NS) {
		if (rbt_place_read(p->pid, &at) == 0 && !rbt_pidfd_has_exited(p->pidfd.fd)) {
			p->place.at = at;
		}
		p->place.as_of_ns = now_ns;
	}
	return &p->place.at;
}

/* Programs seldom rename themselves, so the name is cached. */
const char *program_name(struct program *p, uint64_t now_ns)
{
	char path[64], name[sizeof(p->name.text)];

	if (p->name.as_of_ns == 0 || now_ns - p->name.as_of_ns > RENAMED_NS) {
		snprintf(path, sizeof(path), "/proc/%d/comm", (int)p->pid);
		ssize_t n = rbt_read_file(path, name, sizeof(name));
		if (n > 0) {
			name[n - 1] = '\0'; /* the newline that /proc adds */
			memcpy(p->name.text, name, sizeof(name));
		}
		p->name.as_of_ns = now_ns;
	}
	return p->name.text;
}
