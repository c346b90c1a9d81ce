/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the device. A context has channels; a channel has at most one command under way,
 * read from its ring; a kernel under way is a launch; a launch has blocks on SMs, or saved ones, or
 * both. Only the current context has blocks on SMs.
 *
 * Everything that has a time (an SM with blocks, a channel with a copy or a command to start) is
 * run in the order of these times, the earliest first, for a quantum each. So no clock is further
 * ahead than a quantum, and the order depends only on earlier events.
 */
#ifndef RBT_SOFTGPU_DEVICE_DEVICE_IMPL_H
#define RBT_SOFTGPU_DEVICE_DEVICE_IMPL_H

#include <pthread.h>

#include "softgpu/device/device.h"
#include "softgpu/exec/exec.h"
#include "softgpu/ptx/ptx.h"

#define DEV_MAX_SMS     64u
#define DEV_MAX_ALLOCS  32768u /* per context: a launch copies their list */
#define DEV_MAX_MODULES 4096u
#define DEV_MAX_PINNED  (1ull << 36)
#define DEV_ADDRESSES   16u /* times as many addresses as memory */
#define DEV_NEVER       UINT64_MAX
#define DEV_MAX_NS                                                                                 \
	(1ull << 60) /* limit of slices and arrivals, so that sums do not
                                      * overflow */

/*
 * Instructions of one SM before those of another, and of a block before its neighbour's on the same
 * SM: a block that stays keeps the caches warm (256^3 matmul: 67 ms, and 78 with turns of a
 * quantum). Blocks of a cooperative launch wait for each other, so their turns are short.
 */
#define DEV_QUANTUM             2048u
#define DEV_TURN                32768u
#define DEV_QUANTUM_COOPERATIVE 512u
/* How much is done between two checks of the rings: more if there are many rings. */
#define DEV_POLL         4096u
#define DEV_POLL_CONTEXT 256u
/* The overhead of a command: in virtual time, and in instructions of a step's budget. */
#define DEV_COMMAND_NS   500u
#define DEV_COMMAND_COST 64u
#define DEV_BLOCK_COST   64u
#define DEV_KIB_COST     16u /* per KiB saved, restored or copied */
/* Bytes copied before others get their turn. */
#define DEV_PIECE_BYTES (64u << 10)
#define DEV_PIECE_ROWS  512u
#define DEV_ROW_BYTES   64u /* a row counts as at least this many bytes */
/* Registers, local and shared memory of the blocks on an SM. This is the host's memory, so it is
 * limited, whatever a kernel declares. */
#define DEV_SM_STATE (64u << 20)
/* If a preemption by command waits for a kernel, the kernel is saved after this many
 * instructions. */
#define DEV_DRAIN_MAX (8u << 20)

struct dev_extent {
	uint64_t at, size;
};

struct dev_arena {
	int fd;
	uint8_t *base;
	uint64_t size;           /* of the address range */
	uint64_t free_bytes;     /* of the memory behind it */
	struct dev_extent *free; /* sorted, never adjacent */
	size_t n, room;
	size_t used; /* parts in use */
};

/* Memory of a context: from the arena, or pinned. */
struct dev_alloc {
	uint64_t va, size;
	uint8_t *host;
	uint64_t reserved; /* bytes of the arena; pinned: 0 */
	uint8_t *saved;    /* its contents, while it is off the device; a mapping of `size` bytes */
	bool read_only;    /* for kernels */
	bool of_module;
	uint64_t generation; /* in limbo: of the last map that contains it */
};

/* The memory that kernels see which started at some moment. */
struct dev_map {
	struct dev_map *next; /* of the context's maps in use */
	uint32_t refs;
	uint64_t generation;
	size_t n;
	struct rbt_exec_window windows[];
};

struct dev_module {
	uint32_t id, refs;
	struct rbt_ptx_module *ptx;
	uint64_t *variable_va;
	bool *polls;        /* per function: whether it polls the preempt flag */
	uint64_t memory[2]; /* addresses of its allocations, or 0 */
	uint32_t *flag;     /* in the arena; NULL: has none */
};

/* A block that was taken off its SM. */
struct dev_saved {
	struct dev_saved *next;
	uint64_t number, instructions;
	uint32_t sm;
	size_t size;
	uint8_t bytes[];
};

