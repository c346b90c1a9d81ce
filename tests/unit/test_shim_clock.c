/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shim's clock: over a clock and a counter that are made up here, and over the machine's own.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "shim/clock.h"
#include "shim/sys.h"
#include "util/time.h"

#define N_ROUNDS 2000

static struct {
	bool is_real, has_counter;
	uint64_t now_ns;
	uint64_t read_ns;   /* what a reading of the clock takes */
	double count, rate; /* counts a ns */
	uint64_t n_clock, n_counter;
} world;

static void pass(uint64_t ns)
{
	world.now_ns += ns;
	world.count += (double)ns * world.rate;
}

uint64_t shim_raw_now_ns(void)
{
	if (world.is_real) {
		return rbt_now_ns();
	}
	world.n_clock++;
	pass(world.read_ns);
	return world.now_ns;
}

bool shim_raw_has_counter(void)
{
	errno = EPERM; /* as the system call may */
	return world.has_counter;
}

uint64_t shim_raw_counter(void)
{
	if (!world.is_real) {
		world.n_counter++;
		pass(8);
		return (uint64_t)world.count;
	}
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t count;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
	return count;
#else
	return rbt_now_ns();
#endif
}

static void begin(double rate)
{
	world.is_real = false;
	world.has_counter = true;
	world.read_ns = 30;
	world.rate = rate;
	world.n_clock = world.n_counter = 0;
	shim_clock_start();
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Calls, a few µs apart; how far from the clock they were at most. Never back. */
static uint64_t call_often(unsigned n)
{
	static uint64_t last_ns;
	uint64_t worst_ns = 0;

	for (unsigned i = 0; i < n; i++) {
		pass((uint64_t)rand() % 8000);
		uint64_t now_ns = shim_clock_now_ns();
		uint64_t off_ns = distance(now_ns, world.now_ns);
		CHECK(now_ns >= last_ns);
		last_ns = now_ns;
		worst_ns = off_ns > worst_ns ? off_ns : worst_ns;
	}
	return worst_ns;
}

static bool is_counted_on(void)
{
	uint64_t n = world.n_clock;

	call_often(1000);
	/* 4 ms, and two readings for each. */
	return world.n_clock - n < 30;
}

static void test_follows_any_rate(void)
{
	static const double rates[] = {0.02, 0.1, 1, 2.8, 5};

	for (unsigned i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		begin(rates[i]);
		/* Until it knows: with the clock. */
		call_often(1000);
		CHECK(call_often(100000) < 1000);
		CHECK(is_counted_on());
		CHECK(world.n_counter > 100000);
	}
}

static void test_pauses(void)
{
	begin(2.8);
	for (unsigned i = 0; i < N_ROUNDS; i++) {
		pass((uint64_t)1 << (rand() % 34)); /* up to 17 s */
		CHECK(call_often(1 + (unsigned)rand() % 500) < 1000);
	}
	CHECK(is_counted_on());
}

static void test_no_counter(void)
{
	begin(1);
	call_often(1000);
	world.has_counter = false;
	errno = 7;
	shim_clock_start();
	CHECK_INT(errno, 7);
	/* What this thread knows is good for a span still. */
	pass(2 * RBT_NS_PER_MS);
	call_often(1);
	uint64_t n = world.n_counter;
	CHECK_INT(call_often(10000), 0);
	CHECK_INT(world.n_counter, n);
}

static void *never_told(void *data)
{
	uint64_t n = world.n_counter;

	CHECK_INT(call_often(10000), 0);
	CHECK_INT(world.n_counter, n);
	return data;
}

/* Whoever asks before the start, or without a counter, never touches one. */
static void test_not_started(void)
{
	pthread_t thread;

	world.rate = 1;
	world.now_ns = RBT_NS_PER_S;
	int r = pthread_create(&thread, NULL, never_told, NULL);
	if (r == 0) {
		pthread_join(thread, NULL);
	}
	CHECK_INT(r, 0);
	CHECK_INT(world.n_counter, 0);
}

static void test_jumps(void)
{
	begin(2.8);
	call_often(1000);
	for (unsigned i = 0; i < N_ROUNDS; i++) {
		double jump = (double)((uint64_t)1 << (rand() % 40)) + 2 * 2.8e6;
		/* To another core and back. Some ms at least, which are seen at once. */
		world.count += i % 2 == 0 ? jump : -jump;
		if (world.count < 0) {
			world.count += 1e15;
		}
		CHECK(call_often((unsigned)rand() % 300) < 1000);
	}
	call_often(1000);
	CHECK(is_counted_on());
}

static void test_changes_speed(void)
{
	begin(2.8);
	for (unsigned i = 0; i < 200; i++) {
		call_often(2000);
		CHECK(is_counted_on());
		world.rate = 0.5 + (double)(rand() % 8);
		/* As long as it takes to be seen: less than a span by any measure. */
		uint64_t end_ns = world.now_ns + 20 * RBT_NS_PER_MS, worst_ns = 0;
		while (world.now_ns < end_ns) {
			uint64_t off_ns = call_often(1);
			worst_ns = off_ns > worst_ns ? off_ns : worst_ns;
		}
		CHECK(worst_ns < 16 * RBT_NS_PER_MS);
		CHECK(call_often(1000) < 1000);
	}
}

/* Slower than a µs, it could not tell what the counter was then; one that wobbles is none. */
static void test_unfit(void)
{
	begin(2.8);
	world.read_ns = 1500;
	call_often(1000);
	CHECK(!is_counted_on());
	world.read_ns = 30;
	call_often(1000);
	CHECK(is_counted_on());
	for (unsigned i = 0; i < 100; i++) {
		world.rate = i % 2 == 0 ? 2.8 : 2.9;
		pass(RBT_NS_PER_MS);
		call_often(1);
	}
	uint64_t n = world.n_counter;
	call_often(1);
	CHECK_INT(world.n_counter, n);
}

/* Another clock, as after a move to another time namespace, is not waited for. */
static void test_another_clock(void)
{
	begin(2.8);
	call_often(1000);
	world.now_ns += RBT_NS_PER_S * 1000;
	pass(2 * RBT_NS_PER_MS);
	CHECK(call_often(2000) < 1000);
	world.now_ns -= RBT_NS_PER_S * 500;
	pass(2 * RBT_NS_PER_MS);
	CHECK(distance(shim_clock_now_ns(), world.now_ns) < 1000);
}

static void rest_for(uint64_t ns)
{
	uint64_t end_ns = rbt_now_ns() + ns;

	if (ns % 2 == 0) {
		usleep((useconds_t)(ns / 1000));
	}
	while (rbt_now_ns() < end_ns) {
	}
}

/* The machine's own, in several threads at once. */
static void *follow_real(void *data)
{
	unsigned seed = (unsigned)(uintptr_t)data;
	uint64_t last_ns = 0;
	uintptr_t n_wrong = 0;

	for (unsigned i = 0; i < N_ROUNDS / 4; i++) {
		rest_for((uint64_t)rand_r(&seed) % (i % 8 == 0 ? 3000000 : 100000));
		uint64_t before_ns = rbt_now_ns();
		uint64_t now_ns = shim_clock_now_ns();
		uint64_t after_ns = rbt_now_ns();
		/* A µs, and a thousandth of the ms for which it goes by the counter. */
		n_wrong += now_ns + 2000 < before_ns || now_ns > after_ns + 2000;
		n_wrong += now_ns < last_ns;
		last_ns = now_ns;
	}
	return (void *)n_wrong;
}

static void test_real(void)
{
	pthread_t threads[2];

	world.is_real = world.has_counter = true;
	shim_clock_start();
	for (uintptr_t i = 0; i < 2; i++) {
		CHECK_INT(pthread_create(&threads[i], NULL, follow_real, (void *)(i + 1)), 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		void *n_wrong = NULL;
		pthread_join(threads[i], &n_wrong);
		CHECK_INT((uintptr_t)n_wrong, 0);
	}
}

int main(void)
{
	test_not_started();
	test_follows_any_rate();
	test_pauses();
	test_no_counter();
	test_jumps();
	test_changes_speed();
	test_unfit();
	test_another_clock();
	test_real();
	return check_result();
}
