/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device: memory, contexts with their channels, a runlist, SMs. A library without sockets and
 * threads: whoever calls rbt_device_step() is the device's one thread at that moment, and nothing
 * else may be called meanwhile (the server has a lock for that; tests have one thread).
 *
 * Time is virtual: one warp instruction takes GPU_INSTRUCTION_NS on its SM, copies and context
 * switches take what the configuration says, and an idle device's clock stands still. With one
 * program that submits to one stream, or with arrivals given beforehand, the same input gives the
 * same schedule and the same result; rbt_device_trace shows the schedule.
 *
 * The runlist: contexts (one compute group each) that have work and may run. One has the SMs at a
 * time, for its timeslice; its channels' kernels run side by side as far as SMs have room. When the
 * slice is over and somebody else has work, the mechanism takes the SMs away. Groups of interleave
 * level 1 and 2 come up 2 and 4 times as often as those of level 0.
 */
#ifndef RBT_SOFTGPU_DEVICE_DEVICE_H
#define RBT_SOFTGPU_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softgpu/device/abi.h"

struct rbt_device;
struct rbt_context; /* a context of a program: its group, channels, memory, modules */

/*
 * How the SMs are taken from a group whose turn is over, or that is preempted by command.
 *   timeslice  at the end of its slice, exactly: every block is saved, and goes on later on any SM
 *   exact      the same, but at once when a group of a higher interleave level gets work, too
 *   reset      at once, as exact. The preempt flag is set, nothing more is fetched from the ring,
 *              running blocks are killed; later, kernels are run again from
 *              rbt_reset_offset(). Wrong for kernels that are not idempotent. It goes back no
 *              further than to where the program may have seen results: a command that is no
 *              kernel, a ring that was empty, memory that was freed.
 *   flag       at once, by the preempt flag alone: a kernel that looks at it exits by itself; when
 *              one has, it is run again from its first block. Others run to their end
 *   drain      at once, by waiting: running kernels run to their end, no further one starts
 * At the end of a slice, among equals, reset and flag save exactly: or a kernel longer than its
 * slice would never end. Drain waits then, too.
 * The preempt flag is a 32-bit .global variable of the module with the name GPU_PREEMPT_FLAG.
 */
enum rbt_mechanism {
	RBT_MECHANISM_TIMESLICE,
	RBT_MECHANISM_EXACT,
	RBT_MECHANISM_RESET,
	RBT_MECHANISM_FLAG,
	RBT_MECHANISM_DRAIN,
	RBT_N_MECHANISMS,
};
#define GPU_PREEMPT_FLAG "rubato_preempt"
const char *rbt_mechanism_name(enum rbt_mechanism m);
int rbt_mechanism_parse(const char *name, enum rbt_mechanism *ret); /* 0 or -EINVAL */

/*
 * Which kernel of a channel (counted from 0) to run again from after a reset: launched so many,
 * of which `pending` had not started when the ring was cleared; two more may have been under way;
 * never before what an earlier reset went back to. 99 launched, 75 pending: 22.
 */
uint64_t rbt_reset_offset(uint64_t launch_offset, uint64_t pending, uint64_t kernel_offset);

struct rbt_device_config {
	uint32_t n_sms;           /* 1…64; 0: 4 */
	uint64_t memory_bytes;    /* of the arena, rounded up to pages; 0: 256 MiB */
	uint64_t switch_ns;       /* of the virtual clock, for each switch between groups */
	uint64_t save_ns_per_kib; /* and for state saved or restored */
	enum rbt_mechanism mechanism;
	uint64_t copy_ns_per_kib; /* of copies and fills; 0: RBT_DEVICE_COPY_NS_PER_KIB */
};
#define RBT_DEVICE_SWITCH_NS       50000
#define RBT_DEVICE_SAVE_NS_PER_KIB 100
#define RBT_DEVICE_COPY_NS_PER_KIB 100

/* The arena is sparse: memory that no kernel touched takes none. 0 or -errno. */
int rbt_device_create(const struct rbt_device_config *config, struct rbt_device **ret);
void rbt_device_destroy(struct rbt_device *dev);       /* with all contexts; accepts NULL */
int rbt_device_arena_fd(const struct rbt_device *dev); /* the device's; borrow */
int rbt_device_bell_fd(const struct rbt_device *dev);
const struct rbt_device_config *rbt_device_config(const struct rbt_device *dev);
void rbt_device_set_mechanism(struct rbt_device *dev, enum rbt_mechanism m);
uint64_t rbt_device_now_ns(const struct rbt_device *dev);
void rbt_device_memory(const struct rbt_device *dev, uint64_t *ret_free, uint64_t *ret_total);

/*
 * Fetches, schedules, runs: until about `instructions` warp instructions are done, or nothing can
 * run. Returns whether there is more to do now. Wakes programs that sleep on a channel as commands
 * end, not later.
 */
bool rbt_device_step(struct rbt_device *dev, uint64_t instructions);

/* Sleeps on the bell until a program rings, `timeout_ms` pass or, without sleeping, a ring has
 * something new. The only call that may run beside others: it touches only the bell and the list of
 * rings that `step` left behind. */
void rbt_device_sleep(struct rbt_device *dev, int timeout_ms);
/* Ends a sleep, from any thread. */
void rbt_device_wake(struct rbt_device *dev);

/* A context with n channels (1…GPU_MAX_CHANNELS). Starts enabled, with a slice of 2048 µs. The
 * room's fd is borrowed; it is sealed. 0 or -errno. */
int rbt_context_create(
	struct rbt_device *dev, uint32_t n_channels, uint64_t id, struct rbt_context **ret);
