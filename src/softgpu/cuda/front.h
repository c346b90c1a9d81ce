/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front: the CUDA driver interface on the software GPU. This header is shared by its files;
 * cuda/abi.h has the interface's types, cuda/api.h its calls, device/abi.h the shared memory.
 *
 *   link.c              the connection to the device server; requests
 *   rm.c                libcuda's dialogue with /dev/nvidiactl
 *   ring.c              commands into a channel's ring; waiting for them
 *   op.c                operations of streams and graphs: kernels, copies, fills, host functions
 *   the rest            one file per chapter of the interface
 *
 * Locks, outermost first: front.lock, a context's, a channel's two, a connection's. None is held
 * while a callback of the program runs.
 *
 * Handles are objects of a pool that is never freed (pool.c): so a destroyed object can be
 * distinguished from a live one.
 */
#ifndef RBT_SOFTGPU_CUDA_FRONT_H
#define RBT_SOFTGPU_CUDA_FRONT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "cuda/abi.h"
#include "cuda/api.h"
#include "softgpu/cuda/rm.h"
#include "softgpu/cuda/table.h"
#include "softgpu/device/abi.h"
#include "softgpu/ptx/ptx.h"

#define FRONT_MAX_DEVICES       32
#define FRONT_STATIC_MAX        (48u << 10) /* shared memory of a block, unless more is requested */
#define FRONT_PRIORITY_LEAST    0
#define FRONT_PRIORITY_GREATEST (-5)
#define FRONT_LOG_PREFIX        "libcuda (software GPU): "

/* The first member of every object that the program holds. */
enum front_kind {
	FRONT_NONE = 0,
	FRONT_CONTEXT = 0x52554301,
	FRONT_STREAM,
	FRONT_EVENT,
	FRONT_MODULE,
	FRONT_FUNCTION,
	FRONT_LIBRARY,
	FRONT_KERNEL,
	FRONT_LINK_STATE,
	FRONT_GRAPH,
	FRONT_NODE,
	FRONT_EXEC,
	FRONT_POOL,
	FRONT_RESOURCE,
	FRONT_GREEN,
};
struct front_head {
	uint32_t kind;
};

/* Zeroed, with its kind set; NULL: no memory. */
void *front_pool_take(enum front_kind kind, size_t size);
void front_pool_give(void *object, size_t size); /* accepts NULL */
static inline bool front_is(const void *object, enum front_kind kind)
{
	return object != NULL && (uintptr_t)object % sizeof(uint64_t) == 0 &&
	       *(const uint32_t *)object == (uint32_t)kind;
}

/* One GPU, and the connection to its server. Lives as long as the process. */
struct front_device {
	int ordinal;
	struct front_card card;
	int sock;
	_Atomic bool lost;        /* the server has ended; for good */
	_Atomic uint64_t seen_ns; /* when the server was last known to run */
	pthread_mutex_t lock;     /* one request at a time */
	uint64_t cookie;
	uint32_t n_sms;
	uint64_t memory_bytes, arena_bytes;
	uint8_t *arena;
	struct gpu_bell *bell;
	struct front_table table; /* device memory; under front.lock */
	/* The primary context; under front.lock. */
	struct front_context *primary;
	unsigned primary_refs, primary_flags;
	struct front_pool *default_pool, *pool;
};

struct front_host_part {
	struct front_host_part *next;
	uint64_t number; /* of its command */
	struct front_stream *stream;
	CUhostFn fn;
	CUstreamCallback callback;
	void *user;
	struct front_copy *copy; /* a copy in stream order that only the host can make */
};

/* A ring, and the thread that runs its host parts. */
struct front_channel {
	pthread_mutex_t lock;
	struct gpu_channel *ring;
	uint64_t wptr;               /* under the lock */
	uint64_t n_host;             /* under the lock */
	_Atomic uint64_t n_commands; /* submitted */
	_Atomic uint64_t n_blocking; /* the last command that the legacy stream waits for */
	unsigned n_streams;          /* under the context's lock */
	/* host.c. A lock of its own: a thread that submits may hold the other one until the ring
	 * has room, and the ring may wait for a host part. */
	pthread_mutex_t host_lock;
	struct front_host_part *first, **last;
	pthread_cond_t changed;
	pthread_t thread;
	bool has_thread, stop;
};

struct front_capture; /* capture.c */

struct front_stream {
	uint32_t kind;
	unsigned flags;
	int priority;
	struct front_context *ctx;
	unsigned channel;
	bool is_legacy;
	_Atomic int owner;               /* a thread's default stream: its thread; 0: free */
	_Atomic uint64_t last;           /* its last command's number */
	uint64_t seen[GPU_MAX_CHANNELS]; /* under the channel's lock: commands waited for already */
	uint64_t id;
	struct front_capture *_Atomic capture; /* capture.c */
	LIST_ENTRY(front_stream) next;
};

