/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: made, changed and destroyed by their own process. */
#include <errno.h>
#include <stdlib.h>

#include "softgpu/kfd/model.h"

#define USER_END        (1ull << 47)
#define PERCENTAGE_MASK 0xffu
#define DOORBELL_BYTES  8u
#define MAX_CU_BITS     1024u

bool kfd_is_compute(const struct kfd_queue *q)
{
	return q->type == KFD_QUEUE_COMPUTE || q->type == KFD_QUEUE_COMPUTE_AQL;
}

bool kfd_queue_may_run(const struct kfd_process *p, const struct kfd_queue *q)
{
	return q->ring != 0 && q->ring_size > 0 && q->percentage > 0 && !q->suspended;
}

struct kfd_queue *kfd_find_queue(struct kfd_process *p, uint32_t id)
{
	return id < KFD_MAX_QUEUES ? p->queues[id] : NULL;
}

static bool is_power_of_two(uint32_t v)
{
	return v != 0 && (v & (v - 1)) == 0;
}

/* Raises a small ring size to the minimum, which the caller sees whatever the result is. */
static int64_t check_shape(const struct kfd_call *c, uint64_t ring, uint32_t *ring_size,
	uint32_t percentage, uint32_t priority)
{
	/* The other bytes have a meaning since the debugger interface, or soon after. */
	uint32_t mask = c->kfd->config.minor >= KFD_MINOR_DEBUGGER ? PERCENTAGE_MASK : UINT32_MAX;

	if ((percentage & mask) > KFD_MAX_PERCENTAGE || priority > KFD_MAX_PRIORITY) {
		return -EINVAL;
	}
	if (ring >= USER_END) {
		return -EFAULT;
	}
	if (*ring_size != 0 && !is_power_of_two(*ring_size)) {
		return -EINVAL;
	}
	if (*ring_size < KFD_MIN_RING_SIZE) {
		*ring_size = KFD_MIN_RING_SIZE;
	}
	return 0;
}

static bool metadata_fits(const struct kfd_call *c)
{
	uint32_t size = c->arg.create.metadata_ring_size;

	return c->kfd->config.minor < KFD_MINOR_METADATA || size == 0 || is_power_of_two(size);
}

static int64_t check_create(struct kfd_call *c)
{
	struct kfd_create_queue *a = &c->arg.create;
	bool by_engine = a->queue_type == KFD_QUEUE_SDMA_BY_ENGINE &&
			 c->kfd->config.minor >= KFD_MINOR_SDMA_ENGINE;
	int64_t r = check_shape(
		c, a->ring_base_address, &a->ring_size, a->queue_percentage, a->queue_priority);

	if (r < 0) {
		return r;
	}
	if (!metadata_fits(c)) {
		return -EINVAL;
	}
	if (a->read_pointer_address >= USER_END || a->write_pointer_address >= USER_END ||
		a->eop_buffer_address >= USER_END || a->ctx_save_restore_address >= USER_END) {
		return -EFAULT;
	}
	if (a->queue_type > KFD_QUEUE_SDMA_XGMI && !by_engine) {
		return -KFD_ERRNO_NOT_SUPPORTED;
	}
	int gpu = kfd_gpu_by_id(c->kfd, a->gpu_id);
	if (gpu < 0) {
		return -EINVAL;
	}
	return c->process->devices[gpu].has_vm ? 0 : -ESRCH;
}

static uint32_t free_id(const struct kfd_process *p)
{
	uint32_t id = 0;

	while (id < KFD_MAX_QUEUES && p->queues[id] != NULL) {
		id++;
	}
	return id;
}

