/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs queues: the GPU learns of packets, works on them for its share of the time (share.c), and
 * moves the read pointer over them.
 *
 * A doorbell starts work. A program writes its write pointer, and then the queue's doorbell, which
 * is in memory that the program has mapped from /dev/kfd. Hardware sees that store. This model
 * cannot, so it compares every doorbell with its last value at each tick; packets start up to one
 * tick late. The GPU reads the pointers when the doorbell has changed, and when the queue enters
 * the run list: a doorbell that was written while the queue was off is not lost.
 *
 * If a queue is taken off in the middle of a packet, the state is saved to the queue's own save
 * area and nowhere else. A program that destroys it loses the packet's progress, and the count of
 * restarts shows it.
 */
#include <errno.h>
#include <string.h>

#include "softgpu/kfd/model.h"
#include "softgpu/kfd/timing.h"
#include "util/time.h"

#define PM4_STEP  16u /* dwords */
#define SDMA_STEP 64u /* bytes */
/* Many queues are checked less often: at most this many checks per millisecond. */
#define CHECKS_PER_MS 64u
/* More than any tick is long, and little enough to be multiplied. */
#define MAX_TODO_NS (1000 * RBT_NS_PER_S)

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

static void write_save_area(struct kfd_process *p, struct kfd_queue *q)
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

	(void)reach(p, q->rptr_at, &wave.packet, sizeof(wave.packet));
	/* The driver keeps what the runtime has put into the rest of the header. */
	(void)put(p, q->save_at, &header, offsetof(struct kfd_save_area_header, debug_offset));
	if (q->in_packet && put(p, q->save_at + KFD_SAVED_AT, &wave, sizeof(wave)) == 0) {
		q->saved = true;
	}
	q->ran_ns = 0;
}

void kfd_save(struct kfd_process *p, struct kfd_queue *q)
{
	q->mapped = false;
	if (q->switched_off) {
		q->switched_off = false; /* it is in its save area already */
		return;
	}
	/* Waves that have not run since they were restored are as many as before. */
	q->saved_share = q->share > 0 || !q->in_packet ? q->share : q->saved_share;
	q->share = 0;
	q->saved = false;
	if (has_save_area(q)) {
		write_save_area(p, q);
	}
}