#define FRONT_NO_SLOT UINT32_MAX

/* Under its context's lock. */
struct front_event {
	uint32_t kind;
	unsigned flags;
	struct front_context *ctx;
	bool recorded;
	unsigned channel;
	uint64_t number; /* done when this command is */
	uint32_t slot;   /* of its time stamp, or FRONT_NO_SLOT */
	/* Recorded in a capture: which one, and after which nodes. */
	uint64_t capture_id;
	struct front_node **nodes;
	size_t n_nodes;
	LIST_ENTRY(front_event) next;
};

struct front_function {
	uint32_t kind;
	struct front_module *module;
	const struct rbt_ptx_function *ptx;
	uint32_t index;
	uint32_t max_dynamic; /* bytes of shared memory */
	int carveout;
	struct front_kernel *kernel; /* or NULL */
};

struct front_module {
	uint32_t kind;
	struct front_context *ctx;
	struct rbt_ptx_module *ptx;
	uint32_t number;
	uint64_t *addresses;               /* of variables */
	struct front_function **functions; /* one for each of the PTX's */
	struct front_library *library;     /* or NULL */
	LIST_ENTRY(front_module) next;
};

/* An action to be done after a command; under the context's lock. */
struct front_deferred {
	LIST_ENTRY(front_deferred) next;
	unsigned channel;
	uint64_t number;
	CUdeviceptr free; /* memory to free, or 0: */
	uint32_t slot;    /* a stamp's slot to give back */
};

struct front_context {
	uint32_t kind;
	unsigned flags;
	struct front_device *dev;
	_Atomic bool alive;
	bool is_primary;
	uint64_t id;
	uint32_t number; /* the server's */
	struct gpu_room *room;
	struct front_rm_context rm;
	struct front_channel channels[GPU_MAX_CHANNELS];
	pthread_mutex_t lock;
	struct front_stream legacy;
	LIST_HEAD(, front_stream) streams; /* the legacy one is not in it */
	LIST_HEAD(, front_event) events;
	LIST_HEAD(, front_module) modules;
	LIST_HEAD(, front_deferred) deferred;
	uint64_t slots_used[GPU_MAX_EVENTS / 64];
	uint64_t memory_bytes; /* of RM's objects: see rm.h */
	size_t limits[CU_LIMIT_MAX];
	int cache_config, shared_config;
	pthread_mutex_t print_lock;
	struct front_context *next; /* front.contexts */
};

/* The process. */
struct front {
	pthread_mutex_t lock;
	_Atomic int state; /* enum front_state */
	int n_devices;
	struct front_device devices[FRONT_MAX_DEVICES];
	struct front_rm rm;
	struct front_table host; /* memory of the host that the driver knows */
	struct front_context *contexts;
	_Atomic uint64_t next_id;
};
enum front_state { FRONT_COLD, FRONT_READY, FRONT_FORKED };
extern struct front front;

/* init.c: the checks at the begin of nearly every call. */
CUresult front_check_init(void);
CUresult front_check_device(CUdevice device, struct front_device **ret);
/* The current context, which must be alive and without an error. */
CUresult front_enter(struct front_context **ret);
/* Whether that context, which may be an old handle, can be used: not destroyed, no error, with a
 * device. */
CUresult front_check_context(struct front_context *ctx);
/* Waits while the process is locked by another one (checkpoint.c). */
void front_wait_unheld(struct front_context *ctx);
/* The same, and no lock is complete before the end: around accesses of this thread to device
 * memory. */
void front_touch_begin(struct front_context *ctx);
void front_touch_end(struct front_context *ctx);
CUresult front_from_errno(int error); /* negative errno */
void __attribute__((format(printf, 1, 2))) front_say(const char *fmt, ...);

/* link.c. All return 0 or -errno; -ENODEV: the server has ended. */
int front_link_open(struct front_device *dev);
void front_link_forked(struct front_device *dev);
bool front_link_is_lost(struct front_device *dev);   /* asks at most every 50 ms */
bool front_link_check_now(struct front_device *dev); /* asks: is it lost? */
struct gpu_reply;
int front_link_context(struct front_context *ctx, const struct front_rm_context *rm);
int front_link_context_end(struct front_context *ctx);
int front_link_alloc(struct front_context *ctx, uint64_t size, CUdeviceptr *ret);
int front_link_pin(struct front_context *ctx, uint64_t size, void *address);
int front_link_share(
	struct front_context *ctx, uint64_t address, uint64_t size, int fd, uint64_t offset);
int front_link_free(struct front_context *ctx, CUdeviceptr address);
/* `error`, of `room` bytes, gets a line on failure. */
int front_link_load(struct front_context *ctx, const char *text, size_t size, uint32_t *ret_module,
	uint64_t *ret_addresses, size_t n_addresses, char *error, size_t room);
