/* SPDX-License-Identifier: Apache-2.0 */
/* A model of KFD, a program with queues and its debugger, inside the test's own process: addresses
 * are the test's own. */
#ifndef RBT_TESTS_KFD_WORLD_H
#define RBT_TESTS_KFD_WORLD_H

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "backend/amd/kfd_abi.h"
#include "check.h"
#include "softgpu/kfd/kfd.h"
#include "softgpu/kfd/timing.h"

#define BAD_ADDRESS 4096u
#define TARGET      100
#define DEBUGGER    200
#define STRANGER    300
#define MS          1000000ull
#define MAX_RINGS   1024
/* Of a queue that had the GPU for itself. */
#define RESUME ((KFD_HW_RESUME_US + KFD_HW_RESTORE_US) * 1000ull)

struct ring {
	uint64_t wptr, rptr;
	uint8_t packets[4096];
	uint8_t save[RBT_KFD_CWSR_SIZE];
};

static struct rbt_kfd *kfd;
static struct rbt_kfd_open *target, *debugger, *stranger;
static struct rbt_kfd_task tracer; /* of the target */
static struct ring rings[MAX_RINGS];
static uint64_t bells[MAX_RINGS]; /* by queue: all processes' */
static unsigned n_events, n_files, n_logged, n_there;
static uint64_t now_ns, delay_us;

static inline int copy_in(void *data, int pid, uint64_t addr, void *buf, size_t size)
{
	if (addr < BAD_ADDRESS) {
		return -EFAULT;
	}
	memcpy(buf, (const void *)(uintptr_t)addr, size);
	return 0;
}

static inline int copy_out(void *data, int pid, uint64_t addr, const void *buf, size_t size)
{
	if (addr < BAD_ADDRESS) {
		return -EFAULT;
	}
	memcpy((void *)(uintptr_t)addr, buf, size);
	return 0;
}

static inline uint64_t read_bell(void *data, int pid, uint32_t gpu, uint32_t queue)
{
	return bells[queue];
}

static inline int find_tracer(void *data, int pid, struct rbt_kfd_task *ret)
{
	*ret = pid == TARGET ? tracer : (struct rbt_kfd_task){0};
	return pid == TARGET || pid == DEBUGGER || pid == STRANGER ? 0 : -ESRCH;
}

static inline int get_file(void *data, struct rbt_kfd_task caller, int fd)
{
	if (fd != 7) {
		return -EBADF;
	}
	n_files++;
	return 70;
}

static inline void write_file(void *data, int file)
{
	n_events += file == 70;
}

static inline void put_file(void *data, int file)
{
	n_files -= file == 70;
}

static inline void note_change(void *data, int pid, int queue, bool there)
{
	n_there += there ? 1 : -1u;
}

static inline void note_line(void *data, const char *line)
{
	n_logged++;
}

static inline void begin_with(struct rbt_kfd_config config)
{
	static const struct rbt_kfd_ops ops = {
		.read = copy_in,
		.write = copy_out,
		.doorbell = read_bell,
		.tracer = find_tracer,
		.fd_get = get_file,
		.fd_write = write_file,
		.fd_put = put_file,
		.changed = note_change,
		.log = note_line,
	};

	n_events = n_files = n_logged = n_there = 0;
	now_ns = MS;
	memset(rings, 0, sizeof(rings));
	memset(bells, 0, sizeof(bells));
	kfd = rbt_kfd_create(&config, &ops);
	target = rbt_kfd_open(kfd, TARGET);
	debugger = rbt_kfd_open(kfd, DEBUGGER);
	stranger = rbt_kfd_open(kfd, STRANGER);
	tracer = (struct rbt_kfd_task){.tid = DEBUGGER, .pid = DEBUGGER};
	rbt_kfd_run(kfd, now_ns);
}

static const struct rbt_kfd_config usual = {
	.n_gpus = 2, .minor = 17, .gfx_target_version = 90402, .packet_us = 1000};

static inline void begin(void)
{
	begin_with(usual);
}

static inline void end(void)
{
	rbt_kfd_destroy(kfd);
	CHECK_INT(n_files, 0);
	CHECK_INT(n_there, 0);
}

/* As the thread with this number. */
static inline int64_t call_as(
	struct rbt_kfd_open *open, int pid, int tid, uint32_t request, void *arg)
{
	struct rbt_kfd_task task = {.tid = tid, .pid = pid};

	return rbt_kfd_ioctl(open, task, request, (uintptr_t)arg, &delay_us);
}

static inline int64_t target_call(uint32_t request, void *arg)
{
	return call_as(target, TARGET, TARGET, request, arg);
}

static inline int64_t dbg(struct kfd_dbg_trap *a)
{
	return call_as(debugger, DEBUGGER, DEBUGGER, KFD_IOC_DBG_TRAP, a);
}

