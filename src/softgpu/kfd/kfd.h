/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of the amdgpu driver's compute side (KFD) as /dev/kfd shows it: processes, queues, the
 * runtime handshake, the debugger interface. Queues run: after a doorbell the GPU reads the queue's
 * write pointer, and the read pointer follows while the queue is not suspended. Queues share their
 * GPU (share.c; its numbers: timing.h). A packet that is interrupted is saved to the queue's save
 * area and goes on from there. A pure library: no I/O, no clock of its own; it reaches programs
 * through struct rbt_kfd_ops. The device server and the tests link it.
 *
 * Behaviour that needs no GPU is compared with real drivers (tests/judge); the rest follows Linux
 * 6.12's source. Comments say "assumed" if it is neither.
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

/* Which threads count as the debugger of a process: the thread that ptraces it; or, after that has
 * enabled debugging, any thread of its process. Default: as in the interface's version. */
enum rbt_kfd_ptrace_rule { RBT_KFD_PTRACE_DEFAULT, RBT_KFD_PTRACE_THREAD, RBT_KFD_PTRACE_PROCESS };

struct rbt_kfd_config {
	uint32_t n_gpus;
	uint32_t no_gpu;  /* there is a /dev/kfd even without GPUs, as amdgpu makes it */
	uint32_t lenient; /* as kernels that accepted arrays of any length */
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
	/* The process's last write to the doorbell of a queue: another value is a new write. */
	uint64_t (*doorbell)(void *data, int pid, uint32_t gpu, uint32_t queue);
	/* The tracer of the first thread of `pid` (tid 0: none). 0, or -ESRCH: no such process. */
	int (*tracer)(void *data, int pid, struct rbt_kfd_task *ret);
	/* A copy of the caller's file `fd`, to be put back: our number, or -EBADF. */
	int (*fd_get)(void *data, struct rbt_kfd_task caller, int fd);
	void (*fd_write)(void *data, int file); /* one byte */
	void (*fd_put)(void *data, int file);
	/* Optional: a process or a queue has come (`there`) or gone. Queue -1: the process
	 * itself. */
	void (*changed)(void *data, int pid, int queue, bool there);
	/* Optional: the process's memory on the GPUs has changed. */
	void (*memory_changed)(void *data, int pid);
	/* Optional: the current time; otherwise it is that of the last rbt_kfd_run. */
	uint64_t (*now_ns)(void *data);
	/* Optional: reports unknown calls. */
	void (*log)(void *data, const char *line);
	void *data;
};

/* NULL: out of memory. Config and ops are copied; the config is clamped to its range. */
struct rbt_kfd *rbt_kfd_create(const struct rbt_kfd_config *config, const struct rbt_kfd_ops *ops);
void rbt_kfd_destroy(struct rbt_kfd *kfd); /* with all opens; accepts NULL */
const struct rbt_kfd_config *rbt_kfd_config(const struct rbt_kfd *kfd);

/* Makes the process a KFD process; NULL: out of memory. */
struct rbt_kfd_open *rbt_kfd_open(struct rbt_kfd *kfd, int pid);
/* The process stays a KFD process, as long as its address space exists. Accepts NULL. */
void rbt_kfd_close(struct rbt_kfd_open *open);

/* The address space is gone, by death or exec: its queues end, and programs that it debugged run
 * on. No error if it is unknown. */
void rbt_kfd_exit(struct rbt_kfd *kfd, int pid);

/* The call waits for another: make it again, as the same task, after the next change. */
#define RBT_KFD_WAIT INT64_MIN
/*
 * One ioctl. Returns the result of the system call (0 or more, or -errno), or RBT_KFD_WAIT.
 * *ret_delay_us: the GPU's time for the call, or an injected fault, delays the answer by this; the
 * call has already taken effect.
 */
int64_t rbt_kfd_ioctl(struct rbt_kfd_open *open, struct rbt_kfd_task caller, uint32_t request,
	uint64_t arg, uint64_t *ret_delay_us);

/* Runs queues until now_ns, which never goes back. Returns when it must be called next, or
 * UINT64_MAX: when there is a queue. */
uint64_t rbt_kfd_run(struct rbt_kfd *kfd, uint64_t now_ns);

/* The earliest deadline of calls that wait for events: such a call must be made again then.
 * UINT64_MAX: none. */
uint64_t rbt_kfd_next_wait_ns(const struct rbt_kfd *kfd);

/* Faults: each matching call fails with `error`, or, with error 0, takes longer; with queue_error,
 * the queues of a SUSPEND or RESUME do not obey. */
struct rbt_kfd_fault {
	uint32_t nr; /* ioctl number */
	uint32_t op; /* of DBG_TRAP; with has_op */
	uint32_t has_op;
	uint32_t error;       /* errno */
	uint32_t queue_error; /* ids are returned with the error bit */
	uint32_t pad;
	uint64_t delay_us;
	uint64_t count; /* calls it still applies to; 0: unlimited */
};
#define RBT_KFD_MAX_FAULTS 32
int rbt_kfd_add_fault(
	struct rbt_kfd *kfd, const struct rbt_kfd_fault *fault); /* -EINVAL, -ENOSPC */
void rbt_kfd_clear_faults(struct rbt_kfd *kfd);

/* Facts for sysfs and for tests. */
uint32_t rbt_kfd_gpu_id(uint32_t gpu);
#define RBT_KFD_CWSR_SIZE      0x8000u /* of the save area that a queue must have */
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
/* Stops at a non-zero return value, and returns it. */
int rbt_kfd_each_queue(struct rbt_kfd *kfd,
	int (*fn)(const struct rbt_kfd_queue_info *info, void *data), void *data);
uint64_t rbt_kfd_vram_bytes(const struct rbt_kfd *kfd, int pid, uint32_t gpu);
/* Calls that would have crashed the kernel. */
uint64_t rbt_kfd_oopses(const struct rbt_kfd *kfd);

/* One member, "kfd", of an object that the caller has begun; or text. */
void rbt_kfd_write_json(struct rbt_kfd *kfd, struct rbt_json *json);
void rbt_kfd_write_text(struct rbt_kfd *kfd, FILE *out);

#endif
