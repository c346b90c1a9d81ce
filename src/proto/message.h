/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records to and from messages.
 */
#ifndef RBT_PROTO_MESSAGE_H
#define RBT_PROTO_MESSAGE_H

#include <stddef.h>
#include <sys/types.h>

#include "backend/record.h"
#include "proto/protocol.h"

/* Room for the largest record message. */
#define RBT_RECORD_MSG_MAX                                                                         \
	(sizeof(struct rbt_msg_record) + RBT_RECORD_MAX_TASKS * sizeof(struct rbt_task) +          \
		RBT_RECORD_MAX_CHANNELS * sizeof(uint32_t))
static_assert(RBT_RECORD_MSG_MAX <= RBT_MSG_MAX, "a record fits in a message");

/* Writes a message of `type` (RECORD or ATTACH) without the fd. Returns its size, or -EMSGSIZE. */
ssize_t rbt_record_encode(
	const struct rbt_record *rec, enum rbt_msg_type type, void *buf, size_t size);

/*
 * Reads one back; *ret has no fd yet (-1). Everything is copied and checked: -EBADMSG for whatever
 * does not hold together, -ENOMEM.
 */
int rbt_record_decode(const void *buf, size_t size, struct rbt_record *ret);

/* Sends records on `sock`, each a message of type ATTACH with its device file. 0 or -errno. */
int rbt_records_send(int sock, const struct rbt_record *recs, size_t n);

#endif
