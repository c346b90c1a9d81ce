/* SPDX-License-Identifier: Apache-2.0 */
/* The last lines that policies have logged. They stay when a policy goes. */
#ifndef RBT_DAEMON_POLICY_LINES_H
#define RBT_DAEMON_POLICY_LINES_H

#include <stdint.h>

#include "proto/policy.h"

#define POLICY_LINES_MAX 1024

struct policy_lines {
	struct rbt_msg_policy_line *list; /* a ring of POLICY_LINES_MAX; NULL: none yet */
	uint64_t last;                    /* number of the newest line; 0: none */
};

/* Adds a line; the oldest one goes. Without memory the line is lost. */
void lines_add(struct policy_lines *l, uint64_t time_ns, uint32_t load, const char *text);
/* The line with this number or the oldest one behind it; NULL: there is none yet. */
const struct rbt_msg_policy_line *lines_find(const struct policy_lines *l, uint64_t number);
void lines_finish(struct policy_lines *l);

#endif
