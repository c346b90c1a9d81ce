/* SPDX-License-Identifier: Apache-2.0 */
/* A process's address space on the GPUs: only the calls that a runtime makes before it creates
 * queues. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/kfd/model.h"

#define MAX_ALLOCATION (1ull << 40)
#define MAX_HANDLES    65536u
#define MAX_OLD_ROOM   ((4u << 20) / 56u) /* of what the kernel allocates at once; assumed */

static void tell(const struct kfd_call *c)
{
	if (c->kfd->ops.memory_changed != NULL) {
		c->kfd->ops.memory_changed(c->kfd->ops.data, c->process->pid);
	}
}

int64_t kfd_acquire_vm(struct kfd_call *c)
{
	const struct kfd_acquire_vm *a = &c->arg.acquire_vm;
	int gpu = kfd_gpu_by_id(c->kfd, a->gpu_id);

	/* Also if there is no such file. Which render node it is does not matter (assumed). */
	if (gpu < 0) {
		return -EINVAL;
	}
	struct kfd_device *d = &c->process->devices[gpu];
	if (d->has_vm) {
		return d->drm_fd == a->drm_fd ? 0 : -EBUSY;
	}
	d->has_vm = true;
	d->drm_fd = a->drm_fd;
	return 0;
}

int64_t kfd_alloc_memory(struct kfd_call *c)
{
	struct kfd_alloc_memory *a = &c->arg.alloc;
	int gpu = kfd_gpu_by_id(c->kfd, a->gpu_id);

	if (gpu < 0 || a->size == 0) {
		return -EINVAL;
	}
	if (!c->process->devices[gpu].has_vm) {
		return -ESRCH;
	}
	if (a->size > MAX_ALLOCATION || c->process->next_memory >= MAX_HANDLES) {
		return -ENOMEM;
	}
	struct kfd_memory *m = calloc(1, sizeof(*m));
	if (m == NULL) {
		return -ENOMEM;
	}
	m->gpu = (uint32_t)gpu;
	m->bytes = a->flags & KFD_ALLOC_VRAM ? a->size : 0;
	/* The GPU's id in the high half, a number of the process in the low half, as in the
	 * driver. */
	m->handle = (uint64_t)a->gpu_id << 32 | ++c->process->next_memory;
	m->next = c->process->memory;
	c->process->memory = m;
	c->process->devices[gpu].vram_bytes += m->bytes;
	a->handle = m->handle;
	tell(c);
	return 0;
}

int64_t kfd_free_memory(struct kfd_call *c)
{
	for (struct kfd_memory **at = &c->process->memory; *at != NULL; at = &(*at)->next) {
		struct kfd_memory *m = *at;
		if (m->handle == c->arg.free.handle) {
			c->process->devices[m->gpu].vram_bytes -= m->bytes;
			*at = m->next;
			free(m);
			tell(c);
			return 0;
		}
	}
	return -EINVAL;
}

static bool has_memory(const struct kfd_process *p, uint64_t handle)
{
	const struct kfd_memory *m = p->memory;

	while (m != NULL && m->handle != handle) {
		m = m->next;
	}
	return m != NULL;
}

/* Nothing here depends on mappings: both calls only check their arguments. */
int64_t kfd_map_memory(struct kfd_call *c)
{
	struct kfd_map_memory *a = &c->arg.map;
	uint32_t ids[RBT_KFD_MAX_GPUS + 1]; /* the CPU's node is a device, too */
	uint32_t n = a->n_ids;

	if (n == 0 || a->n_done > n) {
		return -EINVAL;
	}
	/* Ids beyond that name no GPU, but are read. */
	for (uint32_t i = 0; i < n && i < sizeof(ids) / sizeof(ids[0]); i++) {
		if (c->kfd->ops.read(c->kfd->ops.data, c->caller.pid,
			    a->ids_ptr + i * sizeof(ids[0]), &ids[i], sizeof(ids[0])) < 0) {
			return -EFAULT;
		}
	}
	if (!has_memory(c->process, a->handle) || n > c->kfd->config.n_gpus) {
		return -EINVAL;
	}
	for (; a->n_done < n; a->n_done++) {
		if (kfd_gpu_by_id(c->kfd, ids[a->n_done]) < 0) {
			return -EINVAL;
		}
	}
	return 0;
}

int64_t kfd_available_memory(struct kfd_call *c)
{
	struct kfd_available_memory *a = &c->arg.available;
	int gpu = kfd_gpu_by_id(c->kfd, a->gpu_id);

	if (gpu < 0) {
		return -EINVAL;
	}
	uint64_t used = c->process->devices[gpu].vram_bytes;
	a->available = used < RBT_KFD_VRAM_BYTES ? RBT_KFD_VRAM_BYTES - used : 0;
	return 0;
}

/* Older kernels allocated any room, as far as there was memory. */
static int64_t check_room(const struct rbt_kfd *kfd, uint32_t room)
{
	if (kfd->config.minor >= KFD_MINOR_DEBUGGER && !kfd->config.lenient) {
		return room > kfd->config.n_gpus + 1 ? -EINVAL : 0;
	}
	return room > MAX_OLD_ROOM ? -ENOMEM : 0;
}

int64_t kfd_apertures(struct kfd_call *c)
{
	struct kfd_apertures *a = &c->arg.apertures;
	struct kfd_aperture one;

	if (a->n == 0) {
		a->n = c->kfd->config.n_gpus;
		return 0;
	}
	int64_t r = check_room(c->kfd, a->n);
	if (r < 0) {
		return r;
	}
	uint32_t n = a->n < c->kfd->config.n_gpus ? a->n : c->kfd->config.n_gpus;
	for (uint32_t i = 0; i < n; i++) {
		kfd_fill_aperture(c->kfd, i, &one);
		if (c->kfd->ops.write(c->kfd->ops.data, c->caller.pid,
			    a->list_ptr + i * sizeof(one), &one, sizeof(one)) < 0) {
			return -EFAULT;
		}
	}
	a->n = n;
	return 0;
}

int64_t kfd_apertures_old(struct kfd_call *c)
{
	struct kfd_apertures_old *a = &c->arg.apertures_old;

	memset(a, 0, sizeof(*a));
	for (; a->n < c->kfd->config.n_gpus && a->n < KFD_OLD_APERTURES; a->n++) {
		kfd_fill_aperture(c->kfd, a->n, &a->list[a->n]);
	}
	return 0;
}

uint64_t rbt_kfd_vram_bytes(const struct rbt_kfd *kfd, int pid, uint32_t gpu)
{
	for (const struct kfd_process *p = kfd->processes; p != NULL; p = p->next) {
		if (p->pid == pid && gpu < RBT_KFD_MAX_GPUS) {
			return p->devices[gpu].vram_bytes;
		}
	}
	return 0;
}
