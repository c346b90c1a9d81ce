/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records as messages. Needs nothing but libc, and allocates nothing: the shim has it too.
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

/* Points the arrays of a record with n_tasks tasks to their places in a message in `buf`, aligned
 * as a task is. Whoever fills them there, and then encodes the record into `buf`, needs no memory
 * besides. They are the buffer's: rbt_record_finish() is not for such a record. */
void rbt_record_lay_out(struct rbt_record *rec, void *buf);

#endif
