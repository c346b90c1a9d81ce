/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device: memory, contexts with their channels, a runlist, SMs. A library without sockets and
 * threads: the caller of rbt_device_step() is the device's only thread at that moment, and no other
 * function may be called meanwhile (the server has a lock for that; tests have one thread).
 *
 * Time is virtual: one warp instruction takes GPU_INSTRUCTION_NS on its SM, copies and context
 * switches take the configured time, and the clock of an idle device stands still. With one program
 * that submits to one stream, or with arrivals given beforehand, the same input gives the same
 * schedule and the same result; rbt_device_trace shows the schedule.
 *
 * The runlist: contexts (one compute group each) that have work and may run. One context has the
 * SMs at a time, for its timeslice; the kernels of its channels run side by side as far as SMs have
 * room. When the slice is over and another context has work, the mechanism takes the SMs away.
 * Groups of interleave level 1 and 2 get 2 and 4 times as many turns as those of level 0.
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
 * The kernel of a channel to run again from after a reset. Kernels are counted from 0, and
 * launch_offset is the last one that was launched; `pending` kernels had not started when the ring
 * was cleared. It is unknown whether the two before the running one have ended. The result is never
 * before what an earlier reset went back to. 100 launched, so 99, and 75 pending: 22.
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

/* The arena is sparse: memory that no kernel has used takes none. 0 or -errno. */
int rbt_device_create(const struct rbt_device_config *config, struct rbt_device **ret);
void rbt_device_destroy(struct rbt_device *dev);       /* with all contexts; accepts NULL */
int rbt_device_arena_fd(const struct rbt_device *dev); /* the device's; borrow */
/* The size of that file: more than the device has memory. */
uint64_t rbt_device_arena_bytes(const struct rbt_device *dev);
int rbt_device_bell_fd(const struct rbt_device *dev);
const struct rbt_device_config *rbt_device_config(const struct rbt_device *dev);
void rbt_device_set_mechanism(struct rbt_device *dev, enum rbt_mechanism m);
uint64_t rbt_device_now_ns(const struct rbt_device *dev);
void rbt_device_memory(const struct rbt_device *dev, uint64_t *ret_free, uint64_t *ret_total);

/*
 * Fetches, schedules, runs: until about `instructions` warp instructions are done, or nothing can
 * run. Returns whether there is more to do now. Programs that sleep on a channel are woken when the
 * command ends, not later.
 */
bool rbt_device_step(struct rbt_device *dev, uint64_t instructions);

/* Sleeps on the bell until a program rings or `timeout_ms` pass; returns at once if a ring has a
 * new command. The only call that may run beside others: it uses only the bell and the list of
 * rings that `step` left. */
void rbt_device_sleep(struct rbt_device *dev, int timeout_ms);
/* Ends a sleep, from any thread. */
void rbt_device_wake(struct rbt_device *dev);

/* A context with n channels (1…GPU_MAX_CHANNELS). Starts enabled, with a slice of 2048 µs. The
 * room's fd is borrowed; it is sealed. 0 or -errno. */
int rbt_context_create(
	struct rbt_device *dev, uint32_t n_channels, uint64_t id, struct rbt_context **ret);
/* Takes it off the SMs, ends all it has, and frees its memory. Accepts NULL. */
void rbt_context_destroy(struct rbt_context *ctx);
int rbt_context_room_fd(const struct rbt_context *ctx);

struct rbt_context_schedule {
	uint64_t timeslice_ns; /* > 0 */
	uint32_t interleave;   /* 0…2 */
	bool scheduled;        /* on the runlist at all */
	bool copies_wait;      /* copies neither start nor go on: their engine does not run them */
	uint32_t enabled;      /* one bit per channel: may start and continue commands */
};
/* Applies changes by RM's controls, at the next decision. A context that has the SMs and lost all
 * its channels keeps the SMs to the end of its slice ("scheduling only"). */
void rbt_context_set_schedule(struct rbt_context *ctx, const struct rbt_context_schedule *s);
/* Takes the context off the SMs now, by the device's mechanism (timeslice: exactly). For drain and
 * flag, which wait in virtual time, the wait is over on return. If a kernel does not end (within
 * some 8 M instructions), it is saved exactly. */
void rbt_context_preempt(struct rbt_context *ctx);
/* The context's owner died or misbehaved: it stops for good, and its programs see `error`. */
void rbt_context_kill(struct rbt_context *ctx, uint32_t error);

