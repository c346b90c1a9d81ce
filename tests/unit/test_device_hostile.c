/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program may do to its room, its rings and its kernels: it dies of it, the device and its
 * neighbour do not notice.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "test_device_world.h"

#define N 256u

static struct device_world world;
static struct device_program bad, good;
static uint64_t bad_out, good_out;

static void begin(void)
{
	device_world_init(&world, &(struct rbt_device_config){
					  .n_sms = 2, .memory_bytes = 16u << 20, .switch_ns = 100});
	device_program_init(&bad, &world, 2, 666);
	device_program_init(&good, &world, 1, 1);
	device_program_load(&bad, device_ptx);
	device_program_load(&good, device_ptx);
	bad_out = device_program_alloc(&bad, N * 4);
	good_out = device_program_alloc(&good, N * 4);
	device_schedule(&bad, 20000, 0);
	device_schedule(&good, 20000, 0);
	device_launch(&good, 0,
		&(struct device_kernel){
			.name = "bump", .grid = 4, .block = 64, .params = {good_out, 2000}});
	device_publish(&good, 0);
	CHECK(rbt_device_step(world.dev, 1000));
}

/* The good program's kernel ends, and gives what it must; the bad one's memory comes back. */
static void end(void)
{
	const uint32_t *words = device_at(&world, good_out);
	uint64_t free_bytes, total;
	unsigned wrong = 0;

	while (device_done(&good, 0) == 0 && check_failures == 0) {
		(void)rbt_device_step(world.dev, 100000);
	}
	for (uint32_t k = 0; k < N; k++) {
		wrong += words[k] != 2000;
	}
	CHECK_INT(wrong, 0);
	CHECK_INT(good.room->error, 0);
	device_program_finish(&bad);
	device_program_finish(&good);
	rbt_device_memory(world.dev, &free_bytes, &total);
	CHECK_INT(free_bytes, total - GPU_ALIGN);
	device_world_finish(&world);
}

/* What has been put dies of `error`. */
static void dies(uint32_t error)
{
	device_publish(&bad, 0);
	CHECK(device_world_run(&world, 10000000));
	CHECK_INT(bad.room->error, error);
	CHECK_INT(device_stats(&bad).error, error);
	CHECK(!device_stats(&bad).has_work);
	end();
}

static void test_wptr(uint64_t wptr)
{
	begin();
	bad.room->channels[0].wptr = wptr;
	CHECK(device_world_run(&world, 10000000));
	CHECK_INT(bad.room->error, GPU_ERROR_INVALID);
	end();
}

/* A ring whose counters have just been right may still jump back. */
static void test_wptr_back(void)
{
	begin();
	for (unsigned k = 0; k < 10; k++) {
		device_simple(&bad, 0, GPU_CMD_NOTHING);
	}
	device_publish(&bad, 0);
	CHECK(device_world_run(&world, 10000000));
	CHECK_INT(device_done(&bad, 0), 10);
	bad.room->channels[0].wptr = 9;
	CHECK(!device_world_run(&world, 0));
	CHECK(device_world_run(&world, 10000000));
	CHECK_INT(bad.room->error, GPU_ERROR_INVALID);
	end();
}

/* The device's own counters are the device's: what a program writes there changes nothing. */
static void test_own_counters(void)
{
	begin();
	for (unsigned k = 0; k < 2000; k++) {
		device_simple(&bad, 0, GPU_CMD_NOTHING);
		bad.room->channels[0].rptr = 0x123456789;
		bad.room->channels[0].done = UINT64_MAX;
		bad.room->n_channels = 77;
		bad.room->error = 5;
		bad.room->print.head = UINT64_MAX - 3;
		device_publish(&bad, 0);
		if (k % 100 == 0) {
			CHECK(!device_world_run(&world, 0));
			(void)rbt_device_step(world.dev, 100000);
			CHECK_INT(device_done(&bad, 0), bad.commands[0]);
			CHECK_INT(bad.room->channels[0].rptr, bad.wptr[0]);
		}
	}
	CHECK_INT(device_stats(&bad).error, 0);
	end();
}

