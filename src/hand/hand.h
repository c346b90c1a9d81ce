/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand: one small process that carries actions out on the device and nothing else. It belongs
 * to one owner (the daemon), at the other end of a SOCK_SEQPACKET socketpair; requests are answered
 * in order, one reply each.
 *
 * Every suspend has a deadline. The owner renews it while it means it; when the owner stops, the
 * hand resumes by itself. Programs that take turns are off at short slices, and would meet: when
 * one of their deadlines passes, all default slices are restored first. When the owner dies, the
 * hand restores default slices, then resumes everything, and exits.
 */
#ifndef RBT_HAND_HAND_H
#define RBT_HAND_HAND_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum rbt_hand_op {
	/* id, force, value = RBT_HAND_*; an encoded RECORD follows; one fd. Replaces the record of
	 * the same id; what was done to tasks that it does not name is undone */
	RBT_HAND_HOLD = 1,
	RBT_HAND_DROP, /* id. Nothing is restored */
	/* id, gpu, value = µs, 0 for the tasks' own; runlists: of copy tasks, 0: compute tasks */
	RBT_HAND_SET_SLICE,
	RBT_HAND_SUSPEND, /* id, scope, mode, value = deadline_ns (monotonic clock) */
	/* id, scope: ALL, or COMPUTE where nothing else was suspended; REST: compute stays off */
	RBT_HAND_RESUME,
	/* value = new deadline_ns for all that are suspended; the reply says how many had lapsed */
	RBT_HAND_RENEW,
	/* gpu; one fd: the GPU's lock, held by both so that it outlives either */
	RBT_HAND_KEEP_LOCK,
	RBT_HAND_DROP_LOCK, /* gpu */
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

/* Runs the hand on `sock` until the owner is gone; then restores and returns 0, or -errno when
 * the driver refused some of it. */
int rbt_hand_run(int sock);

/* The GPU's lock: an fd that holds it, or -EBUSY when another scheduler does, or -errno. */
int rbt_gpu_lock(uint32_t backend_id, uint32_t gpu);

/*
 * Who is refused the lock leaves a mark on the node for as long as it wants it, so that the holder
 * knows of the company it has and stays at default slices: beside a neighbour at the driver's
 * slice, a task at 1 µs gets nothing. An fd that keeps the mark, or -errno.
 */
int rbt_gpu_mark(uint32_t backend_id, uint32_t gpu);

/* Whether anybody but this open description has left a mark on the
 * lock's node. False when it cannot be told. */
bool rbt_gpu_is_marked(int lock_fd);

#endif
