/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Five ways to take the SMs away, and what each costs: exactly, nothing but time; by reset, the
 * result of a kernel that is not idempotent.
 */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "test_device_world.h"

#define THREADS 64u
#define GRID    6u
#define N       (THREADS * GRID)

static struct device_world world;
static struct device_program p;
static uint64_t out;
static unsigned kernels_begun;
static uint64_t last_kernel, first_again;

static void note(void *user, uint64_t now_ns, enum rbt_device_event event, uint64_t context,
	uint64_t a, uint64_t b)
{
	if (event == RBT_DEVICE_KERNEL) {
		kernels_begun++;
		if (b <= last_kernel && first_again == 0) {
			first_again = b;
		}
		last_kernel = b;
	}
}

static void begin(enum rbt_mechanism mechanism)
{
	device_world_init(&world, &(struct rbt_device_config){.n_sms = 3,
					  .mechanism = mechanism,
					  .switch_ns = 1000,
					  .save_ns_per_kib = 10});
	device_program_init(&p, &world, 2, 1);
	device_program_load(&p, device_ptx);
	out = device_program_alloc(&p, N * 4);
	kernels_begun = 0;
	last_kernel = first_again = 0;
	rbt_device_trace(world.dev, note, NULL);
}

static void end(void)
{
	device_program_finish(&p);
	device_world_finish(&world);
}

static void put(const char *name, uint32_t turns)
{
	device_launch(&p, 0,
		&(struct device_kernel){
			.name = name, .grid = GRID, .block = THREADS, .params = {out, turns}});
	device_publish(&p, 0);
}

static unsigned wrong_mix(uint32_t turns)
{
	const uint32_t *words = device_at(&world, out);
	unsigned wrong = 0;

	for (uint32_t i = 0; i < N; i++) {
		wrong += words[i] != device_ptx_mixed(i, turns);
	}
	return wrong;
}

static unsigned not_equal(uint32_t value)
{
	const uint32_t *words = device_at(&world, out);
	unsigned wrong = 0;

	for (uint32_t i = 0; i < N; i++) {
		wrong += words[i] != value;
	}
	return wrong;
}

static void test_offsets(void)
{
	CHECK_INT(rbt_reset_offset(99, 75, 0), 22);
	CHECK_INT(rbt_reset_offset(99, 75, 22), 22);
	CHECK_INT(rbt_reset_offset(99, 75, 30), 30);
	CHECK_INT(rbt_reset_offset(1, 0, 0), 0);
	CHECK_INT(rbt_reset_offset(10, 10, 0), 0);
	CHECK_INT(rbt_reset_offset(3, 10, 0), 0);
	CHECK_INT(rbt_reset_offset(UINT64_MAX, 0, 0), UINT64_MAX - 2);
}

static void test_names(void)
{
	enum rbt_mechanism m = RBT_MECHANISM_DRAIN;

	for (unsigned k = 0; k < RBT_N_MECHANISMS; k++) {
		CHECK_INT(rbt_mechanism_parse(rbt_mechanism_name((enum rbt_mechanism)k), &m), 0);
		CHECK_INT(m, k);
	}
	CHECK_INT(rbt_mechanism_parse("magic", &m), -EINVAL);
	CHECK_INT(m, RBT_MECHANISM_DRAIN);
}

/* Instructions of a kernel that nobody disturbs. */
static uint64_t count_alone(const char *name, uint32_t turns)
{
	uint64_t instructions;

	begin(RBT_MECHANISM_TIMESLICE);
	put(name, turns);
	CHECK(device_world_run(&world, 100000000));
	instructions = device_stats(&p).instructions;
	CHECK_INT(device_stats(&p).preempts, 0);
	end();
	return instructions;
}

