/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of the amdgpu driver's compute side (KFD) as /dev/kfd shows it: processes, queues, the
 * runtime handshake, the debugger interface. Queues run: a doorbell makes the GPU look at a queue's
 * write pointer, and the read pointer follows while the queue is not suspended. Queues share their
 * GPU (share.c; its numbers: timing.h). A packet that is taken off half done is saved to the
 * queue's save area and goes on from there. A pure library: no I/O, no clock of its own; programs
 * are reached through struct rbt_kfd_ops. The device server and the tests link it.
 *
 * What can be had without a GPU is compared with real drivers (tests/judge); the rest is Linux
 * 6.12's source. Where a comment says "assumed", it is neither.
 */
#ifndef RBT_SOFTGPU_KFD_KFD_H
#define RBT_SOFTGPU_KFD_KFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "util/json.h"

struct rbt_kfd;
struct rbt_kfd_open; /* one open file description of /dev/kfd */

#define RBT_KFD_MAX_GPUS 8

/* Who counts as the debugger of a process: the thread that ptraces it; or, once that has enabled
 * debugging, any of its process. Default: as the interface's version has it. */
enum rbt_kfd_ptrace_rule { RBT_KFD_PTRACE_DEFAULT, RBT_KFD_PTRACE_THREAD, RBT_KFD_PTRACE_PROCESS };

struct rbt_kfd_config {
	uint32_t n_gpus;
	uint32_t no_gpu;  /* without GPUs there is a /dev/kfd all the same, as amdgpu makes it */
	uint32_t lenient; /* as kernels were that took arrays of any length */
	uint32_t minor;   /* of the interface's version, 1.x */
	uint32_t gfx_target_version;
	uint32_t ptrace_rule;  /* enum rbt_kfd_ptrace_rule */
	uint32_t one_debugger; /* the GPUs allow one debugged process */
	uint32_t packet_us;    /* how long one packet runs */
};
#define RBT_KFD_DEFAULT_MINOR     17
#define RBT_KFD_DEFAULT_GFX       90402
#define RBT_KFD_DEFAULT_PACKET_US 500

/* The thread that makes a call, and its process. */
struct rbt_kfd_task {
	int tid, pid;
	bool may_checkpoint; /* CAP_CHECKPOINT_RESTORE, or CAP_SYS_ADMIN */
	bool may_profile;    /* CAP_PERFMON, or CAP_SYS_ADMIN */
};

/* How the model reaches programs. All are called during a call into the model, on its thread. */
struct rbt_kfd_ops {
	/* A process's memory. 0 or -EFAULT. */
	int (*read)(void *data, int pid, uint64_t addr, void *buf, size_t size);
	int (*write)(void *data, int pid, uint64_t addr, const void *buf, size_t size);
	/* What the process last wrote to the doorbell of a queue: another value is a new write. */
	uint64_t (*doorbell)(void *data, int pid, uint32_t gpu, uint32_t queue);
	/* Who ptraces the first thread of `pid` (tid 0: nobody). 0, or -ESRCH: no such process. */
	int (*tracer)(void *data, int pid, struct rbt_kfd_task *ret);
	/* A file that the caller has as `fd`, to be given back: a number of ours, or -EBADF. */
	int (*fd_get)(void *data, struct rbt_kfd_task caller, int fd);
	void (*fd_write)(void *data, int file); /* one byte */
	void (*fd_put)(void *data, int file);
	/* Optional: a process or a queue came (`there`) or went. Queue -1: the process itself. */
	void (*changed)(void *data, int pid, int queue, bool there);
	/* Optional: how much memory the process has on the GPUs. */
	void (*memory_changed)(void *data, int pid);
	/* Optional: the time now, for who asks; else it is that of the last rbt_kfd_run. */
	uint64_t (*now_ns)(void *data);
	/* Optional: what the model was asked and does not know. */
	void (*log)(void *data, const char *line);
	void *data;
};

/* NULL when out of memory. Config and ops are copied; the config is brought into range. */
struct rbt_kfd *rbt_kfd_create(const struct rbt_kfd_config *config, const struct rbt_kfd_ops *ops);
void rbt_kfd_destroy(struct rbt_kfd *kfd); /* with all opens; accepts NULL */
const struct rbt_kfd_config *rbt_kfd_config(const struct rbt_kfd *kfd);

