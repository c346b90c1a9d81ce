/* SPDX-License-Identifier: Apache-2.0 */
/* The debugger interface (DBG_TRAP), and the handshake with the runtime that it begins with. */
#include <errno.h>
#include <string.h>

#include "softgpu/kfd/model.h"

#define VENDOR_AMD  0x1002u
#define KNOWN_FLAGS 7u /* of SET_FLAGS */

void kfd_raise(struct kfd_process *p, uint64_t mask, uint32_t gpu, struct kfd_queue *q)
{
	if (!p->debugged) {
		return;
	}
	if (mask & KFD_EC_ALL_DEVICE) {
		p->devices[gpu].exceptions |= mask & KFD_EC_ALL_DEVICE;
	} else if (mask & KFD_EC_ALL_PROCESS) {
		p->exceptions |= mask & KFD_EC_ALL_PROCESS;
	} else if (q != NULL) {
		q->exceptions |= mask;
	}
	if ((p->enabled_mask & mask) != 0) {
		p->kfd->ops.fd_write(p->kfd->ops.data, p->event_file);
	}
}

static bool another_is_active(const struct kfd_process *p)
{
	for (const struct kfd_process *o = p->kfd->processes; o != NULL; o = o->next) {
		if (o != p && o->active) {
			return true;
		}
	}
	return false;
}

/* Informs the GPUs. If they allow one debugged process, a second one is "busy". */
static void activate(struct kfd_process *p)
{
	if (p->kfd->config.one_debugger && another_is_active(p)) {
		p->runtime.state = KFD_RUNTIME_BUSY;
		return;
	}
	p->active = true;
}

static void deactivate(struct kfd_process *p)
{
	kfd_resume_all(p);
	p->launch_mode = KFD_LAUNCH_NORMAL;
	p->flags = 0;
	p->active = false;
}

void kfd_end_debugging(struct kfd_process *target)
{
	if (!target->debugged) {
		return;
	}
	if (target->runtime.state == KFD_RUNTIME_ENABLED) {
		deactivate(target);
	} else if (target->runtime.state != KFD_RUNTIME_DISABLED) {
		target->runtime.state = KFD_RUNTIME_ENABLED;
	}
	target->kfd->ops.fd_put(target->kfd->ops.data, target->event_file);
	target->event_file = -1;
	target->debugger = 0;
	target->debugged = false;
	target->exceptions = 0;
	for (uint32_t i = 0; i < RBT_KFD_MAX_GPUS; i++) {
		target->devices[i].exceptions = 0;
	}
	/* "New" is cleared, too: the next debugger may suspend at once. */
	for (uint32_t i = 0; i < KFD_MAX_QUEUES; i++) {
		if (target->queues[i] != NULL) {
			target->queues[i]->exceptions = 0;
		}
	}
}

/* Both ends of the runtime wait for the debugger's answer; the call is then repeated by the same
 * task. An answer that no call waits for is kept, as a semaphore keeps it. */
static int64_t wait_for_debugger(struct kfd_call *c)
{
	struct kfd_process *p = c->process;

	p->waiting_tid = c->caller.tid;
	if (p->runtime_answers == 0) {
		return RBT_KFD_WAIT;
	}
	p->runtime_answers--;
	p->waiting_tid = 0;
	return 0;
}

int64_t kfd_runtime_enable(struct kfd_call *c)
{
	const struct kfd_runtime_enable *a = &c->arg.runtime;
	struct kfd_process *p = c->process;

	if (p->waiting_tid == c->caller.tid) {
		return wait_for_debugger(c);
	}
	if (a->mode_mask & KFD_RUNTIME_ENABLE_MODE) {
		if (p->runtime.state != KFD_RUNTIME_DISABLED) {
			return -EBUSY;
		}
		if (p->n_queues > 0) {
			return -EEXIST;
		}
		p->runtime = (struct kfd_runtime_info){
			.r_debug = a->r_debug,
			.state = KFD_RUNTIME_ENABLED,
			.ttmp_setup = (a->mode_mask & KFD_RUNTIME_TTMP_MODE) != 0,
		};
		if (p->debugged) {
			activate(p);
		}
	} else {
		bool was_enabled = p->runtime.state == KFD_RUNTIME_ENABLED;
		p->runtime = (struct kfd_runtime_info){.state = KFD_RUNTIME_DISABLED};
		if (p->debugged && was_enabled) {
			deactivate(p);
		}
	}
	if (!p->debugged) {
		return 0;
	}
	kfd_raise(p, KFD_EC_PROCESS_RUNTIME, 0, NULL);
	return wait_for_debugger(c);
}