/* Off the SMs, as bytes, after every step: as if nothing had happened. */
static void test_exact(enum rbt_mechanism mechanism)
{
	const uint32_t turns = 200;
	uint64_t alone = count_alone("bump", turns);
	struct rbt_context_stats stats;
	unsigned preempts = 0;

	begin(mechanism);
	put("bump", turns);
	while (rbt_device_step(world.dev, 100)) {
		rbt_context_preempt(p.ctx);
		preempts++;
	}
	stats = device_stats(&p);
	CHECK_INT(not_equal(turns), 0);
	CHECK_INT(stats.instructions, alone);
	CHECK_INT(device_done(&p, 0), 1);
	/* Only in the last of them was there nothing more to save. */
	CHECK(preempts > 5 && stats.preempts + 1 >= preempts && stats.preempts <= preempts);
	CHECK(stats.saved_bytes > 1000);
	CHECK_INT(stats.saved_bytes, stats.restored_bytes);
	CHECK_INT(stats.lost_instructions, 0);
	CHECK_INT(stats.repeated_instructions, 0);
	CHECK_INT(kernels_begun, 1);
	end();
}

/* Beside another, with slices of one instruction. */
static void test_every_instruction(void)
{
	const uint32_t turns = 8;
	uint64_t alone = count_alone("bump", turns), other_out;
	struct device_program other;
	struct rbt_context_stats stats;

	begin(RBT_MECHANISM_TIMESLICE);
	device_program_init(&other, &world, 1, 2);
	device_program_load(&other, device_ptx);
	other_out = device_program_alloc(&other, N * 4);
	device_schedule(&p, 1, 0);
	device_schedule(&other, 1, 0);
	put("bump", turns);
	device_launch(&other, 0,
		&(struct device_kernel){
			.name = "bump", .grid = 1, .block = 32, .params = {other_out, 300}});
	device_publish(&other, 0);
	CHECK(device_world_run(&world, 1000000000));
	stats = device_stats(&p);
	CHECK_INT(not_equal(turns), 0);
	CHECK_INT(stats.instructions, alone);
	CHECK(stats.preempts > alone / 4);
	CHECK_INT(*(uint32_t *)device_at(&world, other_out), 300);
	device_program_finish(&other);
	end();
}

/* A kernel that is not idempotent is done twice in part, and its result is wrong. */
static void test_reset_breaks(void)
{
	const uint32_t turns = 2000;
	struct rbt_context_stats stats;

	begin(RBT_MECHANISM_RESET);
	put("bump", turns);
	CHECK(rbt_device_step(world.dev, 20000));
	rbt_context_preempt(p.ctx);
	CHECK(device_world_run(&world, 100000000));
	stats = device_stats(&p);
	CHECK_INT(device_done(&p, 0), 1);
	CHECK(not_equal(turns) > 0);
	CHECK(*(uint32_t *)device_at(&world, out) > turns);
	CHECK_INT(kernels_begun, 2);
	CHECK_INT(stats.preempts, 1);
	CHECK(stats.lost_instructions > 5000);
	CHECK_INT(stats.repeated_instructions, stats.lost_instructions);
	CHECK_INT(stats.saved_bytes, 0);
	end();
}

static void test_reset_idempotent(void)
{
	begin(RBT_MECHANISM_RESET);
	put("mix", 5000);
	for (unsigned k = 0; k < 3; k++) {
		CHECK(rbt_device_step(world.dev, 20000));
		rbt_context_preempt(p.ctx);
	}
	CHECK(device_world_run(&world, 100000000));
	CHECK_INT(wrong_mix(5000), 0);
	CHECK_INT(device_done(&p, 0), 1);
	end();
}

/* 100 kernels, of which 75 are still in the ring: run again from number 99 - 75 - 2, the 23rd. */
static void test_reset_goes_back(void)
{
	struct rbt_context_stats stats;

	begin(RBT_MECHANISM_RESET);
	for (unsigned k = 0; k < 100; k++) {
		put("mix", 300);
	}
	while (kernels_begun < 25) {
		CHECK(rbt_device_step(world.dev, 10));
	}
	CHECK_INT(device_done(&p, 0), 24);
	rbt_context_preempt(p.ctx);
	stats = device_stats(&p);
	CHECK_INT(stats.pending_cleared, 75);
	/* Once more, at once: no further back, and nothing is counted as done. */
	CHECK(rbt_device_step(world.dev, 10));
	CHECK_INT(first_again, 23);
	rbt_context_preempt(p.ctx);
	CHECK_INT(device_done(&p, 0), 24);
	CHECK(device_world_run(&world, 100000000));
	CHECK_INT(device_done(&p, 0), 100);
	CHECK_INT(device_stats(&p).launches, 100);
	CHECK_INT(wrong_mix(300), 0);
	end();
}