int64_t kfd_create_queue(struct kfd_call *c)
{
	struct kfd_create_queue *a = &c->arg.create;
	int64_t r = check_create(c);

	if (r < 0) {
		return r;
	}
	uint32_t id = free_id(c->process);
	struct kfd_queue *q = id < KFD_MAX_QUEUES ? calloc(1, sizeof(*q)) : NULL;
	if (q == NULL) {
		return -ENOMEM;
	}
	*q = (struct kfd_queue){
		.process = c->process,
		.id = id,
		.gpu = (uint32_t)kfd_gpu_by_id(c->kfd, a->gpu_id),
		.type = a->queue_type == KFD_QUEUE_SDMA_BY_ENGINE ? KFD_QUEUE_SDMA : a->queue_type,
		.ring = a->ring_base_address,
		.ring_size = a->ring_size,
		.percentage = a->queue_percentage & PERCENTAGE_MASK,
		.priority = a->queue_priority,
		.wptr_at = a->write_pointer_address,
		.rptr_at = a->read_pointer_address,
		.save_at = a->ctx_save_restore_address,
		.save_size = a->ctx_save_restore_size,
		.sdma_engine = a->sdma_engine_id,
		/* In any case: a debugger that comes later finds it new. */
		.exceptions = KFD_EC_QUEUE_NEW,
	};
	c->process->queues[id] = q;
	c->process->n_queues++;
	a->queue_id = id;
	a->doorbell_offset = (uint64_t)q->gpu * RBT_KFD_DOORBELLS + id * DOORBELL_BYTES;
	if (kfd_queue_may_run(c->process, q)) {
		kfd_begin(q);
	}
	if (c->kfd->ops.changed != NULL && !c->process->secondary) {
		c->kfd->ops.changed(c->kfd->ops.data, c->process->pid, (int)id, true);
	}
	kfd_raise(c->process, KFD_EC_QUEUE_NEW, q->gpu, q);
	return 0;
}

void kfd_queue_free(struct kfd_process *p, uint32_t id)
{
	if (p->queues[id] == NULL) {
		return;
	}
	free(p->queues[id]);
	p->queues[id] = NULL;
	p->n_queues--;
	if (p->kfd->ops.changed != NULL && !p->secondary) {
		p->kfd->ops.changed(p->kfd->ops.data, p->pid, (int)id, false);
	}
}

int64_t kfd_destroy_queue(struct kfd_call *c)
{
	struct kfd_queue *q = kfd_find_queue(c->process, c->arg.destroy.queue_id);

	if (q == NULL) {
		return -EINVAL;
	}
	/* From here on it cannot be suspended again; while it is suspended, its memory must
	 * stay. */
	q->being_destroyed = true;
	if (c->process->debugged && q->suspended) {
		return RBT_KFD_WAIT;
	}
	uint32_t gpu = q->gpu;
	kfd_queue_free(c->process, q->id);
	kfd_raise(c->process, KFD_EC_DEVICE_QUEUE_DELETE, gpu, NULL);
	return 0;
}

int64_t kfd_update_queue(struct kfd_call *c)
{
	struct kfd_update_queue *a = &c->arg.update;
	int64_t r = check_shape(
		c, a->ring_base_address, &a->ring_size, a->queue_percentage, a->queue_priority);

	if (r < 0) {
		return r;
	}
	struct kfd_queue *q = kfd_find_queue(c->process, a->queue_id);
	if (q == NULL) {
		return -EFAULT;
	}
	/* Taken off and put back with its new properties, as after a suspend. */
	struct kfd_cost off = {0}, on = {0};
	if (kfd_queue_may_run(c->process, q)) {
		kfd_cost_off(&off, q);
		kfd_save(c->process, q);
	}
	q->ring = a->ring_base_address;
	q->ring_size = a->ring_size;
	q->percentage = a->queue_percentage & PERCENTAGE_MASK;
	q->priority = a->queue_priority;
	if (kfd_queue_may_run(c->process, q)) {
		kfd_restore(c->process, q);
		kfd_cost_on(&on, q);
	}
	c->took_ns = kfd_charge(c->kfd, &off, &on);
	return 0;
}

int64_t kfd_set_cu_mask(struct kfd_call *c)
{
	const struct kfd_set_cu_mask *a = &c->arg.cu_mask;
	uint32_t bits[MAX_CU_BITS / 32];

	if (a->n_bits == 0 || a->n_bits % 32 != 0) {
		return -EINVAL;
	}
	uint32_t n = a->n_bits < MAX_CU_BITS ? a->n_bits : MAX_CU_BITS;
	if (c->kfd->ops.read(c->kfd->ops.data, c->caller.pid, a->mask_ptr, bits, n / 8) < 0) {
		return -EFAULT;
	}
	struct kfd_queue *q = kfd_find_queue(c->process, a->queue_id);
	if (q == NULL) {
		return -EFAULT;
	}
	q->cu_bits = 0;
	for (uint32_t i = 0; i < n / 32; i++) {
		q->cu_bits += (uint32_t)__builtin_popcount(bits[i]);
	}
	return 0;
}
