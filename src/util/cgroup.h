/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of /proc/PID/cgroup: one line "NUMBER:CONTROLLERS:PATH" per hierarchy. The one of cgroup
 * v2 has no controllers. The paths are relative to the reader's cgroup namespace, so the daemon on
 * the host sees the whole path of a program in a container. The parser is pure.
 *
 * A user who has a part of the tree can give cgroups any names there. So these names are good for
 * people and for accounts, and never give a right.
 */
#ifndef RBT_UTIL_CGROUP_H
#define RBT_UTIL_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct rbt_cgroup_line {
	bool is_v2;
	const char *path; /* `length` bytes, not NUL-terminated */
	size_t length;
};

/* Reads the next line and moves *text behind it; lines of another form are left out. Returns false
 * at the end of the text. */
bool rbt_cgroup_next(const char **text, struct rbt_cgroup_line *ret);

/* The place of a program, according to the names of its cgroups. An empty string: not known. All
 * characters are letters, digits or dashes. Part of the protocol. */
struct rbt_place {
	char container_id[65]; /* 64 hexadecimal digits, as Docker, Podman and containerd show it */
	char pod_uid[37];      /* of Kubernetes, with dashes unless it is a static pod's */
	char slurm_job[21];    /* the job's number */
	char pad[5];
};

/* Finds the innermost container, pod and Slurm job in the text of /proc/PID/cgroup. */
void rbt_place_parse(const char *text, struct rbt_place *ret);
/* The same for a process. 0, or -errno; then *ret is empty. */
int rbt_place_read(pid_t pid, struct rbt_place *ret);

#endif