/* A reset does not reach back over what the program may have seen. */
static void test_reset_stops_at(bool copy)
{
	begin(RBT_MECHANISM_RESET);
	put("bump", 10);
	if (copy) {
		device_simple(&p, 0, GPU_CMD_NOTHING);
	} else {
		CHECK(device_world_run(&world, 1000000));
	}
	put("mix", 5000);
	while (kernels_begun < 2) {
		CHECK(rbt_device_step(world.dev, 10));
	}
	rbt_context_preempt(p.ctx);
	CHECK(device_world_run(&world, 100000000));
	CHECK_INT(kernels_begun, 3);
	CHECK_INT(first_again, copy ? 3 : 2);
	CHECK_INT(wrong_mix(5000), 0);
	end();
}

static void test_flag(void)
{
	struct rbt_context_stats stats;
	const uint32_t *flag;

	begin(RBT_MECHANISM_FLAG);
	flag = device_at(&world, device_program_variable(&p, "rubato_preempt"));
	put("polite", 5000);
	CHECK(rbt_device_step(world.dev, 20000));
	CHECK_INT(*flag, 0);
	rbt_context_preempt(p.ctx);
	CHECK_INT(*flag, 1);
	stats = device_stats(&p);
	CHECK_INT(stats.preempts, 1);
	CHECK_INT(device_done(&p, 0), 0);
	/* It left soon, and had not done its work. */
	CHECK(stats.instructions < 30000);
	CHECK_INT(wrong_mix(5000), N);
	CHECK(device_world_run(&world, 100000000));
	CHECK_INT(*flag, 0);
	CHECK_INT(wrong_mix(5000), 0);
	CHECK_INT(device_done(&p, 0), 1);
	CHECK_INT(kernels_begun, 2);
	CHECK_INT(device_stats(&p).repeated_instructions, stats.instructions);
	CHECK_INT(device_stats(&p).lost_instructions, 0);
	end();
}

/* A kernel that does not poll the flag runs to its end; under drain, every kernel does. */
static void test_to_the_end(enum rbt_mechanism mechanism, const char *name)
{
	begin(mechanism);
	put(name, 5000);
	put(name, 5000);
	CHECK(rbt_device_step(world.dev, 20000));
	CHECK_INT(device_done(&p, 0), 0);
	rbt_context_preempt(p.ctx);
	/* Its end, and no further one's beginning. */
	CHECK_INT(device_done(&p, 0), 1);
	CHECK_INT(kernels_begun, 1);
	CHECK_INT(wrong_mix(5000), 0);
	CHECK_INT(device_stats(&p).preempts, 1);
	CHECK(device_world_run(&world, 100000000));
	CHECK_INT(device_done(&p, 0), 2);
	CHECK_INT(device_stats(&p).repeated_instructions, 0);
	CHECK_INT(device_stats(&p).saved_bytes, 0);
	end();
}

/* Suspended in full: what runs is run to its end, all of its blocks, though it is disabled. */
static void test_drain_disabled(void)
{
	struct rbt_context_schedule off = {.timeslice_ns = 1000, .scheduled = true, .enabled = 0};

	begin(RBT_MECHANISM_DRAIN);
	out = device_program_alloc(&p, 4096 * 64 * 4ull);
	device_launch(&p, 0,
		&(struct device_kernel){
			.name = "bump", .grid = 4096, .block = 64, .params = {out, 3}});
	put("bump", 3);
	CHECK(rbt_device_step(world.dev, 1000));
	rbt_context_set_schedule(p.ctx, &off);
	rbt_context_preempt(p.ctx);
	CHECK_INT(device_done(&p, 0), 1);
	CHECK_INT(((uint32_t *)device_at(&world, out))[4096 * 64 - 1], 3);
	CHECK(!rbt_device_step(world.dev, 1000000));
	CHECK_INT(device_done(&p, 0), 1);
	end();
}

/* Nobody waits for ever for a kernel that never ends. */
static void test_drain_endless(void)
{
	begin(RBT_MECHANISM_DRAIN);
	put("forever", 0);
	CHECK(rbt_device_step(world.dev, 1000));
	rbt_context_preempt(p.ctx);
	CHECK(device_stats(&p).saved_bytes > 0);
	CHECK(!device_stats(&p).running);
	end();
}

