/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What time it is, for those who ask at every launch: CLOCK_MONOTONIC in ns, most of the time
 * without reading that clock, which costs 25 to 50 ns and waits for all instructions before it.
 *
 * Each thread reads the clock and the processor's counter together about once a millisecond, and
 * goes on from there with the counter alone, at the rate that it had between the last two such
 * readings, if that was the same as before those. Nothing need be known of the counter: one that
 * changes its speed, jumps, is another on another core, or is dear to read, is seen to be so in the
 * next reading, and the clock itself is used until the counter has been steady for a while.
 *
 * Times of one thread never go back. They are within a microsecond of the clock, or a thousandth of
 * what has passed since it was last read; a counter that has just changed deceives for as long as
 * it takes to read the clock again, a millisecond by its own measure.
 */
#ifndef RBT_SHIM_CLOCK_H
#define RBT_SHIM_CLOCK_H

#include <stdint.h>

/* Finds out whether there is a counter that may be read: none is used before. Once; keeps errno. */
void shim_clock_start(void);

uint64_t shim_clock_now_ns(void);

#endif
