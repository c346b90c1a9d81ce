/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records from messages, and their sending. What writes them is in encode.h.
 */
#ifndef RBT_PROTO_MESSAGE_H
#define RBT_PROTO_MESSAGE_H

#include <stddef.h>
#include <sys/types.h>

#include "proto/encode.h"

/*
 * Reads a record; *ret has no fd yet (-1). Everything is copied and checked: -EBADMSG for whatever
 * does not hold together, -ENOMEM.
 */
int rbt_record_decode(const void *buf, size_t size, struct rbt_record *ret);

/* Sends records on `sock`, each a message of type ATTACH with its device file. 0 or -errno. */
int rbt_records_send(int sock, const struct rbt_record *recs, size_t n);

#endif