static void test_slots(uint16_t command, uint16_t slots)
{
	struct gpu_launch c = {.h = {command, slots, 0}};

	begin();
	device_put(&bad, 0, &c, NULL, 0);
	dies(GPU_ERROR_INVALID);
}

static struct gpu_launch good_launch(void)
{
	const struct rbt_ptx_function *fn = rbt_ptx_find_entry(bad.ptx, "mix");

	return (struct gpu_launch){.h = {GPU_CMD_LAUNCH, 2, 0},
		.module = bad.module,
		.function = (uint32_t)(fn - bad.ptx->functions),
		.grid = {1, 1, 1},
		.block = {32, 1, 1},
		.param_size = fn->param_size};
}

enum wrong {
	WRONG_NOTHING,
	WRONG_MODULE,
	WRONG_FUNCTION,
	WRONG_GRID_0,
	WRONG_GRID_Y,
	WRONG_BLOCK_0,
	WRONG_BLOCK,
	WRONG_BLOCK_PRODUCT,
	WRONG_SHARED,
	WRONG_SHARED_WRAP,
	WRONG_PARAMS,
	WRONG_PARAMS_MORE,
	WRONG_FLAGS,
	WRONG_ZERO,
	WRONG_CUT,
	WRONG_LAST,
};

static void spoil(struct gpu_launch *c, enum wrong wrong)
{
	switch (wrong) {
	case WRONG_MODULE:
		c->module += 1;
		break;
	case WRONG_FUNCTION:
		c->function = UINT32_MAX;
		break;
	case WRONG_GRID_0:
		c->grid[1] = 0;
		break;
	case WRONG_GRID_Y:
		c->grid[1] = GPU_MAX_GRID_YZ + 1;
		break;
	case WRONG_BLOCK_0:
		c->block[2] = 0;
		break;
	case WRONG_BLOCK:
		c->block[0] = 1025;
		break;
	case WRONG_BLOCK_PRODUCT:
		c->block[1] = 33;
		break;
	case WRONG_SHARED:
		c->shared = GPU_BLOCK_SHARED + 1;
		break;
	case WRONG_SHARED_WRAP:
		c->shared = UINT32_MAX;
		break;
	case WRONG_PARAMS:
		c->param_size -= 4;
		break;
	case WRONG_PARAMS_MORE:
		c->param_size = GPU_MAX_PARAMS + 64;
		c->h.slots = 1 + GPU_MAX_PARAMS / 64 + 1;
		break;
	case WRONG_FLAGS:
		c->flags = 2;
		break;
	case WRONG_ZERO:
		c->zero[1] = 1;
		break;
	default:
		break;
	}
}

static void test_launch(enum wrong wrong)
{
	uint64_t params[2];
	struct gpu_launch c;

	begin();
	params[0] = bad_out;
	params[1] = 3;
	c = good_launch();
	spoil(&c, wrong);
	device_put(&bad, 0, &c, params, wrong == WRONG_CUT ? 0 : sizeof(params));
	if (wrong == WRONG_NOTHING) {
		device_publish(&bad, 0);
		CHECK(device_world_run(&world, 10000000));
		CHECK_INT(device_done(&bad, 0), 1);
		CHECK_INT(bad.room->error, 0);
		end();
		return;
	}
	dies(GPU_ERROR_INVALID);
}

/* 2^31 blocks, and 2^47 of them in all: nothing is allocated for what has not begun. */
static void test_huge_grid(uint32_t y, uint32_t z)
{
	struct gpu_launch c;
	uint64_t params[2];

	begin();
	params[0] = bad_out - N * 4;
	params[1] = 1;
	c = good_launch();
	c.function = (uint32_t)(rbt_ptx_find_entry(bad.ptx, "empty") - bad.ptx->functions);
	c.param_size = 0;
	c.h.slots = 1;
	c.grid[0] = GPU_MAX_GRID_X;
	c.grid[1] = y;
	c.grid[2] = z;
	device_put(&bad, 0, &c, params, 0);
	device_publish(&bad, 0);
	CHECK(!device_world_run(&world, 2000000));
	CHECK_INT(device_done(&bad, 0), 0);
	rbt_context_kill(bad.ctx, GPU_ERROR_LAUNCH_FAILED);
	CHECK_INT(bad.room->error, GPU_ERROR_LAUNCH_FAILED);
	end();
}