/* Ends all it has, off the SMs first; frees its memory. Accepts NULL. */
void rbt_context_destroy(struct rbt_context *ctx);
int rbt_context_room_fd(const struct rbt_context *ctx);

struct rbt_context_schedule {
	uint64_t timeslice_ns; /* > 0 */
	uint32_t interleave;   /* 0…2 */
	bool scheduled;        /* on the runlist at all */
	bool copies_wait;      /* neither start nor go on: their engine is not looking */
	uint32_t enabled;      /* channels, a bit each: may start and go on with commands */
};
/* What RM's controls changed. Takes effect at the next decision; a context that has the SMs and
 * lost all its channels keeps them to the end of its slice ("scheduling only"). */
void rbt_context_set_schedule(struct rbt_context *ctx, const struct rbt_context_schedule *s);
/* Off the SMs now, by the device's mechanism (timeslice: exactly); for drain and flag, which wait
 * in virtual time, when it returns they have. A kernel that they wait for in vain (some 8 M
 * instructions) is saved exactly. */
void rbt_context_preempt(struct rbt_context *ctx);
/* Whoever owns the context died or was found lying: it stops for good, its programs see `error`. */
void rbt_context_kill(struct rbt_context *ctx, uint32_t error);

/* Memory. Zeroed pages are not promised. 0, -ENOMEM, -EINVAL. */
int rbt_context_alloc(struct rbt_context *ctx, uint64_t size, uint64_t *ret_va);
/*
 * Pinned memory at the program's address (page-aligned, free there). *ret_fd is the caller's to
 * close. Freed like the rest. Each is a mapping of this process, which may have 65530 by default
 * (vm.max_map_count) and ends when it has no more: so there are at most so many a context, and of
 * all contexts of all devices; then -ENOMEM.
 */
#define RBT_CONTEXT_MAX_PINS 4096u
#define RBT_DEVICE_MAX_PINS  32768u
int rbt_context_pin(struct rbt_context *ctx, uint64_t size, uint64_t address, int *ret_fd);
/* -EINVAL: not the address of an allocation. Kernels that run keep seeing the old memory map. */
int rbt_context_free(struct rbt_context *ctx, uint64_t va);

/*
 * Modules. `text` is PTX. Variables are in device memory, initialised; ret_vas gets up to max of
 * their addresses, in the module's order. *ret_nvars: how many there are. `error`, when not NULL,
 * gets one line on failure. -EINVAL, -ENOTSUP (no such PTX here), -E2BIG, -ENOMEM.
 */
struct rbt_ptx_error;
int rbt_context_load(struct rbt_context *ctx, const char *text, size_t size, uint32_t *ret_module,
	uint64_t *ret_vas, size_t max, size_t *ret_nvars, struct rbt_ptx_error *error);
/* -ENOENT. Of its kernels, those that run are run to their end; those in the ring fail when it is
 * their turn. */
int rbt_context_unload(struct rbt_context *ctx, uint32_t module);

/* What happened, since the beginning. */
struct rbt_context_stats {
	uint64_t id;
	uint64_t busy_ns;  /* had the SMs, virtual */
	uint64_t launches; /* kernels done */
	uint64_t instructions;
	uint64_t slices;   /* times it got the SMs */
	uint64_t preempts; /* times they were taken with blocks on them, or kernels drained */
	uint64_t saved_bytes, restored_bytes;
	uint64_t repeated_instructions; /* done again after a reset or flag */
	uint64_t lost_instructions;     /* of blocks that were killed */
	uint64_t pending_cleared;       /* kernels that a reset found waiting */
	uint64_t memory_bytes;
	uint32_t error;
	bool has_work, running;
};
void rbt_context_get_stats(const struct rbt_context *ctx, struct rbt_context_stats *ret);

/* The schedule, event by event, for tests and for recordings. */
enum rbt_device_event {
	RBT_DEVICE_SWITCH,       /* the context gets the SMs */
	RBT_DEVICE_KERNEL,       /* a kernel starts; a: channel, b: command number */
	RBT_DEVICE_BLOCK,        /* a block begins or goes on; a: SM, b: block number */
	RBT_DEVICE_BLOCK_OFF,    /* saved; a: SM, b: block number */
	RBT_DEVICE_BLOCK_DONE,   /* a: SM, b: block number */
	RBT_DEVICE_COMMAND_DONE, /* a: channel, b: command number */
	RBT_DEVICE_FAULT,        /* a: the error */
	RBT_DEVICE_LEAVE,        /* is to leave the SMs, with blocks on them */
	RBT_DEVICE_GO,           /* its slice begins: what was saved is on SMs again */
};
void rbt_device_trace(struct rbt_device *dev,
	void (*fn)(void *user, uint64_t now_ns, enum rbt_device_event event, uint64_t context,
		uint64_t a, uint64_t b),
	void *user);
/* One line about a fault: which kernel, block, thread, address. */
void rbt_device_log(struct rbt_device *dev, void (*fn)(void *user, const char *line), void *user);

/*
 * Arrivals beforehand: wptr of that channel, in its ring too, becomes `wptr` when the virtual clock
 * reaches at_ns (the slots are in the ring already); an otherwise idle device's clock jumps to the
 * next one. Until all have come, the rings' own wptr is not looked at. The list is copied and may
 * be in any order; equal times keep theirs.
 */
struct rbt_device_arrival {
	uint64_t at_ns;
	struct rbt_context *context;
	uint32_t channel;
	uint64_t wptr;
};
int rbt_device_replay(struct rbt_device *dev, const struct rbt_device_arrival *list, size_t n);

#endif
