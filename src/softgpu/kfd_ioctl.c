/* SPDX-License-Identifier: Apache-2.0 */
/* The model's entry: takes a call apart, applies injected faults, dispatches. */
#include <errno.h>
#include <string.h>

#include "softgpu/kfd_model.h"
#include "util/time.h"

#define MAX_ERRNO   133
#define CLOCK_HZ    100000000ull
#define LAST_NUMBER 0x27u /* numbers below are the driver's, known here or not */

static int64_t get_version(struct kfd_call *c)
{
	c->arg.version = (struct kfd_version){.major = KFD_MAJOR, .minor = c->kfd->config.minor};
	return 0;
}

static int64_t clock_counters(struct kfd_call *c)
{
	struct kfd_clock_counters *a = &c->arg.clock;

	if (kfd_gpu_by_id(c->kfd, a->gpu_id) < 0) {
		a->gpu = 0; /* the driver serves the CPU's node as well */
	} else {
		a->gpu = c->kfd->now_ns / (RBT_NS_PER_S / CLOCK_HZ);
	}
	a->cpu = a->system = c->kfd->now_ns;
	a->system_hz = RBT_NS_PER_S;
	return 0;
}

struct ioctl_def {
	uint32_t request, since;
	int64_t (*fn)(struct kfd_call *c);
};

static const struct ioctl_def ioctls[] = {
	{KFD_IOC_GET_VERSION, 1, get_version},
	{KFD_IOC_CREATE_QUEUE, 1, kfd_create_queue},
	{KFD_IOC_DESTROY_QUEUE, 1, kfd_destroy_queue},
	{KFD_IOC_CLOCK_COUNTERS, 1, clock_counters},
	{KFD_IOC_APERTURES_OLD, 1, kfd_apertures_old},
	{KFD_IOC_UPDATE_QUEUE, 1, kfd_update_queue},
	{KFD_IOC_APERTURES, 1, kfd_apertures},
	{KFD_IOC_ACQUIRE_VM, 1, kfd_acquire_vm},
	{KFD_IOC_ALLOC_MEMORY, 1, kfd_alloc_memory},
	{KFD_IOC_FREE_MEMORY, 1, kfd_free_memory},
	{KFD_IOC_SET_CU_MASK, 1, kfd_set_cu_mask},
	{KFD_IOC_RUNTIME_ENABLE, KFD_MINOR_DEBUGGER, kfd_runtime_enable},
	{KFD_IOC_DBG_TRAP, KFD_MINOR_DEBUGGER, kfd_dbg_trap},
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

/* Returns the errno it stands for, or 0. */
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

/* The driver goes by the number alone: direction and size of a request are the caller's. */
static const struct ioctl_def *find_ioctl(const struct rbt_kfd *kfd, uint32_t nr)
{
	for (size_t i = 0; i < N_IOCTLS; i++) {
		if (_IOC_NR(ioctls[i].request) == nr) {
			return ioctls[i].since <= kfd->config.minor ? &ioctls[i] : NULL;
		}
	}
	return NULL;
}

static int fetch(struct kfd_call *c, const struct ioctl_def *def, uint64_t arg, size_t size)
{
	/* A caller's longer argument: what we do not know of it is left alone. */
	size = size < sizeof(c->arg) ? size : sizeof(c->arg);
	if ((_IOC_DIR(def->request) & _IOC_WRITE) == 0 || size == 0) {
		return 0;
	}
	return c->kfd->ops.read(c->kfd->ops.data, c->caller.pid, arg, c->arg.bytes, size);
}

static int64_t answer(
	struct kfd_call *c, const struct ioctl_def *def, uint64_t arg, size_t size, int64_t result)
{
	size = size < sizeof(c->arg) ? size : sizeof(c->arg);
	if ((_IOC_DIR(def->request) & _IOC_READ) == 0 || size == 0 || result == RBT_KFD_WAIT) {
		return result;
	}
	/* Whatever the result, as the driver does. */
	return c->kfd->ops.write(c->kfd->ops.data, c->caller.pid, arg, c->arg.bytes, size) < 0
		       ? -EFAULT
		       : result;
}

int64_t rbt_kfd_ioctl(struct rbt_kfd_open *open, struct rbt_kfd_task caller, uint32_t request,
	uint64_t arg, uint64_t *ret_delay_us)
{
	struct rbt_kfd *kfd = open->kfd;
	struct kfd_call c = {.kfd = kfd, .caller = caller, .nr = _IOC_NR(request)};
	const struct ioctl_def *def = find_ioctl(kfd, c.nr);

	*ret_delay_us = 0;
	kfd->counters.calls++;
	if (def == NULL) {
		kfd->counters.unknown++;
		kfd_log(kfd, "pid %d: KFD ioctl 0x%x (number 0x%x) is not %s", caller.pid, request,
			c.nr, c.nr < LAST_NUMBER ? "modelled" : "one of the driver's");
		return -ENOTTY;
	}
	/* A file serves the process that opened it, and no other. */
	c.process = kfd_find_process(kfd, open->pid);
	if (caller.pid != open->pid || c.process == NULL) {
		return -EBADF;
	}
	if (fetch(&c, def, arg, _IOC_SIZE(request)) < 0) {
		return -EFAULT;
	}
	uint32_t error = use_fault(&c, ret_delay_us);
	return error != 0 ? -(int64_t)error : answer(&c, def, arg, _IOC_SIZE(request), def->fn(&c));
}
