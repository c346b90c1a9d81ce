/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one vendor's device is touched. A backend is a const table of functions; registry.c lists
 * them all.
 *
 * Every function returns 0 or a negative errno and may block for as long as the driver's ioctl does
 * (up to about a millisecond measured on NVIDIA 580); none may be called from a program's own
 * threads. Errors that callers tell apart:
 *   -ENODEV          no such driver or device here
 *   -ESRCH           the program is gone
 *   -ENXIO           the program has no tasks on this backend's devices
 *   -EPERM, -EACCES  not allowed
 *   -EOPNOTSUPP      this device or driver cannot do it
 *   -EPROTONOSUPPORT unknown driver version: reading works, writing wants `force`, or a trial
 *   -ENOENT          the object behind a record has gone
 *   -EIO             the device failed
 */
#ifndef RBT_BACKEND_BACKEND_H
#define RBT_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/record.h"
#include "util/limits.h"

enum rbt_suspend_mode {
	RBT_SUSPEND_FULL,            /* preempts running work */
	RBT_SUSPEND_SCHEDULING_ONLY, /* running work finishes its slice; for short slices */
};

enum rbt_scope {
	RBT_SCOPE_ALL,
	RBT_SCOPE_COMPUTE,
	RBT_SCOPE_OTHERS, /* all but compute */
};

/* Capabilities of a device or driver. If a bit is missing, rbt_device_info.why_not has the
 * reason. */
enum {
	RBT_CAP_READ = 1 << 0,
	RBT_CAP_TIMESLICE = 1 << 1,
	RBT_CAP_SUSPEND = 1 << 2,
	RBT_CAP_INTERLEAVE = 1 << 3,
	RBT_CAP_PREEMPT = 1 << 4,
	RBT_CAP_STATS = 1 << 5,
};

enum {
	RBT_GPU_HAS_NAME = 1 << 0,
	RBT_GPU_HAS_PCI = 1 << 1,
	RBT_GPU_HAS_MEMORY = 1 << 2,
	RBT_GPU_HAS_MIG = 1 << 3,
};

struct rbt_gpu_info {
	uint32_t gpu; /* minor number */
	uint32_t valid;
	char pci[16]; /* 0000:1b:00.0 */
	char name[64];
	uint64_t memory_bytes;
	bool mig; /* partitioned into MIG instances */
};

struct rbt_device_info {
	char driver_version[32];
	bool driver_known; /* layouts for this version are known; others are tried before writing */
	bool mps_active;   /* an MPS server runs: its clients share one set of tasks */
	uint32_t caps;     /* RBT_CAP_* */
	char why_not[128]; /* one line about the missing caps; empty: none is missing */
	uint32_t n_gpus;
	struct rbt_gpu_info gpus[RBT_MAX_GPUS];
};

#define RBT_TRIAL_TEXT 128
/* The result of a driver trial, which uses only objects of our own. */
struct rbt_trial {
	bool slices, suspends; /* these may be used */
	bool is_final;         /* false: a resource was short, and a later trial may succeed */
	char slices_text[RBT_TRIAL_TEXT], suspends_text[RBT_TRIAL_TEXT]; /* one line each */
};

/* A program's memory on one GPU. */
struct rbt_gpu_usage {
	uint32_t minor, pad;
	uint64_t bytes;
};

enum { RBT_STATS_HAS_MEMORY = 1 << 0, RBT_STATS_HAS_GPU = 1 << 1 };
struct rbt_program_stats {
	uint32_t valid;
	uint64_t memory_bytes; /* on the record's GPUs, by the driver's own count */
	uint64_t gpu_bytes;    /* the memory of the smallest of these GPUs */
};

#define RBT_GPU_UUID_MAX 48

struct rbt_backend {
	const char *name;
	enum rbt_backend_id id;
	/* The path whose open file description is a program's handle on the device, without a
	 * suffix. */
	const char *control_node;
	/* Its device number, if the driver always has the same; 0: the node's own number counts. */
	uint32_t control_major, control_minor;

