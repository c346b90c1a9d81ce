/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What drivers may be told (cap: RBT_CAP_TIMESLICE or RBT_CAP_SUSPEND). A driver that is not known
 * is tried at the first question.
 */
#ifndef RBT_DAEMON_PEERS_ALLOWED_H
#define RBT_DAEMON_PEERS_ALLOWED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "act/holding.h"

struct program;

bool holding_may(const struct rbt_holding *mine, uint32_t cap);
/* Through all of the program's clients. */
bool program_may(const struct program *p, uint32_t cap);
/* The reason against it, in one line; empty if the driver may be told. */
void program_why_not(const struct program *p, uint32_t cap, char *buf, size_t size);
/* The capability that the program's wishes need and its driver may not be told; 0: none. A latency
 * program needs suspends, of the others. */
uint32_t program_missing_cap(const struct program *p);
/* program_may() of all drivers here, for programs still to come: 0, or -EPROTONOSUPPORT and the
 * reason. */
int drivers_may(uint32_t cap, bool force, char *buf, size_t size);

#endif
