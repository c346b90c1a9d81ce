/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between a program and the software GPU: memory that both map, and the commands in
 * it. The program's side is the libcuda front (softgpu/cuda), the device's is the engine
 * (device.h).
 *
 *   the arena       device memory; every program maps all of it, as if there were no IOMMU, to copy
 *                   to and from it while its own streams are idle. It has more addresses than the
 *                   device has memory, since a checkpointed program keeps its addresses
 *   the bell        one page for all programs: wakes the device when it sleeps
 *   the room        one memfd per context: its channels with their rings, its events, its error,
 *                   and the output of its kernels
 *   pinned memory   one memfd per allocation, at the same address in the program and in its kernels
 *
 * All are memfds that the device makes and seals against a change of size. The device trusts
 * nothing in them: it copies a command out of the ring, then checks it, then uses it.
 *
 * Submission needs no system call while the device is awake: write the slots, publish wptr, check
 * whether the device sleeps. Little-endian machines only (futexes are on the low half of counters).
 */
#ifndef RBT_SOFTGPU_DEVICE_ABI_H
#define RBT_SOFTGPU_DEVICE_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_ABI_VERSION 3u

/* A device address is this plus the offset in the arena. */
#define GPU_MEMORY_VA 0x100000000000ull
#define GPU_PINNED_MAX                                                                             \
	0xf00000000000ull /* pinned memory is below this, and not where the arena
                                          * is */
#define GPU_ALIGN 512u    /* smallest alignment of allocations */

#define GPU_MAX_CHANNELS   8u /* of a context's compute group, as libcuda makes them */
#define GPU_RING_SLOTS     1024u
#define GPU_SLOT_BYTES     64u
#define GPU_MAX_PARAMS     4096u
#define GPU_MAX_EVENTS     4096u
#define GPU_PRINT_BYTES    (1u << 18)
#define GPU_COMPLAIN_BYTES (1u << 15)
#define GPU_MAX_GRID_X     0x7fffffffu
#define GPU_MAX_GRID_YZ    65535u
#define GPU_MAX_BLOCK      1024u
#define GPU_STACK          1024u
#define GPU_MAX_STACK      (64u << 10)
#define GPU_SM_BLOCKS      32u
#define GPU_SM_THREADS     2048u
#define GPU_SM_SHARED      (96u << 10)
#define GPU_BLOCK_SHARED   (96u << 10) /* with the attribute that allows it; else 48 KiB */
#define GPU_INSTRUCTION_NS 40u         /* of one warp instruction on one SM: its virtual clock */

enum gpu_command {
	GPU_CMD_NOTHING = 0, /* ends at once; for fences */
	GPU_CMD_LAUNCH,      /* struct gpu_launch, then param_size bytes from the next slot on */
	GPU_CMD_COPY,        /* struct gpu_copy */
	GPU_CMD_FILL,        /* struct gpu_fill */
	GPU_CMD_STAMP,       /* struct gpu_stamp: the device's time into an event */
	GPU_CMD_WAIT,        /* struct gpu_wait: for another channel of the same context */
	GPU_CMD_HOST,        /* struct gpu_host: until the program has done its part */
};

/* The first slot of every command. `slots`: how many it takes, including this one. A malformed
 * command kills the context with GPU_ERROR_INVALID. */
struct gpu_head {
	uint16_t command, slots;
	uint32_t zero;
};

#define GPU_LAUNCH_COOPERATIVE 1u /* all blocks are on SMs together, or the launch is invalid */

struct gpu_launch {
	struct gpu_head h;
	uint32_t module;   /* as in the reply to GPU_MODULE */
	uint32_t function; /* index of an entry in the module, in the order of rbt_ptx_parse() */
	uint32_t grid[3], block[3];
	uint32_t shared; /* dynamic, bytes */
	uint32_t param_size;
	uint32_t flags;
	uint32_t stack; /* bytes per thread, for calls; at most GPU_MAX_STACK. 0: GPU_STACK */
	uint32_t zero[2];
};

/* Rows of `width` bytes; height 1 for plain copies. Addresses are device or pinned ones. */
struct gpu_copy {
	struct gpu_head h;
	uint64_t to, from, width, height, to_pitch, from_pitch;
	uint64_t zero;
};

struct gpu_fill {
	struct gpu_head h;
	uint64_t to, width, height, pitch; /* width in elements */
	uint32_t value, element;           /* element: 1, 2 or 4 bytes */
	uint64_t zero[2];
};

struct gpu_stamp {
	struct gpu_head h;
	uint32_t event; /* < GPU_MAX_EVENTS */
	uint32_t zero[13];
};

