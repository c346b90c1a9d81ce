/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs queues, each by itself: a packet takes its time, then the read pointer moves over it. If a
 * queue is taken off in the middle of a packet, the state is saved to the queue's own save area and
 * nowhere else. A program that destroys it loses the packet's progress, and the count of restarts
 * shows it.
 */
#include <errno.h>
#include <string.h>

#include "softgpu/kfd/model.h"
#include "util/time.h"

#define PM4_STEP  16u /* dwords */
#define SDMA_STEP 64u /* bytes */
/* How often queues are checked for work: a program advances its write pointer without notice. */
#define BUSY_TICK_NS (2 * RBT_NS_PER_MS)
#define IDLE_TICK_NS (10 * RBT_NS_PER_MS)
/* Many queues are checked less often: at most this many checks per millisecond. */
#define CHECKS_PER_MS 64u

static int reach(struct kfd_process *p, uint64_t addr, void *buf, size_t size)
{
	return p->kfd->ops.read(p->kfd->ops.data, p->pid, addr, buf, size);
}

static int put(struct kfd_process *p, uint64_t addr, const void *buf, size_t size)
{
	return p->kfd->ops.write(p->kfd->ops.data, p->pid, addr, buf, size);
}

static bool has_save_area(const struct kfd_queue *q)
{
	return kfd_is_compute(q) && q->save_at != 0 &&
	       q->save_size >= KFD_SAVED_AT + sizeof(struct kfd_saved_wave);
}

void kfd_save(struct kfd_process *p, struct kfd_queue *q)
{
	struct kfd_saved_wave wave = {
		.magic = KFD_SAVED_MAGIC,
		.queue_id = q->id,
		.ran_ns = q->ran_ns,
		.serial = ++q->serial,
	};
	struct kfd_save_area_header header = {
		.wave_state_offset = KFD_SAVED_AT,
		.wave_state_size = q->in_packet ? sizeof(wave) : 0,
		.control_stack_offset = KFD_SAVED_AT,
	};

	q->saved = false;
	if (!has_save_area(q)) {
		return;
	}
	(void)reach(p, q->rptr_at, &wave.packet, sizeof(wave.packet));
	/* The driver keeps what the runtime has put into the rest of the header. */
	(void)put(p, q->save_at, &header, offsetof(struct kfd_save_area_header, debug_offset));
	if (q->in_packet && put(p, q->save_at + KFD_SAVED_AT, &wave, sizeof(wave)) == 0) {
		q->saved = true;
	}
	q->ran_ns = 0;
}

void kfd_restore(struct kfd_process *p, struct kfd_queue *q)
{
	struct kfd_saved_wave wave = {0};
	uint64_t rptr = 0;

	if (!q->in_packet || !kfd_is_compute(q)) {
		return;
	}
	if (q->saved && reach(p, q->save_at + KFD_SAVED_AT, &wave, sizeof(wave)) == 0 &&
		reach(p, q->rptr_at, &rptr, sizeof(rptr)) == 0 && wave.magic == KFD_SAVED_MAGIC &&
		wave.queue_id == q->id && wave.serial == q->serial && wave.packet == rptr &&
		wave.ran_ns <= p->kfd->config.packet_us * RBT_NS_PER_US) {
		q->ran_ns = wave.ran_ns;
		q->restored++;
	} else {
		q->ran_ns = 0;
		q->restarted++;
	}
	q->saved = false;
}

static uint64_t step_of(const struct kfd_queue *q)
{
	return q->type == KFD_QUEUE_COMPUTE_AQL ? 1 : kfd_is_compute(q) ? PM4_STEP : SDMA_STEP;
}

/* The work in the ring, in the pointers' unit; 0 also if the pointers make no sense. */
static uint64_t pending_in(const struct kfd_queue *q, uint64_t wptr, uint64_t rptr)
{
	uint64_t pending = wptr - rptr;

	/* The unit is packets of 64 bytes, dwords or bytes: never more than bytes. */
	return pending <= q->ring_size ? pending : 0;
}

static void run_queue(struct kfd_process *p, struct kfd_queue *q, uint64_t elapsed_ns)
{
	uint64_t packet_ns = p->kfd->config.packet_us * RBT_NS_PER_US, step = step_of(q);
	uint64_t wptr = 0, rptr = 0;

	q->had_work = false;
	if (reach(p, q->wptr_at, &wptr, sizeof(wptr)) < 0 ||
		reach(p, q->rptr_at, &rptr, sizeof(rptr)) < 0) {
		return;
	}
	uint64_t pending = pending_in(q, wptr, rptr);
	if (pending == 0) {
		q->in_packet = false;
		q->ran_ns = 0;
		return;
	}
	q->had_work = true;
	bool halted = p->launch_mode == KFD_LAUNCH_HALT;
	if (!q->in_packet) {
		/* New work: the packet starts now. */
		q->in_packet = !halted;
		q->ran_ns = 0;
		return;
	}
	q->ran_ns += elapsed_ns;
	uint64_t n = q->ran_ns / packet_ns, left = (pending + step - 1) / step;
	n = halted && n > 1 ? 1 : n;
	n = n < left ? n : left;
	if (n == 0) {
		return;
	}
	q->ran_ns -= n * packet_ns;
	q->completed += n;
	p->kfd->counters.packets += n;
	q->in_packet = n < left && !halted;
	q->ran_ns = q->in_packet ? q->ran_ns : 0;
	rptr += n * step < pending ? n * step : pending;
	(void)put(p, q->rptr_at, &rptr, sizeof(rptr));
}

uint64_t rbt_kfd_run(struct rbt_kfd *kfd, uint64_t now_ns)
{
	uint64_t elapsed_ns = kfd->now_ns != 0 && now_ns > kfd->now_ns ? now_ns - kfd->now_ns : 0;
	uint64_t n = 0;
	bool busy = false;

	kfd->now_ns = now_ns;
	for (struct kfd_process *p = kfd->processes; p != NULL; p = p->next) {
		for (uint32_t i = 0; p->n_queues > 0 && i < KFD_MAX_QUEUES; i++) {
			struct kfd_queue *q = p->queues[i];
			if (q == NULL) {
				continue;
			}
			n++;
			if (kfd_queue_may_run(p, q)) {
				run_queue(p, q, elapsed_ns);
				busy |= q->had_work;
			}
		}
	}
	if (n == 0) {
		return UINT64_MAX;
	}
	uint64_t tick_ns = busy ? BUSY_TICK_NS : IDLE_TICK_NS,
		 least_ns = n * RBT_NS_PER_MS / CHECKS_PER_MS;
	return now_ns + (tick_ns > least_ns ? tick_ns : least_ns);
}
