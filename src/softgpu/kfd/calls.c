/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that nothing here depends on. They are checked as the driver does, up to the point where a
 * GPU would be needed; then they are reported as missing.
 */
#include <errno.h>

#include "softgpu/kfd/model.h"

#define MAX_POLICY      1u
#define SVM_HEADER      sizeof(struct kfd_svm)
#define ATTRIBUTE_SIZE  8u
#define MINOR_SVM       18u /* earlier Debian kernels are built without it */
#define PAGE_BYTES      4096u
#define PROFILER_PMC    0u
#define PROFILER_GIVES  2u /* its version */
#define PROFILER_PTL    3u
#define PROFILER_NUMBER 1u

int64_t kfd_not_modelled(struct kfd_call *c)
{
	c->kfd->counters.unknown++;
	kfd_log(c->kfd, "pid %d: KFD ioctl number 0x%x is not modelled", c->caller.pid, c->nr);
	return -ENOTTY;
}

/* Whether the GPU that the caller names exists and is bound, as most calls require. */
static int64_t check_gpu(const struct kfd_call *c, uint32_t gpu_id)
{
	int gpu = kfd_gpu_by_id(c->kfd, gpu_id);

	if (gpu < 0) {
		return -EINVAL;
	}
	return c->process->devices[gpu].has_vm ? 0 : -ESRCH;
}

/* For a call that only checks the GPU, or that cannot be answered. */
static int64_t with_gpu(struct kfd_call *c, uint32_t gpu_id)
{
	return kfd_gpu_by_id(c->kfd, gpu_id) < 0 ? -EINVAL : kfd_not_modelled(c);
}

int64_t kfd_set_policy(struct kfd_call *c)
{
	const struct kfd_set_policy *a = &c->arg.policy;

	return a->policy > MAX_POLICY || a->alternate > MAX_POLICY ? -EINVAL
								   : check_gpu(c, a->gpu_id);
}

/* The first debugger interface, which was removed. */
int64_t kfd_refused(struct kfd_call *c)
{
	return -EPERM;
}

int64_t kfd_set_scratch(struct kfd_call *c)
{
	return check_gpu(c, c->arg.words[2]);
}

int64_t kfd_tile_config(struct kfd_call *c)
{
	return with_gpu(c, c->arg.words[8]);
}

int64_t kfd_set_trap_handler(struct kfd_call *c)
{
	return check_gpu(c, c->arg.words[4]);
}

int64_t kfd_wave_state(struct kfd_call *c)
{
	return kfd_find_queue(c->process, c->arg.wave_state.queue_id) == NULL ? -EFAULT
									      : kfd_not_modelled(c);
}

int64_t kfd_dmabuf_info(struct kfd_call *c)
{
	return c->kfd->config.n_gpus == 0 ? -EINVAL : kfd_not_modelled(c);
}

int64_t kfd_import_dmabuf(struct kfd_call *c)
{
	return with_gpu(c, c->arg.words[4]);
}

int64_t kfd_export_dmabuf(struct kfd_call *c)
{
	return with_gpu(c, c->arg.words[1]); /* the upper half of the handle */
}

int64_t kfd_alloc_gws(struct kfd_call *c)
{
	return kfd_find_queue(c->process, c->arg.words[0]) == NULL ? -EINVAL : kfd_not_modelled(c);
}

int64_t kfd_smi_events(struct kfd_call *c)
{
	return with_gpu(c, c->arg.words[0]);
}

static bool has_svm(const struct kfd_call *c)
{
	return c->kfd->config.minor >= MINOR_SVM;
}

/* The caller's size is checked against the number of attributes first. */
int64_t kfd_svm(struct kfd_call *c)
{
	const struct kfd_svm *a = &c->arg.svm;

	if (c->size < SVM_HEADER + (uint64_t)a->n_attributes * ATTRIBUTE_SIZE) {
		return -EINVAL;
	}
	if (!has_svm(c)) {
		return -EPERM;
	}
	if (a->start == 0 || a->size == 0 || ((a->start | a->size) & (PAGE_BYTES - 1)) != 0) {
		return -EINVAL;
	}
	return kfd_not_modelled(c);
}

/* Negative: a query, not a change. Without a GPU, none refuses it. */
int64_t kfd_xnack(struct kfd_call *c)
{
	int32_t wanted = (int32_t)c->arg.words[0];
	struct kfd_process *p = c->process;
	bool possible = c->kfd->config.n_gpus == 0;

	if (!has_svm(c)) {
		return -EPERM;
	}
	if (wanted < 0) {
		c->arg.words[0] = possible && !p->xnack_off;
		return 0;
	}
	if (p->n_queues > 0) {
		return -EBUSY;
	}
	if (wanted > 0 && !possible) {
		return -EPERM;
	}
	p->xnack_off = wanted == 0;
	return 0;
}

int64_t kfd_criu(struct kfd_call *c)
{
	return kfd_not_modelled(c);
}

/* Gives the file a process of its own; only once, and only for a file of the program's main
 * process. */
int64_t kfd_create_process(struct kfd_call *c)
{
	if (c->process->secondary) {
		return -EINVAL;
	}
	return kfd_make_secondary(c->open) != NULL ? 0 : -ENOMEM;
}

int64_t kfd_profiler(struct kfd_call *c)
{
	struct kfd_profiler *a = &c->arg.profiler;

	switch (a->op) {
	case PROFILER_GIVES:
		a->value[0] = PROFILER_NUMBER;
		return 0;
	case PROFILER_PMC:
		return c->caller.may_profile ? with_gpu(c, a->value[0]) : -EPERM;
	case PROFILER_PTL:
		return with_gpu(c, a->value[0]);
	default:
		return -EINVAL;
	}
}