int front_link_unload(struct front_context *ctx, uint32_t module);
int front_link_memory(struct front_context *ctx, uint64_t *ret_free);
/* One checkpoint call on a connection of its own: *ret_result is a CUresult. */
struct gpu_process;
int front_link_process(struct gpu_process *m, uint32_t *ret_result, uint32_t *ret_state);

/* world.c, which tests replace. Returns a connected socket to the session's server, or -errno. */
int front_world_connect(void);

/* ring.c */
/* Writes a command, one slot and the bytes that follow it, into the stream's ring, after the
 * commands that must come first in the stream's order. */
CUresult front_submit(struct front_stream *s, const void *slot, const void *more, size_t size,
	uint64_t *ret_number);
/* The same, and the host part that ends it. Takes ownership of `part`. */
CUresult front_submit_host(struct front_stream *s, struct front_host_part *part);
/* Makes the stream wait for a command of another channel. */
CUresult front_submit_wait(struct front_stream *s, unsigned channel, uint64_t number);
/* Emits the waits that the stream's order demands of its next command. */
CUresult front_submit_order(struct front_stream *s);
bool front_is_done(struct front_context *ctx, unsigned channel, uint64_t number);
CUresult front_wait(struct front_context *ctx, unsigned channel, uint64_t number);
/* For all that the stream's next command would wait for. */
CUresult front_wait_stream(struct front_stream *s);
bool front_stream_is_idle(struct front_stream *s);
CUresult front_wait_context(struct front_context *ctx);
void front_ring_bell(struct front_device *dev);

/* host.c */
void front_host_queue(struct front_channel *ch, struct front_host_part *part);
CUresult front_host_start(struct front_context *ctx, unsigned channel);
void front_host_stop(struct front_context *ctx);

/* print.c: what kernels printed, to standard output. */
void front_print_drain(struct front_context *ctx);

/* defer.c */
CUresult front_defer(struct front_context *ctx, struct front_deferred *d); /* copies *d */
void front_defer_reap(struct front_context *ctx);

/* context.c */
CUresult front_context_create(struct front_device *dev, unsigned flags, struct front_context *ctx);
void front_context_destroy(struct front_context *ctx);
struct front_context *front_current(void); /* or NULL; maybe destroyed */
/* INVALID_CONTEXT: there is none; CONTEXT_IS_DESTROYED: it has been. */
CUresult front_current_get(struct front_context **ret);
CUresult front_push(struct front_context *ctx);
void front_forget_current(struct front_context *ctx);

/* stream.c */
/* NULL, legacy, per-thread, or a handle; of the context when it is one of the first three. */
CUresult front_stream_get(struct front_context *ctx, CUstream handle, struct front_stream **ret);
/* The priority is brought into its range. */
CUresult front_stream_create(
	struct front_context *ctx, unsigned flags, int priority, CUstream *ret);
/* Both steps at once: the current context, then its stream (or another context's). */
CUresult front_enter_stream(CUstream handle, struct front_stream **ret);
void front_stream_init(struct front_context *ctx, struct front_stream *s, unsigned channel);
void front_streams_destroy(struct front_context *ctx);

/* event.c */
void front_events_destroy(struct front_context *ctx);
CUresult front_event_record(struct front_stream *s, struct front_event *event);
CUresult front_event_wait(struct front_stream *s, struct front_event *event);

/* memory.c */
/* share.c: makes memory of the program reachable for kernels, if it is a mapping of a memfd that
 * cannot shrink and is open in this process; false: it is not. */
bool front_share(struct front_context *ctx, uint64_t address, uint64_t size);
void front_unshare(struct front_context *ctx, uint64_t address, uint64_t size);

enum front_place_kind { FRONT_PAGEABLE, FRONT_DEVICE, FRONT_PINNED };
struct front_place {
	enum front_place_kind kind;
	struct front_context *owner; /* of device and pinned memory */
	uint64_t address;
};
/* Where `size` bytes at an address are. INVALID_VALUE: an address of device memory that is not
 * allocated that far. */
CUresult front_place_find(
	struct front_context *ctx, uint64_t address, uint64_t size, struct front_place *ret);
/* The host's address for that place. */
void *front_place_host(const struct front_device *dev, const struct front_place *place);
bool front_entry_find(struct front_context *ctx, uint64_t address, struct front_entry *ret);
CUresult front_memory_add(struct front_context *ctx, uint64_t base, uint64_t size, unsigned kind);
void front_memory_remove(struct front_context *ctx, uint64_t base);
CUresult front_memory_free(struct front_context *ctx, uint64_t base);
void front_memory_destroy(struct front_context *ctx);

/* host_memory.c: the size of the mapping behind host memory of a kind. */
size_t front_host_span(unsigned kind, size_t size);

