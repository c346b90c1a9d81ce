/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the queues of a GPU share it. The numbers are in timing.h.
 *
 * Slots: a GPU works on a limited number of compute queues at once (its slots), which belong to a
 * limited number of processes (its address spaces). Each packet fills the GPU (assumed). So the
 * queues in slots share the time: each queue gets a part in proportion to its weight, and the part
 * of an idle queue goes to the others.
 *
 * Weight: the level of the queue's priority (low, medium or high) times the queue's percentage. A
 * lower level slows a queue down and never stops it. Before MES, all queues of the GPU compete, so
 * that a process with two busy queues gets twice as much as a process with one. With MES, processes
 * get equal parts, and levels count among the queues of one process. Linux uses the percentage only
 * to decide whether a queue may run; its use as a weight is assumed.
 *
 * Oversubscription: if more queues or processes have work than fit, queues keep their slots for one
 * quantum, and then the queues that have waited longest get slots. The GPU saves the waves of a
 * queue that loses its slot, and restores them later; this is as exact as a suspend, and cheaper.
 *
 * Suspending and resuming by the driver takes longer, and the longer the more waves there are to
 * save or restore. Before MES, the driver unmaps all queues of the GPU for this, so no queue works
 * meanwhile. With MES, only the resumed queue waits for its waves. The calling thread waits in both
 * cases.
 *
 * Copy queues (SDMA) have engines of their own. As many copy queues as there are engines work at
 * full speed; more of them share the engines.
 *
 * Time is continuous: within a tick, shares change as soon as a queue runs empty, has its waves
 * restored, or gets a slot.
 */
#include "softgpu/kfd/model.h"
#include "softgpu/kfd/timing.h"
#include "util/time.h"

static bool has_mes(const struct rbt_kfd *kfd)
{
	return kfd->config.gfx_target_version >= KFD_GFX_MES;
}

static uint32_t weight_of(const struct kfd_queue *q)
{
	uint32_t level = q->priority >= KFD_HW_HIGH     ? KFD_HW_HIGH_WEIGHT
			 : q->priority >= KFD_HW_MEDIUM ? KFD_HW_MEDIUM_WEIGHT
							: KFD_HW_LOW_WEIGHT;

	return level * q->percentage;
}

static bool works(const struct kfd_queue *q, uint64_t now_ns)
{
	return q->mapped && q->todo_ns > 0 && q->ready_ns <= now_ns;
}

static struct kfd_queue *longest_waiting(struct kfd_queue *list, uint32_t n_processes)
{
	struct kfd_queue *best = NULL;

	for (struct kfd_queue *q = list; q != NULL; q = q->next_runnable) {
		bool fits = q->process->chosen || n_processes < KFD_HW_PROCESSES;
		if (!q->chosen && q->todo_ns > 0 && fits &&
			(best == NULL || q->turn < best->turn)) {
			best = q;
		}
	}
	return best;
}

static void choose(struct kfd_queue *q, uint32_t *n_processes)
{
	*n_processes += !q->process->chosen;
	q->process->chosen = q->chosen = true;
}

/* Queues keep their slots until the turn is over. Free slots go to the queues that have waited
 * longest. */
static void choose_all(struct kfd_gpu *gpu, struct kfd_queue *list, bool turn_is_over)
{
	uint32_t n = 0, n_processes = 0;
	struct kfd_queue *q;

	for (q = list; q != NULL; q = q->next_runnable) {
		q->chosen = q->process->chosen = false;
	}
	for (q = list; q != NULL && !turn_is_over; q = q->next_runnable) {
		if (q->mapped && q->todo_ns > 0) {
			choose(q, &n_processes);
			n++;
		}
	}
	while (n < KFD_HW_SLOTS && (q = longest_waiting(list, n_processes)) != NULL) {
		choose(q, &n_processes);
		q->turn = ++gpu->last_turn;
		n++;
	}
}

static void switch_off(struct kfd_queue *q)
{
	kfd_settle(q);
	if (q->in_packet) {
		q->todo_ns += q->ran_ns; /* which is in the save area from now on */
		kfd_save(q->process, q);
		q->switched_off = true;
	}
}