	/* Properties of the device. Code outside of the backend checks these, and never the
	 * vendor. */
	bool has_slices;           /* its tasks have timeslices that can be set */
	uint64_t default_slice_us; /* of a compute task, if it has slices */
	/* Schedulers must not meet on it, so that there is a lock: where there are short slices. */
	bool has_lock;
	/* A record's client is its program's pid in the daemon's namespace. In the program's own
	 * namespace it may have another number. */
	bool client_is_pid;
	/* Whether suspend() and resume() act only on a record's tasks. Otherwise they act on all
	 * tasks of its program. */
	bool acts_by_task;

	/* Whether it has run on the software GPU only, and not on a card yet. */
	bool is_experimental;

	/* Mandatory. Looks for the driver and its devices;
	 * allocates nothing that outlives the call. */
	int (*probe)(struct rbt_device_info *ret);

	/* Optional (NULL). The size of a GPU's memory, if probe() does not tell it. May wake the
	 * GPU. 0 or -errno. */
	int (*gpu_memory)(uint32_t gpu, uint64_t *ret_bytes);

	/* Mandatory. Finds a running program's tasks, from outside it. Needs ptrace rights over it.
	 * Fills up to one record per client; the caller finishes each and frees the array. */
	int (*discover)(pid_t pid, int pidfd, struct rbt_record **ret, size_t *ret_n);

	/* Mandatory. Whether the driver's layouts are known: 0, -EPROTONOSUPPORT, or -ENODEV. Does
	 * not access any device. */
	int (*check_driver)(void);

	/* Mandatory. Whether the calling process may use `cap` (RBT_CAP_TIMESLICE or
	 * RBT_CAP_SUSPEND) through this backend: -EPROTONOSUPPORT for an unknown driver without
	 * force. If there is a try_out(), such a driver is tried first, which may wake a GPU. Cheap
	 * after the first call. */
	int (*may_write)(uint32_t cap, bool force);

	/* Optional (NULL). Tries the driver, known or not, on objects of its own, and leaves
	 * nothing behind. 0 with the result, or -ENODEV. */
	int (*try_out)(struct rbt_trial *ret);

	/* Optional (NULL). One line with the reason why may_write() has returned
	 * -EPROTONOSUPPORT. */
	void (*why_not)(uint32_t cap, char *buf, size_t size);

	/* Mandatory with has_lock, else NULL. The path of the GPU's device node, on which the GPU
	 * lock is taken. */
	int (*lock_path)(uint32_t gpu, char *buf, size_t size);

	/* Mandatory. */
	int (*get_timeslice)(
		const struct rbt_record *rec, const struct rbt_task *task, uint64_t *ret_us);
	int (*set_timeslice)(
		const struct rbt_record *rec, const struct rbt_task *task, uint64_t us);

	/* Mandatory. Suspends or resumes a record's tasks. A device may count suspends, so the
	 * caller keeps is_off, which has one entry per channel of the record, and both hooks update
	 * it. With is_off, both are idempotent. NULL: the state is unknown, and all channels are
	 * changed. A suspended channel stays suspended in its mode. */
	int (*suspend)(const struct rbt_record *rec, bool *is_off, enum rbt_scope scope,
		enum rbt_suspend_mode mode);
	int (*resume)(const struct rbt_record *rec, bool *is_off, enum rbt_scope scope);

	/* Optional (NULL): for devices on which one task can be suspended. It stays suspended until
	 * it is resumed or destroyed, also while suspend() and resume() act on the record. Both are
	 * idempotent. -ENOENT: there is no such task. */
	int (*suspend_task)(const struct rbt_record *rec, uint32_t handle);
	int (*resume_task)(const struct rbt_record *rec, uint32_t handle);

	/* Optional (NULL). Level 0 low, 1 medium, 2 high: how often a runlist visits the task.
	 * Needs CAP_SYS_NICE. Only policies set it. */
	int (*set_interleave)(
		const struct rbt_record *rec, const struct rbt_task *task, uint32_t level);

