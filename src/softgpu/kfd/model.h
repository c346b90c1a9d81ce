/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the KFD model: processes, queues, and declarations that its files share. */
#ifndef RBT_SOFTGPU_KFD_MODEL_H
#define RBT_SOFTGPU_KFD_MODEL_H

#include "backend/amd/kfd_abi.h"
#include "softgpu/kfd/kfd.h"

/* The contents of a queue's save area if it was taken off in the middle of a packet. */
#define KFD_SAVED_MAGIC 0x56535752u
struct kfd_saved_wave {
	uint32_t magic, queue_id;
	uint64_t packet; /* position of the read pointer */
	uint64_t ran_ns; /* the part of the packet's time that has passed */
	uint64_t serial; /* number of this save */
};
#define KFD_SAVED_AT 64u /* offset, behind the header */

struct kfd_process;

struct kfd_queue {
	struct kfd_process *process;
	uint32_t id, gpu, type, ring_size, percentage, priority, grace_period, sdma_engine;
	uint32_t save_size, cu_bits;
	uint64_t ring, wptr_at, rptr_at, save_at;
	uint64_t exceptions;
	bool suspended, being_destroyed;
	/* The packet under way. */
	bool in_packet, saved;
	uint64_t ran_ns, serial;
	bool had_work; /* at the last check */
	uint64_t completed, restored, restarted, n_suspends;
	/* The pointers as the GPU knows them, and the doorbell that last made it read them. */
	uint64_t wptr, rptr, bell;
	bool must_read; /* the pointers could not be read, or not yet */
	/* Its place on the GPU (share.c). */
	struct kfd_queue *next_runnable;
	uint64_t todo_ns;     /* until its ring is empty, if it had the GPU for itself */
	uint64_t turn;        /* its number among those that were given slots */
	uint64_t ready_ns;    /* its waves are being restored until then */
	uint64_t part, parts; /* of the time that passes, it works part / parts */
	uint32_t share;       /* the same in 1/KFD_WHOLE; 0 while it does not work */
	uint32_t saved_share; /* when it was taken off */
	bool mapped, chosen;  /* has a slot; gets one */
	bool switched_off;    /* saved by the GPU itself, to make room */
};

/* The waves that a call saves or restores on each GPU: these decide how long it takes. */
struct kfd_cost {
	bool touched[RBT_KFD_MAX_GPUS];
	uint32_t waves[RBT_KFD_MAX_GPUS]; /* in 1/KFD_WHOLE of what the GPU can hold */
};

struct kfd_gpu {
	uint64_t stalled_until_ns; /* no queue works */
	uint64_t turn_ends_ns;     /* of the queues that have slots */
	uint64_t last_turn;
};

struct kfd_device {
	bool has_vm;
	uint32_t drm_fd;
	uint64_t exceptions, vram_bytes;
};

struct kfd_memory {
	struct kfd_memory *next;
	uint64_t handle, bytes; /* bytes of VRAM; 0 for other memory */
	uint32_t gpu;
};

/* An event that programs wait for until it is set. */
struct kfd_event {
	struct kfd_event *next;
	uint32_t id, type;
	bool auto_reset, set;
	uint64_t age;
};

/* A thread that waits for events. */
struct kfd_wait {
	struct kfd_wait *next;
	int tid;
	uint64_t until_ns;
	uint64_t seen; /* one bit per event that was set since the wait began */
};

