/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls as bytes in shared memory. Each guest thread has an area that it shares with one thread of
 * its worker (a channel of remote/link.h):
 *
 *   header     positions, and who sleeps
 *   requests   a ring: calls one after the other, each with its arguments
 *   answer     the answer to the thread's last synchronous call
 *
 * The guest writes calls and moves `tail`; the worker takes them in order and moves `head`. A
 * queued call has no answer. A synchronous call waits until `answered` is its number, so that there
 * is never more than one answer.
 *
 * Order between threads. A program may make a call in one thread because another thread's call has
 * returned. A queued call returns before it is done, so each queued call takes a ticket, counted
 * over the whole process, and each call says which tickets were given out before it (`after`). The
 * worker does a call when all calls with these tickets are done.
 *
 * The layout and the numbers of calls never change: old guests work with new hosts. A new field
 * goes into reserved space and is zero for those who do not know it. All fields are little-endian.
 */
#ifndef RBT_WIRE_LAYOUT_H
#define RBT_WIRE_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define RBT_WIRE_AREA        (2u << 20)
#define RBT_WIRE_HEADER      4096u
#define RBT_WIRE_REQUESTS    (1u << 20) /* bytes of the ring */
#define RBT_WIRE_ANSWER_AT   (RBT_WIRE_HEADER + RBT_WIRE_REQUESTS)
#define RBT_WIRE_ANSWER_ROOM (RBT_WIRE_AREA - RBT_WIRE_ANSWER_AT)
#define RBT_WIRE_MAX_CALL    (768u << 10) /* one call or answer, with its head */
#define RBT_WIRE_ALIGN       8u

enum rbt_wire_flags {
	RBT_WIRE_QUEUED = 1,     /* no answer */
	RBT_WIRE_PER_THREAD = 2, /* the form of the call for programs with a stream per thread */
};

/* A call that is no function of the driver: it returns when a function of the guest is due (a
 * callback), and says that the one before it has returned. */
#define RBT_WIRE_CALLBACK 0x8000u

struct rbt_wire_callback {
	uint64_t id; /* of this callback, for the next call; 0: none */
	uint64_t function, user, stream;
	int32_t status;
	uint32_t is_stream_callback; /* its arguments are stream, status, user; otherwise user */
};

struct rbt_wire_call {
	uint32_t size; /* with this head; a multiple of RBT_WIRE_ALIGN */
	uint16_t number, flags;
	uint64_t sequence; /* synchronous calls: 1, 2, … */
	uint64_t ticket;   /* queued calls */
	uint64_t after;
};

struct rbt_wire_answer {
	uint32_t size;
	int32_t result; /* of the driver's function */
	uint64_t sequence;
	uint32_t printed; /* bytes of text that kernels have printed, at the end of the answer */
	uint32_t reserved;
};

/* Positions count bytes and never wrap; modulo the size they are places in the ring. */
struct rbt_wire_area {
	/* Written by the guest. */
	_Alignas(64) uint64_t tail;
	uint64_t last_ticket; /* of the queued calls before `tail` */
	uint32_t guest_sleeps;
	/* Written by the worker. */
	_Alignas(64) uint64_t head;
	uint64_t answered; /* the sequence of the answer */
	uint32_t worker_sleeps;
};

static_assert(sizeof(struct rbt_wire_call) == 32, "layout");
static_assert(sizeof(struct rbt_wire_answer) == 24, "layout");
static_assert(offsetof(struct rbt_wire_area, head) == 64, "layout");
static_assert(sizeof(struct rbt_wire_area) <= RBT_WIRE_HEADER, "layout");
static_assert(RBT_WIRE_MAX_CALL <= RBT_WIRE_ANSWER_ROOM, "an answer fits");

#endif
