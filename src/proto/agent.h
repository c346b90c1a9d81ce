/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the agent: a thread of the shim inside a program, for drivers that let only the
 * program itself change its queues (AMD's UPDATE_QUEUE). The shim creates a SOCK_SEQPACKET pair.
 * One end of it is the file of a record with RBT_RECORD_AGENT.
 *
 * Any process that has the record may send requests; the agent carries them out in order. The agent
 * fails open: it resumes everything that it suspended when the last copy of our end is closed, and
 * when a deadline passes without being renewed. Then it also closes its end, and the shim's next
 * record brings another link.
 */
#ifndef RBT_PROTO_AGENT_H
#define RBT_PROTO_AGENT_H

#include <assert.h>
#include <stdint.h>

#define RBT_AGENT_MAGIC 0x6e676101u /* "\1agn": the low byte is the version */

enum rbt_agent_op {
	/* kinds, deadline_ns: suspends all queues of these kinds, including queues created later.
	 * Answered when it is done */
	RBT_AGENT_SUSPEND = 1,
	RBT_AGENT_RESUME,  /* kinds. Answered */
	RBT_AGENT_PREEMPT, /* queue: suspended and resumed. Answered */
	RBT_AGENT_RENEW,   /* deadline_ns, for all suspended queues. Not answered */
	/* value: the interval in µs at which queues are polled; 0: never. Not answered */
	RBT_AGENT_WATCH,
	RBT_AGENT_LEVEL, /* value: enum rbt_agent_level. Not answered */
	/* queue, deadline_ns: suspends one queue, whatever happens to its kind. It stays suspended
	 * until it is released or destroyed. Answered when it is done. -ENOENT also if the number
	 * is another queue's by now */
	RBT_AGENT_HOLD_QUEUE,
	RBT_AGENT_RELEASE_QUEUE, /* queue. Answered */
};

/* Kinds of queues, as bits. */
enum { RBT_AGENT_COMPUTE = 1 << 0, RBT_AGENT_REST = 1 << 1 };

/* How the device arbitrates between this program's queues and those of other programs. */
enum rbt_agent_level { RBT_AGENT_LEVEL_OWN, RBT_AGENT_LEVEL_LOW, RBT_AGENT_LEVEL_HIGH };

struct rbt_agent_request {
	uint32_t magic, op, seq;
	uint32_t kinds; /* or a queue: its number and, for HOLD and RELEASE, its serial above */
	uint64_t value; /* or a deadline, on the monotonic clock */
};
static_assert(sizeof(struct rbt_agent_request) == 24, "travels between processes");

/* The serial is the one in the record (struct rbt_task); 0 means whichever queue has the number. */
#define RBT_AGENT_QUEUE(number, serial) ((uint32_t)(serial) << 16 | ((number)&0xffffu))
#define RBT_AGENT_NUMBER(queue)         ((queue)&0xffffu)
#define RBT_AGENT_SERIAL(queue)         ((queue) >> 16)

struct rbt_agent_reply {
	uint32_t magic, seq;
	int32_t error; /* 0 or negative errno */
	uint32_t n;    /* queues that are suspended now */
};
static_assert(sizeof(struct rbt_agent_reply) == 16, "travels between processes");

/* The longest time that a suspend lasts without being renewed, whatever its deadline. */
#define RBT_AGENT_LEASE_NS UINT64_C(5000000000)

#endif
