/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon asks of its hand, over a SOCK_SEQPACKET socketpair: requests are answered in
 * order, one reply each.
 */
#ifndef RBT_PROTO_HAND_H
#define RBT_PROTO_HAND_H

#include <assert.h>
#include <stdint.h>

enum rbt_hand_op {
	/* id, force, value = RBT_HAND_*; an encoded RECORD follows; one fd. Replaces the record of
	 * the same id; what was done to tasks that it does not name is undone */
	RBT_HAND_HOLD = 1,
	RBT_HAND_DROP, /* id. Nothing is restored */
	/* id, gpu (minor number), value = µs, 0 for the tasks' own; runlists: of copy tasks, 0:
	 * compute tasks */
	RBT_HAND_SET_SLICE,
	RBT_HAND_SUSPEND, /* id, scope, mode, value = deadline_ns (monotonic clock) */
	/* id, scope: ALL, or COMPUTE where nothing else was suspended; REST: compute stays off */
	RBT_HAND_RESUME,
	/* value = new deadline_ns for all that are suspended; the reply says how many had lapsed */
	RBT_HAND_RENEW,
	/* gpu (index, backend/gpus.h); one fd: its lock, held by both so that it outlives either */
	RBT_HAND_KEEP_LOCK,
	RBT_HAND_DROP_LOCK, /* gpu (index) */
	/* id, value = interval_us, 0: no more; perhaps one fd, the board to put it on */
	RBT_HAND_WATCH,
	RBT_HAND_LEVEL, /* id, value: of the backend's set_level() */
	RBT_HAND_ROUSE, /* id: its compute tasks, which were resumed; after the reply */
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
	uint32_t gpu;
	uint32_t scope, mode;
	uint32_t force;
	uint32_t pad;
	uint64_t value;
	uint64_t runlists;
};
static_assert(sizeof(struct rbt_hand_request) == 48, "travels between processes");

struct rbt_hand_reply {
	uint32_t seq;
	int32_t error;    /* 0 or negative errno */
	uint32_t lapsed;  /* suspends that ended by their deadline since the last RENEW */
	uint32_t failed;  /* what could not be restored by then */
	uint64_t took_ns; /* on the device */
};

#endif
