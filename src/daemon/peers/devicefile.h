/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_DAEMON_PEERS_DEVICEFILE_H
#define RBT_DAEMON_PEERS_DEVICEFILE_H

#include "backend/record.h"

/* 0 when the record's fd is its backend's device: such fds get the daemon's ioctls. */
int check_device_fd(const struct rbt_record *rec);

#endif
