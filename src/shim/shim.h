/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library that `rubato run` preloads. It watches the program's ioctls to the driver, keeps a
 * table of the program's objects on each GPU, and tells the daemon. Without a daemon it sets the
 * program's own timeslices as far as one program alone may.
 *
 * It runs inside other people's processes. Everything happens after the driver has done the
 * program's call, on the program's own thread; nothing blocks, nothing is queued, no argument or
 * result is changed. Whatever goes wrong, the program's calls go through.
 *
 * Three answers are not the driver's own, because users ask for them:
 *   - While a policy that users have loaded refuses a task's first run, GPFIFO_SCHEDULE is answered
 *     with NV_ERR_BUSY_RETRY (gate.c).
 *   - An allocation beyond the program's memory limit is answered with NV_ERR_NO_MEMORY (memory.c).
 *   - cuMemGetInfo and cuDeviceTotalMem tell the limit, if it is less than the GPU has (wrap.c).
 *
 * The table is accessed only between shim_enter() and shim_leave().
 */
#ifndef RBT_SHIM_SHIM_H
#define RBT_SHIM_SHIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/nvidia/rm_abi.h"
#include "board/layout.h"
#include "proto/encode.h"
#include "shim/heal.h"
#include "shim/kfd.h"
#include "shim/memory.h"
#include "shim/spawn.h"
#include "shim/sys.h"

/* A program has some 30 objects per CUDA context. Objects beyond the limit are not recorded
 * (shim.lossy). */
#define SHIM_MAX_OBJS  8192
#define SHIM_HASH_SIZE 4096
#define SHIM_MAX_LATE  256
#define SHIM_LOOK_NS   500000000ull

/* Each kind has parents of one kind only, so that the tree is four deep at most:
 * client > device > subdevice, and client > device > task > channel. */
enum shim_type { SHIM_FREE, SHIM_CLIENT, SHIM_DEVICE, SHIM_SUBDEVICE, SHIM_TASK, SHIM_CHANNEL };

struct shim_client {
	struct shim_fd file; /* the program's device file: borrowed, never closed by us */
	bool dirty;          /* changed since the daemon was told */
	bool told;           /* the daemon has a record of it */
	bool freed;          /* gone; kept until the daemon has been told */
};

enum shim_gpu_state { SHIM_GPU_UNASKED, SHIM_GPU_KNOWN, SHIM_GPU_UNKNOWN };

struct shim_device {
	uint32_t gpu; /* minor number */
	enum shim_gpu_state state;
};

struct shim_task {
	uint32_t kind, runlist, id, creator_tid;
	uint32_t valid; /* RBT_TASK_HAS_*, except HAS_GPU, which is the device's */
	bool scheduled;
	bool reported; /* named in its client's record, from now on until it is freed */
	bool asked_id;
	uint8_t gate;        /* its place at the gate, from 1 on; 0: none */
	uint64_t own_us;     /* what the program and its driver chose */
	uint64_t applied_us; /* the slice in the driver; 0: another process may have changed it */
};

struct shim_obj {
	uint64_t serial; /* order of recording */
	uint32_t client, handle;
	uint32_t hclass;
	uint16_t hash_next, parent, child, sibling;
	uint16_t type_next; /* clients and tasks */
	uint16_t type;      /* enum shim_type */
	union {
		struct shim_client c;
		struct shim_device d;
		struct shim_task t;
	};
};

enum shim_event_type {
	EV_NONE,
	EV_ALLOC,
	EV_FREE,
	EV_SCHEDULE,
	EV_TIMESLICE,
	EV_TOKEN,
	/* AMD: only `queue` is used */
	EV_QUEUE_MADE,
	EV_QUEUE_SET,
	EV_QUEUE_GONE,
	EV_QUEUES_LEFT, /* queues are not followed any more */
};

/* What one of the program's calls says. */
struct shim_event {
	enum shim_event_type type;
	int fd;
	uint32_t tid;
	uint32_t client, parent, object, hclass;
	uint64_t params;        /* address of the value, 0: none */
	uint64_t value;         /* engine type, enable, microseconds, token */
	uint64_t serial_before; /* the table's serial when the call began */
	uint64_t serial;        /* its serial at the end, if it was recorded late; else 0 */
	struct shim_queue_event queue;
};

/* The event of a thread that found the lock taken. The next thread with the lock records it. */
struct shim_late {
	_Atomic uint32_t state; /* enum in late.c */
	struct shim_event ev;
};

