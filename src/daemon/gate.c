/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gate.h"

#include "board/gate.h"
#include "daemon/daemon.h"
#include "daemon/events.h"
#include "daemon/program.h"
#include "util/time.h"

#define ASK_NS (100 * RBT_NS_PER_MS)
/* Records of a program come in bursts, and are no reason to ask again. */
#define SETTLE_NS (50 * RBT_NS_PER_MS)

bool gate_is_shut(const struct program *p, uint32_t client, uint32_t handle)
{
	uint64_t task = rbt_gate_task(client, handle);

	for (uint32_t i = 0; i < RBT_BOARD_GATES; i++) {
		const struct gate_answer *a = &p->gate.answers[i];
		if (a->task == task && !a->is_open) {
			return true;
		}
	}
	return false;
}

bool gate_holds_any(const struct program *p)
{
	for (uint32_t i = 0; i < RBT_BOARD_GATES; i++) {
		if (p->gate.answers[i].task != 0 && !p->gate.answers[i].is_open) {
			return true;
		}
	}
	return false;
}

static bool policy_asks(const struct daemon *d)
{
	return d->sched.config.policy != NULL && d->sched.config.policy->asks &&
	       d->events.policy != NULL;
}

static void open_gate(struct rbt_board *b, uint32_t i, struct gate_answer *a, uint64_t task)
{
	*a = (struct gate_answer){.task = task, .is_open = true};
	rbt_gate_write(b, i, task, RBT_GATE_UNTIL_OPEN);
}

/* Answers about the task in one place of the board. The place is the program's word; a task that no
 * record names is not answered about. */
static void answer(struct daemon *d, struct program *p, uint32_t i, uint64_t now_ns)
{
	struct rbt_board *b = p->reader.board;
	struct gate_answer *a = &p->gate.answers[i];
	uint64_t task = atomic_load_explicit(&b->asks[i], memory_order_acquire);
	bool expects = atomic_load_explicit(&b->expects_gate, memory_order_relaxed) != 0;

	if (a->task != task) {
		*a = (struct gate_answer){0};
	}
	if (task == 0 || (a->task != 0 && a->is_open)) {
		return;
	}
	if (!policy_asks(d)) {
		if (a->task != 0 || expects) {
			open_gate(b, i, a, task);
		}
		return;
	}
	if (a->task == 0 || now_ns - a->asked_ns >= SETTLE_NS) {
		bool yes;

		if (!events_admit_first(d, p, (uint32_t)(task >> 32), (uint32_t)task, &yes)) {
			*a = (struct gate_answer){0};
			return;
		}
		if (yes) {
			open_gate(b, i, a, task);
			return;
		}
		*a = (struct gate_answer){.task = task, .asked_ns = now_ns};
	}
	rbt_gate_write(b, i, task, now_ns + RBT_GATE_LEASE_NS);
}

/* The core is told of a task when the gate opens, and its setup goes on from there. */
static void note_clients(struct daemon *d, struct program *p, uint64_t now_ns)
{
	struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		bool was_held = h->is_held;

		h->is_held = false;
		for (uint32_t i = 0; i < RBT_BOARD_GATES; i++) {
			const struct gate_answer *a = &p->gate.answers[i];
			h->is_held = h->is_held || (a->task != 0 && !a->is_open &&
							   (uint32_t)(a->task >> 32) == h->client &&
							   h->backend == RBT_BACKEND_NVIDIA);
		}
		if (h->new_since_ns != 0 && (h->is_held || was_held)) {
			h->new_since_ns = now_ns;
		}
		d->dirty = d->dirty || h->is_held != was_held;
	}
}

void gate_take(struct daemon *d, struct program *p)
{
	uint64_t now_ns = rbt_now_ns();

	if (p->reader.board != NULL && rbt_gate_is_there(p->reader.board)) {
		for (uint32_t i = 0; i < RBT_BOARD_GATES; i++) {
			answer(d, p, i, now_ns);
		}
	}
	note_clients(d, p, now_ns);
	if (gate_holds_any(p) && d->gates.next_ns == 0) {
		d->gates.next_ns = now_ns + ASK_NS;
	}
}

void gate_forget_board(struct program *p)
{
	p->gate = (struct program_gate){0};
}

void gate_release(struct program *p)
{
	for (uint32_t i = 0; p->reader.board != NULL && i < RBT_BOARD_GATES; i++) {
		struct gate_answer *a = &p->gate.answers[i];
		if (a->task != 0 && !a->is_open) {
			open_gate(p->reader.board, i, a, a->task);
		}
	}
}

void gate_policy_changed(struct daemon *d)
{
	d->gates.next_ns = 1;
}

uint64_t gate_next(const struct daemon *d)
{
	return d->gates.next_ns != 0 ? d->gates.next_ns : UINT64_MAX;
}

void gate_run(struct daemon *d)
{
	struct program *p;

	if (rbt_now_ns() < gate_next(d)) {
		return;
	}
	d->gates.next_ns = 0;
	LIST_FOREACH (p, &d->programs, entries) {
		gate_take(d, p);
	}
}
