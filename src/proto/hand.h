/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the daemon to its hand, over a SOCK_SEQPACKET socketpair. Each request gets one
 * reply, in order.
 */
#ifndef RBT_PROTO_HAND_H
#define RBT_PROTO_HAND_H

#include <assert.h>
#include <stdint.h>

#include "act/action.h"

enum rbt_hand_op {
	/* id, force, value = RBT_HAND_*; an encoded RECORD follows; one fd. Replaces the record of
	 * the same id. Changes of tasks that the new record does not name are undone */
	RBT_HAND_PUT = 1,
	RBT_HAND_DROP, /* id. Nothing is restored */
	/* id, action: SET_SLICE, SUSPEND, RESUME, KICK, LEVEL, INTERLEAVE or POLL. POLL may have
	 * one fd: the board that gets what polling finds */
	RBT_HAND_ACT,
	/* value = the new deadline_ns of all suspended holdings. The reply has the number of
	 * suspends that ended by their deadline */
	RBT_HAND_RENEW,
	/* value = index (backend/gpus.h) of a GPU; one fd: its GPU lock. Daemon and hand both hold
	 * it, so that it outlives either */
	RBT_HAND_KEEP_LOCK,
	RBT_HAND_DROP_LOCK, /* value = index of a GPU */
};

/* For PUT: what a former hand changed and could not restore. */
enum {
	RBT_HAND_SLICES_CHANGED = 1 << 0,
	RBT_HAND_SUSPENDED = 1 << 1,
	RBT_HAND_INTERLEAVED = 1 << 2,
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
	uint32_t failed;  /* restores that failed since then */
	uint64_t took_ns; /* time spent on the device */
};

#endif
