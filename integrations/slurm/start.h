/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The environment that `rubato run` gives a program. The command itself is asked, so that a task of
 * Slurm gets the same as a program that its user starts, and a daemon if there is none.
 */
#ifndef RBT_SLURM_START_H
#define RBT_SLURM_START_H

#include <stddef.h>

#include "proto/treatment.h"

#define SLURM_START_WHY_MAX 320

/*
 * Runs `rubato run` with this treatment and this environment, as the current user. Returns 0 and the
 * environment (`size` bytes of strings NAME=VALUE, each NUL-terminated; to be freed), or -errno with
 * the reason in `why`. Takes some seconds at most.
 */
int slurm_start_environment(const char *rubato, const struct rbt_treatment *t, char *const *env,
	char **ret_text, size_t *ret_size, char why[SLURM_START_WHY_MAX]);

/* Tells the daemon behind the socket that this process is about to become a program, so that it
 * stays until then. A daemon that is not there is not told. */
void slurm_start_await(const char *socket_path);

#endif
