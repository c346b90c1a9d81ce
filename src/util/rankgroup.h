/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of one job (NCCL, MPI) wait for each other, so they must be on and off the GPUs together:
 * they are a group. This file finds the group's name in the environment that launchers set. It
 * needs nothing but libc, because the preloaded library uses it.
 */
#ifndef RBT_UTIL_RANKGROUP_H
#define RBT_UTIL_RANKGROUP_H

#include <stdbool.h>
#include <stddef.h>

#define RBT_GROUP_NAME_MAX 64

/* Whether this can be the name of a group: letters, digits, dots, dashes and underscores, not too
 * many. */
bool rbt_rankgroup_is_name(const char *name);

/*
 * The group of a process by its environment: RUBATO_GROUP if it is set (`none`: no group), else its
 * job of torchrun, PMIx, Open MPI or Slurm. get() returns a variable's value or NULL. -ENOENT: no
 * group.
 */
int rbt_rankgroup_find(
	const char *(*get)(void *ctx, const char *name), void *ctx, char ret[RBT_GROUP_NAME_MAX]);

#endif
