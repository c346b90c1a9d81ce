/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the daemon and its porters: see porter.c.
 */
#ifndef RBT_DAEMON_PEERS_PARCEL_H
#define RBT_DAEMON_PEERS_PARCEL_H

#include <stddef.h>
#include <stdint.h>

#include "proto/protocol.h"

#define PORTER_NAME "rubato-porter"

/* The message of a porter to the daemon, up to the end of the bytes. The files are sent along with
 * it. */
struct parcel {
	/* 0, or -errno if the files cannot be passed on; then there are no files and no bytes */
	int32_t error;
	uint32_t stays; /* the porter now serves an agent, and sends nothing unless it is asked */
	char bytes[RBT_MSG_MAX];
};
#define PARCEL_HEAD offsetof(struct parcel, bytes)

/* Runs in a child process. The connection is its first kept file (util/aside.h). */
void porter_run(int sock, void *data);

#endif
