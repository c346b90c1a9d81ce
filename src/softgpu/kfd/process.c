/* SPDX-License-Identifier: Apache-2.0 */
/* Processes and their open files: KFD knows a process from its first open to its end. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/kfd/model.h"

#define FIRST_GPU_ID  28851u /* real ids look like this: a hash, never 0 */
#define GPU_ID_STEP   1087u
#define MIN_MINOR     1u
#define MAX_PACKET_US 10000000u

uint32_t rbt_kfd_gpu_id(uint32_t gpu)
{
	return FIRST_GPU_ID + gpu * GPU_ID_STEP;
}

uint64_t kfd_now_ns(const struct rbt_kfd *kfd)
{
	return kfd->ops.now_ns != NULL ? kfd->ops.now_ns(kfd->ops.data) : kfd->now_ns;
}

int kfd_gpu_by_id(const struct rbt_kfd *kfd, uint32_t gpu_id)
{
	for (uint32_t i = 0; i < kfd->config.n_gpus; i++) {
		if (rbt_kfd_gpu_id(i) == gpu_id) {
			return (int)i;
		}
	}
	return -1;
}

void kfd_log(struct rbt_kfd *kfd, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	if (kfd->ops.log == NULL) {
		return;
	}
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	kfd->ops.log(kfd->ops.data, line);
}

struct rbt_kfd *rbt_kfd_create(const struct rbt_kfd_config *config, const struct rbt_kfd_ops *ops)
{
	struct rbt_kfd *kfd = calloc(1, sizeof(*kfd));

	if (kfd == NULL) {
		return NULL;
	}
	kfd->config = *config;
	kfd->ops = *ops;
	if (kfd->config.n_gpus > RBT_KFD_MAX_GPUS) {
		kfd->config.n_gpus = RBT_KFD_MAX_GPUS;
	}
	if (kfd->config.minor < MIN_MINOR) {
		kfd->config.minor = MIN_MINOR;
	}
	if (kfd->config.ptrace_rule == RBT_KFD_PTRACE_DEFAULT) {
		kfd->config.ptrace_rule = kfd->config.minor >= KFD_MINOR_LATE_RULES
						  ? RBT_KFD_PTRACE_PROCESS
						  : RBT_KFD_PTRACE_THREAD;
	}
	if (kfd->config.packet_us == 0 || kfd->config.packet_us > MAX_PACKET_US) {
		kfd->config.packet_us = RBT_KFD_DEFAULT_PACKET_US;
	}
	return kfd;
}

const struct rbt_kfd_config *rbt_kfd_config(const struct rbt_kfd *kfd)
{
	return &kfd->config;
}

struct kfd_process *kfd_find_process(struct rbt_kfd *kfd, int pid)
{
	for (struct kfd_process *p = kfd->processes; p != NULL; p = p->next) {
		if (p->pid == pid && !p->secondary) {
			return p;
		}
	}
	return NULL;
}

static struct kfd_process *process_create(struct rbt_kfd *kfd, int pid)
{
	struct kfd_process *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		return NULL;
	}
	p->kfd = kfd;
	p->pid = pid;
	p->event_file = -1;
	p->next = kfd->processes;
	kfd->processes = p;
	return p;
}

struct kfd_process *kfd_get_process(struct rbt_kfd *kfd, int pid)
{
	struct kfd_process *p = kfd_find_process(kfd, pid);

	if (p != NULL) {
		return p;
	}
	p = process_create(kfd, pid);
	if (p != NULL && kfd->ops.changed != NULL) {
		kfd->ops.changed(kfd->ops.data, pid, -1, true);
	}
	return p;
}

struct kfd_process *kfd_make_secondary(struct rbt_kfd_open *open)
{
	struct kfd_process *p = process_create(open->kfd, open->pid);

	if (p != NULL) {
		p->secondary = true;
		open->secondary = p;
	}
	return p;
}

struct rbt_kfd_open *rbt_kfd_open(struct rbt_kfd *kfd, int pid)
{
	struct rbt_kfd_open *o = calloc(1, sizeof(*o));

	if (o == NULL || kfd_get_process(kfd, pid) == NULL) {
		free(o);
		return NULL;
	}
	o->kfd = kfd;
	o->pid = pid;
	o->next = kfd->opens;
	kfd->opens = o;
	return o;
}

static void process_free(struct kfd_process *p)
{
	struct kfd_memory *next;

	kfd_end_debugging(p);
	for (uint32_t i = 0; i < KFD_MAX_QUEUES; i++) {
		kfd_queue_free(p, i);
	}
	for (struct kfd_memory *m = p->memory; m != NULL; m = next) {
		next = m->next;
		free(m);
	}
	kfd_free_events(p);
	if (p->kfd->ops.changed != NULL && !p->secondary) {
		p->kfd->ops.changed(p->kfd->ops.data, p->pid, -1, false);
	}
	free(p);
}

static void remove_process(struct kfd_process *p)
{
	struct kfd_process **at = &p->kfd->processes;

	while (*at != p) {
		at = &(*at)->next;
	}
	*at = p->next;
	process_free(p);
}

/* Only the file's own process goes with it. */
void rbt_kfd_close(struct rbt_kfd_open *open)
{
	if (open == NULL) {
		return;
	}
	struct rbt_kfd_open **at = &open->kfd->opens;
	while (*at != open) {
		at = &(*at)->next;
	}
	*at = open->next;
	if (open->secondary != NULL) {
		remove_process(open->secondary);
	}
	free(open);
}

void rbt_kfd_exit(struct rbt_kfd *kfd, int pid)
{
	struct kfd_process *next;

	for (struct rbt_kfd_open *o = kfd->opens; o != NULL; o = o->next) {
		o->secondary = o->pid == pid ? NULL : o->secondary;
	}
	for (struct kfd_process *p = kfd->processes; p != NULL; p = next) {
		next = p->next;
		if (p->pid == pid) {
			remove_process(p);
		}
	}
	/* The kernel ends the sessions of a debugger that dies, which resumes all queues. */
	for (struct kfd_process *p = kfd->processes; p != NULL; p = p->next) {
		if (p->debugged && p->debugger == pid) {
			kfd_end_debugging(p);
		}
	}
}

void rbt_kfd_destroy(struct rbt_kfd *kfd)
{
	struct rbt_kfd_open *next;

	if (kfd == NULL) {
		return;
	}
	while (kfd->processes != NULL) {
		rbt_kfd_exit(kfd, kfd->processes->pid);
	}
	for (struct rbt_kfd_open *o = kfd->opens; o != NULL; o = next) {
		next = o->next;
		free(o);
	}
	free(kfd);
}

/* Facts that a debugger or a runtime reads but nothing here depends on (assumed). */
void kfd_fill_aperture(const struct rbt_kfd *kfd, uint32_t gpu, struct kfd_aperture *ret)
{
	*ret = (struct kfd_aperture){
		.lds_base = 0x1000000000000ull,
		.lds_limit = 0x10000ffffffffull,
		.scratch_base = 0x2000000000000ull,
		.scratch_limit = 0x20000ffffffffull,
		.gpuvm_base = 0x4000,
		.gpuvm_limit = 0x7fffffffffffull,
		.gpu_id = rbt_kfd_gpu_id(gpu),
	};
}