void kfd_restore(struct kfd_process *p, struct kfd_queue *q)
{
	struct kfd_saved_wave wave = {0};
	uint64_t rptr = 0;
	bool under_way = q->in_packet;

	kfd_begin(q);
	if (!under_way || !q->in_packet || !kfd_is_compute(q)) {
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

static uint64_t pending(const struct kfd_queue *q)
{
	return pending_in(q, q->wptr, q->rptr);
}

static bool is_halted(const struct kfd_queue *q)
{
	return q->process->launch_mode == KFD_LAUNCH_HALT;
}

static void read_pointers(struct kfd_queue *q)
{
	q->must_read = reach(q->process, q->wptr_at, &q->wptr, sizeof(q->wptr)) < 0 ||
		       reach(q->process, q->rptr_at, &q->rptr, sizeof(q->rptr)) < 0;
	if (q->must_read) {
		q->wptr = q->rptr = 0;
	}
}

static void poll_bell(struct kfd_queue *q)
{
	const struct rbt_kfd_ops *ops = &q->process->kfd->ops;
	/* Read before the pointers: a pointer that was written before the doorbell is seen. */
	uint64_t bell = ops->doorbell(ops->data, q->process->pid, q->gpu, q->id);

	if (bell != q->bell || q->must_read) {
		q->bell = bell;
		read_pointers(q);
	}
	q->had_work = pending(q) > 0;
	if (!q->had_work) {
		q->in_packet = q->mapped = q->switched_off = false;
		q->ran_ns = 0;
		q->share = 0;
	}
}

/* Work starts at a tick, because the time of the doorbell between two ticks is unknown. */
static void start(struct kfd_queue *q)
{
	if (q->had_work && !q->in_packet && !is_halted(q)) {
		q->in_packet = true;
		q->ran_ns = 0;
	}
}

void kfd_begin(struct kfd_queue *q)
{
	q->must_read = true;
	poll_bell(q);
	start(q);
}

void kfd_settle(struct kfd_queue *q)
{
	uint64_t packet_ns = q->process->kfd->config.packet_us * RBT_NS_PER_US, step = step_of(q);
	uint64_t n = q->ran_ns / packet_ns, there = pending(q), left = (there + step - 1) / step;

	n = is_halted(q) && n > 1 ? 1 : n;
	n = n < left ? n : left;
	if (n == 0) {
		return;
	}
	q->completed += n;
	q->process->kfd->counters.packets += n;
	q->in_packet = n < left && !is_halted(q);
	q->ran_ns = q->in_packet ? q->ran_ns - n * packet_ns : 0;
	q->share = q->in_packet ? q->share : 0;
	q->rptr += n * step < there ? n * step : there;
	(void)put(q->process, q->rptr_at, &q->rptr, sizeof(q->rptr));
}

/* Queues with a packet under way: only these get a part of the time that has passed. */
struct lists {
	struct kfd_queue *compute[RBT_KFD_MAX_GPUS], *copy[RBT_KFD_MAX_GPUS];
};

static void enlist(struct lists *lists, struct kfd_queue *q)
{
	struct kfd_queue **list =
		kfd_is_compute(q) ? &lists->compute[q->gpu] : &lists->copy[q->gpu];
	uint64_t packet_ns = q->process->kfd->config.packet_us * RBT_NS_PER_US, step = step_of(q);
	uint64_t left = is_halted(q) ? 1 : (pending(q) + step - 1) / step;

	left = left < MAX_TODO_NS / packet_ns ? left : MAX_TODO_NS / packet_ns;
	q->todo_ns = left * packet_ns - (q->ran_ns < packet_ns ? q->ran_ns : packet_ns - 1);
	q->next_runnable = *list;
	*list = q;
}

/* The number of queues, and whether any of them has work. */
struct tally {
	uint64_t n;
	bool busy;
};

static void poll_all(struct rbt_kfd *kfd, struct lists *lists, struct tally *tally)
{
	for (struct kfd_process *p = kfd->processes; p != NULL; p = p->next) {
		for (uint32_t i = 0; p->n_queues > 0 && i < KFD_MAX_QUEUES; i++) {
			struct kfd_queue *q = p->queues[i];
			if (q == NULL) {
				continue;
			}
			tally->n++;
			if (!kfd_queue_may_run(p, q)) {
				continue;
			}
			poll_bell(q);
			tally->busy |= q->had_work;
			if (q->in_packet) {
				enlist(lists, q);
			} else {
				start(q);
			}
		}
	}
}

static void settle_all(struct kfd_queue *list)
{
	for (struct kfd_queue *q = list; q != NULL; q = q->next_runnable) {
		kfd_settle(q);
	}
}

uint64_t rbt_kfd_run(struct rbt_kfd *kfd, uint64_t now_ns)
{
	uint64_t from_ns = kfd->now_ns != 0 && kfd->now_ns < now_ns ? kfd->now_ns : now_ns;
	struct lists lists = {0};
	struct tally tally = {0};

	kfd->now_ns = now_ns > kfd->now_ns ? now_ns : kfd->now_ns;
	poll_all(kfd, &lists, &tally);
	for (uint32_t i = 0; i < kfd->config.n_gpus; i++) {
		kfd_work(kfd, i, lists.compute[i], true, from_ns, now_ns);
		kfd_work(kfd, i, lists.copy[i], false, from_ns, now_ns);
		settle_all(lists.compute[i]);
		settle_all(lists.copy[i]);
	}
	if (tally.n == 0) {
		return UINT64_MAX;
	}
	uint64_t tick_ns = (tally.busy ? KFD_HW_BUSY_TICK_US : KFD_HW_IDLE_TICK_US) * RBT_NS_PER_US,
		 least_ns = tally.n * RBT_NS_PER_MS / CHECKS_PER_MS;
	return now_ns + (tick_ns > least_ns ? tick_ns : least_ns);
}

void kfd_catch_up(struct rbt_kfd *kfd)
{
	uint64_t now_ns = kfd_now_ns(kfd);

	if (now_ns > kfd->now_ns) {
		(void)rbt_kfd_run(kfd, now_ns);
	}
}
