/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of NVIDIA's resource manager (RM) as driver 580 shows it to user space: clients, their
 * trees of objects, channel groups with timeslice and enable state, ownership by open file. A pure
 * library: no I/O, no clock; the calling program is reached through struct rbt_rm_env. The device
 * server and the tests link it.
 *
 * Behaviour is as recorded on hardware; where a comment says "assumed", it was not.
 */
#ifndef RBT_SOFTGPU_RM_RM_H
#define RBT_SOFTGPU_RM_RM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "util/json.h"

struct rbt_rm;
struct rbt_rm_open; /* one open file description of a device node */

struct rbt_rm_config {
	char driver_version[32];
	uint32_t n_gpus; /* 1…NV_MAX_GPUS */
	/* Clients are numbered over a boot: a high first number imitates a server that is up for
	 * months. */
	uint32_t first_client;
	uint64_t memory_bytes; /* of each GPU */
	uint32_t quirks;       /* RBT_RM_QUIRK_* */
	uint32_t pad;
};

/*
 * What an H200 (driver 580.159.04) was seen to do, now and then, beside what its interface says;
 * here always, and in its worst reading.
 */
enum {
	/* A group that was disabled by "scheduling only" sleeps when it is enabled: it is not looked
	 * at until its timeslice is set, be it to the same value. One that had been preempted by
	 * command, or disabled fully, before never does. */
	RBT_RM_QUIRK_DROWSY = 1 << 0,
	/* A compute group that is disabled, in either form, after it was first scheduled and before
	 * its own program set its timeslice is stuck: it never runs. */
	RBT_RM_QUIRK_SETUP = 1 << 1,
	/* Disabling and enabling channels takes hundreds of microseconds. */
	RBT_RM_QUIRK_SLOW_CALLS = 1 << 2,
};
#define RBT_RM_QUIRKS_ALL (RBT_RM_QUIRK_DROWSY | RBT_RM_QUIRK_SETUP | RBT_RM_QUIRK_SLOW_CALLS)

/* Names with commas between them, `all` or `none`. 0 or -EINVAL. */
int rbt_rm_quirks_parse(const char *text, uint32_t *ret);
/* Of a single one; NULL if it is none. */
const char *rbt_rm_quirk_name(uint32_t quirk);

#define RBT_RM_GPU_NAME "Rubato software GPU"
void rbt_rm_gpu_pci(uint32_t gpu, char *buf, size_t size); /* 0000:1b:00.0 */

enum rbt_rm_node { RBT_RM_NODE_CONTROL, RBT_RM_NODE_GPU, RBT_RM_NODE_UVM };

/*
 * How the model reaches the program that makes a call. `read` may answer -ERESTART: the call then
 * returns -ERESTART having changed nothing, and is to be made again once the bytes are there. (All
 * reads of a call come before its first change.)
 */
struct rbt_rm_env {
	int (*read)(void *data, uint64_t addr, void *buf, size_t size); /* 0, -EFAULT, -ERESTART */
	int (*write)(void *data, uint64_t addr, const void *buf, size_t size); /* 0, -EFAULT */
	int (*pid)(void *data);                                                /* of the caller */
	bool (*may_nice)(void *data);              /* the caller has CAP_SYS_NICE */
	bool (*is_control_fd)(void *data, int fd); /* the caller's fd is an open /dev/nvidiactl */
	void (*log)(void *data,
		const char *line); /* optional: what the model was asked and does not know */
	void *data;
};

/* NULL when out of memory. The config is copied; n_gpus and first_client are brought into range. */
struct rbt_rm *rbt_rm_create(const struct rbt_rm_config *config);
void rbt_rm_destroy(struct rbt_rm *rm); /* with all opens; accepts NULL */
const struct rbt_rm_config *rbt_rm_config(const struct rbt_rm *rm);

/* An open is closed (with every client made through it) when its last copy is: the caller knows
 * when. */
struct rbt_rm_open *rbt_rm_open(
	struct rbt_rm *rm, enum rbt_rm_node node, uint32_t gpu, uint64_t id, int pid, uint32_t uid);