/* gate.c: compute tasks that were never scheduled. Written under the lock, read without it. */
struct shim_gate {
	_Atomic uint32_t n;
	_Atomic uint64_t tasks[RBT_BOARD_GATES];    /* as on the board */
	_Atomic uint64_t since_ns[RBT_BOARD_GATES]; /* the first attempt to schedule it; 0: none */
	_Atomic uint32_t driver;                    /* enum in gate.c */
};

enum shim_driver { SHIM_DRIVER_UNASKED, SHIM_DRIVER_KNOWN, SHIM_DRIVER_UNKNOWN };

/* One per process; empty in a forked child (see state.c). */
struct shim {
	_Atomic uint32_t lock_tid; /* the thread that has the lock; 0: free */
	_Atomic int32_t pid;       /* the process of this table; 0: not entered yet */
	uint32_t fork_tid;         /* has the lock across a fork */
	_Atomic bool lossy;        /* an object was not recorded: the table is incomplete */
	_Atomic uint64_t serial;
	_Atomic uint64_t next_due_ns; /* when the next 'F' ioctl, of any kind, has work to do */
	uint64_t next_connect_ns;
	struct shim_heal heal;
	bool touched; /* changed since act_on_changes() last ran */
	bool lossy_told;
	bool board_told; /* the daemon has the board of this connection */
	bool run_told;   /* and knows to which run this process belongs */
	enum shim_driver driver;
	bool said; /* has printed why the slices stay unchanged */

	struct shim_gate gate;
	_Atomic int32_t n_late;
	struct shim_late late[SHIM_MAX_LATE];

	uint16_t n_used, first_free; /* objs[1 .. n_used] have been used */
	uint16_t first[SHIM_CHANNEL + 1];
	uint16_t hash[SHIM_HASH_SIZE];
	struct shim_obj objs[SHIM_MAX_OBJS + 1]; /* 0 stands for none */
	_Alignas(struct rbt_task) unsigned char message[RBT_RECORD_MSG_MAX];
	struct shim_kfd kfd;
	struct shim_spawn spawn;
	struct shim_memory memory;
};

/* CUDA_DEVICE_MEMORY_LIMIT_0 and so on. */
#define SHIM_GPU_LIMITS 16

/* From the environment, read once. */
struct shim_config {
	bool active; /* a program started by `rubato run` */
	bool no_daemon;
	bool expects_gate; /* the daemon is expected to say whether new tasks may run */
	struct rbt_treatment treat;
	char run[RBT_RUN_NAME_MAX];     /* the run that its processes share; empty: none */
	struct rbt_program_guest guest; /* an empty vm: it is no worker */
	bool has_gpu_limits;
	uint64_t gpu_limits[SHIM_GPU_LIMITS]; /* memory of single GPUs; 0: none */
	uint64_t loaded_ns;                   /* when this was read: after any exec */
	uint64_t wanted_us;                   /* the slice asked for; 0: the driver's own */
	char socket[108];                     /* empty: none */
	char ignored[RBT_TREAT_WHY_MAX]; /* the first mistake in the environment; empty: none */
};
extern struct shim_config shim_config;

/* Files that must be closed in a forked child, and therefore must not be wiped with the table. */
struct shim_owned {
	bool any; /* a file below was opened, by this process or by its parent before the fork */
	struct shim_fd sock;
	struct shim_fd locks[NV_MAX_GPUS];
	struct shim_fd marks[NV_MAX_GPUS]; /* if another process has the lock */
	struct shim_fd kfd;                /* a copy of the program's, for the agent */
	bool kfd_is_low;                   /* our copy took one of the low numbers */
	struct shim_fd link;               /* the agent's end of its socket to the hand */
	struct shim_fd ledger;             /* for the next daemon, if this one dies */
};
extern struct shim_owned shim_owned;

/* state.c */
struct shim_guard {
	struct shim *s;
	uint64_t old_mask;
};

/* The table without its lock; NULL: there is none. For the atomic members only. */
struct shim *shim_peek(void);

/* Whether the kernel empties the table in a forked child. */
bool shim_is_wiped_on_fork(void);

/*
 * Takes the lock, with signals blocked. The lock is held only if it returns 0:
 *   -EBUSY  another thread has it, or this thread, which was interrupted (g->s is set)
 *   -EPERM  the library is not active, or this is a vfork child in its parent's memory
 */
