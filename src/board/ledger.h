/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger: shared memory in which the processes of one `rubato run` count the GPU memory that
 * they have, so that one limit binds them together. The daemon makes it, and passes it to each of
 * them. A program without a daemon counts in a ledger of its own.
 *
 * There is a total per GPU, and a slot per process with the process's part of it. A process adds to
 * the total by compare-and-swap, and only if the sum stays within the limit; so two processes
 * cannot both take the last gigabyte. If a process dies, the daemon subtracts its slot.
 *
 * A process may be killed between its change of the total and that of its slot. `begun` and `done`
 * show it: they differ from before the first until after the second. rbt_ledger_audit() then
 * corrects the total, at a moment when no process is in the middle of a change.
 *
 * Programs can write anything here. The processes of a run belong to one user, who could also
 * start them without a limit: the limit is an agreement, not a boundary.
 */
#ifndef RBT_BOARD_LEDGER_H
#define RBT_BOARD_LEDGER_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RBT_LEDGER_MAGIC   0x7264654cu /* "Ledr" */
#define RBT_LEDGER_VERSION 1u
#define RBT_LEDGER_SIZE    32768u
#define RBT_LEDGER_SLOTS   101u
#define RBT_LEDGER_GPUS    32u

#define RBT_LEDGER_NAME "rubato-ledger" /* of the memfd, as /proc/PID/maps shows it */

struct rbt_ledger_slot {
	/* As the daemon knows it; 0: the slot is free. Written by the daemon. */
	_Atomic uint32_t pid;
	_Atomic uint32_t begun, done;
	uint32_t pad0;
	/* Tells whether the process still is the program that got the slot (rbt_proc_image()).
	 * Written by the daemon. */
	_Atomic uint64_t image;
	uint8_t pad[40];
	_Atomic uint64_t bytes[RBT_LEDGER_GPUS];
};

struct rbt_ledger {
	/* Written once, before others map the ledger. */
	uint32_t magic, version, size, n_slots;
	/* Bytes on each GPU; 0: no limit. Written by the daemon. */
	_Atomic uint64_t limit;
	uint8_t pad[40];
	_Atomic uint64_t totals[RBT_LEDGER_GPUS];
	struct rbt_ledger_slot slots[RBT_LEDGER_SLOTS];
	uint8_t pad1[128];
};

static_assert(sizeof(struct rbt_ledger_slot) == 320, "ledger");
static_assert(offsetof(struct rbt_ledger_slot, bytes) == 64, "ledger");
static_assert(offsetof(struct rbt_ledger, limit) == 16, "ledger");
static_assert(offsetof(struct rbt_ledger, totals) == 64, "ledger");
static_assert(offsetof(struct rbt_ledger, slots) == 320, "ledger");
static_assert(sizeof(struct rbt_ledger) == RBT_LEDGER_SIZE, "ledger");

/* ledger.c, for both ends. It makes no system call. */

void rbt_ledger_init(struct rbt_ledger *l);

/* Whether this is a ledger of this version. */
bool rbt_ledger_is_sound(const struct rbt_ledger *l);

/* Adds to the slot and the total if the total stays within `limit`. Returns whether it has. */
bool rbt_ledger_charge(
	struct rbt_ledger *l, uint32_t slot, uint32_t gpu, uint64_t bytes, uint64_t limit);
void rbt_ledger_give_back(struct rbt_ledger *l, uint32_t slot, uint32_t gpu, uint64_t bytes);

/* The limit that is in force; UINT64_MAX: none. */
uint64_t rbt_ledger_limit(const struct rbt_ledger *l);

/* For the daemon alone: */

/* Returns a slot for the process, or -ENOSPC. */
int rbt_ledger_take_slot(struct rbt_ledger *l, uint32_t pid, uint64_t image);

/* Gives back what a process had that has ended. Returns false if it was killed in the middle of a
 * change; then the totals need an audit. */
bool rbt_ledger_clear_slot(struct rbt_ledger *l, uint32_t slot);

/* Makes each total the sum of the slots. Returns false, and changes nothing, if a process is in the
 * middle of a change. */
bool rbt_ledger_audit(struct rbt_ledger *l);

/* ledger_file.c, for the daemon. */

/* A memfd of the right size whose size can never change. Returns an fd or -errno. */
int rbt_ledger_create_fd(void);

/* Maps an fd that may come from a program; with the same rules and errors as rbt_board_map(). */
int rbt_ledger_map(int fd, struct rbt_ledger **ret);
void rbt_ledger_unmap(struct rbt_ledger *l); /* accepts NULL */

#endif