static int64_t enable(struct kfd_call *c, struct kfd_process *target)
{
	struct kfd_dbg_trap *a = &c->arg.dbg;
	uint32_t size = a->enable.rinfo_size;

	if (target->debugged) {
		return -EALREADY;
	}
	int file = c->kfd->ops.fd_get(c->kfd->ops.data, c->caller, (int)a->enable.dbg_fd);
	if (file < 0) {
		return -EBADF;
	}
	target->event_file = file;
	target->debugger = target != c->process ? c->process->pid : 0;
	if (target->runtime.state == KFD_RUNTIME_ENABLED) {
		/* A failure of this shows only in the state. */
		activate(target);
	}
	target->debugged = true;
	target->enabled_mask = 0;
	a->enable.rinfo_size = sizeof(target->runtime);
	if (size > 0 &&
		c->kfd->ops.write(c->kfd->ops.data, c->caller.pid, a->enable.rinfo_ptr,
			&target->runtime,
			size < sizeof(target->runtime) ? size : sizeof(target->runtime)) < 0) {
		deactivate(target);
		if (c->kfd->config.minor >= KFD_MINOR_LATE_RULES) {
			kfd_end_debugging(target);
		}
		/* In older kernels the session exists nevertheless. */
		return -EFAULT;
	}
	target->enabled_mask = a->enable.exception_mask;
	return 0;
}

static int64_t send_runtime_event(struct kfd_call *c, struct kfd_process *target)
{
	uint64_t mask = c->arg.dbg.event.exception_mask;

	/* Other exceptions go to the runtime as signals, which do not occur here. */
	if ((mask & KFD_EC_DEVICE_MEMORY_FAULT) &&
		kfd_gpu_by_id(c->kfd, c->arg.dbg.event.gpu_id) < 0) {
		return -ENODEV;
	}
	if (mask & KFD_EC_PROCESS_RUNTIME) {
		target->runtime_answers++;
	}
	return 0;
}

static uint64_t all_exceptions(const struct kfd_process *p)
{
	uint64_t found = p->exceptions;

	for (uint32_t i = 0; i < KFD_MAX_QUEUES; i++) {
		found |= p->queues[i] != NULL ? p->queues[i]->exceptions : 0;
	}
	for (uint32_t i = 0; i < RBT_KFD_MAX_GPUS; i++) {
		found |= p->devices[i].exceptions;
	}
	return found;
}

static int64_t set_exceptions(struct kfd_call *c, struct kfd_process *target)
{
	target->enabled_mask = c->arg.dbg.exceptions.exception_mask;
	if ((target->enabled_mask & all_exceptions(target)) != 0) {
		c->kfd->ops.fd_write(c->kfd->ops.data, target->event_file);
	}
	return 0;
}

static int64_t query_event(struct kfd_call *c, struct kfd_process *target)
{
	struct kfd_dbg_trap *a = &c->arg.dbg;
	uint64_t clear = a->event.exception_mask;

	memset(&a->event, 0, sizeof(a->event));
	for (uint32_t i = 0; i < KFD_MAX_QUEUES; i++) {
		struct kfd_queue *q = target->queues[i];
		if (q != NULL && (q->exceptions & target->enabled_mask) != 0) {
			a->event.exception_mask = q->exceptions;
			a->event.queue_id = q->id;
			a->event.gpu_id = rbt_kfd_gpu_id(q->gpu);
			q->exceptions &= ~clear;
			return 0;
		}
	}
	for (uint32_t i = 0; i < c->kfd->config.n_gpus; i++) {
		struct kfd_device *d = &target->devices[i];
		if ((d->exceptions & target->enabled_mask) != 0) {
			a->event.exception_mask = d->exceptions;
			a->event.gpu_id = rbt_kfd_gpu_id(i);
			d->exceptions &= ~clear;
			return 0;
		}
	}
	if ((target->exceptions & target->enabled_mask) == 0) {
		return -EAGAIN;
	}
	a->event.exception_mask = target->exceptions;
	target->exceptions &= ~clear;
	return 0;
}