static void test_copy(uint64_t to_offset, uint64_t from_offset, uint64_t width, uint64_t height,
	uint64_t pitch, uint32_t error)
{
	struct gpu_copy c = {.h = {GPU_CMD_COPY, 1, 0}, .width = width, .height = height};

	begin();
	c.to = bad_out + to_offset;
	c.from = bad_out + from_offset;
	c.to_pitch = c.from_pitch = pitch;
	device_put(&bad, 0, &c, NULL, 0);
	dies(error);
}

static void test_fill(uint64_t offset, uint64_t width, uint32_t element, uint32_t error)
{
	begin();
	device_fill(&bad, 0, bad_out + offset, width, 1, element);
	dies(error);
}

static void test_kernel(const char *name, uint64_t address, uint32_t block, uint32_t error)
{
	begin();
	device_launch(&bad, 0,
		&(struct device_kernel){
			.name = name, .grid = 1, .block = block, .params = {address}});
	dies(error);
	CHECK(world.last_log[0] != '\0');
}

/* Another's memory, the byte behind one's own, and 0. */
static void test_strays(void)
{
	begin();
	device_launch(&bad, 0,
		&(struct device_kernel){
			.name = "stray", .grid = 1, .block = 1, .params = {good_out}});
	dies(GPU_ERROR_ILLEGAL_ADDRESS);
	begin();
	device_launch(&bad, 0,
		&(struct device_kernel){
			.name = "stray", .grid = 1, .block = 1, .params = {bad_out + N * 4}});
	dies(GPU_ERROR_ILLEGAL_ADDRESS);
	CHECK(strstr(world.last_log, "stray") && strstr(world.last_log, "block (0,0,0)"));
	begin();
	device_launch(&bad, 0,
		&(struct device_kernel){
			.name = "stray", .grid = 1, .block = 1, .params = {bad_out + 1}});
	dies(GPU_ERROR_MISALIGNED);
}

static void test_wait(uint32_t channel)
{
	struct gpu_wait c = {.h = {GPU_CMD_WAIT, 1, 0}, .done = 5, .channel = channel};

	begin();
	device_put(&bad, 0, &c, NULL, 0);
	device_publish(&bad, 0);
	CHECK(device_world_run(&world, 10000000));
	/* A channel that it does not have never comes; one that nobody has is nonsense. */
	CHECK_INT(bad.room->error, channel < GPU_MAX_CHANNELS ? 0 : GPU_ERROR_INVALID);
	CHECK_INT(device_done(&bad, 0), 0);
	end();
}

static void test_stamp(void)
{
	begin();
	device_stamp(&bad, 0, GPU_MAX_EVENTS);
	dies(GPU_ERROR_INVALID);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state >> 11;
}

/* Nonsense in all of the room, again and again; contexts come and go. */
static void test_noise(void)
{
	uint64_t random = 88172645463325252ull;
	uint8_t *bytes;

	begin();
	for (unsigned round = 0; round < 300; round++) {
		struct device_program noise;

		device_program_init(&noise, &world, 8, 1000 + round);
		bytes = (uint8_t *)noise.room;
		for (unsigned k = 0; k < 200; k++) {
			bytes[next_random(&random) % sizeof(*noise.room)] =
				(uint8_t)next_random(&random);
		}
		for (unsigned c = 0; c < 8; c++) {
			struct gpu_channel *ch = &noise.room->channels[c];

			ch->wptr = next_random(&random) % 1200;
			for (unsigned k = 0; k < 20; k++) {
				struct gpu_head *h = (struct gpu_head *)(void *)ch->ring[k].bytes;

				h->command = next_random(&random) % 8;
				h->slots = next_random(&random) % 4;
			}
		}
		(void)rbt_device_step(world.dev, 20000);
		device_program_finish(&noise);
	}
	end();
}

static int pin(struct device_program *p, unsigned number)
{
	int fd = -1, r = rbt_context_pin(p->ctx, 1, 0x200000000000ull + number * 8192ull, &fd);

	if (r == 0) {
		close(fd);
	}
	return r;
}

