/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state file: what the next daemon must restore if daemon and hand die together.
 */
#ifndef RBT_DAEMON_SURVIVE_STATE_H
#define RBT_DAEMON_SURVIVE_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "backend/record.h"

struct daemon;
struct program;

/* A program that a previous daemon left changed and that was not restored yet; state.c's own. */
struct unhealed;

struct statefile {
	LIST_HEAD(, unhealed) unhealed;
	uint64_t heal_ns; /* when to try again what the driver refused; 0: nothing */
	bool is_lost;     /* the file could not be written, and that was said */
};

void state_write(struct daemon *d);
/* Reads what a former daemon may have left changed. */
void state_read(struct daemon *d);
/* Restores that, as far as it can be reached. is_done: the former daemon's hand has restored it.
 * Must not be called while that hand is still restoring. */
void state_heal(struct daemon *d, bool is_done);
/* Tries again to restore what the driver refused. */
void state_tick(struct daemon *d, uint64_t now_ns);
/* Whether we have restored what a former daemon changed in that process. */
bool state_has_healed(const struct daemon *d, pid_t pid);
/* Keeps what cannot be restored now: its record may come again, or a later daemon will try. */
void state_keep(struct daemon *d, const struct program *p, const struct rbt_record *rec);
/* What a former daemon left changed in a client. It is asked for when a record of the client
 * arrives, and then forgotten. */
enum left {
	LEFT_NOTHING,
	LEFT_HEALED,  /* it was restored, with a record that may have been too old */
	LEFT_CHANGED, /* it is still to be restored */
};
enum left state_take(struct daemon *d, pid_t pid, uint32_t backend, uint32_t client);
/* Whether the next daemon would have something to restore if daemon and hand died now. */
bool state_is_needed(struct daemon *d);
void state_finish(struct daemon *d);

#endif