	/* Optional (NULL). Takes a running task off once; it may come back at once. */
	int (*preempt)(
		const struct rbt_record *rec, const struct rbt_task *task, uint32_t timeout_us);

	/* Optional (NULL). Makes the device notice tasks that have just been resumed or should be
	 * running: see nvidia/ops.c. Changes nothing else. */
	int (*kick)(const struct rbt_record *rec, enum rbt_scope scope);

	/* Optional (NULL). Sets how the device arbitrates between this record's tasks and others: 0
	 * low, 1 as the program has set it, 2 high. Does not wait. */
	int (*set_level)(const struct rbt_record *rec, uint32_t level);

	/* Optional (NULL): for devices on which an agent inside the program acts, if the program
	 * was started by `rubato run`. Returns 0 if the record's file is the link to such an agent,
	 * else -EBADF. */
	int (*check_file)(const struct rbt_record *rec);

	/* Optional (NULL). Asks the device about tasks that a program has named. Tasks that do not
	 * exist are left out, and each task's GPU is filled in. Run on everything received. */
	int (*complete)(struct rbt_record *rec, pid_t pid);

	/* Optional (NULL), for suspends that end by themselves unless they are renewed. All
	 * suspends of this record last until deadline_ns, on the monotonic clock. Does not wait. */
	int (*renew)(const struct rbt_record *rec, uint64_t deadline_ns);

	/* Optional (NULL). Polls the program's queues every interval_us from now on (0: stops), and
	 * writes the result to a board (board/gauge.h): the one of board_fd, borrowed, or the
	 * program's own if an agent polls. */
	int (*poll)(const struct rbt_record *rec, int board_fd, uint32_t interval_us);

	/* Optional. NULL: programs cannot be parked, that is, leave the device with their memory
	 * by the driver's checkpoint calls. 0, or -EPROTONOSUPPORT if those calls were never tried
	 * with this driver; then `why` has one line. */
	int (*may_park)(char *why, size_t size);

	/* Optional (NULL), with may_park. The memory that the program has on each of its GPUs.
	 * Fills up to `max` entries and returns how many, or -errno. */
	int (*usage)(
		const struct rbt_record *rec, pid_t pid, struct rbt_gpu_usage *list, size_t max);

	/* Optional (NULL), with may_park. A GPU's free memory. Makes a client of its own, so that
	 * no program is needed. 0 or -errno. */
	int (*free_memory)(uint32_t minor, uint64_t *ret_bytes);

	/* Optional (NULL). The driver's figures about the program. */
	int (*stats)(const struct rbt_record *rec, pid_t pid, struct rbt_program_stats *ret);
	/* Optional (NULL). The name that a GPU of the record keeps for ever, as the vendor's tools
	 * show it. 0 or -errno. */
	int (*uuid)(const struct rbt_record *rec, uint32_t gpu, char ret[RBT_GPU_UUID_MAX]);
};

extern const struct rbt_backend rbt_backend_nvidia, rbt_backend_amd;

/* All backends, NULL-terminated, in the order in which they are tried. */
extern const struct rbt_backend *const rbt_backends[];

/* Finds a program's tasks with the first backend whose discover() knows it; -ENXIO: none does. */
int rbt_backends_discover(pid_t pid, int pidfd, struct rbt_record **ret, size_t *ret_n);

/* For callers that will act on a program: calls `look` again while the program is setting up a
 * task, for a second at most. After that no task counts as new. Returns the result of `look`. */
typedef int (*rbt_discover_fn)(const void *data, struct rbt_record **ret, size_t *ret_n);
int rbt_discover_set_up(
	rbt_discover_fn discover, const void *data, struct rbt_record **ret, size_t *ret_n);
void rbt_records_free(struct rbt_record *recs, size_t n);

/* NULL if unknown: ids arrive from other processes. */
const struct rbt_backend *rbt_backend_by_id(uint32_t id);

#endif
