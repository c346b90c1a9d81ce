/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes records from messages, and sends records. encode.h has the encoder.
 */
#ifndef RBT_PROTO_MESSAGE_H
#define RBT_PROTO_MESSAGE_H

#include <stddef.h>
#include <sys/types.h>

#include "proto/encode.h"

/*
 * Reads a record; *ret has no fd yet (-1). Everything is copied and checked. Returns 0, -EBADMSG if
 * the message is inconsistent, or -ENOMEM.
 */
int rbt_record_decode(const void *buf, size_t size, struct rbt_record *ret);

/* Sends records on `sock`, each as a message of type ATTACH with its device file. Returns 0 or
 * -errno. */
int rbt_records_send(int sock, const struct rbt_record *recs, size_t n);

#endif
