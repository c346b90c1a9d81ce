/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_DAEMON_ATTACH_BORROW_H
#define RBT_DAEMON_ATTACH_BORROW_H

#include <stdint.h>
#include <sys/types.h>

#include "backend/record.h"

struct daemon;

/* A copy of the device file that a record speaks of, taken from its program. An fd, or -errno;
 * -ESRCH when the program has ended or has no device there any more. Waits 2 s at most. */
int borrow_device(struct daemon *d, pid_t pid, uint64_t start_time, const struct rbt_record *rec);

#endif
