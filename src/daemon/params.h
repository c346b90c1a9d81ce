/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a program for the decision core: its treatment, its tasks by GPU, and what the
 * policy says of it. */
#ifndef RBT_DAEMON_PARAMS_H
#define RBT_DAEMON_PARAMS_H

#include <stdint.h>

struct daemon;
struct program;
struct rbt_sched_params;

void params_fill(
	struct daemon *d, struct program *p, uint64_t now_ns, struct rbt_sched_params *ret);

/* The interleave level for the program's tasks. The core has no use for it. */
uint32_t params_interleave(const struct program *p);

#endif