static int64_t op_not_modelled(struct kfd_call *c)
{
	kfd_log(c->kfd, "pid %d: DBG_TRAP operation %u is not modelled", c->caller.pid,
		c->arg.dbg.op);
	return -EINVAL;
}

static bool gpu_is_there(const struct kfd_call *c, uint32_t gpu_id)
{
	return kfd_gpu_by_id(c->kfd, gpu_id) >= 0;
}

/* The word with the exceptions of this code: of the process, or of the queue or device that
 * source_id names. NULL: no such source, or no such code. */
static uint64_t *find_exception(struct kfd_call *c, struct kfd_process *target)
{
	uint32_t code = c->arg.dbg.info.code, source = c->arg.dbg.info.source_id;
	uint64_t mask = code >= 1 && code <= 64 ? 1ull << (code - 1) : 0;

	if (mask & KFD_EC_ALL_QUEUE) {
		struct kfd_queue *q = kfd_find_queue(target, source);
		return q != NULL ? &q->exceptions : NULL;
	}
	if (mask & KFD_EC_ALL_DEVICE) {
		int gpu = kfd_gpu_by_id(c->kfd, source);
		return gpu >= 0 ? &target->devices[gpu].exceptions : NULL;
	}
	return mask & KFD_EC_ALL_PROCESS ? &target->exceptions : NULL;
}

/* Only the runtime has information; a memory fault would, too, but none happens here. */
static int64_t query_info(struct kfd_call *c, struct kfd_process *target)
{
	struct kfd_dbg_trap *a = &c->arg.dbg;
	uint32_t size = a->info.info_size, told = 0;
	uint64_t *found = a->info.info_ptr != 0 ? find_exception(c, target) : NULL;

	if (found == NULL) {
		return -EINVAL;
	}
	uint64_t mask = 1ull << (a->info.code - 1);
	if ((*found & mask) == 0) {
		return -ENODATA;
	}
	if (mask == KFD_EC_PROCESS_RUNTIME) {
		told = sizeof(target->runtime);
		if (c->kfd->ops.write(c->kfd->ops.data, c->caller.pid, a->info.info_ptr,
			    &target->runtime, size < told ? size : told) < 0) {
			return -EFAULT;
		}
	}
	a->info.info_size = told;
	if (a->info.clear) {
		*found &= ~mask;
	}
	return 0;
}

static void fill_queue(struct kfd_queue *q, uint64_t clear, struct kfd_queue_entry *ret)
{
	*ret = (struct kfd_queue_entry){
		.exception_status = q->exceptions,
		.ring_base_address = q->ring,
		.write_pointer_address = q->wptr_at,
		.read_pointer_address = q->rptr_at,
		.ctx_save_restore_address = q->save_at,
		.queue_id = q->id,
		.gpu_id = rbt_kfd_gpu_id(q->gpu),
		.ring_size = q->ring_size,
		.queue_type = q->type,
		.ctx_save_restore_area_size = q->save_size,
	};
	q->exceptions &= ~clear;
}

