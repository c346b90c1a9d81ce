/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "shim/sys.h"
#include "util/time.h"

/* The shortest time between two readings that give the counter's rate. */
#define APART_MIN_NS (RBT_NS_PER_MS / 4)
#define APART_MAX_NS RBT_NS_PER_S
/* If reading clock and counter takes longer, they are not of the same moment. */
#define READING_NS RBT_NS_PER_US
#define TOLERANCE  1024 /* two rates are equal to one part in this many */

static atomic_bool has_counter;

void shim_clock_start(void)
{
	int saved_errno = errno;

	atomic_store_explicit(&has_counter, shim_raw_has_counter(), memory_order_relaxed);
	errno = saved_errno;
}

/* 0 if it is unknown: the readings are too far apart, the counter went back, or was read too
 * late. */
static uint64_t rate_of(uint64_t ns, uint64_t count, uint64_t reading)
{
	if (ns > APART_MAX_NS || reading >= count) {
		return 0;
	}
	uint64_t rate = (ns << SHIM_CLOCK_RATE_SHIFT) / count;
	return reading * rate >> SHIM_CLOCK_RATE_SHIFT <= READING_NS ? rate : 0;
}

static bool agree(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) <= a / TOLERANCE;
}

uint64_t shim_clock_read(void)
{
	struct shim_own *own = &shim_own;
	uint64_t now_ns = shim_raw_now_ns();

	/* A span is over; or, if it is sooner than that, the counter has jumped. */
	own->clock.span = 0;
	if (!atomic_load_explicit(&has_counter, memory_order_relaxed) ||
		now_ns - own->clock.base_ns < APART_MIN_NS) {
		return shim_clock_answer(now_ns);
	}
	uint64_t before = shim_raw_counter();
	now_ns = shim_raw_now_ns();
	/* The counter is read after the clock, so that times made of it later are too early, if
	 * anything. */
	uint64_t count = shim_raw_counter();
	uint64_t rate =
		rate_of(now_ns - own->clock.base_ns, count - own->clock.base_count, count - before);
	bool is_steady = rate != 0 && agree(rate, own->clock.rate);

	own->clock.base_ns = now_ns;
	own->clock.base_count = count;
	own->clock.rate = rate;
	own->clock.span =
		is_steady ? ((uint64_t)SHIM_CLOCK_SPAN_NS << SHIM_CLOCK_RATE_SHIFT) / rate : 0;
	return shim_clock_answer(now_ns);
}
