/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices whose queues are polled, because their programs do not say when they have work.
 */
#ifndef RBT_DAEMON_ACTIVITY_H
#define RBT_DAEMON_ACTIVITY_H

#include "proto/protocol.h"

struct client;
struct daemon;
struct program;

/* Polls the queues of all programs on such devices, as often as it matters now. */
void activity_update(struct daemon *d);
/* Notes that the client's agent or session has been told nothing yet: it is another one, or has
 * lost its connection meanwhile. */
void activity_forget(struct client *h);
/* Fills in what stands in the program's queues, if that is known. */
void activity_account(const struct program *p, struct rbt_program_account *account);

#endif
