/* SPDX-License-Identifier: Apache-2.0 */
/* Which context gets the SMs, when, for how long; and a recorded input gives the same schedule. */
#include <string.h>

#include "check.h"
#include "test_device_world.h"

#define MAX_PROGRAMS 8u

static struct device_world world;
static struct device_program programs[MAX_PROGRAMS];
static uint64_t out[MAX_PROGRAMS];
static uint32_t n_programs;

static void begin(const struct rbt_device_config *config, uint32_t n)
{
	device_world_init(&world, config);
	n_programs = n;
	for (uint32_t k = 0; k < n; k++) {
		device_program_init(&programs[k], &world, 2, k);
		device_program_load(&programs[k], device_ptx);
		out[k] = device_program_alloc(&programs[k], 4096 * 4);
	}
}

static void end(void)
{
	for (uint32_t k = 0; k < n_programs; k++) {
		device_program_finish(&programs[k]);
	}
	device_world_finish(&world);
}

static void put(uint32_t program, const char *name, uint32_t grid, uint32_t turns)
{
	device_launch(&programs[program], 0,
		&(struct device_kernel){
			.name = name, .grid = grid, .block = 64, .params = {out[program], turns}});
}

static void publish_all(void)
{
	for (uint32_t k = 0; k < n_programs; k++) {
		device_publish(&programs[k], 0);
	}
}

static bool near(uint64_t a, uint64_t b, unsigned percent)
{
	return a * 100 <= b * (100 + percent) && b * 100 <= a * (100 + percent);
}

/* Shares are as the slices are, to the end. */
static void test_slices(void)
{
	const uint64_t slices[3] = {100000, 200000, 800000};
	struct rbt_context_stats s[3];

	begin(&(struct rbt_device_config){.n_sms = 2, .switch_ns = 500, .save_ns_per_kib = 1}, 3);
	for (uint32_t k = 0; k < 3; k++) {
		device_schedule(&programs[k], slices[k], 0);
		put(k, "forever", 4, 0);
	}
	publish_all();
	CHECK(!device_world_run(&world, 2000000));
	for (uint32_t k = 0; k < 3; k++) {
		s[k] = device_stats(&programs[k]);
	}
	CHECK(near(s[1].busy_ns, 2 * s[0].busy_ns, 8));
	CHECK(near(s[2].busy_ns, 8 * s[0].busy_ns, 8));
	CHECK(near(s[2].instructions, 8 * s[0].instructions, 8));
	CHECK(s[0].slices > 10 && s[0].slices - s[2].slices <= 1);
	CHECK(s[0].preempts + 1 >= s[0].slices);
	end();
}

static void test_interleave(void)
{
	struct rbt_context_stats s[3];

	begin(&(struct rbt_device_config){.n_sms = 2, .switch_ns = 500}, 3);
	for (uint32_t k = 0; k < 3; k++) {
		device_schedule(&programs[k], 50000, k);
		put(k, "forever", 2, 0);
	}
	publish_all();
	CHECK(!device_world_run(&world, 2000000));
	for (uint32_t k = 0; k < 3; k++) {
		s[k] = device_stats(&programs[k]);
	}
	CHECK(near(s[1].busy_ns, 2 * s[0].busy_ns, 5));
	CHECK(near(s[2].busy_ns, 4 * s[0].busy_ns, 5));
	end();
}

/* Nobody else: no switch, no save, however short its slice; and no slower. */
static void test_alone(void)
{
	struct rbt_context_stats s;
	uint64_t long_ns, start_ns;

	begin(&(struct rbt_device_config){.n_sms = 2}, 1);
	put(0, "mix", 4, 5000);
	publish_all();
	CHECK(device_world_run(&world, 100000000));
	long_ns = rbt_device_now_ns(world.dev);
	device_schedule(&programs[0], 1, 0);
	start_ns = rbt_device_now_ns(world.dev);
	put(0, "mix", 4, 5000);
	publish_all();
	CHECK(device_world_run(&world, 100000000));
	s = device_stats(&programs[0]);
	CHECK_INT(rbt_device_now_ns(world.dev) - start_ns, long_ns);
	CHECK_INT(s.preempts, 0);
	CHECK_INT(s.slices, 1);
	CHECK_INT(s.saved_bytes, 0);
	CHECK_INT(s.busy_ns, rbt_device_now_ns(world.dev));
	end();
}