struct dev_launch {
	struct rbt_exec_launch exec;
	struct rbt_context *ctx;
	struct dev_module *module; /* a reference */
	struct dev_map *map;       /* a reference, while it is under way */
	struct dev_launch *next;   /* in the pool */
	uint32_t channel;
	uint64_t index;   /* among the kernels of its channel, from 0 */
	uint64_t command; /* its number */
	uint64_t order;   /* of start, among all: blocks of earlier ones are placed first */
	uint64_t blocks, placed, done; /* placed: how many of `blocks` were made so far */
	uint32_t resident;
	struct dev_saved *saved, **saved_end;
	uint32_t n_saved;
	uint32_t threads, shared; /* of a block, as SMs count them */
	uint64_t state;           /* bytes of the host's memory, estimated */
	uint64_t start_ns, end_ns;
	uint64_t executed, repeat_left; /* instructions executed; those to be repeated */
	bool cooperative, polls;
	bool published; /* its command is done: it runs again after a reset */
	bool draining;  /* was on SMs when they had to be left: runs to its end */
	bool left;      /* a block has left that may not have finished */
	uint64_t params[GPU_MAX_PARAMS / 8];
};

struct dev_resident {
	struct rbt_exec_block *block;
	struct dev_launch *launch;
	uint64_t number;
};

struct dev_sm {
	struct rbt_exec_sm *exec;
	uint64_t time_ns;
	uint32_t n, turn;   /* turn: the block whose turn it is */
	uint64_t turn_used; /* instructions used in this turn */
	uint32_t threads, shared;
	uint64_t state;
	struct dev_resident blocks[GPU_SM_BLOCKS];
};

enum dev_channel_state {
	DEV_EMPTY,
	DEV_FETCHED, /* read, but not started */
	DEV_KERNEL,  /* in todo[] */
	DEV_COPYING,
};

/* A copy or a fill: rows. */
struct dev_transfer {
	struct dev_map *map; /* a reference */
	uint8_t *to;
	const uint8_t *from; /* NULL: a fill */
	uint64_t width, to_pitch, from_pitch;
	uint64_t row, column, rows; /* current position */
	uint32_t value, element;
};

struct dev_channel {
	struct gpu_channel *shared;
	enum dev_channel_state state;
	uint64_t wptr, rptr, done; /* our values of the shared counters */
	uint64_t command;          /* number of the command in `slot` */
	uint64_t time_ns;          /* when the last command ended */
	union {
		struct gpu_head head;
		struct gpu_slot slot;
		struct gpu_launch launch;
		struct gpu_copy copy;
		struct gpu_fill fill;
		struct gpu_stamp stamp;
		struct gpu_wait wait;
		struct gpu_host host;
	};
	uint8_t params[GPU_MAX_PARAMS];
	struct dev_transfer transfer;

	/* Kernels to run, the first of them on SMs when `active`; more than one after a reset. */
	struct dev_launch *todo[3];
	uint32_t n_todo;
	bool active;
	struct dev_launch *history[2]; /* the last that ended, the latest last; for resets */
	uint32_t n_history;
	uint64_t kernels;       /* started */
	uint64_t kernel_offset; /* no reset goes back further */
};

/* Our values of a struct gpu_text, which the program can change. */
struct dev_text {
	uint64_t head, lost;
};

struct rbt_context {
	struct rbt_context *next; /* on the device's list */
	struct rbt_device *dev;
	uint64_t id;
	int room_fd;
	struct gpu_room *room;
	uint32_t n_channels;
	uint32_t error;
	struct dev_channel channels[GPU_MAX_CHANNELS];
	struct rbt_context_schedule schedule;
	struct dev_text print, complain;

	struct dev_alloc *allocs; /* sorted by address */
	size_t n_allocs, allocs_room;
	struct dev_alloc *limbo; /* freed, but still in a map */
	size_t n_limbo, limbo_room;
	struct dev_map *map; /* the current one; NULL: must be made */
	struct dev_map *maps;
	uint64_t generation;
	uint64_t memory_bytes, pinned_bytes;
	size_t n_pins; /* mapped, including freed ones that are still in a map */

	struct dev_module **modules; /* sorted by id */
	size_t n_modules, modules_room;
	uint32_t last_module;

	struct dev_launch *running[GPU_MAX_CHANNELS]; /* active ones, in order of start */
	uint32_t n_running;

	bool has_work;     /* at the last check */
	bool arrived;      /* got work after having none, and has not had the SMs since */
	uint64_t pass;     /* in the runlist: the lowest is next */
	uint64_t turn;     /* when it was last next */
	uint64_t since_ns; /* since when it has the SMs */
	bool flagged;      /* its preempt flags are set */
	struct rbt_context_stats stats;
};

