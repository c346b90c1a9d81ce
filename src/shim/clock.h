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

#include "shim/own.h"
#include "shim/sys.h"

#define SHIM_CLOCK_SPAN_NS 1000000u /* how far a reading is relied on */
/* Rates are in ns / 2^32 a count. Of a second and all that is shorter that fits 64 bits. */
#define SHIM_CLOCK_RATE_SHIFT 32

/* Finds out whether there is a counter that may be read: none is used before. Once; keeps errno. */
void shim_clock_start(void);

/* The clock may be behind what was made of the counter, but by no more than a span: otherwise it is
 * another clock, as in a time namespace of its own. */
static inline uint64_t shim_clock_answer(uint64_t now_ns)
{
	uint64_t last_ns = shim_own.clock.last_ns;

	if (__builtin_expect(now_ns < last_ns, 0) && last_ns - now_ns <= SHIM_CLOCK_SPAN_NS) {
		return last_ns;
	}
	shim_own.clock.last_ns = now_ns;
	return now_ns;
}

/* What shim_clock_now_ns() does when the counter does not tell. */
__attribute__((cold)) uint64_t shim_clock_read(void);

static inline uint64_t shim_clock_now_ns(void)
{
	struct shim_own *own = &shim_own;

	if (__builtin_expect(own->clock.span != 0, 1)) {
		/* Behind the base it is more than any span. */
		uint64_t count = shim_raw_counter() - own->clock.base_count;
		if (__builtin_expect(count < own->clock.span, 1)) {
			return shim_clock_answer(
				own->clock.base_ns +
				(count * own->clock.rate >> SHIM_CLOCK_RATE_SHIFT));
		}
	}
	return shim_clock_read();
}

#endif