/* Makes the process known as one of KFD's; NULL when out of memory. */
struct rbt_kfd_open *rbt_kfd_open(struct rbt_kfd *kfd, int pid);
/* The process stays one of KFD's, as its address space does. Accepts NULL. */
void rbt_kfd_close(struct rbt_kfd_open *open);

/* The address space has gone, by death or exec: its queues go, what it debugged runs on. No error
 * if it is not known. */
void rbt_kfd_exit(struct rbt_kfd *kfd, int pid);

/* The call waits for another: make it again, as the same task, after the next change. */
#define RBT_KFD_WAIT INT64_MIN
/*
 * One ioctl. Returns what the system call does (a number from 0 on, or -errno), or RBT_KFD_WAIT.
 * *ret_delay_us: the GPU takes that long, or an injected fault wants it so: the answer is to come
 * that much later. The call's effect is there already.
 */
int64_t rbt_kfd_ioctl(struct rbt_kfd_open *open, struct rbt_kfd_task caller, uint32_t request,
	uint64_t arg, uint64_t *ret_delay_us);

/* Lets queues run until now_ns, which never goes back. Returns when it wants to be called next,
 * or UINT64_MAX: when there is a queue. */
uint64_t rbt_kfd_run(struct rbt_kfd *kfd, uint64_t now_ns);

/* When the first of those who wait for events for a limited time has waited long enough: its call
 * is to be made again then. UINT64_MAX: nobody does. */
uint64_t rbt_kfd_next_wait_ns(const struct rbt_kfd *kfd);

/* Faults: each matching call fails with `error`, or, with error 0, takes longer; with queue_error,
 * the queues of a SUSPEND or RESUME do not obey. */
struct rbt_kfd_fault {
	uint32_t nr; /* ioctl number */
	uint32_t op; /* of DBG_TRAP; with has_op */
	uint32_t has_op;
	uint32_t error;       /* errno */
	uint32_t queue_error; /* ids come back with the error bit */
	uint32_t pad;
	uint64_t delay_us;
	uint64_t count; /* calls it still applies to; 0: for good */
};
#define RBT_KFD_MAX_FAULTS 32
int rbt_kfd_add_fault(
	struct rbt_kfd *kfd, const struct rbt_kfd_fault *fault); /* -EINVAL, -ENOSPC */
void rbt_kfd_clear_faults(struct rbt_kfd *kfd);

/* Facts for sysfs and for tests. */
uint32_t rbt_kfd_gpu_id(uint32_t gpu);
#define RBT_KFD_CWSR_SIZE      0x8000u /* of the save area that a queue must bring */
#define RBT_KFD_CTL_STACK_SIZE 0x1000u
/* The doorbells of a process on one GPU: 8 bytes for each of its queues. GPU i's begin at
 * i * RBT_KFD_DOORBELLS of a file of /dev/kfd. (Linux has them at offsets above any file's size,
 * which a program cannot tell: it maps what CREATE_QUEUE gave it.) */
#define RBT_KFD_DOORBELLS  8192u
#define RBT_KFD_VRAM_BYTES (192ull << 30) /* of a GPU; not enforced */

struct rbt_kfd_queue_info {
	int pid;
	uint32_t id, gpu, gpu_id, type, ring_size, percentage, priority, grace_period;
	uint64_t ring;
	bool suspended, is_new, running; /* running: may run, and has work */
	uint64_t completed;              /* packets that ran to their end */
	uint64_t restored,
		restarted; /* packets that went on from their saved state; that could not */
	uint64_t n_suspends;
	uint32_t share; /* of the GPU, in 1/1024: of its slots' time since the last look */
};
/* Stops at a non-zero return, and returns it. */
int rbt_kfd_each_queue(struct rbt_kfd *kfd,
	int (*fn)(const struct rbt_kfd_queue_info *info, void *data), void *data);
uint64_t rbt_kfd_vram_bytes(const struct rbt_kfd *kfd, int pid, uint32_t gpu);
/* Calls that would have crashed the kernel. */
uint64_t rbt_kfd_oopses(const struct rbt_kfd *kfd);

/* One member, "kfd", of an object that the caller has begun; or text. */
void rbt_kfd_write_json(struct rbt_kfd *kfd, struct rbt_json *json);
void rbt_kfd_write_text(struct rbt_kfd *kfd, FILE *out);

#endif