struct kfd_process {
	struct kfd_process *next;
	struct rbt_kfd *kfd;
	int pid;
	bool secondary; /* belongs to one open file; not found by pid */
	struct kfd_event *events;
	struct kfd_wait *waits;
	uint32_t n_signal_events, n_other_events;
	bool xnack_off;
	struct kfd_device devices[RBT_KFD_MAX_GPUS];
	struct kfd_queue *queues[KFD_MAX_QUEUES];
	uint32_t n_queues, next_memory;
	uint32_t weight; /* sum of its queues at work on the GPU in hand (share.c) */
	bool chosen;     /* one of them has a slot */
	struct kfd_memory *memory;
	/* The runtime's handshake, and the thread that waits in it. */
	struct kfd_runtime_info runtime;
	uint32_t runtime_answers;
	int waiting_tid;
	/* While it is debugged. */
	bool debugged, active; /* active: the GPUs know */
	int debugger;          /* pid; 0: the process itself */
	int event_file;        /* -1 */
	uint64_t enabled_mask, exceptions;
	uint32_t launch_mode, flags;
};

struct rbt_kfd_open {
	struct rbt_kfd_open *next;
	struct rbt_kfd *kfd;
	int pid;
	struct kfd_process *secondary; /* NULL: the program's main process */
};

struct kfd_counters {
	uint64_t calls, unknown, faults, oopses, packets;
};

struct rbt_kfd {
	struct rbt_kfd_config config;
	struct rbt_kfd_ops ops;
	struct kfd_process *processes;
	struct rbt_kfd_open *opens;
	struct kfd_counters counters;
	struct rbt_kfd_fault faults[RBT_KFD_MAX_FAULTS];
	size_t n_faults;
	uint64_t now_ns;
	struct kfd_gpu gpus[RBT_KFD_MAX_GPUS];
};

/* A call under way: the argument is our copy, zero beyond the caller's size. */
struct kfd_call {
	struct rbt_kfd *kfd;
	struct rbt_kfd_open *open;
	struct kfd_process *process; /* the process of the file */
	struct rbt_kfd_task caller;
	uint32_t nr, size; /* size: of the caller's argument */
	bool fail_queues;  /* by an injected fault */
	uint64_t took_ns;  /* how long the GPU takes */
	union {
		/* First, and as large as a request can name: an initialiser clears all of it. */
		uint8_t bytes[_IOC_SIZEMASK + 1];
		struct kfd_version version;
		struct kfd_create_queue create;
		struct kfd_destroy_queue destroy;
		struct kfd_update_queue update;
		struct kfd_set_cu_mask cu_mask;
		struct kfd_clock_counters clock;
		struct kfd_apertures_old apertures_old;
		struct kfd_apertures apertures;
		struct kfd_acquire_vm acquire_vm;
		struct kfd_alloc_memory alloc;
		struct kfd_free_memory free;
		struct kfd_runtime_enable runtime;
		struct kfd_dbg_trap dbg;
		struct kfd_set_policy policy;
		struct kfd_create_event create_event;
		struct kfd_one_event event;
		struct kfd_wait_events wait_events;
		struct kfd_map_memory map;
		struct kfd_available_memory available;
		struct kfd_wave_state wave_state;
		struct kfd_svm svm;
		struct kfd_profiler profiler;
		uint32_t words[16]; /* for calls that are only checked */
	} arg;
};

/* process.c */
struct kfd_process *kfd_make_secondary(struct rbt_kfd_open *open); /* NULL: memory */
struct kfd_process *kfd_find_process(struct rbt_kfd *kfd, int pid);
struct kfd_process *kfd_get_process(
	struct rbt_kfd *kfd, int pid);                         /* made if need be; NULL: memory */
