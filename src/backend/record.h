/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record: everything needed to act on one program's tasks through one of its device files.
 *
 * The shim fills records from the ioctls that it sees. A backend's discover() fills them for a
 * program that is already running. They travel between processes as they are (fixed widths), with
 * the file descriptor beside them by SCM_RIGHTS. A received record is copied, then passed through
 * rbt_record_check(), then used.
 */
#ifndef RBT_BACKEND_RECORD_H
#define RBT_BACKEND_RECORD_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RBT_RECORD_MAX_TASKS    256
#define RBT_RECORD_MAX_CHANNELS 2048

enum rbt_backend_id { RBT_BACKEND_NVIDIA = 1, RBT_BACKEND_AMD = 2 };

enum rbt_task_kind { RBT_TASK_COMPUTE, RBT_TASK_COPY, RBT_TASK_OTHER };

/* Valid bits of struct rbt_task: unknown is not zero. */
enum {
	RBT_TASK_HAS_RUNLIST = 1 << 0,
	RBT_TASK_HAS_ID = 1 << 1,
	RBT_TASK_HAS_GPU = 1 << 2,
	RBT_TASK_HAS_OWN_TIMESLICE = 1 << 3,
	RBT_TASK_HAS_CREATOR = 1 << 4,
	/* The program is still setting the task up, and it must be left alone: NVIDIA's driver
	 * library schedules a task before it is done with it, and a task that is taken off in
	 * between may never run (H200, 580.159.04). */
	RBT_TASK_IS_NEW = 1 << 5,
	/* own_priority, own_percentage and serial are there, and own_timeslice_us is not. */
	RBT_TASK_HAS_SETTINGS = 1 << 6,
};

/* Flags of struct rbt_record */
enum {
	/* The program has more tasks or channels than the record: an action on this record does not
	 * reach all of them. */
	RBT_RECORD_PARTIAL = 1 << 0,
	/* The file is not a device but a socket to an agent inside the program, which acts on all
	 * of its tasks (proto/agent.h). */
	RBT_RECORD_AGENT = 1 << 1,
};

/* The unit that the device schedules: an NVIDIA channel group or an AMD queue. */
struct rbt_task {
	uint32_t handle;        /* of the task's object, within the record's client */
	uint32_t subdevice;     /* handle through which its channels are disabled */
	uint32_t gpu;           /* minor number of the GPU's device node */
	uint32_t kind;          /* enum rbt_task_kind */
	uint32_t runlist, id;   /* together unique on a GPU */
	uint32_t creator_tid;   /* thread that made it */
	uint32_t valid;         /* RBT_TASK_HAS_* */
	uint32_t first_channel; /* into the record's channels */
	uint32_t n_channels;
	union {
		/* The slice that the program and its driver chose. "Default" restores it. */
		uint64_t own_timeslice_us;
		/* AMD: what the program has set for its queue, for display only; and the serial
		 * of rbt_task_serial(). */
		struct {
			uint16_t own_priority, serial;
			uint32_t own_percentage;
		};
	};
};
static_assert(sizeof(struct rbt_task) == 48, "travels between processes");

struct rbt_record {
	int fd; /* the program's device file, same open file description; owned; -1 when absent */
	int32_t target_fd; /* its number in the program, -1 when unknown */
	uint32_t backend;  /* enum rbt_backend_id */
	uint32_t client;   /* the client that owns the objects */
	uint32_t flags;    /* RBT_RECORD_* */
	uint32_t n_tasks, n_channels;
	struct rbt_task *tasks; /* owned */
	uint32_t *channels;     /* owned; handles, grouped by task */
};

#define RBT_RECORD_INIT ((struct rbt_record){.fd = -1, .target_fd = -1})

/* Frees the arrays and closes the fd. Accepts an initialised, half-built or NULL record. */
void rbt_record_finish(struct rbt_record *rec);

/* The task's runlist as a set of runlists, a bit each; empty: it is not known, or not below 64. */
uint64_t rbt_task_runlists(const struct rbt_task *task);

/* Tells two tasks apart that have the same handle one after the other. 0: unknown. */
uint32_t rbt_task_serial(const struct rbt_task *task);
/* The record's task with this handle, or NULL. */
const struct rbt_task *rbt_record_find_task(const struct rbt_record *rec, uint32_t handle);
bool rbt_record_has_task(const struct rbt_record *rec, uint32_t handle);
/* Whether both are the same object, as far as is known: handles can be reused. */
bool rbt_task_is_same(const struct rbt_task *a, const struct rbt_task *b);

/* Whether the program is setting up one of its compute tasks; and: stop counting them as new. */
bool rbt_record_is_new(const struct rbt_record *rec);
void rbt_record_make_old(struct rbt_record *rec);

/* 0, or -EBADMSG if counts, kinds, flags or channel ranges are inconsistent. Run on everything
 * received. */
int rbt_record_check(const struct rbt_record *rec);

#endif
