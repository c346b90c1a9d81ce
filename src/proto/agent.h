/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said to the agent: a thread of the shim's inside a program, for drivers that take orders
 * from the program itself alone (AMD's UPDATE_QUEUE). It is reached by one end of a SOCK_SEQPACKET
 * pair that the shim made; that end is the file of a record with RBT_RECORD_AGENT.
 *
 * Whoever has the record may speak; requests are carried out in order. The agent fails open: what
 * it took off it puts back when the last copy of our end is closed, and when a deadline has passed
 * that was not renewed.
 */
#ifndef RBT_PROTO_AGENT_H
#define RBT_PROTO_AGENT_H

#include <assert.h>
#include <stdint.h>

#define RBT_AGENT_MAGIC 0x6e676101u /* "\1agn": the low byte is the version */

enum rbt_agent_op {
	/* kinds, deadline_ns: takes all queues of these kinds off, also those made later. Answered
	 * when it is done */
	RBT_AGENT_SUSPEND = 1,
	RBT_AGENT_RESUME,  /* kinds. Answered */
	RBT_AGENT_PREEMPT, /* queue: off and back. Answered */
	RBT_AGENT_RENEW,   /* deadline_ns, of all that is off. Not answered */
	/* value: how often queues are looked at, in µs; 0: not at all. Not answered */
	RBT_AGENT_WATCH,
	RBT_AGENT_LEVEL, /* value: enum rbt_agent_level. Not answered */
};

/* Kinds of queues, bits. */
enum { RBT_AGENT_COMPUTE = 1 << 0, RBT_AGENT_REST = 1 << 1 };

/* How the device is to arbitrate between this program's queues and others'. */
enum rbt_agent_level { RBT_AGENT_LEVEL_OWN, RBT_AGENT_LEVEL_LOW, RBT_AGENT_LEVEL_HIGH };

struct rbt_agent_request {
	uint32_t magic, op, seq;
	uint32_t kinds; /* or the queue */
	uint64_t value; /* or the deadline, on the monotonic clock */
};
static_assert(sizeof(struct rbt_agent_request) == 24, "travels between processes");

struct rbt_agent_reply {
	uint32_t magic, seq;
	int32_t error; /* 0 or negative errno */
	uint32_t n;    /* queues that are off now */
};
static_assert(sizeof(struct rbt_agent_reply) == 16, "travels between processes");

/* No suspend outlasts this without being renewed, whatever its deadline. */
#define RBT_AGENT_LEASE_NS UINT64_C(5000000000)

#endif