/* Memory. Zeroed pages are not promised. 0, -ENOMEM, -EINVAL. */
int rbt_context_alloc(struct rbt_context *ctx, uint64_t size, uint64_t *ret_va);
/*
 * Pinned memory at the program's address (page-aligned, free there). The caller closes *ret_fd.
 * Freed like other memory. Each is a mapping of this process, which may have 65530 by default
 * (vm.max_map_count) and would die without more. So there are limits per context, and for all
 * contexts of all devices; beyond them -ENOMEM.
 */
#define RBT_CONTEXT_MAX_PINS 4096u
#define RBT_DEVICE_MAX_PINS  32768u
int rbt_context_pin(struct rbt_context *ctx, uint64_t size, uint64_t address, int *ret_fd);
/* The same for memory that the program has already: pages of a memfd that cannot shrink, mapped at
 * `address` there. The file is borrowed. */
int rbt_context_share(
	struct rbt_context *ctx, int fd, uint64_t offset, uint64_t size, uint64_t address);
/* -EINVAL: not the address of an allocation. Running kernels keep the old memory map. */
int rbt_context_free(struct rbt_context *ctx, uint64_t va);

/*
 * Checkpoints: the context's memory leaves the device, and comes back at the same addresses. The
 * caller holds the context, waits until it is quiet, and keeps it off the runlist meanwhile.
 */
/* Calls of the program wait from now on, or go on. */
void rbt_context_hold(struct rbt_context *ctx, bool held);
/* Whether all submitted commands are done, and no thread of the program touches device memory. */
bool rbt_context_is_quiet(const struct rbt_context *ctx);
/* Saves up to about `max` bytes of memory and frees them on the device. 0: all is saved; 1: there
 * is more; -ENOMEM: the host has no memory for it. */
int rbt_context_save(struct rbt_context *ctx, uint64_t max);
/* Bytes of the device that a restore needs. */
uint64_t rbt_context_saved_bytes(const struct rbt_context *ctx);
/* The way back: 0, 1, or -ENOMEM if the device has no memory for the next part. */
int rbt_context_restore(struct rbt_context *ctx, uint64_t max);

/*
 * Modules. `text` is PTX. Variables are in device memory, initialised; ret_vas gets up to max of
 * their addresses, in the module's order. *ret_nvars: how many there are. If `error` is not NULL,
 * it gets one line on failure. -EINVAL, -ENOTSUP (such PTX is not supported), -E2BIG, -ENOMEM.
 */
struct rbt_ptx_error;
int rbt_context_load(struct rbt_context *ctx, const char *text, size_t size, uint32_t *ret_module,
	uint64_t *ret_vas, size_t max, size_t *ret_nvars, struct rbt_ptx_error *error);
/* -ENOENT. Running kernels of the module run to their end; those in the ring fail when their turn
 * comes. */
int rbt_context_unload(struct rbt_context *ctx, uint32_t module);

/* Counters since the beginning. */
struct rbt_context_stats {
	uint64_t id;
	uint64_t busy_ns;  /* had the SMs, virtual */
	uint64_t launches; /* kernels done */
	uint64_t instructions;
	uint64_t slices;   /* times it got the SMs */
	uint64_t preempts; /* times the SMs were taken with blocks on them, or kernels drained */
	uint64_t saved_bytes, restored_bytes;
	uint64_t repeated_instructions; /* repeated after a reset or flag */
	uint64_t lost_instructions;     /* of blocks that were killed */
	uint64_t pending_cleared;       /* kernels that a reset found waiting */
	uint64_t memory_bytes;
	uint32_t error;
	bool has_work, running;
};
void rbt_context_get_stats(const struct rbt_context *ctx, struct rbt_context_stats *ret);

/* The schedule, event by event, for tests and recordings. */
enum rbt_device_event {
	RBT_DEVICE_SWITCH,       /* the context gets the SMs */
	RBT_DEVICE_KERNEL,       /* a kernel starts; a: channel, b: command number */
	RBT_DEVICE_BLOCK,        /* a block begins or goes on; a: SM, b: block number */
	RBT_DEVICE_BLOCK_OFF,    /* saved; a: SM, b: block number */
	RBT_DEVICE_BLOCK_DONE,   /* a: SM, b: block number */
	RBT_DEVICE_COMMAND_DONE, /* a: channel, b: command number */
	RBT_DEVICE_FAULT,        /* a: the error */
	RBT_DEVICE_LEAVE,        /* must leave the SMs, with blocks on them */
	RBT_DEVICE_GO,           /* its slice begins: saved blocks are on SMs again */
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
