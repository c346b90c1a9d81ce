/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of NVIDIA's resource manager (RM) as driver 580 shows it to user space: clients, their
 * trees of objects, channel groups with timeslice and enable state, ownership by open file. A pure
 * library: no I/O, no clock; it reaches the calling program through struct rbt_rm_env. The device
 * server and the tests link it.
 *
 * Behaviour is as recorded on hardware, unless a comment says "assumed".
 */
#ifndef RBT_SOFTGPU_RM_RM_H
#define RBT_SOFTGPU_RM_RM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "util/json.h"

/* The UUID of GPU N: these bytes, and N in the last one. */
#define RBT_RM_UUID                                                                                \
	{                                                                                          \
		'r', 'u', 'b', 'a', 't', 'o', 0x2d, 's', 0x8f, 't', 'g', 'p', 'u', 0, 0, 0         \
	}

struct rbt_rm;
struct rbt_rm_open; /* one open file description of a device node */

struct rbt_rm_config {
	char driver_version[32];
	uint32_t n_gpus; /* 1…NV_MAX_GPUS */
	/* Client numbers grow during a boot: a high first number imitates a server that has been up
	 * for months. */
	uint32_t first_client;
	uint64_t memory_bytes; /* of each GPU */
	uint32_t quirks;       /* RBT_RM_QUIRK_* */
	/* Each call that takes a group off the GPU, or lets it back on, is logged. */
	uint32_t logs_switches;
};

/*
 * Behaviour of an H200 (driver 580.159.04) beyond its interface. Hardware shows it sometimes; here
 * it happens always, in the worst form.
 */
enum {
	/* A group that was disabled by "scheduling only" sleeps when it is enabled: it does not run
	 * until its timeslice is set, even to the same value. A group that was preempted by
	 * command, or disabled fully, before that never sleeps. */
	RBT_RM_QUIRK_DROWSY = 1 << 0,
	/* A compute group that is disabled, in either form, between its first scheduling and its
	 * own program's setting of its timeslice is stuck: it never runs. */
	RBT_RM_QUIRK_SETUP = 1 << 1,
	/* Disabling and enabling channels takes hundreds of microseconds. */
	RBT_RM_QUIRK_SLOW_CALLS = 1 << 2,
};
#define RBT_RM_QUIRKS_ALL (RBT_RM_QUIRK_DROWSY | RBT_RM_QUIRK_SETUP | RBT_RM_QUIRK_SLOW_CALLS)

/* Names separated by commas, `all` or `none`. 0 or -EINVAL. */
int rbt_rm_quirks_parse(const char *text, uint32_t *ret);
/* The name of a single quirk; NULL: it is none. */
const char *rbt_rm_quirk_name(uint32_t quirk);

#define RBT_RM_GPU_NAME "Rubato software GPU"
void rbt_rm_gpu_pci(uint32_t gpu, char *buf, size_t size); /* 0000:1b:00.0 */

enum rbt_rm_node { RBT_RM_NODE_CONTROL, RBT_RM_NODE_GPU, RBT_RM_NODE_UVM };

/*
 * How the model reaches the program that makes a call. `read` may return -ERESTART: the call then
 * returns -ERESTART without having changed anything, and must be made again when the bytes are
 * available. (All reads of a call come before its first change.)
 */
struct rbt_rm_env {
	int (*read)(void *data, uint64_t addr, void *buf, size_t size); /* 0, -EFAULT, -ERESTART */
	int (*write)(void *data, uint64_t addr, const void *buf, size_t size); /* 0, -EFAULT */
	int (*pid)(void *data);                                                /* of the caller */
	bool (*may_nice)(void *data);              /* the caller has CAP_SYS_NICE */
	bool (*is_control_fd)(void *data, int fd); /* the caller's fd is an open /dev/nvidiactl */
	void (*log)(void *data, const char *line); /* optional: unknown calls, switches */
	void *data;
};

/* NULL: out of memory. The config is copied; n_gpus and first_client are clamped to their range. */
struct rbt_rm *rbt_rm_create(const struct rbt_rm_config *config);
void rbt_rm_destroy(struct rbt_rm *rm); /* with all open files; accepts NULL */
const struct rbt_rm_config *rbt_rm_config(const struct rbt_rm *rm);

/* An open file is closed (with every client made through it) when its last copy is: the caller
 * knows when. */