/* 1 us beside others: slow, but it ends. */
static void test_microsecond(void)
{
	begin(&(struct rbt_device_config){.n_sms = 4, .switch_ns = 50000, .save_ns_per_kib = 100},
		2);
	device_schedule(&programs[0], 1000, 0);
	device_schedule(&programs[1], 1000, 0);
	put(0, "bump", 8, 200);
	put(1, "bump", 8, 200);
	publish_all();
	CHECK(device_world_run(&world, 1000000000));
	for (uint32_t k = 0; k < 2; k++) {
		CHECK_INT(device_done(&programs[k], 0), 1);
		CHECK_INT(((uint32_t *)device_at(&world, out[k]))[511], 200);
		CHECK(device_stats(&programs[k]).preempts > 50);
	}
	end();
}

/* When the urgent one's kernel ended, after it arrived at 1 ms of another's 10 ms slice. */
static uint64_t urgent_ns(enum rbt_mechanism mechanism, uint32_t interleave)
{
	struct rbt_device_arrival arrivals[2];
	uint64_t ns;

	begin(&(struct rbt_device_config){.n_sms = 2, .mechanism = mechanism, .switch_ns = 1000},
		2);
	device_schedule(&programs[0], 10000000, 0);
	device_schedule(&programs[1], 10000000, interleave);
	put(0, "polite", 16, 3000);
	put(1, "mix", 2, 100);
	device_stamp(&programs[1], 0, 1);
	arrivals[0] = (struct rbt_device_arrival){1000000, programs[1].ctx, 0, programs[1].wptr[0]};
	arrivals[1] = (struct rbt_device_arrival){0, programs[0].ctx, 0, programs[0].wptr[0]};
	CHECK_INT(rbt_device_replay(world.dev, arrivals, 2), 0);
	CHECK(device_world_run(&world, 1000000000));
	CHECK_INT(device_done(&programs[1], 0), 2);
	ns = programs[1].room->event_ns[1];
	end();
	return ns - 1000000;
}

static void test_urgent(void)
{
	/* Some 600 instructions take 24 us; a quantum of 2048 may come first. */
	CHECK(urgent_ns(RBT_MECHANISM_TIMESLICE, 2) > 8900000);
	CHECK(urgent_ns(RBT_MECHANISM_EXACT, 0) > 8900000);
	CHECK(urgent_ns(RBT_MECHANISM_EXACT, 1) < 150000);
	CHECK(urgent_ns(RBT_MECHANISM_RESET, 2) < 150000);
	CHECK(urgent_ns(RBT_MECHANISM_FLAG, 2) < 2000000);
	CHECK(urgent_ns(RBT_MECHANISM_DRAIN, 2) > 8900000);
}

/* Blocks that wait for each other are on SMs together, even by turns of 1 us with others. */
static void test_cooperative(uint64_t timeslice_ns)
{
	struct device_kernel k = {.name = "meet", .block = 32, .flags = GPU_LAUNCH_COOPERATIVE};

	begin(&(struct rbt_device_config){.n_sms = 2, .switch_ns = 500}, 2);
	k.grid = 2 * GPU_SM_BLOCKS;
	k.params[0] = out[0];
	k.params[1] = k.grid;
	device_schedule(&programs[0], timeslice_ns, 0);
	device_schedule(&programs[1], timeslice_ns, 0);
	/* Beside a kernel of the other channel that fills the SMs at first. */
	device_launch(&programs[0], 1,
		&(struct device_kernel){
			.name = "mix", .grid = 100, .block = 32, .params = {out[0] + 2048, 10}});
	device_publish(&programs[0], 1);
	device_launch(&programs[0], 0, &k);
	put(1, "bump", 8, 200);
	publish_all();
	CHECK(device_world_run(&world, 1000000000));
	CHECK_INT(programs[0].room->error, 0);
	CHECK_INT(device_done(&programs[0], 0), 1);
	CHECK_INT(*(uint32_t *)device_at(&world, out[0]), k.grid);
	CHECK_INT(device_done(&programs[1], 0), 1);
	/* One more does not fit; only its context dies of it. */
	k.grid++;
	device_launch(&programs[0], 0, &k);
	put(1, "bump", 8, 200);
	publish_all();
	CHECK(device_world_run(&world, 100000000));
	CHECK_INT(programs[0].room->error, GPU_ERROR_COOPERATIVE_TOO_LARGE);
	CHECK_INT(programs[1].room->error, 0);
	CHECK_INT(((uint32_t *)device_at(&world, out[1]))[0], 400);
	end();
}