int kfd_gpu_by_id(const struct rbt_kfd *kfd, uint32_t gpu_id); /* -1 */
void kfd_log(struct rbt_kfd *kfd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void kfd_fill_aperture(const struct rbt_kfd *kfd, uint32_t gpu, struct kfd_aperture *ret);

uint64_t kfd_now_ns(const struct rbt_kfd *kfd);

/* queue.c. Handlers return the ioctl's result. */
int64_t kfd_create_queue(struct kfd_call *c);
int64_t kfd_destroy_queue(struct kfd_call *c);
int64_t kfd_update_queue(struct kfd_call *c);
int64_t kfd_set_cu_mask(struct kfd_call *c);
void kfd_queue_free(struct kfd_process *p, uint32_t id);
bool kfd_queue_may_run(const struct kfd_process *p, const struct kfd_queue *q);
bool kfd_is_compute(const struct kfd_queue *q);
struct kfd_queue *kfd_find_queue(struct kfd_process *p, uint32_t id);

/* events.c */
int64_t kfd_create_event(struct kfd_call *c);
int64_t kfd_destroy_event(struct kfd_call *c);
int64_t kfd_set_event(struct kfd_call *c);
int64_t kfd_reset_event(struct kfd_call *c);
int64_t kfd_wait_events(struct kfd_call *c);
void kfd_free_events(struct kfd_process *p);

/* calls.c */
int64_t kfd_set_policy(struct kfd_call *c);
int64_t kfd_refused(struct kfd_call *c);
int64_t kfd_set_scratch(struct kfd_call *c);
int64_t kfd_tile_config(struct kfd_call *c);
int64_t kfd_set_trap_handler(struct kfd_call *c);
int64_t kfd_wave_state(struct kfd_call *c);
int64_t kfd_dmabuf_info(struct kfd_call *c);
int64_t kfd_import_dmabuf(struct kfd_call *c);
int64_t kfd_alloc_gws(struct kfd_call *c);
int64_t kfd_smi_events(struct kfd_call *c);
int64_t kfd_svm(struct kfd_call *c);
int64_t kfd_xnack(struct kfd_call *c);
int64_t kfd_criu(struct kfd_call *c);
int64_t kfd_export_dmabuf(struct kfd_call *c);
int64_t kfd_create_process(struct kfd_call *c);
int64_t kfd_profiler(struct kfd_call *c);
int64_t kfd_not_modelled(struct kfd_call *c);

/* memory.c */
int64_t kfd_map_memory(struct kfd_call *c);
int64_t kfd_available_memory(struct kfd_call *c);
int64_t kfd_acquire_vm(struct kfd_call *c);
int64_t kfd_alloc_memory(struct kfd_call *c);
int64_t kfd_free_memory(struct kfd_call *c);
int64_t kfd_apertures(struct kfd_call *c);
int64_t kfd_apertures_old(struct kfd_call *c);

/* debug.c */
int64_t kfd_runtime_enable(struct kfd_call *c);
int64_t kfd_dbg_trap(struct kfd_call *c);
void kfd_raise(struct kfd_process *p, uint64_t mask, uint32_t gpu, struct kfd_queue *q);
void kfd_end_debugging(struct kfd_process *target);

/* suspend.c */
int64_t kfd_suspend_queues(struct kfd_call *c, struct kfd_process *target);
int64_t kfd_resume_queues(struct kfd_call *c, struct kfd_process *target);
void kfd_resume_all(struct kfd_process *target);

/* run.c */
void kfd_save(struct kfd_process *p, struct kfd_queue *q);
void kfd_restore(struct kfd_process *p, struct kfd_queue *q);
/* A queue has come to the run list: the GPU reads its pointers, and starts. */
void kfd_begin(struct kfd_queue *q);
/* Moves the read pointer over what has run. */
void kfd_settle(struct kfd_queue *q);
/* Brings the queues to the present, before a call changes them. */
void kfd_catch_up(struct rbt_kfd *kfd);

/* share.c */
void kfd_work(struct rbt_kfd *kfd, uint32_t gpu, struct kfd_queue *list, bool compute,
	uint64_t from_ns, uint64_t to_ns);
/* Called before a queue is saved, and after it was restored. */
void kfd_cost_off(struct kfd_cost *cost, struct kfd_queue *q);
void kfd_cost_on(struct kfd_cost *cost, struct kfd_queue *q);
/* Lets the GPUs be busy with that; either may be NULL. Returns how long the call takes. */
uint64_t kfd_charge(struct rbt_kfd *kfd, const struct kfd_cost *off, const struct kfd_cost *on);

#endif
