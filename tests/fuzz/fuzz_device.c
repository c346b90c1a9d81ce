/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile program on the device: arbitrary bytes in its room, commands that are nearly right,
 * whatever the server may do to it at any moment, and a neighbour whose work must come out right.
 * Nothing may crash, hang, or stay allocated.
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "require.h"
#include "softgpu/device/device.h"
#include "softgpu/ptx/ptx.h"

#define ARENA_BYTES (4u << 20)
#define MAX_ALLOCS  8u
#define MAX_STEP    1024u
#define MAX_OPS     200u
#define CHANNELS    3u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* No kernel is long; but all may be run, stopped, killed and asked to leave at any point. */
static const char ptx[] =
	".version 6.0\n.target sm_70\n.address_size 64\n"
	".global .align 4 .u32 rubato_preempt;\n.const .align 4 .u32 table[4] = {1, 2, 3, 4};\n"
	".entry empty() { ret; }\n"
	".entry touch(.param .u64 a, .param .u32 n) {\n"
	".reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %d<4>; .shared .align 4 .b8 s[256];\n"
	"ld.param.u64 %d1, [a]; ld.param.u32 %r1, [n]; and.b32 %r1, %r1, 7;\n"
	"mov.u32 %r2, %tid.x; and.b32 %r2, %r2, 63; mul.wide.u32 %d2, %r2, 4; add.s64 %d1, %d1, %d2;\n"
	"again: ld.volatile.global.u32 %r3, [rubato_preempt]; setp.ne.u32 %p1, %r3, 0;\n"
	"@%p1 bra out; atom.global.add.u32 %r4, [%d1], 1; sub.u32 %r1, %r1, 1;\n"
	"setp.gt.s32 %p2, %r1, 0; @%p2 bra again; bar.sync 0;\nout: ret;\n}\n"
	".entry hang() { .reg .b32 %r<2>; bar.sync 2, 1024; ret; }\n"
	".entry deep(.param .u32 n) {\n"
	".local .align 8 .b8 l[4096]; .reg .b64 %d<4>; .reg .b32 %r<4>;\n"
	"mov.u64 %d1, l; ld.param.u32 %r1, [n]; cvt.u64.u32 %d2, %r1; add.s64 %d1, %d1, %d2;\n"
	"st.local.u32 [%d1], %r1; trap; ret;\n}\n";

static struct {
	const uint8_t *data;
	size_t left;
	struct rbt_device *dev;
	struct rbt_context *bad, *good;
	struct gpu_room *room, *good_room;
	uint64_t wptr[CHANNELS];
	uint64_t allocs[MAX_ALLOCS];
	uint32_t module;
	uint64_t good_wptr;
	enum rbt_mechanism mechanism;
	uint32_t budget;
} w;

static uint8_t next_byte(void)
{
	if (w.left == 0) {
		return 0;
	}
	w.left--;
	return *w.data++;
}

static uint32_t next_word(void)
{
	uint32_t v = next_byte();

	v |= (uint32_t)next_byte() << 8;
	v |= (uint32_t)next_byte() << 16;
	return v | (uint32_t)next_byte() << 24;
}

/* Mostly memory of the program, or next to it. */
static uint64_t next_address(void)
{
	uint8_t b = next_byte();

	if (b < 0xe0) {
		return w.allocs[b % MAX_ALLOCS] + (b & 0x80 ? next_byte() : 0);
	}
	return b < 0xf0 ? GPU_MEMORY_VA + next_word() : (uint64_t)next_word() << 32 | next_word();
}

static void put(uint32_t channel, const void *slot)
{
	struct gpu_channel *ch = &w.room->channels[channel];

	memcpy(ch->ring[w.wptr[channel]++ % GPU_RING_SLOTS].bytes, slot, GPU_SLOT_BYTES);
}

static void publish(uint32_t channel)
{
	__atomic_store_n(&w.room->channels[channel].wptr, w.wptr[channel], __ATOMIC_RELEASE);
}

