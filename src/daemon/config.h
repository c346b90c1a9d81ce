/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rubatod's configuration file: how the decision core is to decide, and what is to become of which
 * programs. rubatod.conf(5) has its keys.
 */
#ifndef RBT_DAEMON_CONFIG_H
#define RBT_DAEMON_CONFIG_H

#include <stdio.h>

#include "daemon/attach/rules.h"
#include "daemon/metrics/metrics.h"
#include "sched/core.h"

struct config {
	struct rbt_sched_config sched;
	char metrics[METRICS_AT_MAX]; /* where they are served, or "none" */
	char admin_group[32];         /* whose members may do what root may */
	/* How often programs are looked for that a rule may match; 0: as often as is cheap. */
	uint32_t scan_ms;
	struct rules rules; /* owned */
};

/* As with an empty file. */
void config_default(struct config *ret);
void config_finish(struct config *config);

/* 0; -EINVAL when something in it is wrong, which has been said with its line; or -errno. */
int config_read(const char *path, struct config *ret);
/* The same from a stream; what is wrong, with `path` and its line, is in `why` instead: all
 * mistakes for which there is room, a line each. */
int config_parse(FILE *f, const char *path, struct config *ret, char *why, size_t why_size);

/* Sets a number, whatever the file says. 0, or -EINVAL and what is wrong is in `why`. */
int config_set(
	struct config *config, const char *key, const char *value, char *why, size_t why_size);

/* Where it is looked for when nobody says: /etc/rubato for root, else the user's own. */
int config_default_path(char *buf, size_t size);

#endif
