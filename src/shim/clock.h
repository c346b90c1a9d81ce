/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time, for code that needs it at every launch: CLOCK_MONOTONIC in ns, mostly without reading
 * that clock, which costs 25 to 50 ns and waits for all instructions before it. (On an H200, a
 * launch that is waited for takes 0.5 % longer under Rubato. With the clock itself, and with every
 * pause measured instead of one in eight, it takes 1.3 % longer; the limit is 1 %.)
 *
 * Each thread reads the clock and the processor's counter together about once a millisecond. In
 * between it uses the counter alone, at the rate between the last two such readings, if that rate
 * was the same as before them. Nothing is assumed about the counter: if it changes its speed,
 * jumps, differs between cores or is slow to read, the next reading shows it. Then the clock itself
 * is used until the counter has been steady for a while.
 *
 * Times of one thread never go back. They differ from the clock by at most a microsecond, or a
 * thousandth of the time since the clock was last read. A counter that has just changed gives wrong
 * times until the clock is read again, which is a millisecond by the counter's own measure.
 */
#ifndef RBT_SHIM_CLOCK_H
#define RBT_SHIM_CLOCK_H

#include <stdint.h>

#include "shim/own.h"
#include "shim/sys.h"

#define SHIM_CLOCK_SPAN_NS 1000000u /* for how long a reading is used */
/* Rates are in ns / 2^32 per count. For times up to a second, the products fit into 64 bits. */
#define SHIM_CLOCK_RATE_SHIFT 32

/* Finds out whether there is a counter that may be read; before that, none is used. To be called
 * once; keeps errno. */
void shim_clock_start(void);

/* The clock may be behind a time that was made of the counter, but by one span at most. If it is
 * more, this is another clock, as in a time namespace. */
static inline uint64_t shim_clock_answer(uint64_t now_ns)
{
	uint64_t last_ns = shim_own.clock.last_ns;

	if (__builtin_expect(now_ns < last_ns, 0) && last_ns - now_ns <= SHIM_CLOCK_SPAN_NS) {
		return last_ns;
	}
	shim_own.clock.last_ns = now_ns;
	return now_ns;
}

/* For shim_clock_now_ns(), if the counter cannot be used. */
__attribute__((cold)) uint64_t shim_clock_read(void);

static inline uint64_t shim_clock_now_ns(void)
{
	struct shim_own *own = &shim_own;

	if (__builtin_expect(own->clock.span != 0, 1)) {
		/* A count before the base is larger than any span. */
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