/* Whether a context gives up the SMs by itself. */
enum dev_leaving {
	DEV_STAYS = 0,
	DEV_DRAINS,  /* as soon as its kernels end */
	DEV_FLAGGED, /* the same, and kernels that poll the flag end soon */
};

struct dev_watch {
	struct rbt_context *ctx;
	const uint64_t *wptr, *host_done; /* shared; host_done may be NULL */
	uint64_t seen, until;
};

struct rbt_device {
	struct rbt_device_config config;
	struct dev_arena arena;
	int bell_fd;
	struct gpu_bell *bell;
	struct dev_sm sms[DEV_MAX_SMS];
	struct rbt_context *contexts; /* in the order in which they were made */
	uint32_t n_contexts;
	struct rbt_context *current; /* has the SMs */
	struct rbt_context *last;    /* had them last; NULL: it was destroyed */
	enum dev_leaving leaving;    /* the current one */
	uint64_t now_ns, slice_end_ns;
	uint64_t pass, turns, order;
	uint64_t spent, polled; /* total budget used; at the last poll */
	struct dev_launch *pool;

	struct rbt_device_arrival *arrivals;
	size_t n_arrivals, next_arrival;

	void (*trace)(void *user, uint64_t now_ns, enum rbt_device_event event, uint64_t context,
		uint64_t a, uint64_t b);
	void *trace_user;
	void (*log)(void *user, const char *line);
	void *log_user;

	/* For rbt_device_sleep(), which may run beside everything else. */
	pthread_mutex_t watch_lock;
	struct dev_watch *watches;
	size_t n_watches, watches_room;
	uint64_t wakes, wakes_seen;
};

static inline uint64_t dev_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t dev_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline void dev_trace(const struct rbt_device *dev, uint64_t now_ns,
	enum rbt_device_event event, const struct rbt_context *ctx, uint64_t a, uint64_t b)
{
	if (dev->trace) {
		dev->trace(dev->trace_user, now_ns, event, ctx->id, a, b);
	}
}

/* arena.c */
/* A memfd of that size, sealed, and mapped. 0 or -errno. */
int dev_memfd(const char *name, uint64_t size, int *ret_fd, void **ret_at);
/* An address range of `size` bytes for `memory` bytes of memory. */
int dev_arena_init(struct dev_arena *arena, uint64_t size, uint64_t memory);
void dev_arena_finish(struct dev_arena *arena);
/* Room for `reserved` bytes, a multiple of GPU_ALIGN; align: a power of two. -ENOMEM. */
int dev_arena_take(struct dev_arena *arena, uint64_t reserved, uint64_t align, uint64_t *ret_at);
void dev_arena_give(struct dev_arena *arena, uint64_t at, uint64_t reserved);
/* Gives up the memory of a part, but not its addresses; and takes memory for it again: -ENOMEM. */
void dev_arena_evict(struct dev_arena *arena, uint64_t at, uint64_t reserved);
int dev_arena_admit(struct dev_arena *arena, uint64_t reserved);
void dev_arena_zero(struct dev_arena *arena, uint64_t at, uint64_t size);

/* memory.c */
int dev_memory_alloc(struct rbt_context *ctx, uint64_t size, uint64_t align, bool read_only,
	bool of_module, uint64_t *ret_va);
int dev_memory_free(struct rbt_context *ctx, uint64_t va, bool of_module);
void dev_memory_finish(struct rbt_context *ctx);
/* The current map, with a reference for the caller. NULL: no memory. */
struct dev_map *dev_map_get(struct rbt_context *ctx);
void dev_map_put(struct rbt_context *ctx, struct dev_map *map);
/* The host's address of `size` bytes that are in one window; NULL: they are not. */
uint8_t *dev_map_at(const struct dev_map *map, uint64_t va, uint64_t size);

/* module.c */
struct dev_module *dev_module_find(struct rbt_context *ctx, uint32_t id);
void dev_module_put(struct rbt_context *ctx, struct dev_module *module);
void dev_module_finish(struct rbt_context *ctx);
void dev_flags_set(struct rbt_context *ctx, uint32_t value);