int shim_enter(struct shim_guard *g);
void shim_leave(struct shim_guard *g);

/* Empties the table and closes our files: in a child after fork, and between the inputs of a
 * fuzzer. */
void shim_reset(void);

/* table.c: objects are found by client and handle; a client is its own object. */
struct shim_obj *shim_find(struct shim *s, uint32_t client, uint32_t handle);
struct shim_obj *shim_find_type(
	struct shim *s, uint32_t client, uint32_t handle, enum shim_type type);

/* NULL: the table is full, or the parent has this handle. Another object with this handle, whose
 * end was missed, is removed first. */
struct shim_obj *shim_add(struct shim *s, enum shim_type type, uint32_t client, uint32_t handle,
	struct shim_obj *parent);

/* Removes an object with everything below it. */
void shim_remove(struct shim *s, struct shim_obj *obj);
void shim_remove_children(struct shim *s, struct shim_obj *obj);

static inline struct shim_obj *shim_at(struct shim *s, uint16_t index)
{
	return index == 0 ? NULL : &s->objs[index];
}

/* Clients and tasks only. */
static inline struct shim_obj *shim_first(struct shim *s, enum shim_type type)
{
	return shim_at(s, s->first[type]);
}

static inline struct shim_obj *shim_next(struct shim *s, const struct shim_obj *obj)
{
	return shim_at(s, obj->type_next);
}

/* query.c: the shim's own queries to the driver, while a context is made, on the program's device
 * file. */

/* 0, or -errno with RM's status (or 0) in *ret_status. */
int shim_control(const struct shim_obj *client, uint32_t object, uint32_t cmd, void *params,
	uint32_t params_size, uint32_t *ret_status);

struct shim_obj *shim_client_of(struct shim *s, const struct shim_obj *obj);

/* The subdevice beside a task; NULL: the program made none. */
struct shim_obj *shim_subdevice_of(struct shim *s, const struct shim_obj *task);

/* Learns a task's GPU and its id there, once. */
void shim_identify(struct shim *s, struct shim_obj *task);

/* Whether the task's GPU is known, and its minor number. */
bool shim_gpu_of(struct shim *s, const struct shim_obj *task, uint32_t *ret_gpu);

/* late.c */

/* Leaves the event to the next thread with the lock; false: there is no room. */
bool shim_late_put(struct shim *s, const struct shim_event *ev);

/* Takes the oldest event, under the lock; false: there is none. */
bool shim_late_take(struct shim *s, struct shim_event *ret);

/* gate.c */

/* A compute task was made, and the daemon is about to be told. There may be no room for it: then
 * it is not asked about. */
void shim_gate_ask(struct shim *s, struct shim_obj *task);
/* The task is scheduled, or is about to be removed. */
void shim_gate_end(struct shim *s, struct shim_obj *task);
/* The board's memory is new. */
void shim_gate_publish(struct shim *s);

/* Without the lock, before a call of the program: whether the gate holds it back. Then the call is
 * answered, and must not be made. May change errno. */
bool shim_gate_holds(int fd, unsigned long request, void *arg);

/* observe.c: passes one 'F' ioctl to the driver, and learns from it. */
int rbt_shim_call(int fd, unsigned long request, void *arg);

/* Records what a call has said, now or later by the thread that has the lock, and does what is due.
 * s is the table as it was before the call, or NULL. */
void shim_record(struct shim_event *ev, const struct shim *s);

/* Under the lock: records the events that other threads have left, and does what is due. */
void shim_take_in(struct shim *s, uint64_t now_ns);

/* send.c */
enum shim_daemon {
	SHIM_DAEMON_NONE, /* no daemon */
	SHIM_DAEMON_BUSY, /* there is a daemon, but not everything is sent yet */
	SHIM_DAEMON_UP,
};
enum shim_daemon shim_tell_daemon(struct shim *s, uint64_t now_ns);
/* Whether the daemon is about to send the run's ledger. A daemon that does not know ledgers sends
 * none, so this is not for long. */
bool shim_awaits_ledger(const struct shim *s, uint64_t now_ns);

/* apply.c */

/* Sets the program's slices to what it may have without a daemon. */
void shim_apply_alone(struct shim *s);

/* Restores the program's own slices, then gives up the GPUs' locks. */
void shim_apply_withdraw(struct shim *s);

#endif
