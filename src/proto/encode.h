/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns records into messages. Needs only libc and allocates nothing, because the shim uses it.
 */
#ifndef RBT_PROTO_ENCODE_H
#define RBT_PROTO_ENCODE_H

#include <assert.h>
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

/* Points the arrays of a record with n_tasks tasks to their places in a message in `buf`, which
 * must be aligned for a task. A caller that fills the arrays there, and then encodes the record
 * into `buf`, needs no other memory. The arrays belong to the buffer, so rbt_record_finish() must
 * not be called for this record. */
void rbt_record_lay_out(struct rbt_record *rec, void *buf);

#endif