static void switch_on(struct kfd_queue *q)
{
	q->mapped = true;
	if (q->switched_off) {
		q->switched_off = false;
		kfd_restore(q->process, q);
		q->todo_ns -= q->ran_ns < q->todo_ns ? q->ran_ns : q->todo_ns - 1;
	}
}

/* Assigns slots. Returns the time at which the GPU has switched queues. */
static uint64_t map_queues(struct kfd_gpu *gpu, struct kfd_queue *list, uint64_t now_ns)
{
	bool turn_is_over = now_ns >= gpu->turn_ends_ns, switched = false;

	choose_all(gpu, list, turn_is_over);
	for (struct kfd_queue *q = list; q != NULL; q = q->next_runnable) {
		if (q->mapped && !q->chosen && q->todo_ns > 0) {
			switch_off(q);
			switched = true;
		}
		q->mapped = q->mapped && q->chosen;
	}
	for (struct kfd_queue *q = list; q != NULL; q = q->next_runnable) {
		if (!q->mapped && q->chosen) {
			switch_on(q);
		}
	}
	if (turn_is_over) {
		gpu->turn_ends_ns = now_ns + KFD_HW_QUANTUM_US * RBT_NS_PER_US;
	}
	return switched ? now_ns + KFD_HW_SWITCH_US * RBT_NS_PER_US : now_ns;
}

static void set_share(struct kfd_queue *q, uint64_t part, uint64_t parts)
{
	q->part = part;
	q->parts = parts;
	q->share = (uint32_t)(KFD_WHOLE * part / parts);
}

static void share_compute(const struct rbt_kfd *kfd, struct kfd_queue *list, uint64_t now_ns)
{
	uint64_t sum = 0, n_processes = 0;

	for (struct kfd_queue *q = list; q != NULL; q = q->next_runnable) {
		q->process->weight = 0;
	}
	for (struct kfd_queue *q = list; q != NULL; q = q->next_runnable) {
		if (works(q, now_ns)) {
			n_processes += q->process->weight == 0;
			q->process->weight += weight_of(q);
			sum += weight_of(q);
		}
	}
	for (struct kfd_queue *q = list; q != NULL; q = q->next_runnable) {
		if (works(q, now_ns)) {
			set_share(q, weight_of(q),
				has_mes(kfd) ? q->process->weight * n_processes : sum);
		} else {
			q->share = 0;
		}
	}
}

static void share_copy(struct kfd_queue *list, uint64_t now_ns)
{
	uint64_t n = 0;

	for (struct kfd_queue *q = list; q != NULL; q = q->next_runnable) {
		q->mapped = true;
		n += works(q, now_ns);
	}
	for (struct kfd_queue *q = list; q != NULL; q = q->next_runnable) {
		if (works(q, now_ns)) {
			set_share(q, n < KFD_HW_COPY_ENGINES ? n : KFD_HW_COPY_ENGINES, n);
		}
	}
}

/* When shares change next. */
static uint64_t next_event(
	const struct kfd_gpu *gpu, const struct kfd_queue *list, uint64_t now_ns, uint64_t to_ns)
{
	uint64_t event_ns = to_ns;

	for (const struct kfd_queue *q = list; q != NULL; q = q->next_runnable) {
		uint64_t at_ns = UINT64_MAX;
		if (works(q, now_ns)) {
			at_ns = now_ns + (q->todo_ns * q->parts + q->part - 1) / q->part;
		} else if (q->todo_ns > 0) {
			at_ns = q->mapped ? q->ready_ns : gpu->turn_ends_ns;
		}
		event_ns = at_ns < event_ns ? at_ns : event_ns;
	}
	return event_ns > now_ns ? event_ns : now_ns + 1;
}

static void work(struct kfd_queue *list, uint64_t now_ns, uint64_t elapsed_ns)
{
	for (struct kfd_queue *q = list; q != NULL; q = q->next_runnable) {
		if (works(q, now_ns)) {
			uint64_t did_ns = elapsed_ns * q->part / q->parts;
			did_ns = did_ns < q->todo_ns ? did_ns : q->todo_ns;
			q->ran_ns += did_ns;
			q->todo_ns -= did_ns;
		}
	}
}

