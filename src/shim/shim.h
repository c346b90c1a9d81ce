/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library that `rubato run` preloads: it watches the driver's ioctls as they pass, keeps a
 * table of what the program has on which GPU, and tells the daemon, or, where there is none, sets
 * the program's own timeslices as far as one program alone may.
 *
 * It lives in strangers' processes. Everything here happens after the driver has done the program's
 * call, on the program's own thread; nothing blocks, nothing is queued, no argument or result is
 * changed. Whatever goes wrong, the program's calls go through.
 *
 * All of the table is touched between shim_enter() and shim_leave() only.
 */
#ifndef RBT_SHIM_SHIM_H
#define RBT_SHIM_SHIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/nvidia/rm_abi.h"
#include "proto/encode.h"
#include "shim/kfd.h"
#include "shim/sys.h"

/* A program has some 30 objects a CUDA context. What does not fit is not recorded (shim.lossy). */
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
	uint32_t valid; /* RBT_TASK_HAS_*, but for HAS_GPU, which is the device's */
	bool scheduled;
	bool asked_id;
	uint64_t own_us;     /* what the program and its driver chose */
	uint64_t applied_us; /* what the driver has now; 0 when somebody else may have changed it */
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
	/* AMD's, from here on: `queue` alone says what */
	EV_QUEUE_MADE,
	EV_QUEUE_SET,
	EV_QUEUE_GONE,
};

/* What one of the program's calls says. */
struct shim_event {
	enum shim_event_type type;
	int fd;
	uint32_t tid;
	uint32_t client, parent, object, hclass;
	uint64_t params;        /* where the value is to be read, 0 if nowhere */
	uint64_t value;         /* engine type, enable, microseconds, token */
	uint64_t serial_before; /* the table's when the call began */
	uint64_t serial;        /* when it had ended, if it could not be recorded then; else 0 */
	struct shim_queue_event queue;
};

/* The news of a thread that found the lock taken: recorded by whoever has it next. */
struct shim_late {
	_Atomic uint32_t state; /* enum in late.c */
	struct shim_event ev;
};

enum shim_driver { SHIM_DRIVER_UNASKED, SHIM_DRIVER_KNOWN, SHIM_DRIVER_UNKNOWN };

/* One a process, and empty in a forked child (see state.c). */
struct shim {
	_Atomic uint32_t lock_tid; /* holder; 0 when free */
	_Atomic int32_t pid;       /* whose table this is; 0 until first entered */
	uint32_t fork_tid;         /* holds the lock across a fork */
	_Atomic bool lossy; /* something was not recorded: the table is not the whole truth */
	_Atomic uint64_t serial;
	_Atomic uint64_t next_look_ns; /* when the next 'F' ioctl, whatever it is, has work to do */
	uint64_t next_connect_ns;
	bool touched; /* since last settled */
	bool lossy_told;
	bool board_told; /* the daemon has the board of this connection */
	enum shim_driver driver;
	bool said; /* why the slices stay as they are */

	_Atomic int32_t n_late;
	struct shim_late late[SHIM_MAX_LATE];

	uint16_t n_used, first_free; /* objs[1 .. n_used] have been in use */
	uint16_t first[SHIM_CHANNEL + 1];
	uint16_t hash[SHIM_HASH_SIZE];
	struct shim_obj objs[SHIM_MAX_OBJS + 1]; /* 0 stands for none */
	_Alignas(struct rbt_task) unsigned char message[RBT_RECORD_MSG_MAX];
	struct shim_kfd kfd;
};

/* From the environment, read once. */
struct shim_config {
	bool active; /* a program started by `rubato run` */
	bool no_daemon;
	struct rbt_treatment treat;
	uint64_t loaded_ns;              /* when this was read: after any exec */
	uint64_t wanted_us;              /* the slice asked for; 0: the driver's own */
	char socket[108];                /* empty: none */
	char ignored[RBT_TREAT_WHY_MAX]; /* the first mistake in the environment; empty: none */
};
extern struct shim_config shim_config;