struct rbt_rm_open *rbt_rm_open(
	struct rbt_rm *rm, enum rbt_rm_node node, uint32_t gpu, uint64_t id, int pid, uint32_t uid);
void rbt_rm_close(struct rbt_rm_open *open); /* accepts NULL */
uint32_t rbt_rm_open_uid(const struct rbt_rm_open *open);

/*
 * One ioctl. Returns the result of the system call (0 or -errno), or -ERESTART. *ret_delay_us: an
 * injected fault, or a quirk, delays the answer by this; the call has already taken effect.
 */
int rbt_rm_ioctl(struct rbt_rm_open *open, uint32_t request, uint64_t arg,
	const struct rbt_rm_env *env, uint64_t *ret_delay_us);

/* Where a request's argument has the address and size of further parameters, so that a relay can
 * fetch them ahead. Fills up to `max` rules, returns how many there are. */
struct rbt_rm_prefetch {
	uint32_t request, address_at, size_at, pad;
};
size_t rbt_rm_prefetch_rules(struct rbt_rm_prefetch *rules, size_t max);

/* Faults: each matching call is answered by `status` (with has_status), by `error` (an errno), or,
 * if neither is set, normally but later. A fault with a size is different: until it is cleared, the
 * control accepts parameters of that size only, as in a driver with another layout. */
struct rbt_rm_fault {
	uint32_t cmd; /* control; 0: any */
	uint32_t nr;  /* ioctl number; 0: any */
	uint32_t status;
	uint32_t has_status;
	uint32_t error;
	uint32_t hclass; /* of an allocation; 0: any */
	uint32_t size;   /* RBT_RM_ANY_SIZE: sizes are not checked; 0: as usual */
	uint32_t pad;
	uint64_t delay_us;
	uint64_t count; /* calls it still applies to; 0: unlimited */
};
#define RBT_RM_ANY_SIZE   UINT32_MAX
#define RBT_RM_MAX_FAULTS 32
int rbt_rm_add_fault(
	struct rbt_rm *rm, const struct rbt_rm_fault *fault); /* 0, -EINVAL or -ENOSPC */
void rbt_rm_clear_faults(struct rbt_rm *rm);

/* State for tests. */
enum rbt_rm_engine { RBT_RM_ENGINE_COMPUTE, RBT_RM_ENGINE_COPY, RBT_RM_ENGINE_OTHER };
struct rbt_rm_tsg_info {
	uint32_t client, handle, gpu, runlist, id, engine_type, interleave;
	enum rbt_rm_engine engine;
	int client_pid; /* the process that made the client */
	int open_pid;   /* the process that opened the device */
	uint64_t timeslice_us, n_preempts;
	uint64_t n_suspends, n_resumes; /* calls that disabled its channels, and enabled them */
	bool scheduled, realtime;
	bool asleep, stuck; /* by quirks: scheduled, but never runs */
	uint32_t n_channels, n_enabled, n_disabled_full, n_disabled_scheduling;
};
void rbt_rm_each_tsg(
	struct rbt_rm *rm, void (*fn)(const struct rbt_rm_tsg_info *info, void *data), void *data);

/* A group and some of its channels, one bit each in the given order, for the device. */
struct rbt_rm_group {
	uint64_t timeslice_us, n_preempts;
	uint32_t gpu, interleave;
	enum rbt_rm_engine engine;
	int open_pid;         /* the process that opened the device */
	uint32_t scheduled;   /* scheduled, and not asleep or stuck */
	uint32_t copies_wait; /* the program's copy groups do not run */
	uint32_t enabled, disabled_full;
};
/* -ENOENT: there is no such group, or a channel (at most 32) does not belong to it. */
int rbt_rm_get_group(struct rbt_rm *rm, uint32_t client, uint32_t tsg, const uint32_t *channels,
	size_t n, struct rbt_rm_group *ret);

/* A process was checkpointed, or restored: its objects take no memory, or memory again. After a
 * restore its groups have the default timeslice. */
void rbt_rm_set_off(struct rbt_rm *rm, int pid, bool is_off);

/* Lines that a real driver would have written to the kernel log (calls with another program's
 * client). */
uint64_t rbt_rm_log_lines(const struct rbt_rm *rm);

/* The whole state, as members of an object that the caller has begun, or as text. */
void rbt_rm_write_json(struct rbt_rm *rm, struct rbt_json *json);
void rbt_rm_write_text(struct rbt_rm *rm, FILE *out);

#endif
