/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rubatod's configuration file: how the decision core is to decide. rubatod(8) has its keys.
 */
#ifndef RBT_DAEMON_CONFIG_H
#define RBT_DAEMON_CONFIG_H

#include "daemon/metrics.h"
#include "sched/core.h"

struct config {
	struct rbt_sched_config sched;
	char metrics[METRICS_AT_MAX]; /* where they are served, or "none" */
};

/* As with an empty file. */
void config_default(struct config *ret);

/* 0; -EINVAL when something in it is wrong, which has been said with its line; or -errno. */
int config_read(const char *path, struct config *ret);

/* Where it is looked for when nobody says: /etc/rubato for root, else the user's own. */
int config_default_path(char *buf, size_t size);

#endif