/* Blocks of two kernels that wait for each other, with slices shorter than a turn of all. */
static void test_two_channels_meet(void)
{
	struct device_kernel k = {.name = "meet", .grid = 3, .block = 64};

	begin(&(struct rbt_device_config){.n_sms = 1, .switch_ns = 500}, 2);
	k.params[0] = out[0];
	k.params[1] = 6;
	device_schedule(&programs[0], 80, 0);
	device_schedule(&programs[1], 80, 0);
	device_launch(&programs[0], 0, &k);
	device_launch(&programs[0], 1, &k);
	device_publish(&programs[0], 1);
	put(1, "forever", 1, 0);
	publish_all();
	CHECK(!device_world_run(&world, 3000000));
	CHECK_INT(device_done(&programs[0], 0), 1);
	CHECK_INT(device_done(&programs[0], 1), 1);
	end();
}

struct digest {
	uint64_t hash, events;
};

static void hash(void *user, uint64_t now_ns, enum rbt_device_event event, uint64_t context,
	uint64_t a, uint64_t b)
{
	struct digest *d = user;
	const uint64_t words[5] = {now_ns, event, context, a, b};

	for (unsigned k = 0; k < 5; k++) {
		d->hash = (d->hash ^ words[k]) * 0x100000001b3ull;
		d->hash ^= d->hash >> 29;
	}
	d->events++;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state >> 11;
}

/* 8 contexts, random arrivals and slices; steps of any size. */
static struct digest replay(uint64_t seed, enum rbt_mechanism mechanism, uint64_t step)
{
	static struct rbt_device_arrival arrivals[8 * 12];
	struct digest d = {14695981039346656037ull, 0};
	size_t n = 0;

	begin(&(struct rbt_device_config){.n_sms = 4,
		      .mechanism = mechanism,
		      .switch_ns = 5000,
		      .save_ns_per_kib = 20},
		8);
	rbt_device_trace(world.dev, hash, &d);
	for (uint32_t k = 0; k < 8; k++) {
		uint64_t at_ns = 0;

		device_schedule(&programs[k], 20000 + next_random(&seed) % 200000,
			(uint32_t)(next_random(&seed) % 3));
		for (unsigned i = 0; i < 12; i++) {
			put(k, i % 3 ? "mix" : "polite", 1 + (uint32_t)(next_random(&seed) % 20),
				1 + (uint32_t)(next_random(&seed) % 100));
			at_ns += next_random(&seed) % 100000;
			arrivals[n++] = (struct rbt_device_arrival){
				at_ns, programs[k].ctx, 0, programs[k].wptr[0]};
		}
	}
	CHECK_INT(rbt_device_replay(world.dev, arrivals, n), 0);
	while (rbt_device_step(world.dev, step)) {
	}
	for (uint32_t k = 0; k < 8; k++) {
		CHECK_INT(device_done(&programs[k], 0), 12);
		d.hash ^= device_stats(&programs[k]).busy_ns * (k + 1);
	}
	end();
	return d;
}

static void test_replay(void)
{
	for (unsigned m = 0; m < RBT_N_MECHANISMS; m++) {
		struct digest a = replay(12345, (enum rbt_mechanism)m, 100000);
		struct digest b = replay(12345, (enum rbt_mechanism)m, 100000);
		struct digest c = replay(12345, (enum rbt_mechanism)m, 777);
		struct digest other = replay(54321, (enum rbt_mechanism)m, 100000);

		CHECK(a.events > 1000);
		CHECK(a.hash == b.hash && a.events == b.events);
		CHECK(a.hash == c.hash && a.events == c.events);
		CHECK(a.hash != other.hash);
	}
}

/* An idle device's clock stands; a recorded arrival moves it. */
static void test_clock(void)
{
	struct rbt_device_arrival arrival = {5000000, NULL, 0, 0};
	uint64_t then;

	begin(&(struct rbt_device_config){.n_sms = 1}, 1);
	CHECK(!rbt_device_step(world.dev, 1000000));
	CHECK_INT(rbt_device_now_ns(world.dev), 0);
	put(0, "mix", 1, 1);
	arrival.context = programs[0].ctx;
	arrival.wptr = programs[0].wptr[0];
	CHECK_INT(rbt_device_replay(world.dev, &arrival, 1), 0);
	CHECK(!rbt_device_step(world.dev, 1000000));
	CHECK_INT(device_done(&programs[0], 0), 1);
	then = rbt_device_now_ns(world.dev);
	CHECK(then > 5000000 && then < 5010000);
	CHECK(device_stats(&programs[0]).busy_ns < 10000);
	CHECK(!rbt_device_step(world.dev, 1000000));
	CHECK_INT(rbt_device_now_ns(world.dev), then);
	end();
}

int main(void)
{
	test_slices();
	test_interleave();
	test_alone();
	test_microsecond();
	test_urgent();
	test_cooperative(2000000);
	test_cooperative(1000);
	test_two_channels_meet();
	test_replay();
	test_clock();
	return check_result();
}