/* "Scheduling only": to the end of its slice, then off, even when alone. */
static void test_disabled(enum rbt_mechanism mechanism, uint32_t enabled, bool scheduled)
{
	struct rbt_context_schedule s = {
		.timeslice_ns = 400000, .scheduled = scheduled, .enabled = enabled};
	uint64_t before, instructions;

	begin(mechanism);
	device_schedule(&p, 400000, 0);
	put("mix", 8000);
	CHECK(rbt_device_step(world.dev, 1000));
	rbt_context_set_schedule(p.ctx, &s);
	before = rbt_device_now_ns(world.dev);
	CHECK(device_world_run(&world, 10000000));
	CHECK(rbt_device_now_ns(world.dev) - before <= 410000);
	instructions = device_stats(&p).instructions;
	CHECK(instructions > 5000 && instructions < 3 * 11000);
	CHECK(!device_stats(&p).running && !device_stats(&p).has_work);
	CHECK_INT(device_stats(&p).preempts, 1);
	/* Nothing of it moves. */
	put("mix", 8000);
	CHECK(!rbt_device_step(world.dev, 1000000));
	CHECK_INT(device_stats(&p).instructions, instructions);
	device_schedule(&p, 400000, 0);
	CHECK(device_world_run(&world, 100000000));
	CHECK_INT(device_done(&p, 0), 2);
	CHECK_INT(wrong_mix(8000), 0);
	end();
}

/* One channel is disabled; the other's kernel goes on. */
static void test_one_channel(void)
{
	struct rbt_context_schedule s = {.timeslice_ns = 1000, .scheduled = true, .enabled = 2};
	uint64_t b;

	begin(RBT_MECHANISM_TIMESLICE);
	b = device_program_alloc(&p, N * 4);
	device_schedule(&p, 1000, 0);
	put("mix", 5000);
	device_launch(&p, 1,
		&(struct device_kernel){
			.name = "bump", .grid = GRID, .block = THREADS, .params = {b, 5000}});
	device_publish(&p, 1);
	CHECK(rbt_device_step(world.dev, 50000));
	rbt_context_set_schedule(p.ctx, &s);
	CHECK(device_world_run(&world, 100000000));
	CHECK_INT(device_done(&p, 0), 0);
	CHECK_INT(device_done(&p, 1), 1);
	CHECK_INT(((uint32_t *)device_at(&world, b))[N - 1], 5000);
	device_schedule(&p, 1000, 0);
	CHECK(device_world_run(&world, 100000000));
	CHECK_INT(device_done(&p, 0), 1);
	CHECK_INT(wrong_mix(5000), 0);
	end();
}

/* Mechanisms may be changed while anything is under way. */
static void test_changing(void)
{
	begin(RBT_MECHANISM_TIMESLICE);
	for (unsigned k = 0; k < 20; k++) {
		put(k % 2 ? "polite" : "mix", 2000);
	}
	for (unsigned k = 0; k < 50; k++) {
		rbt_device_set_mechanism(world.dev, (enum rbt_mechanism)(k * 7 % RBT_N_MECHANISMS));
		(void)rbt_device_step(world.dev, 20000);
		rbt_context_preempt(p.ctx);
	}
	CHECK(device_world_run(&world, 1000000000));
	CHECK_INT(device_done(&p, 0), 20);
	CHECK_INT(wrong_mix(2000), 0);
	end();
}

/* Of two mechanisms that wait, the one that is no longer wanted is not waited for. */
static void test_change_of_mind(enum rbt_mechanism from, enum rbt_mechanism to)
{
	struct device_program urgent;

	begin(from);
	device_program_init(&urgent, &world, 1, 2);
	device_schedule(&urgent, 1000000, 2);
	put("polite", 3000);
	device_launch(&p, 1,
		&(struct device_kernel){
			.name = "forever", .grid = 1, .block = 32, .params = {out}});
	device_publish(&p, 1);
	CHECK(rbt_device_step(world.dev, 20000));
	device_simple(&urgent, 0, GPU_CMD_NOTHING);
	device_publish(&urgent, 0);
	CHECK(rbt_device_step(world.dev, 20000));
	CHECK_INT(device_done(&urgent, 0), 0);
	rbt_device_set_mechanism(world.dev, to);
	CHECK(rbt_device_step(world.dev, 20000));
	CHECK_INT(device_done(&urgent, 0), to == RBT_MECHANISM_EXACT);
	rbt_context_preempt(p.ctx);
	CHECK_INT(device_stats(&p).error, 0);
	while (device_done(&p, 0) == 0) {
		CHECK(rbt_device_step(world.dev, 100000));
	}
	/* The first words are those that `forever` writes. */
	CHECK(wrong_mix(3000) <= 32);
	CHECK_INT(device_done(&urgent, 0), 1);
	device_program_finish(&urgent);
	end();
}