void rbt_rm_close(struct rbt_rm_open *open); /* accepts NULL */
uint32_t rbt_rm_open_uid(const struct rbt_rm_open *open);

/*
 * One ioctl. Returns what the system call does (0 or -errno), or -ERESTART. *ret_delay_us: an
 * injected fault, or a quirk, wants the answer to come that much later; the call's effect is there
 * already.
 */
int rbt_rm_ioctl(struct rbt_rm_open *open, uint32_t request, uint64_t arg,
	const struct rbt_rm_env *env, uint64_t *ret_delay_us);

/* Where a request's argument keeps the address and the size of further parameters: lets a relay
 * fetch them ahead. Fills up to `max` rules, returns how many there are. */
struct rbt_rm_prefetch {
	uint32_t request, address_at, size_at, pad;
};
size_t rbt_rm_prefetch_rules(struct rbt_rm_prefetch *rules, size_t max);

/* Faults: each matching call is answered by `status` (with has_status), by `error` (an errno), or,
 * when neither is set, as ever but later. One with a size is another kind: until it is cleared, the
 * control takes parameters of that many bytes and no others, as in a driver built otherwise. */
struct rbt_rm_fault {
	uint32_t cmd; /* control; 0: any */
	uint32_t nr;  /* ioctl number; 0: any */
	uint32_t status;
	uint32_t has_status;
	uint32_t error;
	uint32_t hclass; /* of an allocation; 0: any */
	uint32_t size;   /* RBT_RM_ANY_SIZE: sizes are not looked at; 0: as ever */
	uint32_t pad;
	uint64_t delay_us;
	uint64_t count; /* calls it still applies to; 0: for good */
};
#define RBT_RM_ANY_SIZE   UINT32_MAX
#define RBT_RM_MAX_FAULTS 32
int rbt_rm_add_fault(
	struct rbt_rm *rm, const struct rbt_rm_fault *fault); /* 0, -EINVAL or -ENOSPC */
void rbt_rm_clear_faults(struct rbt_rm *rm);

/* What tests look at. */
enum rbt_rm_engine { RBT_RM_ENGINE_COMPUTE, RBT_RM_ENGINE_COPY, RBT_RM_ENGINE_OTHER };
struct rbt_rm_tsg_info {
	uint32_t client, handle, gpu, runlist, id, engine_type, interleave;
	enum rbt_rm_engine engine;
	int client_pid; /* who made the client */
	int open_pid;   /* who opened the device */
	uint64_t timeslice_us, n_preempts;
	uint64_t n_suspends, n_resumes; /* calls that took its channels off, and let them on */
	bool scheduled, realtime;
	bool asleep, stuck; /* by quirks: scheduled, and yet never looked at */
	uint32_t n_channels, n_enabled, n_disabled_full, n_disabled_scheduling;
};
void rbt_rm_each_tsg(
	struct rbt_rm *rm, void (*fn)(const struct rbt_rm_tsg_info *info, void *data), void *data);

/* A group and some of its channels, a bit each in the order given, as the device needs them. */
struct rbt_rm_group {
	uint64_t timeslice_us, n_preempts;
	uint32_t gpu, interleave;
	enum rbt_rm_engine engine;
	int open_pid;         /* who opened the device */
	uint32_t scheduled;   /* and looked at */
	uint32_t copies_wait; /* the program's copy groups are not looked at */
	uint32_t enabled, disabled_full;
};
/* -ENOENT: no such group, or a channel (at most 32) that is not one of its own. */
int rbt_rm_get_group(struct rbt_rm *rm, uint32_t client, uint32_t tsg, const uint32_t *channels,
	size_t n, struct rbt_rm_group *ret);

/* Lines that a real driver would have written to the kernel log (calls with a client that is not
 * the caller's). */
uint64_t rbt_rm_log_lines(const struct rbt_rm *rm);

/* Everything, as members of an object that the caller has begun, or as text. */
void rbt_rm_write_json(struct rbt_rm *rm, struct rbt_json *json);
void rbt_rm_write_text(struct rbt_rm *rm, FILE *out);

#endif
