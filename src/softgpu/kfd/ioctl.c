/* SPDX-License-Identifier: Apache-2.0 */
/* The model's entry: decodes a call, applies injected faults, dispatches it. */
#include <errno.h>
#include <string.h>

#include "softgpu/kfd/model.h"
#include "util/time.h"

#define MAX_ERRNO 133
#define CLOCK_HZ  100000000ull

static int64_t get_version(struct kfd_call *c)
{
	c->arg.version = (struct kfd_version){.major = KFD_MAJOR, .minor = c->kfd->config.minor};
	return 0;
}

static int64_t clock_counters(struct kfd_call *c)
{
	struct kfd_clock_counters *a = &c->arg.clock;
	uint64_t now_ns = kfd_now_ns(c->kfd);
	/* The driver serves the CPU's node as well, and unknown ids. */
	bool has_clock = kfd_gpu_by_id(c->kfd, a->gpu_id) >= 0;

	a->gpu = has_clock ? now_ns / (RBT_NS_PER_S / CLOCK_HZ) : 0;
	a->cpu = a->system = now_ns;
	a->system_hz = RBT_NS_PER_S;
	return 0;
}

enum direction { NONE = 0, TO = _IOC_WRITE, FROM = _IOC_READ, BOTH = _IOC_WRITE | _IOC_READ };

struct ioctl_def {
	uint32_t direction; /* what is copied, whatever the request says */
	uint32_t since;
	int64_t (*fn)(struct kfd_call *c);
};

/* By number. The size is the caller's: missing bytes are zero. */
static const struct ioctl_def ioctls[] = {
	[KFD_NR_GET_VERSION] = {FROM, 1, get_version},
	[KFD_NR_CREATE_QUEUE] = {BOTH, 1, kfd_create_queue},
	[KFD_NR_DESTROY_QUEUE] = {BOTH, 1, kfd_destroy_queue},
	[0x04] = {TO, 1, kfd_set_policy},
	[KFD_NR_CLOCK_COUNTERS] = {BOTH, 1, clock_counters},
	[KFD_NR_APERTURES_OLD] = {FROM, 1, kfd_apertures_old},
	[KFD_NR_UPDATE_QUEUE] = {TO, 1, kfd_update_queue},
	[0x08] = {BOTH, 1, kfd_create_event},
	[0x09] = {TO, 1, kfd_destroy_event},
	[0x0a] = {TO, 1, kfd_set_event},
	[0x0b] = {TO, 1, kfd_reset_event},
	[0x0c] = {BOTH, 1, kfd_wait_events},
	[0x0d] = {TO, 1, kfd_refused},
	[0x0e] = {TO, 1, kfd_refused},
	[0x0f] = {TO, 1, kfd_refused},
	[0x10] = {TO, 1, kfd_refused},
	[0x11] = {BOTH, 1, kfd_set_scratch},
	[0x12] = {BOTH, 1, kfd_tile_config},
	[0x13] = {TO, 1, kfd_set_trap_handler},
	[KFD_NR_APERTURES] = {BOTH, 1, kfd_apertures},
	[KFD_NR_ACQUIRE_VM] = {TO, 1, kfd_acquire_vm},
	[KFD_NR_ALLOC_MEMORY] = {BOTH, 1, kfd_alloc_memory},
	[KFD_NR_FREE_MEMORY] = {TO, 1, kfd_free_memory},
	[0x18] = {BOTH, 1, kfd_map_memory},
	[0x19] = {BOTH, 1, kfd_map_memory},
	[KFD_NR_SET_CU_MASK] = {TO, 1, kfd_set_cu_mask},
	[0x1b] = {BOTH, 1, kfd_wave_state},
	[0x1c] = {BOTH, 1, kfd_dmabuf_info},
	[0x1d] = {BOTH, 1, kfd_import_dmabuf},
	[0x1e] = {BOTH, 1, kfd_alloc_gws},
	[0x1f] = {BOTH, 1, kfd_smi_events},
	[0x20] = {BOTH, 1, kfd_svm},
	[0x21] = {BOTH, 1, kfd_xnack},
	[0x22] = {BOTH, 1, kfd_criu},
	[0x23] = {BOTH, 1, kfd_available_memory},
	[0x24] = {BOTH, KFD_MINOR_EXPORT, kfd_export_dmabuf},
	[KFD_NR_RUNTIME_ENABLE] = {BOTH, KFD_MINOR_DEBUGGER, kfd_runtime_enable},
	[KFD_NR_DBG_TRAP] = {BOTH, KFD_MINOR_DEBUGGER, kfd_dbg_trap},
	[KFD_NR_CREATE_PROCESS] = {NONE, KFD_MINOR_CREATE_PROCESS, kfd_create_process},
	[KFD_NR_PROFILER] = {BOTH, KFD_MINOR_PROFILER, kfd_profiler},
};

