/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parking: messages of tools to the daemon, and of the helper process (rubato-park) to the daemon.
 * As in protocol.h: SOCK_SEQPACKET, one message per packet.
 */
#ifndef RBT_PROTO_PARK_H
#define RBT_PROTO_PARK_H

#include <assert.h>
#include <stdint.h>

#include "proto/protocol.h"

#define RBT_PARK_HELPER "rubato-park" /* its file, and its process name */
#define RBT_PARK_MAX    64            /* programs of one order */

enum {
	RBT_PARK_BACK = 1 << 0,    /* unpark */
	RBT_PARK_FORCE = 1 << 1,   /* with drivers and in cases that were not tried */
	RBT_PARK_NO_WAIT = 1 << 2, /* unpark only if there is memory now */
};

/* RBT_MSG_PARK: about the first program, and about those of its group: they must all be named, and
 * are all locked before any leaves the GPU. The RESULT says whether the order was accepted;
 * RBT_MSG_PARK_STATE tells how it goes. */
struct rbt_msg_park {
	struct rbt_msg_header h;
	uint32_t flags; /* RBT_PARK_* */
	uint32_t n;
	uint64_t for_ms; /* of a park: 0: until it is unparked */
	int32_t pids[RBT_PARK_MAX];
};

enum rbt_park_phase {
	RBT_PARK_RUNNING, /* not parked */
	RBT_PARK_LEAVING,
	RBT_PARK_PARKED,
	RBT_PARK_WAITING, /* for memory */
	RBT_PARK_COMING_BACK,
	RBT_PARK_LOST, /* a restore has failed: only the end of the program frees what it holds */
};

/* RBT_MSG_PARKED, the answer to RBT_MSG_PARK_STATE (struct rbt_msg_pid). */
struct rbt_msg_parked {
	struct rbt_msg_header h;
	int32_t pid;
	uint32_t phase;      /* enum rbt_park_phase */
	int32_t error;       /* of the last order: 0 or negative errno; then `text` says why */
	uint32_t is_overdue; /* the driver has not answered for longer than it should take */
	uint64_t done_bytes, total_bytes;
	char text[200];
};

/* What the helper is to do. */
enum rbt_park_goal {
	RBT_PARK_GOAL_STATE, /* only tell the states */
	RBT_PARK_GOAL_OFF,
	RBT_PARK_GOAL_ON,
};

/* The driver's calls. */
enum rbt_park_call {
	RBT_PARK_CALL_STATE,
	RBT_PARK_CALL_LOCK,
	RBT_PARK_CALL_CHECKPOINT,
	RBT_PARK_CALL_RESTORE,
	RBT_PARK_CALL_UNLOCK,
};

/* From the helper: a call begins, or has ended. */
struct rbt_park_report {
	int32_t pid; /* 0: the helper could not begin at all */
	uint32_t call;
	uint32_t has_ended;
	int32_t result;   /* a CUresult; -errno if pid is 0 */
	int32_t state;    /* enum CUprocessState; -1: not known */
	uint32_t is_last; /* the helper has done what it could */
};

static_assert(sizeof(struct rbt_msg_park) == 24 + 4 * RBT_PARK_MAX, "wire");
static_assert(sizeof(struct rbt_msg_parked) == 240, "wire");

#endif