static inline int64_t start_runtime(void)
{
	struct kfd_runtime_enable a = {.mode_mask = KFD_RUNTIME_ENABLE_MODE};
	struct kfd_acquire_vm vm = {.drm_fd = 5, .gpu_id = rbt_kfd_gpu_id(0)};

	(void)target_call(KFD_IOC_ACQUIRE_VM, &vm);
	vm.gpu_id = rbt_kfd_gpu_id(1);
	(void)target_call(KFD_IOC_ACQUIRE_VM, &vm);
	return target_call(KFD_IOC_RUNTIME_ENABLE, &a);
}

static inline int64_t make_queue(uint32_t type, uint32_t gpu, uint32_t ring, uint32_t *ret_id)
{
	struct kfd_create_queue a = {
		.ring_base_address = (uintptr_t)rings[ring].packets,
		.ring_size = sizeof(rings[ring].packets),
		.write_pointer_address = (uintptr_t)&rings[ring].wptr,
		.read_pointer_address = (uintptr_t)&rings[ring].rptr,
		.ctx_save_restore_address = (uintptr_t)rings[ring].save,
		.ctx_save_restore_size = sizeof(rings[ring].save),
		.ctl_stack_size = RBT_KFD_CTL_STACK_SIZE,
		.gpu_id = rbt_kfd_gpu_id(gpu),
		.queue_type = type,
		.queue_percentage = 100,
		.queue_priority = 7,
	};
	int64_t r = target_call(KFD_IOC_CREATE_QUEUE, &a);

	*ret_id = a.queue_id;
	return r;
}

static inline int64_t destroy_queue(uint32_t id)
{
	struct kfd_destroy_queue a = {.queue_id = id};

	return target_call(KFD_IOC_DESTROY_QUEUE, &a);
}

static inline int64_t enable(struct kfd_runtime_info *info)
{
	struct kfd_dbg_trap a = {.pid = TARGET, .op = KFD_DBG_ENABLE};

	a.enable.rinfo_ptr = (uintptr_t)info;
	a.enable.rinfo_size = sizeof(*info);
	a.enable.dbg_fd = 7;
	a.enable.exception_mask =
		KFD_EC_QUEUE_NEW | KFD_EC_DEVICE_QUEUE_DELETE | KFD_EC_PROCESS_RUNTIME;
	return dbg(&a);
}

static inline int64_t simple_op(uint32_t op)
{
	struct kfd_dbg_trap a = {.pid = TARGET, .op = op};

	return dbg(&a);
}

static inline int64_t snapshot(struct kfd_queue_entry *list, uint32_t room, uint32_t *ret_n)
{
	struct kfd_dbg_trap a = {.pid = TARGET, .op = KFD_DBG_QUEUE_SNAPSHOT};

	a.snapshot.exception_mask = KFD_EC_QUEUE_NEW;
	a.snapshot.buf_ptr = (uintptr_t)list;
	a.snapshot.n_entries = room;
	a.snapshot.entry_size = sizeof(list[0]);
	int64_t r = dbg(&a);
	*ret_n = a.snapshot.n_entries;
	return r;
}

static inline int64_t suspend_ids(uint32_t *ids, uint32_t n)
{
	struct kfd_dbg_trap a = {.pid = TARGET, .op = KFD_DBG_SUSPEND_QUEUES};

	a.suspend.queue_array_ptr = (uintptr_t)ids;
	a.suspend.n_queues = n;
	a.suspend.grace_period = 1;
	return dbg(&a);
}

static inline int64_t resume_ids(uint32_t *ids, uint32_t n)
{
	struct kfd_dbg_trap a = {.pid = TARGET, .op = KFD_DBG_RESUME_QUEUES};

	a.resume.queue_array_ptr = (uintptr_t)ids;
	a.resume.n_queues = n;
	return dbg(&a);
}

static inline void run_for(uint64_t ns)
{
	now_ns += ns;
	rbt_kfd_run(kfd, now_ns);
}

/* The ring's queue has the same number. */
static inline void submit_to(uint32_t ring, uint64_t wptr)
{
	rings[ring].wptr = wptr;
	bells[ring]++;
}

struct wanted {
	uint32_t id;
	struct rbt_kfd_queue_info found;
};

static inline int pick(const struct rbt_kfd_queue_info *info, void *data)
{
	struct wanted *w = data;

	if (info->pid != TARGET || info->id != w->id) {
		return 0;
	}
	w->found = *info;
	return 1;
}

static inline struct rbt_kfd_queue_info look(uint32_t id)
{
	struct wanted w = {.id = id};

	CHECK_INT(rbt_kfd_each_queue(kfd, pick, &w), 1);
	return w.found;
}

#endif