/* What has to be closed in a forked child, and so must not be wiped with the table. */
struct shim_owned {
	bool any; /* something below was opened, by this process or the one it was forked from */
	struct shim_fd sock;
	struct shim_fd locks[NV_MAX_GPUS];
	struct shim_fd marks[NV_MAX_GPUS]; /* where another has the lock */
	struct shim_fd kfd;                /* a copy of the program's, for the agent */
	bool kfd_is_low;                   /* ours, and one of the program's few numbers */
	struct shim_fd link;               /* the agent's end of its way to the hand */
};
extern struct shim_owned shim_owned;

/* state.c */
struct shim_guard {
	struct shim *s;
	uint64_t old_mask;
};

/* The table without its lock; NULL when there is none. For the atomic members only. */
struct shim *shim_peek(void);

/*
 * Takes the lock, with signals blocked. Nothing is held unless it answers 0:
 *   -EBUSY  another thread has it, or this one, which was interrupted (g->s is set)
 *   -EPERM  the library is not wanted here, or this is a vfork child in its parent's memory
 */
int shim_enter(struct shim_guard *g);
void shim_leave(struct shim_guard *g);

/* Forgets the table and closes what is ours. In a child after
 * fork; between the inputs of a fuzzer. */
void shim_reset(void);

/* table.c: objects are found by client and handle; a client is its own object. */
struct shim_obj *shim_find(struct shim *s, uint32_t client, uint32_t handle);
struct shim_obj *shim_find_type(
	struct shim *s, uint32_t client, uint32_t handle, enum shim_type type);

/* NULL when the table is full, or the parent itself is so called. Another object of that name,
 * whose end was missed, is removed first. */
struct shim_obj *shim_add(struct shim *s, enum shim_type type, uint32_t client, uint32_t handle,
	struct shim_obj *parent);

/* With everything below it. */
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

/* query.c: the shim's own questions to the driver, while a context is made, on the program's device
 * file. */

/* 0, or -errno with RM's verdict (or 0) in *ret_status. */
int shim_control(const struct shim_obj *client, uint32_t object, uint32_t cmd, void *params,
	uint32_t params_size, uint32_t *ret_status);

struct shim_obj *shim_client_of(struct shim *s, const struct shim_obj *obj);

/* The subdevice beside a task, NULL when the program made none. */
struct shim_obj *shim_subdevice_of(struct shim *s, const struct shim_obj *task);

/* Learns which GPU a task is on and its id there, once. */
void shim_identify(struct shim *s, struct shim_obj *task);

/* Whether the task's GPU is known, and its minor number. */
bool shim_gpu_of(struct shim *s, const struct shim_obj *task, uint32_t *ret_gpu);

/* late.c */

/* Leaves the event to whoever has the lock next; false when there is no room. */
bool shim_late_put(struct shim *s, const struct shim_event *ev);

/* Takes the oldest, under the lock; false when there is none. */
bool shim_late_take(struct shim *s, struct shim_event *ret);

/* observe.c: passes one 'F' ioctl to the driver, and learns from it. */
int rbt_shim_call(int fd, unsigned long request, void *arg);

/* Records what a call has said, now or by whoever has the lock; acts on what is due. s is the table
 * as it was before the call, or NULL. */
void shim_look(struct shim_event *ev, const struct shim *s);

/* Under the lock: takes in what others have left, and acts on what is due. */
void shim_take_in(struct shim *s, uint64_t now_ns);

/* send.c */
enum shim_link {
	SHIM_LINK_NONE, /* no daemon: we are alone */
	SHIM_LINK_BUSY, /* there is one, but it could not be told everything yet */
	SHIM_LINK_UP,
};
enum shim_link shim_tell_daemon(struct shim *s, uint64_t now_ns);

/* apply.c */

/* Brings the program's slices to what it may have without a daemon. */
void shim_apply_alone(struct shim *s);

/* Restores the program's own slices, then gives up the GPUs' locks. */
void shim_apply_withdraw(struct shim *s);

#endif