struct gpu_wait {
	struct gpu_head h;
	uint64_t done; /* until the channel's done is at least this */
	uint32_t channel;
	uint32_t zero[11];
};

struct gpu_host {
	struct gpu_head h;
	uint64_t until; /* until the channel's host_done is at least this */
	uint32_t zero[12];
};

struct gpu_slot {
	uint8_t bytes[GPU_SLOT_BYTES];
};

/*
 * One ring. Counters only grow; slot i is at ring[i % GPU_RING_SLOTS]. The device checks wptr when
 * it runs, and reads all slots up to it. Command number n (from 1) of a channel is done when done
 * >= n: commands of a channel start in order and end in order.
 */
struct gpu_channel {
	_Alignas(64) uint64_t wptr; /* program: slots written */
	uint64_t host_done;         /* program: host parts done (GPU_CMD_HOST) */
	uint32_t waiting;           /* program: threads that sleep on `done`; wake them */
	_Alignas(64) uint64_t rptr; /* device: slots read; they may be written again */
	uint64_t done;              /* device: commands done; a futex is on its low half */
	_Alignas(64) struct gpu_slot ring[GPU_RING_SLOTS];
};

/* Text for the program, as bytes in a ring that follows; offsets only grow. When it is full,
 * further text is lost. */
struct gpu_text {
	_Alignas(64) uint64_t head; /* device */
	uint64_t lost;              /* device: bytes */
	_Alignas(64) uint64_t tail; /* program */
};

/* The shared memory of a context. */
struct gpu_room {
	uint32_t version, n_channels;
	uint32_t error; /* device: CUresult that killed the context, 0: it lives */
	uint32_t held;  /* device: the process is locked, so calls wait; a futex */
	/* program: threads that touch device memory by themselves. They begin to only while the
	 * context is not held. */
	uint32_t touching;
	uint32_t zero;
	struct gpu_text print;                          /* output of kernels: to standard output */
	struct gpu_text complain;                       /* failed assertions: to standard error */
	_Alignas(64) uint64_t event_ns[GPU_MAX_EVENTS]; /* device: the virtual clock */
	_Alignas(4096) uint8_t print_bytes[GPU_PRINT_BYTES];
	uint8_t complain_bytes[GPU_COMPLAIN_BYTES];
	_Alignas(4096) struct gpu_channel channels[GPU_MAX_CHANNELS];
};

/*
 * After publishing wptr (release) and a full fence, a program that reads asleep != 0 adds 1 to rung
 * and wakes it. The device sets asleep, fences, checks all rings once more, and sleeps on rung;
 * never for long, so that a program that corrupts this page only causes delays.
 */
struct gpu_bell {
	uint32_t rung, asleep;
};

/* CUresults that the device returns. */
enum gpu_error {
	GPU_ERROR_INVALID = 1,
	GPU_ERROR_NO_MEMORY = 2,
	GPU_ERROR_UNAVAILABLE = 46, /* set by the front: the device server has ended */
	GPU_ERROR_ILLEGAL_ADDRESS = 700,
	GPU_ERROR_OUT_OF_RESOURCES = 701,
	GPU_ERROR_LAUNCH_TIMEOUT = 702, /* every thread waits for another */
	GPU_ERROR_ASSERT = 710,
	GPU_ERROR_STACK = 714,
	GPU_ERROR_ILLEGAL_INSTRUCTION = 715,
	GPU_ERROR_MISALIGNED = 716,
	GPU_ERROR_LAUNCH_FAILED = 719,
	GPU_ERROR_COOPERATIVE_TOO_LARGE = 720,
};

static_assert(sizeof(struct gpu_launch) == GPU_SLOT_BYTES, "ABI");
static_assert(sizeof(struct gpu_copy) == GPU_SLOT_BYTES, "ABI");
static_assert(sizeof(struct gpu_fill) == GPU_SLOT_BYTES, "ABI");
static_assert(sizeof(struct gpu_stamp) == GPU_SLOT_BYTES, "ABI");
static_assert(sizeof(struct gpu_wait) == GPU_SLOT_BYTES, "ABI");
static_assert(sizeof(struct gpu_host) == GPU_SLOT_BYTES, "ABI");
static_assert(offsetof(struct gpu_channel, rptr) == 64, "ABI");
static_assert(offsetof(struct gpu_channel, ring) == 128, "ABI");
static_assert(offsetof(struct gpu_room, event_ns) == 320, "ABI");
static_assert(offsetof(struct gpu_room, print_bytes) % 4096 == 0, "ABI");
static_assert(offsetof(struct gpu_room, channels) % 4096 == 0, "ABI");

#endif
