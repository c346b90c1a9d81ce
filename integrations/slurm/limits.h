/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arguments of the plugin's line in plugstack.conf: defaults and limits of jobs, for all
 * partitions or for one. Pure: arguments and a job's options go in, a treatment comes out.
 *
 *   rubato=PATH                      the rubato command
 *   [PARTITION:]class=CLASS          for jobs without --gpu-class
 *   [PARTITION:]memory=SIZE          for jobs without --gpu-memory
 *   [PARTITION:]max-class=CLASS      the highest class of a job
 *   [PARTITION:]max-memory=SIZE      the most memory of a job on a GPU
 *
 * Within a partition, its own arguments replace those for all partitions.
 */
#ifndef RBT_SLURM_LIMITS_H
#define RBT_SLURM_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/treatment.h"

#define SLURM_RULES_MAX     64
#define SLURM_PARTITION_MAX 64
#define SLURM_WHY_MAX       320

struct slurm_rule {
	char partition[SLURM_PARTITION_MAX]; /* empty: all */
	bool is_limit;
	struct rbt_treatment treat; /* says one key */
};

struct slurm_rules {
	const char *rubato; /* borrowed from the argument */
	size_t n;
	struct slurm_rule list[SLURM_RULES_MAX];
};

/* Adds an argument. Returns 0, or -EINVAL with the reason in `why`; then the argument is left out. */
int slurm_rules_add(struct slurm_rules *r, const char *arg, char why[SLURM_WHY_MAX]);

/* How a job is to be treated whose options are `asked`. Returns the keys of `asked` that a limit has
 * lowered. A treatment that says nothing means that the job is left alone. */
uint32_t slurm_rules_apply(const struct slurm_rules *r, const char *partition,
	const struct rbt_treatment *asked, struct rbt_treatment *ret);

#endif