/* Advances by the caller's entry size, and fills at most one entry of our own size. */
static int64_t snapshot_queues(struct kfd_call *c, struct kfd_process *target)
{
	struct kfd_dbg_trap *a = &c->arg.dbg;
	uint32_t room = a->snapshot.n_entries, stride = a->snapshot.entry_size;
	struct kfd_queue_entry entry;

	a->snapshot.n_entries = 0;
	if (stride == 0) {
		return -EINVAL;
	}
	uint32_t size = stride < sizeof(entry) ? stride : sizeof(entry);
	a->snapshot.entry_size = size;
	for (uint32_t i = 0; i < KFD_MAX_QUEUES; i++) {
		if (target->queues[i] == NULL) {
			continue;
		}
		uint64_t at = a->snapshot.buf_ptr + (uint64_t)a->snapshot.n_entries * stride;
		if (a->snapshot.n_entries < room) {
			fill_queue(target->queues[i], a->snapshot.exception_mask, &entry);
			if (c->kfd->ops.write(c->kfd->ops.data, c->caller.pid, at, &entry, size) <
				0) {
				return -EFAULT;
			}
		}
		a->snapshot.n_entries++;
	}
	return 0;
}

static void fill_device(const struct kfd_call *c, const struct kfd_device *d, uint32_t gpu,
	struct kfd_device_entry *ret)
{
	struct kfd_aperture ap;

	kfd_fill_aperture(c->kfd, gpu, &ap);
	*ret = (struct kfd_device_entry){
		.exception_status = d->exceptions,
		.lds_base = ap.lds_base,
		.lds_limit = ap.lds_limit,
		.scratch_base = ap.scratch_base,
		.scratch_limit = ap.scratch_limit,
		.gpuvm_base = ap.gpuvm_base,
		.gpuvm_limit = ap.gpuvm_limit,
		.gpu_id = ap.gpu_id,
		.vendor_id = VENDOR_AMD,
		.gfx_target_version = c->kfd->config.gfx_target_version,
		.capability = KFD_CAP_DEBUG_FIRMWARE,
		.num_xcc = 1,
	};
}

static int64_t snapshot_devices(struct kfd_call *c, struct kfd_process *target)
{
	struct kfd_dbg_trap *a = &c->arg.dbg;
	uint32_t room = a->snapshot.n_entries, stride = a->snapshot.entry_size;
	uint32_t full = c->kfd->config.minor >= KFD_MINOR_CAPABILITY2
				? sizeof(struct kfd_device_entry)
				: KFD_DEVICE_ENTRY_OLD_SIZE;
	struct kfd_device_entry entry;

	if (a->snapshot.buf_ptr == 0) {
		return -EINVAL;
	}
	a->snapshot.n_entries = c->kfd->config.n_gpus;
	a->snapshot.entry_size = stride < full ? stride : full;
	for (uint32_t i = 0; i < room && i < c->kfd->config.n_gpus; i++) {
		struct kfd_device *d = &target->devices[i];
		fill_device(c, d, i, &entry);
		d->exceptions &= ~a->snapshot.exception_mask;
		if (c->kfd->ops.write(c->kfd->ops.data, c->caller.pid,
			    a->snapshot.buf_ptr + (uint64_t)i * stride, &entry,
			    a->snapshot.entry_size) < 0) {
			return -EFAULT;
		}
	}
	return 0;
}

static int64_t set_launch_mode(struct kfd_call *c, struct kfd_process *target)
{
	uint32_t mode = c->arg.dbg.launch.mode & 0xff;

	if (mode != KFD_LAUNCH_NORMAL && mode != KFD_LAUNCH_HALT && mode != KFD_LAUNCH_DEBUG) {
		return -EINVAL;
	}
	target->launch_mode = mode;
	return 0;
}

/* Without a GPU everything is supported without an effect; GPUs' capabilities are not modelled. */
static int64_t set_launch_override(struct kfd_call *c)
{
	if (c->kfd->config.n_gpus > 0) {
		return op_not_modelled(c);
	}
	c->arg.dbg.launch_override.support_mask = UINT32_MAX;
	return 0;
}

static int64_t set_watch(struct kfd_call *c)
{
	const struct kfd_dbg_trap *a = &c->arg.dbg;
	uint32_t gpu_id = a->op == KFD_DBG_SET_WATCH ? a->set_watch.gpu_id : a->clear_watch.gpu_id;

	return gpu_is_there(c, gpu_id) ? op_not_modelled(c) : -ENODEV;
}