#define N_IOCTLS (sizeof(ioctls) / sizeof(ioctls[0]))

int rbt_kfd_add_fault(struct rbt_kfd *kfd, const struct rbt_kfd_fault *fault)
{
	if (fault->error > MAX_ERRNO || (fault->error != 0 && fault->queue_error)) {
		return -EINVAL;
	}
	if (kfd->n_faults == RBT_KFD_MAX_FAULTS) {
		return -ENOSPC;
	}
	kfd->faults[kfd->n_faults++] = *fault;
	return 0;
}

void rbt_kfd_clear_faults(struct rbt_kfd *kfd)
{
	kfd->n_faults = 0;
}

static struct rbt_kfd_fault *find_fault(const struct kfd_call *c)
{
	for (size_t i = 0; i < c->kfd->n_faults; i++) {
		struct rbt_kfd_fault *f = &c->kfd->faults[i];
		if ((f->nr == 0 || f->nr == c->nr) &&
			(!f->has_op || (c->nr == KFD_NR_DBG_TRAP && f->op == c->arg.dbg.op))) {
			return f;
		}
	}
	return NULL;
}

/* Returns the errno of the fault, or 0. */
static uint32_t use_fault(struct kfd_call *c, uint64_t *ret_delay_us)
{
	struct rbt_kfd_fault *f = find_fault(c);

	if (f == NULL) {
		return 0;
	}
	uint32_t error = f->error;
	*ret_delay_us = f->delay_us;
	c->fail_queues = f->queue_error != 0;
	c->kfd->counters.faults++;
	if (f->count > 0 && --f->count == 0) {
		size_t i = (size_t)(f - c->kfd->faults);
		c->kfd->n_faults--;
		memmove(f, f + 1, (c->kfd->n_faults - i) * sizeof(*f));
	}
	return error;
}

/* The driver uses the number only: type, direction and size of a request come from the caller. */
static const struct ioctl_def *find_ioctl(const struct rbt_kfd *kfd, uint32_t nr)
{
	if (nr >= N_IOCTLS || ioctls[nr].fn == NULL || ioctls[nr].since > kfd->config.minor) {
		return NULL;
	}
	return &ioctls[nr];
}

static int64_t answer(struct kfd_call *c, const struct ioctl_def *def, uint64_t arg, int64_t result)
{
	if ((def->direction & FROM) == 0 || c->size == 0 || result == RBT_KFD_WAIT) {
		return result;
	}
	/* Whatever the result, as many bytes as the caller has room for, as the driver does. */
	return c->kfd->ops.write(c->kfd->ops.data, c->caller.pid, arg, c->arg.bytes, c->size) < 0
		       ? -EFAULT
		       : result;
}

/* A file works only in the process that opened it. */
static struct kfd_process *owner(const struct rbt_kfd_open *open, struct rbt_kfd_task caller)
{
	if (caller.pid != open->pid) {
		return NULL;
	}
	return open->secondary != NULL ? open->secondary : kfd_find_process(open->kfd, open->pid);
}

int64_t rbt_kfd_ioctl(struct rbt_kfd_open *open, struct rbt_kfd_task caller, uint32_t request,
	uint64_t arg, uint64_t *ret_delay_us)
{
	struct rbt_kfd *kfd = open->kfd;
	struct kfd_call c = {.kfd = kfd,
		.open = open,
		.caller = caller,
		.nr = _IOC_NR(request),
		.size = _IOC_SIZE(request)};
	const struct ioctl_def *def = find_ioctl(kfd, c.nr);

	*ret_delay_us = 0;
	kfd->counters.calls++;
	if (def == NULL) {
		kfd->counters.unknown++;
		kfd_log(kfd, "pid %d: KFD ioctl 0x%x: version 1.%u has no number 0x%x", caller.pid,
			request, kfd->config.minor, c.nr);
		return -ENOTTY;
	}
	c.process = owner(open, caller);
	if (c.process == NULL) {
		return -EBADF;
	}
	if (def->fn == kfd_criu && !caller.may_checkpoint) {
		return -EACCES; /* before anything is read */
	}
	if ((def->direction & TO) != 0 && c.size > 0 &&
		kfd->ops.read(kfd->ops.data, caller.pid, arg, c.arg.bytes, c.size) < 0) {
		return -EFAULT;
	}
	uint32_t error = use_fault(&c, ret_delay_us);
	if (error != 0) {
		return -(int64_t)error;
	}
	kfd_catch_up(kfd);
	int64_t result = answer(&c, def, arg, def->fn(&c));
	*ret_delay_us += c.took_ns / RBT_NS_PER_US;
	return result;
}