/* Mappings are the server's, which has not many: no program gets them all, nor do many. */
static void test_pins(void)
{
	struct device_program many[RBT_DEVICE_MAX_PINS / RBT_CONTEXT_MAX_PINS - 1];
	const unsigned n_many = sizeof(many) / sizeof(many[0]), last = 20000;
	unsigned n = 0;
	int r = 0;

	begin();
	while ((r = pin(&bad, n)) == 0) {
		n++;
	}
	CHECK_INT(r, -ENOMEM);
	CHECK_INT(n, RBT_CONTEXT_MAX_PINS);
	CHECK_INT(bad.room->error, 0);
	CHECK_INT(pin(&good, last), 0);
	/* Given back, it can be had again. */
	CHECK_INT(rbt_context_free(bad.ctx, 0x200000000000ull), 0);
	CHECK_INT(pin(&bad, 0), 0);
	CHECK_INT(pin(&bad, last), -ENOMEM);
	for (unsigned k = 0; k < n_many; k++) {
		device_program_init(&many[k], &world, 1, 100 + k);
		for (n = 0; pin(&many[k], n) == 0;) {
			n++;
		}
	}
	/* With the good one's, the last of them lacks one. */
	CHECK_INT(n, RBT_CONTEXT_MAX_PINS - 1);
	CHECK_INT(pin(&good, last + 1), -ENOMEM);
	for (unsigned k = 0; k < n_many; k++) {
		device_program_finish(&many[k]);
	}
	CHECK_INT(pin(&good, last + 1), 0);
	end();
}

int main(void)
{
	test_wptr(GPU_RING_SLOTS + 1);
	test_wptr(UINT64_MAX);
	test_wptr(1ull << 40);
	test_wptr_back();
	test_own_counters();
	test_slots(GPU_CMD_NOTHING, 0);
	test_slots(GPU_CMD_NOTHING, 2);
	test_slots(GPU_CMD_LAUNCH, 1024);
	test_slots(GPU_CMD_HOST + 1, 1);
	test_slots(UINT16_MAX, UINT16_MAX);
	for (unsigned k = 0; k < WRONG_LAST; k++) {
		test_launch((enum wrong)k);
	}
	test_huge_grid(1, 1);
	test_huge_grid(GPU_MAX_GRID_YZ, GPU_MAX_GRID_YZ);
	test_copy(0, 0, N * 4 + 1, 1, 0, GPU_ERROR_ILLEGAL_ADDRESS);
	test_copy(0, 1 << 30, 4, 1, 0, GPU_ERROR_ILLEGAL_ADDRESS);
	test_copy((uint64_t)-4096, 0, 4, 1, 0, GPU_ERROR_ILLEGAL_ADDRESS);
	test_copy(0, 0, UINT64_MAX, 1, 0, GPU_ERROR_ILLEGAL_ADDRESS);
	test_copy(0, 0, 8, UINT64_MAX, 8, GPU_ERROR_INVALID);
	test_copy(0, 0, 8, UINT64_MAX, 0, GPU_ERROR_INVALID);
	test_copy(0, 0, 8, 4, 4096, GPU_ERROR_ILLEGAL_ADDRESS);
	test_fill(0, N + 1, 4, GPU_ERROR_ILLEGAL_ADDRESS);
	test_fill(0, UINT64_MAX / 2, 4, GPU_ERROR_INVALID);
	test_fill(0, 1, 3, GPU_ERROR_INVALID);
	test_fill(0, 1, 0, GPU_ERROR_INVALID);
	test_fill(2, 1, 4, GPU_ERROR_INVALID);
	test_kernel("stray", 0, 1, GPU_ERROR_ILLEGAL_ADDRESS);
	test_kernel("stray", GPU_MEMORY_VA + (16u << 20), 1, GPU_ERROR_ILLEGAL_ADDRESS);
	test_kernel("trapped", 0, 64, GPU_ERROR_LAUNCH_FAILED);
	test_kernel("hang", 0, 64, GPU_ERROR_LAUNCH_TIMEOUT);
	test_strays();
	test_wait(0);
	test_wait(1);
	test_wait(2);
	test_wait(7);
	test_wait(8);
	test_stamp();
	test_noise();
	test_pins();
	return check_result();
}
