/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon asks of its hand, over a SOCK_SEQPACKET socketpair: requests are answered in
 * order, one reply each.
 */
#ifndef RBT_PROTO_HAND_H
#define RBT_PROTO_HAND_H

#include <assert.h>
#include <stdint.h>

#include "act/action.h"

enum rbt_hand_op {
	/* id, force, value = RBT_HAND_*; an encoded RECORD follows; one fd. Replaces the record of
	 * the same id; what was done to tasks that it does not name is undone */
	RBT_HAND_HOLD = 1,
	RBT_HAND_DROP, /* id. Nothing is restored */
	/* id, action: SET_SLICE, SUSPEND, RESUME, ROUSE, LEVEL, or WATCH, with perhaps one fd, the
	 * board to put what is seen on */
	RBT_HAND_ACT,
	/* value = new deadline_ns for all that are suspended; the reply says how many had lapsed */
	RBT_HAND_RENEW,
	/* value = index (backend/gpus.h) of a GPU; one fd: its lock, held by both so that it
	 * outlives either */
	RBT_HAND_KEEP_LOCK,
	RBT_HAND_DROP_LOCK, /* value = index of a GPU */
};

/* Of a HOLD: what was done to it before, by a hand that is gone, and could not be undone. */
enum {
	RBT_HAND_SLICES_CHANGED = 1 << 0,
	RBT_HAND_SUSPENDED = 1 << 1,
};

struct rbt_hand_request {
	uint32_t op;
	uint32_t seq;
	uint32_t id;
	uint32_t force;
	uint64_t value;
	struct rbt_action action;
};
static_assert(sizeof(struct rbt_hand_request) == 72, "travels between processes");

struct rbt_hand_reply {
	uint32_t seq;
	int32_t error;    /* 0 or negative errno */
	uint32_t lapsed;  /* suspends that ended by their deadline since the last RENEW */
	uint32_t failed;  /* what could not be restored by then */
	uint64_t took_ns; /* on the device */
};

#endif
