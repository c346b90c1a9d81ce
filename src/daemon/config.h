/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rubatod's configuration file: the settings of the decision core, and the rules by which programs
 * are attached. rubatod.conf(5) describes its keys.
 */
#ifndef RBT_DAEMON_CONFIG_H
#define RBT_DAEMON_CONFIG_H

#include <stdio.h>

#include "daemon/attach/rules.h"
#include "daemon/metrics/metrics.h"
#include "sched/core.h"

struct config {
	struct rbt_sched_config sched;
	char policy_file[512];        /* the object of a policy in eBPF; empty: none */
	char metrics[METRICS_AT_MAX]; /* where they are served, or "none" */
	char admin_group[32];         /* whose members may do what root may */
	/* The time between two scans for programs that a rule may match; 0: as short as is
	 * cheap. */
	uint32_t scan_ms;
	struct rules rules; /* owned */
};

/* The configuration of an empty file. */
void config_default(struct config *ret);
void config_finish(struct config *config);

/* 0; -EINVAL when the file has a mistake, which has been logged with its line; or -errno. */
int config_read(const char *path, struct config *ret);
/* The same from a stream. Mistakes are not logged but written to `why`, one line each with `path`
 * and the line's number, as many as fit. */
int config_parse(FILE *f, const char *path, struct config *ret, char *why, size_t why_size);

/* Sets a number, whatever the file says. 0, or -EINVAL with the mistake in `why`. */
int config_set(
	struct config *config, const char *key, const char *value, char *why, size_t why_size);

/* The default place of the file: /etc/rubato for root, otherwise the user's own. */
int config_default_path(char *buf, size_t size);

#endif
