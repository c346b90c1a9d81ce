/* SPDX-License-Identifier: Apache-2.0 */
/* SUSPEND_QUEUES and RESUME_QUEUES: the result is how many obeyed; the ids tell why others did
 * not. */
#include <errno.h>
#include <stdlib.h>

#include "softgpu/kfd/model.h"

#define MAX_LENIENT 65536u /* more could not be allocated (assumed) */

/* The ids as the caller gave them, all marked invalid. */
struct ids {
	uint64_t addr;
	uint32_t n;
	uint32_t *id; /* owned */
};

static int read_ids(struct kfd_call *c, uint64_t addr, uint32_t n, struct ids *ret)
{
	if (n > KFD_MAX_QUEUES && !c->kfd->config.lenient) {
		return -EINVAL;
	}
	ret->addr = addr;
	ret->n = n;
	ret->id = n <= MAX_LENIENT ? malloc((n + 1) * sizeof(ret->id[0])) : NULL;
	if (ret->id == NULL) {
		return -ENOMEM;
	}
	if (n > 0 && c->kfd->ops.read(c->kfd->ops.data, c->caller.pid, addr, ret->id,
			     n * sizeof(ret->id[0])) < 0) {
		free(ret->id);
		return -EFAULT;
	}
	for (uint32_t i = 0; i < n; i++) {
		ret->id[i] |= KFD_QUEUE_ID_INVALID;
	}
	return 0;
}

/* The first id of the queue; a second one stays invalid. */
static uint32_t *find_id(struct ids *ids, uint32_t queue)
{
	for (uint32_t i = 0; i < ids->n; i++) {
		if ((ids->id[i] & ~KFD_QUEUE_ID_INVALID) == queue) {
			return &ids->id[i];
		}
	}
	return NULL;
}

/* Writes the ids back and frees them. */
static void write_ids(struct kfd_call *c, struct ids *ids)
{
	(void)c->kfd->ops.write(
		c->kfd->ops.data, c->caller.pid, ids->addr, ids->id, ids->n * sizeof(ids->id[0]));
	free(ids->id);
}

static bool suspend_one(
	struct kfd_call *c, struct kfd_process *p, struct kfd_queue *q, struct kfd_cost *cost)
{
	if (q->suspended) {
		q->grace_period = c->arg.dbg.suspend.grace_period;
		return true;
	}
	if ((q->exceptions & KFD_EC_QUEUE_NEW) != 0 || q->being_destroyed) {
		return false;
	}
	if (kfd_queue_may_run(p, q)) {
		kfd_cost_off(cost, q);
		kfd_save(p, q);
	}
	q->suspended = true;
	q->grace_period = c->arg.dbg.suspend.grace_period;
	q->n_suspends++;
	return true;
}

int64_t kfd_suspend_queues(struct kfd_call *c, struct kfd_process *target)
{
	uint64_t clear = c->arg.dbg.suspend.exception_mask;
	uint32_t n = c->arg.dbg.suspend.n_queues;
	struct kfd_cost cost = {0};
	struct ids ids;
	int64_t done = 0;

	if (c->arg.dbg.suspend.queue_array_ptr == 0) {
		if (n > 0) {
			/* 6.12.43 writes through the null pointer; later kernels refuse. */
			c->kfd->counters.oopses++;
			kfd_log(c->kfd,
				"pid %d: SUSPEND_QUEUES of %u queues without an array: "
				"an older kernel would have crashed",
				c->caller.pid, n);
			return -EINVAL;
		}
		return 0;
	}
	int r = read_ids(c, c->arg.dbg.suspend.queue_array_ptr, n, &ids);
	if (r < 0) {
		return r;
	}
	for (uint32_t i = 0; i < KFD_MAX_QUEUES; i++) {
		struct kfd_queue *q = target->queues[i];
		uint32_t *id = q != NULL ? find_id(&ids, i) : NULL;
		if (id == NULL) {
			continue;
		}
		if (c->fail_queues) {
			*id = i | KFD_QUEUE_ID_ERROR;
		} else if (suspend_one(c, target, q, &cost)) {
			*id = i;
			q->exceptions &= ~clear;
			done++;
		}
	}
	write_ids(c, &ids);
	c->took_ns = kfd_charge(c->kfd, &cost, NULL);
	return done;
}

static void resume_one(struct kfd_process *p, struct kfd_queue *q, struct kfd_cost *cost)
{
	if (!q->suspended) {
		return;
	}
	q->suspended = false;
	q->grace_period = 0;
	if (kfd_queue_may_run(p, q)) {
		kfd_restore(p, q);
		kfd_cost_on(cost, q);
	}
}

void kfd_resume_all(struct kfd_process *target)
{
	struct kfd_cost cost = {0};

	for (uint32_t i = 0; i < KFD_MAX_QUEUES; i++) {
		if (target->queues[i] != NULL) {
			resume_one(target, target->queues[i], &cost);
		}
	}
	(void)kfd_charge(target->kfd, NULL, &cost);
}

int64_t kfd_resume_queues(struct kfd_call *c, struct kfd_process *target)
{
	struct kfd_cost cost = {0};
	struct ids ids = {0};
	int64_t done = 0;
	bool all = c->arg.dbg.resume.queue_array_ptr == 0;
	int r = all ? 0
		    : read_ids(c, c->arg.dbg.resume.queue_array_ptr, c->arg.dbg.resume.n_queues,
			      &ids);

	if (r < 0) {
		return r;
	}
	for (uint32_t i = 0; i < KFD_MAX_QUEUES; i++) {
		struct kfd_queue *q = target->queues[i];
		uint32_t *id = q != NULL && !all ? find_id(&ids, i) : NULL;
		if (q == NULL || (!all && id == NULL)) {
			continue;
		}
		if (c->fail_queues && !all) {
			*id = i | KFD_QUEUE_ID_ERROR;
			continue;
		}
		resume_one(target, q, &cost);
		done++;
		if (!all) {
			*id = i;
		}
	}
	if (!all) {
		write_ids(c, &ids);
	}
	c->took_ns = kfd_charge(c->kfd, NULL, &cost);
	return done;
}