/* op.c */
struct front_copy {
	uint64_t to, from;
	uint64_t width, height, depth;                   /* bytes, rows, slices */
	uint64_t to_pitch, from_pitch;                   /* bytes from row to row */
	uint64_t to_slice, from_slice;                   /* and from slice to slice */
	struct front_context *to_context, *from_context; /* NULL: the stream's */
	bool to_device, from_device; /* said to be the device's: ordinary memory is refused */
};

enum front_op_kind {
	FRONT_OP_EMPTY,
	FRONT_OP_KERNEL,
	FRONT_OP_COPY,
	FRONT_OP_FILL,
	FRONT_OP_HOST,
	FRONT_OP_RECORD,
	FRONT_OP_WAIT,
	FRONT_OP_GRAPH,
};

struct front_launch {
	struct front_function *function;
	uint32_t grid[3], block[3];
	uint32_t shared, flags;
	uint32_t param_size;
	const void *params; /* packed */
};

/* Whether the function is still the one that the operation was made for. */
bool front_launch_is_good(const struct front_launch *launch);

struct front_fill {
	uint64_t to, width, height, pitch;
	uint32_t value, element;
};

struct front_op {
	enum front_op_kind kind;
	union {
		struct front_launch launch;
		struct front_copy copy;
		struct front_fill fill;
		struct {
			CUhostFn fn;
			CUstreamCallback callback;
			void *user;
		} host;
		struct front_event *event;
		struct front_graph *graph;
	};
};

/* Now, or into the graph that the stream captures. */
CUresult front_do(struct front_stream *s, const struct front_op *op);
/* The same for a graph's node. */
CUresult front_do_node(struct front_stream *s, const struct front_op *op);
/* Now. Graph nodes may not wait in the calling thread: is_node. */
CUresult front_op_run(struct front_stream *s, const struct front_op *op, bool is_node);
/* Checks addresses and sizes; INVALID_VALUE. */
CUresult front_copy_check(struct front_context *ctx, const struct front_copy *copy);
/* Moves the bytes, in the calling thread, in no order with anything. */
CUresult front_copy_now(struct front_context *ctx, const struct front_copy *copy);
CUresult front_copy_from_3d(const struct CUDA_MEMCPY3D *p, struct front_copy *ret);
CUresult front_fill_check(struct front_context *ctx, const struct front_fill *fill);

/* launch.c */
struct front_function *front_function_of(struct front_context *ctx, CUfunction handle);
CUresult front_launch_check(struct front_context *ctx, const struct front_launch *launch);
/* Packs the parameters of either form; `buffer` has GPU_MAX_PARAMS bytes. */
CUresult front_params_pack(
	const struct rbt_ptx_function *ptx, void **params, void **extra, void *buffer);
uint32_t front_occupancy(const struct rbt_ptx_function *ptx, uint32_t threads, uint64_t dynamic);

/* module.c */
struct front_jit {
	char *error_log;
	size_t error_room;
	char *info_log;
	size_t info_room;
	unsigned n_options;
	const int *options;
	void **values;
};
CUresult front_jit_parse(
	unsigned n_options, const int *options, void **values, struct front_jit *ret);
/* An image, as programs give it: PTX text that ends with a NUL; *ret_size without it. */
CUresult front_image_check(const char *call, const void *image, size_t *ret_size);
CUresult front_module_load(struct front_context *ctx, const char *call, const char *text,
	size_t size, const struct front_jit *jit, struct front_module **ret);
void front_module_unload(struct front_module *module);
CUresult front_read_file(const char *path, char **ret_text, size_t *ret_size);
CUresult front_function_attribute(const struct front_function *f, int attribute, int *ret);
CUresult front_function_set(struct front_function *f, int attribute, int value);
CUresult front_module_global(
	struct front_module *module, const char *name, CUdeviceptr *ret, size_t *ret_size);
/* By name, among the entries; NULL. */
struct front_function *front_module_find(struct front_module *module, const char *name);

/* library.c: the function of a kernel in a context, loading the library there if need be. */
CUresult front_kernel_function(
	struct front_context *ctx, struct front_kernel *kernel, struct front_function **ret);
void front_library_forget(struct front_module *module);

/* capture.c */
/* The stream captures: *ret_captured, and the operation has become a node, or why not. */
CUresult front_capture_op(struct front_stream *s, const struct front_op *op, bool *ret_captured);
/* For calls that a capture forbids: on this stream, or by this thread. */
CUresult front_capture_refuse(struct front_stream *s);
CUresult front_capture_refuse_thread(void);
/* For calls that wait for an event, or query it: an event of a capture is refused. */
CUresult front_capture_refuse_event(const struct front_event *event);
void front_capture_drop(struct front_stream *s);

#endif