/* Two blocks of it fill an SM. */
static void put_wide(uint32_t channel, const char *name, uint32_t grid, uint64_t at, uint32_t turns)
{
	device_launch(&p, channel,
		&(struct device_kernel){.name = name,
			.grid = grid,
			.block = 32,
			.shared = GPU_SM_SHARED / 2,
			.params = {at, turns}});
	device_publish(&p, channel);
}

/*
 * One of a kernel's blocks is saved and finds no room, the other is back on its SM; then the flag,
 * which it has looked at long ago, and no more patience. It begins anew, with both.
 */
static void test_flag_half_saved(void)
{
	const uint32_t turns = 300000, n = 2 * 32;
	struct rbt_context_schedule s = {.timeslice_ns = 1000000, .scheduled = true, .enabled = 2};
	const uint32_t *words;
	unsigned wrong = 0;
	uint64_t scratch;

	begin(RBT_MECHANISM_EXACT);
	scratch = device_program_alloc(&p, N * 4);
	put_wide(0, "hasty", 2, out, turns);
	CHECK(rbt_device_step(world.dev, 2000));
	rbt_context_preempt(p.ctx);
	/* Five of the six places are taken by one that never leaves. */
	rbt_context_set_schedule(p.ctx, &s);
	put_wide(1, "forever", 5, scratch, 0);
	CHECK(rbt_device_step(world.dev, 20000));
	device_schedule(&p, 1000000, 0);
	rbt_device_set_mechanism(world.dev, RBT_MECHANISM_FLAG);
	rbt_context_preempt(p.ctx);
	CHECK_INT(device_done(&p, 0), 0);
	CHECK(device_stats(&p).lost_instructions > turns);
	s.enabled = 1;
	rbt_context_set_schedule(p.ctx, &s);
	CHECK(device_world_run(&world, 100000000));
	CHECK_INT(device_done(&p, 0), 1);
	words = device_at(&world, out);
	for (uint32_t i = 0; i < n; i++) {
		wrong += words[i] != device_ptx_mixed(i, turns);
	}
	CHECK_INT(wrong, 0);
	end();
}

int main(void)
{
	test_offsets();
	test_names();
	test_exact(RBT_MECHANISM_TIMESLICE);
	test_exact(RBT_MECHANISM_EXACT);
	test_every_instruction();
	test_reset_breaks();
	test_reset_idempotent();
	test_reset_goes_back();
	test_reset_stops_at(true);
	test_reset_stops_at(false);
	test_flag();
	test_flag_half_saved();
	test_to_the_end(RBT_MECHANISM_FLAG, "mix");
	test_to_the_end(RBT_MECHANISM_DRAIN, "mix");
	test_to_the_end(RBT_MECHANISM_DRAIN, "polite");
	test_drain_disabled();
	test_drain_endless();
	test_disabled(RBT_MECHANISM_TIMESLICE, 0, true);
	test_disabled(RBT_MECHANISM_TIMESLICE, 3, false);
	test_disabled(RBT_MECHANISM_EXACT, 0, true);
	test_disabled(RBT_MECHANISM_RESET, 0, false);
	test_one_channel();
	test_changing();
	test_change_of_mind(RBT_MECHANISM_DRAIN, RBT_MECHANISM_EXACT);
	test_change_of_mind(RBT_MECHANISM_FLAG, RBT_MECHANISM_EXACT);
	test_change_of_mind(RBT_MECHANISM_FLAG, RBT_MECHANISM_DRAIN);
	return check_result();
}
