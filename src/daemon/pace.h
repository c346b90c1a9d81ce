/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How soon a policy hears of a program's submissions: 10 to 250 ms after them. Pure.
 *
 * The daemon looks at the boards whenever it is awake anyway, though not more often than
 * pace_round_ns(). It wakes for that purpose only after a program has changed its rate of
 * submissions: 10 ms later, then 20 ms, and so on. A program that goes on at the same rate is then
 * left to the daemon's tick, every 250 ms.
 */
#ifndef RBT_DAEMON_PACE_H
#define RBT_DAEMON_PACE_H

#include <stdint.h>

#include "util/time.h"

#define PACE_MIN_NS (10 * RBT_NS_PER_MS)
#define PACE_MAX_NS (250 * RBT_NS_PER_MS)

/* Of one program; zeroed at first. */
struct pace {
	uint64_t wait_ns;        /* at most until the next event; PACE_MAX_NS: until the tick */
	uint64_t due_ns;         /* when that is over */
	uint64_t n, interval_ns; /* submissions of the last event, and their time */
};

/* The program's event was told: n submissions in interval_ns. */
void pace_told(struct pace *p, uint64_t now_ns, uint64_t n, uint64_t interval_ns);
/* The program has submitted nothing since its last event. */
void pace_silent(struct pace *p, uint64_t now_ns);
/* When to wake for the program, at the latest; UINT64_MAX: not at all. */
uint64_t pace_due(const struct pace *p);
/* The least time from one look at the boards of n programs to the next. */
uint64_t pace_round_ns(uint32_t n);

#endif