static void put_launch(uint32_t channel)
{
	static const uint32_t sizes[4] = {0, 12, 0, 4};
	uint8_t how = next_byte();
	struct gpu_launch c = {.h = {GPU_CMD_LAUNCH, 1, 0},
		.module = w.module,
		.function = how & 3,
		.grid = {1 + next_byte() % 16u, 1, 1},
		.block = {1 + next_byte() % 96u, 1, 1},
		.param_size = sizes[how & 3]};
	uint64_t params[8] = {next_address(), next_byte()};

	if (how & 0x80) {
		c.grid[how >> 2 & 1] = next_word();
		c.shared = next_word() >> (how & 31);
		c.flags = how >> 6 & 1;
	}
	if (how >= 0xf0) {
		c.module = next_byte();
		c.function = next_byte();
		c.block[1] = next_byte();
		c.param_size = next_byte();
	}
	c.h.slots = c.param_size ? 2 : 1;
	put(channel, &c);
	if (c.param_size) {
		put(channel, params);
	}
}

static void put_transfer(uint32_t channel, bool copy)
{
	struct gpu_copy c = {.h = {GPU_CMD_COPY, 1, 0},
		.to = next_address(),
		.from = next_address(),
		.width = next_byte() * 7u,
		.height = 1 + next_byte() % 8u,
		.to_pitch = next_byte() * 16u,
		.from_pitch = next_byte() * 16u};
	struct gpu_fill f = {.h = {GPU_CMD_FILL, 1, 0},
		.to = c.to,
		.width = c.width,
		.height = c.height,
		.pitch = c.to_pitch,
		.value = next_word(),
		.element = 1u << next_byte() % 3u};

	if (next_byte() > 0xf0) {
		c.width = f.width = (uint64_t)next_word() << (next_byte() % 33);
		c.height = f.height = (uint64_t)next_word() << (next_byte() % 33);
		f.element = next_byte();
	}
	put(channel, copy ? (void *)&c : (void *)&f);
}

static void put_small(uint32_t channel)
{
	struct gpu_wait wait = {.h = {GPU_CMD_WAIT, 1, 0},
		.done = next_byte(),
		.channel = next_byte() % (GPU_MAX_CHANNELS + 1)};
	struct gpu_host host = {.h = {GPU_CMD_HOST, 1, 0}, .until = next_byte()};
	struct gpu_stamp stamp = {.h = {GPU_CMD_STAMP, 1, 0}, .event = next_word() % 5000};
	struct gpu_stamp nothing = {.h = {GPU_CMD_NOTHING, 1, 0}};
	void *const all[4] = {&wait, &host, &stamp, &nothing};

	put(channel, all[next_byte() & 3]);
}

static void put_raw(uint32_t channel)
{
	uint8_t slot[GPU_SLOT_BYTES] = {0};
	uint8_t n = next_byte() % GPU_SLOT_BYTES;

	for (uint8_t k = 0; k < n; k++) {
		slot[k] = next_byte();
	}
	put(channel, slot);
}

static void scribble(void)
{
	uint32_t at = next_word() % (uint32_t)sizeof(*w.room);
	uint8_t n = next_byte() % 16;

	for (uint8_t k = 0; k < n && at + k < sizeof(*w.room); k++) {
		((volatile uint8_t *)w.room)[at + k] = next_byte();
	}
}

static void manage(void)
{
	struct rbt_context_schedule s = {.timeslice_ns = next_word() >> (next_byte() & 31),
		.interleave = next_byte() & 3,
		.scheduled = next_byte() & 7,
		.enabled = next_byte()};
	uint8_t how = next_byte(), slot = next_byte() % MAX_ALLOCS;
	size_t n;

	s.copies_wait = s.enabled >> 7;
	switch (how % 8) {
	case 0:
	case 1:
		rbt_context_set_schedule(w.bad, &s);
		break;
	case 2:
		/* Waiting for a kernel of 2^31 blocks takes a while: step() shows the same. */
		if (w.mechanism < RBT_MECHANISM_FLAG) {
			rbt_context_preempt(w.bad);
		}
		break;
	case 3:
		(void)rbt_context_free(w.bad, w.allocs[slot]);
		(void)rbt_context_alloc(
			w.bad, 1 + next_word() % (ARENA_BYTES / 4), &w.allocs[slot]);
		break;
	case 4:
		w.mechanism = (enum rbt_mechanism)(how / 8u % RBT_N_MECHANISMS);
		rbt_device_set_mechanism(w.dev, w.mechanism);
		break;
	case 5:
		(void)rbt_context_unload(w.bad, w.module);
		break;
	case 6:
		(void)rbt_context_load(w.bad, ptx, sizeof(ptx) - 1, &w.module, NULL, 0, &n, NULL);
		break;
	default:
		if (slot == 0) {
			rbt_context_kill(w.bad, s.enabled);
		}
		break;
	}
}

