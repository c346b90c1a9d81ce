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

/* What a porter sends on, up to the end of the message; the files go beside it. */
struct parcel {
	int32_t error;  /* 0, or -errno of its files: then there are none, and no message either */
	uint32_t stays; /* the porter stands between us and an agent: it is silent if we are */
	char bytes[RBT_MSG_MAX];
};
#define PARCEL_HEAD offsetof(struct parcel, bytes)

/* In a process of its own, with a connection as its first kept file (util/aside.h). */
void porter_run(int sock, void *data);

#endif
