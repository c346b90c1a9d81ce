/* SPDX-License-Identifier: Apache-2.0 */
/* Between the parts of daemon/park. */
#ifndef RBT_DAEMON_PARK_ORDER_H
#define RBT_DAEMON_PARK_ORDER_H

#include "daemon/park/park.h"

#define PARKED_STOPPED "is stopped or frozen, and cannot answer the driver"

/* park.c. NULL: no order is known. */
struct parked *park_find_pid(const struct daemon *d, pid_t pid, uint64_t start_time);
void park_drop(struct parked *k);
/* The programs that go off and come back together with k, which is the first. Returns how many. */
size_t park_group(struct daemon *d, struct parked *k, struct parked **list, size_t max);

/* order.c: parks a program that is idle, if nothing forbids it. -EAGAIN: it is not idle any more,
 * or -errno. The board wakes the daemon already. */
int park_order_idle(struct daemon *d, struct program *p, uint64_t n_calls);

#endif