/* channel.c */
/* Reads the next command if there is none; a malformed one kills the context. */
void dev_channel_fetch(struct rbt_context *ctx, uint32_t index);
/* Whether the channel could go on now. */
bool dev_channel_ready(const struct rbt_context *ctx, uint32_t index);
bool dev_channel_enabled(const struct rbt_context *ctx, uint32_t index);
/* The command under way is done, at time_ns. */
void dev_channel_complete(struct rbt_context *ctx, uint32_t index);
/* Kernels in the ring that have not started. */
uint64_t dev_channel_pending(struct rbt_context *ctx, uint32_t index);
void dev_channel_wake(struct gpu_channel *shared);
/* Output for the program, which reads it at any time. */
void dev_print(void *user, const char *text, size_t size);
void dev_complain(void *user, const char *text, size_t size);

/* command.c */
/* Starts the channel's next command. */
void dev_command_start(struct rbt_context *ctx, uint32_t index);
/* transfer.c */
void dev_transfer_start(struct rbt_context *ctx, uint32_t index);
void dev_transfer_go_on(struct rbt_context *ctx, uint32_t index);
void dev_transfer_drop(struct rbt_context *ctx, struct dev_channel *ch);

/* launch.c */
/* A launch for the command in the channel's slot. 0 or an enum gpu_error. */
uint32_t dev_launch_create(struct rbt_context *ctx, uint32_t index, struct dev_launch **ret);
/* todo[0] is under way from now on. 0 or an enum gpu_error. */
uint32_t dev_launch_start(struct rbt_context *ctx, uint32_t index);
/* Its last block has ended. */
void dev_launch_end(struct dev_launch *launch);
/* The launch is no longer under way, and starts again at its first block. Its blocks are off the
 * SMs. */
void dev_launch_rewind(struct dev_launch *launch);
void dev_launch_drop(struct dev_launch *launch);
/* No reset goes back beyond the kernels that have ended by now. */
void dev_channel_commit(struct dev_channel *ch);
void dev_launch_save(struct dev_launch *launch, struct dev_saved *saved);

/* dispatch.c */
/* Puts blocks of the context's launches onto SMs, as many as there is room for. */
void dev_dispatch(struct rbt_context *ctx);
/* Runs the next block of an SM. */
void dev_sm_run(struct rbt_device *dev, uint32_t index);
void dev_sm_remove(struct rbt_device *dev, struct dev_sm *sm, uint32_t slot);
/* How many blocks of the launch fit on an empty SM. */
uint32_t dev_sm_capacity(const struct dev_launch *launch);
bool dev_has_blocks(const struct rbt_device *dev);

/* preempt.c */
/* Takes the SMs from the current context by the device's mechanism, or begins to (leaving).
 * at_once: not because its slice is over. */
void dev_preempt(struct rbt_device *dev, bool at_once);
void dev_preempt_exact(struct rbt_device *dev);
/* Whether the current context has yet to leave. Once it has, its kernels are in a consistent
 * state. */
bool dev_preempt_waits(struct rbt_device *dev);
/* The context has not left in time. */
void dev_preempt_force(struct rbt_device *dev);
/* Drops the blocks of this context's launches, and counts what is lost. */
void dev_preempt_drop(struct rbt_context *ctx);

/* runlist.c */
/* Checks the context's rings; sets has_work and arrived. */
void dev_context_poll(struct rbt_context *ctx);
void dev_poll_all(struct rbt_device *dev);
bool dev_others_wait(const struct rbt_device *dev);
/* Gives the SMs to a context with work; false: there is none. */
bool dev_schedule(struct rbt_device *dev);
/* The current context gives up the SMs; it has no blocks on them. */
void dev_switch_off(struct rbt_device *dev);

/* engine.c */
/* The earliest time at which the current context could go on, and where: a channel, or after them
 * an SM. DEV_NEVER: it cannot. */
uint64_t dev_earliest(const struct rbt_device *dev, uint32_t *ret_where);
void dev_advance(struct rbt_device *dev);
/* Sets the clock when nothing is under way any more. */
void dev_clock_catch_up(struct rbt_device *dev);

/* context.c */
void dev_context_die(struct rbt_context *ctx, uint32_t error);
void dev_log(struct rbt_device *dev, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* sleep.c */
void dev_watch_all(struct rbt_device *dev);
void dev_watch_forget(struct rbt_device *dev, const struct rbt_context *ctx);

/* replay.c */
/* Applies arrivals up to `time_ns`; false: there were none. */
bool dev_replay_until(struct rbt_device *dev, uint64_t time_ns);
static inline bool dev_replaying(const struct rbt_device *dev)
{
	return dev->next_arrival < dev->n_arrivals;
}
void dev_replay_forget(struct rbt_device *dev, const struct rbt_context *ctx);

#endif
