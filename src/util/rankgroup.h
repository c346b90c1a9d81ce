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
 * The group that a process's launcher puts it in: the job of torchrun, PMIx, Open MPI or Slurm that
 * it is a rank of. get() returns a variable's value or NULL. -ENOENT: in none.
 */
int rbt_rankgroup_find(
	const char *(*get)(void *ctx, const char *name), void *ctx, char ret[RBT_GROUP_NAME_MAX]);

#endif
