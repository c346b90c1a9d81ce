/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: the daemon says on a program's board whether a compute task that has never run may be
 * scheduled for the first time. The program asks by naming the task in one of RBT_BOARD_GATES
 * places (`asks` of the board), before it reports the task; the daemon answers in the same place
 * (`answers`), before the program needs to know.
 *
 *   program                                   daemon
 *   asks[i] = task
 *   RECORD, with the task                     asks the policy
 *                                             answers[i] = {task, open, or shut until then}
 *   first GPFIFO_SCHEDULE: rbt_gate_read()    renews the answer while the policy refuses
 *   asks[i] = 0, once the task is scheduled
 *
 * "Shut" is a lease: if the daemon dies or hangs, the gate opens by itself. An answer names its
 * task, so that it is not taken for one about the next task in that place.
 *
 * Atomic loads and stores only: nothing here waits or can fail.
 */
#ifndef RBT_BOARD_GATE_H
#define RBT_BOARD_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "board/layout.h"

/* How long "shut" counts, unless it is renewed. */
#define RBT_GATE_LEASE_NS UINT64_C(2000000000)
/* How long a program that expects an answer waits for it. */
#define RBT_GATE_MISSING_NS UINT64_C(1000000000)

enum rbt_gate {
	RBT_GATE_UNSAID, /* there is no answer, or it has expired */
	RBT_GATE_OPEN,
	RBT_GATE_SHUT,
};

/* Values of `until_ns` in an answer. Any larger value is the time until which the gate is shut. */
#define RBT_GATE_UNTIL_UNSAID 0
#define RBT_GATE_UNTIL_OPEN   1

/* Never 0: no client has that handle. */
static inline uint64_t rbt_gate_task(uint32_t client, uint32_t handle)
{
	return (uint64_t)client << 32 | handle;
}

/* A library with another layout has no gate. */
static inline bool rbt_gate_is_there(const struct rbt_board *b)
{
	return (*(const volatile uint32_t *)&b->features & RBT_BOARD_HAS_GATE) != 0;
}

/* For the program. A lease that is longer than any that a daemon gives does not count: the two
 * would have different clocks. */
static inline enum rbt_gate rbt_gate_read(
	const struct rbt_board *b, uint32_t i, uint64_t task, uint64_t now_ns)
{
	const struct rbt_board_answer *a = &b->answers[i];
	uint64_t before = atomic_load_explicit(&a->task, memory_order_acquire);
	uint64_t until_ns = atomic_load_explicit(&a->until_ns, memory_order_acquire);
	uint64_t after = atomic_load_explicit(&a->task, memory_order_relaxed);

	if (before != task || after != task) {
		return RBT_GATE_UNSAID;
	}
	if (until_ns == RBT_GATE_UNTIL_OPEN) {
		return RBT_GATE_OPEN;
	}
	return until_ns > now_ns && until_ns - now_ns <= RBT_GATE_LEASE_NS ? RBT_GATE_SHUT
									   : RBT_GATE_UNSAID;
}

/* For the daemon: answers about the task in place i. */
static inline void rbt_gate_write(struct rbt_board *b, uint32_t i, uint64_t task, uint64_t until_ns)
{
	struct rbt_board_answer *a = &b->answers[i];

	if (atomic_load_explicit(&a->task, memory_order_relaxed) != task) {
		/* No reader joins the old answer with the new task, or the other way round. */
		atomic_store_explicit(&a->task, 0, memory_order_relaxed);
		atomic_store_explicit(&a->until_ns, RBT_GATE_UNTIL_UNSAID, memory_order_release);
	}
	atomic_store_explicit(&a->until_ns, until_ns, memory_order_release);
	atomic_store_explicit(&a->task, task, memory_order_release);
}

#endif
