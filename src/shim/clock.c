/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "shim/sys.h"
#include "util/time.h"

/* How far a reading is relied on, and from how far apart two tell the counter's rate. */
#define SPAN_NS      RBT_NS_PER_MS
#define APART_MIN_NS (RBT_NS_PER_MS / 4)
#define APART_MAX_NS RBT_NS_PER_S
/* Longer between clock and counter, and they are not of the same moment. */
#define READING_NS RBT_NS_PER_US
#define TOLERANCE  1024 /* of two rates: a part in so many */

/* Rates are in ns / 2^32 a count. Of APART_MAX_NS and all that is shorter that fits 64 bits. */
#define RATE_SHIFT 32

/* Of this thread. span 0: the counter is not to be relied on, nor read. */
static __thread struct {
	uint64_t span; /* in counts */
	uint64_t base_ns, base_count, rate;
	uint64_t last_ns; /* what was answered */
} known __attribute__((tls_model("initial-exec")));

static atomic_bool has_counter;

void shim_clock_start(void)
{
	int saved_errno = errno;

	atomic_store_explicit(&has_counter, shim_raw_has_counter(), memory_order_relaxed);
	errno = saved_errno;
}

/* The clock may be behind what was made of the counter, but by no more than a span: otherwise it is
 * another clock, as in a time namespace of its own. */
static inline uint64_t answer(uint64_t now_ns)
{
	if (__builtin_expect(now_ns < known.last_ns, 0) && known.last_ns - now_ns <= SPAN_NS) {
		return known.last_ns;
	}
	known.last_ns = now_ns;
	return now_ns;
}

/* 0 if it cannot be told: too far apart, a counter that went back, or that was read too late. */
static uint64_t rate_of(uint64_t ns, uint64_t count, uint64_t reading)
{
	if (ns > APART_MAX_NS || reading >= count) {
		return 0;
	}
	uint64_t rate = (ns << RATE_SHIFT) / count;
	return reading * rate >> RATE_SHIFT <= READING_NS ? rate : 0;
}

static bool agree(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) <= a / TOLERANCE;
}

static __attribute__((noinline)) uint64_t read_clock(void)
{
	uint64_t now_ns = shim_raw_now_ns();

	/* Here because a span is over; sooner than that, because the counter has jumped. */
	known.span = 0;
	if (!atomic_load_explicit(&has_counter, memory_order_relaxed) ||
		now_ns - known.base_ns < APART_MIN_NS) {
		return answer(now_ns);
	}
	uint64_t before = shim_raw_counter();
	now_ns = shim_raw_now_ns();
	/* After the clock: what is made of it later is too early, if anything. */
	uint64_t count = shim_raw_counter();
	uint64_t rate = rate_of(now_ns - known.base_ns, count - known.base_count, count - before);
	bool is_steady = rate != 0 && agree(rate, known.rate);

	known.base_ns = now_ns;
	known.base_count = count;
	known.rate = rate;
	known.span = is_steady ? (SPAN_NS << RATE_SHIFT) / rate : 0;
	return answer(now_ns);
}

uint64_t shim_clock_now_ns(void)
{
	if (__builtin_expect(known.span != 0, 1)) {
		/* Behind the base it is more than any span. */
		uint64_t count = shim_raw_counter() - known.base_count;
		if (__builtin_expect(count < known.span, 1)) {
			return answer(known.base_ns + (count * known.rate >> RATE_SHIFT));
		}
	}
	return read_clock();
}