void kfd_work(struct rbt_kfd *kfd, uint32_t index, struct kfd_queue *list, bool compute,
	uint64_t from_ns, uint64_t to_ns)
{
	struct kfd_gpu *gpu = &kfd->gpus[index];

	while (list != NULL && from_ns < to_ns) {
		if (from_ns < gpu->stalled_until_ns) {
			from_ns = gpu->stalled_until_ns;
			continue;
		}
		if (compute) {
			gpu->stalled_until_ns = map_queues(gpu, list, from_ns);
			if (gpu->stalled_until_ns > from_ns) {
				continue;
			}
			share_compute(kfd, list, from_ns);
		} else {
			share_copy(list, from_ns);
		}
		uint64_t event_ns = next_event(gpu, list, from_ns, to_ns);
		work(list, from_ns, event_ns - from_ns);
		from_ns = event_ns;
	}
}

static uint32_t waves_on(const struct rbt_kfd *kfd, uint32_t gpu)
{
	uint32_t sum = 0;

	for (const struct kfd_process *p = kfd->processes; p != NULL; p = p->next) {
		for (uint32_t i = 0; p->n_queues > 0 && i < KFD_MAX_QUEUES; i++) {
			const struct kfd_queue *q = p->queues[i];
			if (q != NULL && q->gpu == gpu && kfd_is_compute(q)) {
				sum += q->share;
			}
		}
	}
	return sum;
}

/* Before MES, the waves of all other queues on the GPU are saved and restored as well. */
static void add_waves(struct kfd_cost *t, const struct kfd_queue *q, uint32_t waves)
{
	const struct rbt_kfd *kfd = q->process->kfd;
	bool first = !t->touched[q->gpu];

	t->touched[q->gpu] = true;
	t->waves[q->gpu] += has_mes(kfd) ? waves : first ? waves_on(kfd, q->gpu) : 0;
}

void kfd_cost_off(struct kfd_cost *t, struct kfd_queue *q)
{
	add_waves(t, q, kfd_is_compute(q) ? q->share : 0);
}

static uint64_t price_ns(uint64_t least_us, uint64_t full_us, uint32_t waves)
{
	waves = waves < KFD_WHOLE ? waves : KFD_WHOLE;
	return least_us * RBT_NS_PER_US + full_us * RBT_NS_PER_US * waves / KFD_WHOLE;
}

void kfd_cost_on(struct kfd_cost *t, struct kfd_queue *q)
{
	uint32_t waves = kfd_is_compute(q) && q->in_packet ? q->saved_share : 0;

	add_waves(t, q, waves);
	if (has_mes(q->process->kfd)) {
		q->ready_ns = kfd_now_ns(q->process->kfd) +
			      price_ns(KFD_HW_RESUME_US, KFD_HW_RESTORE_US, waves);
	} else {
		t->waves[q->gpu] += waves;
	}
}

static uint64_t price_on_gpu(const struct kfd_cost *off, const struct kfd_cost *on, uint32_t gpu)
{
	uint64_t ns = 0;

	if (off != NULL && off->touched[gpu]) {
		ns += price_ns(KFD_HW_SUSPEND_US, KFD_HW_SAVE_US, off->waves[gpu]);
	}
	if (on != NULL && on->touched[gpu]) {
		ns += price_ns(KFD_HW_RESUME_US, KFD_HW_RESTORE_US, on->waves[gpu]);
	}
	return ns;
}

uint64_t kfd_charge(struct rbt_kfd *kfd, const struct kfd_cost *off, const struct kfd_cost *on)
{
	uint64_t now_ns = kfd_now_ns(kfd), took_ns = 0;

	for (uint32_t i = 0; i < kfd->config.n_gpus; i++) {
		uint64_t *until_ns = &kfd->gpus[i].stalled_until_ns;
		uint64_t ns = price_on_gpu(off, on, i);
		if (ns > 0 && !has_mes(kfd)) {
			/* The driver has one lock per GPU for this: calls wait for each other. */
			*until_ns = (*until_ns > now_ns ? *until_ns : now_ns) + ns;
			ns = *until_ns - now_ns;
		}
		took_ns = ns > took_ns ? ns : took_ns;
	}
	return took_ns;
}