/* Stored and returned; no GPU here can do what they request. */
static int64_t set_flags(struct kfd_call *c, struct kfd_process *target)
{
	uint32_t before = target->flags, wanted = c->arg.dbg.flags.flags;

	c->arg.dbg.flags.flags = before;
	if (c->kfd->config.n_gpus > 0 && (wanted & KNOWN_FLAGS) != 0) {
		return -EACCES;
	}
	target->flags = wanted;
	return 0;
}

static bool wants_hardware(uint32_t op)
{
	return op >= KFD_DBG_SET_LAUNCH_OVERRIDE && op <= KFD_DBG_SET_FLAGS;
}

static int64_t dispatch(struct kfd_call *c, struct kfd_process *target)
{
	switch (c->arg.dbg.op) {
	case KFD_DBG_ENABLE:
		return enable(c, target);
	case KFD_DBG_DISABLE:
		kfd_end_debugging(target);
		return 0;
	case KFD_DBG_SEND_RUNTIME_EVENT:
		return send_runtime_event(c, target);
	case KFD_DBG_SET_EXCEPTIONS:
		return set_exceptions(c, target);
	case KFD_DBG_SET_LAUNCH_MODE:
		return set_launch_mode(c, target);
	case KFD_DBG_SUSPEND_QUEUES:
		return kfd_suspend_queues(c, target);
	case KFD_DBG_RESUME_QUEUES:
		return kfd_resume_queues(c, target);
	case KFD_DBG_QUERY_EVENT:
		return query_event(c, target);
	case KFD_DBG_QUERY_EXCEPTION_INFO:
		return query_info(c, target);
	case KFD_DBG_QUEUE_SNAPSHOT:
		return snapshot_queues(c, target);
	case KFD_DBG_DEVICE_SNAPSHOT:
		return snapshot_devices(c, target);
	case KFD_DBG_SET_LAUNCH_OVERRIDE:
		return set_launch_override(c);
	case KFD_DBG_SET_WATCH:
	case KFD_DBG_CLEAR_WATCH:
		return set_watch(c);
	case KFD_DBG_SET_FLAGS:
		return set_flags(c, target);
	default:
		return -EINVAL;
	}
}

/*
 * Older kernels: the debugger is the thread that ptraces, and every process may disable. Newer
 * ones: that thread, or after it has enabled, any thread of its process; no other may disable.
 */
static bool may_debug(const struct kfd_call *c, const struct kfd_process *target, bool traces)
{
	if (target == c->process || traces) {
		return true;
	}
	if (c->kfd->config.ptrace_rule == RBT_KFD_PTRACE_THREAD) {
		return c->arg.dbg.op == KFD_DBG_DISABLE;
	}
	return target->debugged && target->debugger == c->process->pid;
}

int64_t kfd_dbg_trap(struct kfd_call *c)
{
	int pid = (int)c->arg.dbg.pid;
	uint32_t op = c->arg.dbg.op;
	struct rbt_kfd_task tracer = {0};

	if (c->process->secondary) {
		return -EOPNOTSUPP;
	}
	if (c->kfd->ops.tracer(c->kfd->ops.data, pid, &tracer) < 0) {
		return -ESRCH;
	}
	bool traces = tracer.tid != 0 && tracer.tid == c->caller.tid;
	/* A debugger may come before its target first opens the device. */
	struct kfd_process *target = op == KFD_DBG_ENABLE && traces ? kfd_get_process(c->kfd, pid)
								    : kfd_find_process(c->kfd, pid);
	if (target == NULL) {
		return -ESRCH;
	}
	if (!may_debug(c, target, traces)) {
		return -EPERM;
	}
	if (op != KFD_DBG_ENABLE && !target->debugged) {
		return -EINVAL;
	}
	if (wants_hardware(op) && target->runtime.state != KFD_RUNTIME_ENABLED) {
		return -EPERM;
	}
	return dispatch(c, target);
}
