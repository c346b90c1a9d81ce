/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions of the core are carried out.
 */
#ifndef RBT_DAEMON_APPLY_H
#define RBT_DAEMON_APPLY_H

#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct program;

/* A suspend ends this long after the daemon last renewed it: if the daemon is stopped, the hand
 * resumes the program. */
#define LEASE_NS UINT64_C(2000000000)
/* A program that could not be suspended takes no turns for this long. */
#define NO_TURNS_NS UINT64_C(5000000000)
/* The same if the program itself did not answer: it may be stopped, or have had no processor. */
#define SILENT_NS UINT64_C(500000000)
/* A failed action is tried again after this. */
#define RETRY_NS UINT64_C(1000000000)

/* Carries out the decisions that are new. */
void apply_changes(struct daemon *d);
/* Carries out all decisions, wherever the applied state differs. */
void apply_all(struct daemon *d);
/* Whether the program is kept off by turns or by a reserve, and not by command. */
bool program_is_waiting(const struct program *p);

#endif
