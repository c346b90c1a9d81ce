/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a later start must put back if daemon and hand die together: the state file.
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
/* Reads what a previous daemon may have left changed. */
void state_read(struct daemon *d);
/* Puts that back, as far as it can be reached; is_done: the hand of that daemon has done so. Not
 * while that is at work. */
void state_heal(struct daemon *d, bool is_done);
/* Tries again what the driver refused. */
void state_tick(struct daemon *d, uint64_t now_ns);
/* Whether we have put back what a previous daemon left of that process. */
bool state_has_healed(const struct daemon *d, pid_t pid);
/* Keeps what cannot be put back now: its record may come again, or a later start will try. */
void state_keep(struct daemon *d, const struct program *p, const struct rbt_record *rec);
/* What a previous daemon has left of a client, asked for once a record of it arrives, then
 * forgotten. */
enum left {
	LEFT_NOTHING,
	LEFT_HEALED,  /* it was put back, by a record that may have been too old */
	LEFT_CHANGED, /* it is still to be put back */
};
enum left state_take(struct daemon *d, pid_t pid, uint32_t backend, uint32_t client);
/* Whether a later start would have something to put back, if we and the hand died now. */
bool state_is_needed(struct daemon *d);
void state_finish(struct daemon *d);

#endif