static void good_works(void)
{
	struct gpu_stamp c = {.h = {GPU_CMD_STAMP, 1, 0}, .event = 1};

	memcpy(w.good_room->channels[0].ring[w.good_wptr++ % GPU_RING_SLOTS].bytes, &c, sizeof(c));
	__atomic_store_n(&w.good_room->channels[0].wptr, w.good_wptr, __ATOMIC_RELEASE);
}

/* Of the few instructions that each input gets. */
static void step(uint32_t instructions)
{
	instructions = instructions < w.budget ? instructions : w.budget;
	w.budget -= instructions;
	(void)rbt_device_step(w.dev, instructions);
}

static void act(void)
{
	uint8_t op = next_byte();
	uint32_t channel = op >> 4 & 1;

	switch (op & 15) {
	case 0:
	case 1:
	case 2:
		put_launch(channel);
		publish(channel);
		break;
	case 3:
	case 4:
		put_transfer(channel, op & 1);
		publish(channel);
		break;
	case 5:
		put_small(channel);
		publish(channel);
		break;
	case 6:
		put_raw(channel);
		publish(channel);
		break;
	case 7:
		scribble();
		break;
	case 8:
		__atomic_add_fetch(
			&w.room->channels[channel].host_done, next_byte(), __ATOMIC_RELEASE);
		break;
	case 9:
	case 10:
		manage();
		break;
	case 11:
		good_works();
		break;
	default:
		step(next_byte() * 16u);
		break;
	}
}

static void *map_room(struct rbt_context *ctx)
{
	void *at = mmap(NULL, sizeof(struct gpu_room), PROT_READ | PROT_WRITE, MAP_SHARED,
		rbt_context_room_fd(ctx), 0);

	REQUIRE(at != MAP_FAILED);
	return at;
}

static void begin(const uint8_t *data, size_t size)
{
	struct rbt_device_config config = {.n_sms = 2, .memory_bytes = ARENA_BYTES};
	struct rbt_context_schedule high = {
		.timeslice_ns = 1000, .interleave = 2, .scheduled = true, .enabled = 1};
	size_t n;

	memset(&w, 0, sizeof(w));
	w.data = data;
	w.left = size;
	w.budget = 4 * MAX_STEP;
	w.mechanism = config.mechanism = (enum rbt_mechanism)(next_byte() % RBT_N_MECHANISMS);
	REQUIRE(rbt_device_create(&config, &w.dev) == 0);
	REQUIRE(rbt_context_create(w.dev, 2, 1, &w.bad) == 0);
	REQUIRE(rbt_context_create(w.dev, 1, 2, &w.good) == 0);
	rbt_context_set_schedule(w.good, &high);
	w.room = map_room(w.bad);
	w.good_room = map_room(w.good);
	REQUIRE(rbt_context_load(w.bad, ptx, sizeof(ptx) - 1, &w.module, NULL, 0, &n, NULL) == 0);
	for (unsigned k = 0; k < MAX_ALLOCS; k++) {
		REQUIRE(rbt_context_alloc(w.bad, 300u << k, &w.allocs[k]) == 0);
	}
}

/* Whatever came before: beside a neighbour of short slices, what the good one wants is done. */
static void finish_good(void)
{
	struct rbt_context_schedule low = {
		.timeslice_ns = 1000, .interleave = 0, .scheduled = true, .enabled = 3};

	rbt_device_set_mechanism(w.dev, RBT_MECHANISM_EXACT);
	rbt_context_preempt(w.bad);
	rbt_context_set_schedule(w.bad, &low);
	good_works();
	for (unsigned k = 0; k < 1000 && w.good_room->channels[0].done != w.good_wptr; k++) {
		(void)rbt_device_step(w.dev, MAX_STEP);
	}
	REQUIRE(w.good_room->channels[0].done == w.good_wptr);
	REQUIRE(w.good_room->error == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t free_bytes, total;

	begin(data, size);
	for (unsigned k = 0; k < MAX_OPS && w.left > 0; k++) {
		act();
	}
	finish_good();
	munmap(w.room, sizeof(*w.room));
	munmap(w.good_room, sizeof(*w.room));
	rbt_context_destroy(w.bad);
	rbt_context_destroy(w.good);
	rbt_device_memory(w.dev, &free_bytes, &total);
	REQUIRE(free_bytes == total - GPU_ALIGN);
	rbt_device_destroy(w.dev);
	return 0;
}
