/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/queues.h"

#include <errno.h>

#include "daemon/apply.h"
#include "daemon/daemon.h"
#include "daemon/handlink.h"
#include "daemon/program.h"
#include "daemon/survive/byhand.h"
#include "util/time.h"

static struct queue_order *find(struct queue_orders *orders, uint32_t handle)
{
	for (uint32_t i = 0; i < orders->n; i++) {
		if (orders->list[i].handle == handle) {
			return &orders->list[i];
		}
	}
	return NULL;
}

int queues_add(struct queue_orders *orders, struct queue_order order)
{
	struct queue_order *place = find(orders, order.handle);

	if (place == NULL && orders->n == RBT_RECORD_MAX_TASKS) {
		return -ENOSPC;
	}
	place = place != NULL ? place : &orders->list[orders->n++];
	*place = order;
	return 0;
}

bool queues_remove(struct queue_orders *orders, uint32_t handle)
{
	struct queue_order *order = find(orders, handle);

	if (order == NULL) {
		return false;
	}
	*order = orders->list[--orders->n];
	return true;
}

bool queues_has(const struct queue_orders *orders, uint32_t handle)
{
	for (uint32_t i = 0; i < orders->n; i++) {
		if (orders->list[i].handle == handle) {
			return true;
		}
	}
	return false;
}

bool queues_expire(struct queue_orders *orders, uint64_t now_ns)
{
	uint32_t before = orders->n;

	for (uint32_t i = orders->n; i-- > 0;) {
		if (orders->list[i].until_ns != 0 && orders->list[i].until_ns <= now_ns) {
			orders->list[i] = orders->list[--orders->n];
		}
	}
	return orders->n != before;
}

static bool has_queues(const struct client *h)
{
	const struct rbt_backend *b = rbt_backend_by_id(h->backend);

	return b != NULL && b->suspend_task != NULL;
}

bool queues_are_possible(const struct program *p)
{
	const struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		if (has_queues(h)) {
			return true;
		}
	}
	return false;
}

bool queues_exist(const struct program *p, uint32_t handle)
{
	const struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		if (has_queues(h) && rbt_record_has_task(&h->mine->rec, handle)) {
			return true;
		}
	}
	return false;
}

bool queues_are_off(const struct program *p, const uint32_t *handles, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct client *h;
		bool is_off = false;
		LIST_FOREACH (h, &p->clients, entries) {
			is_off = is_off || rbt_applied_has_task_off(&h->mine->applied, handles[i]);
		}
		if (!is_off) {
			return false;
		}
	}
	return true;
}

/* Whether the order is about this queue, and not about an earlier one with its number. Queues of
 * attached programs have no serials, because the kernel lets nobody destroy a suspended queue. */
static bool is_about(const struct queue_order *order, const struct rbt_task *task)
{
	uint32_t serial = task != NULL ? rbt_task_serial(task) : 0;

	return task != NULL && (serial == 0 || order->serial == 0 || serial == order->serial);
}

void queues_take_up(struct daemon *d, struct program *p, const struct client *h)
{
	uint32_t before = p->suspend.queues.n;

	/* A client is a process on these devices, so a program has one. */
	for (uint32_t i = before; has_queues(h) && i-- > 0;) {
		const struct queue_order *order = &p->suspend.queues.list[i];
		if (!is_about(order, rbt_record_find_task(&h->mine->rec, order->handle))) {
			(void)queues_remove(&p->suspend.queues, order->handle);
		}
	}
	if (p->suspend.queues.n != before) {
		byhand_note(d, p->pid, p->start_time, false);
	}
}

/* From now on the order is about the queue that has its number now. Returns whether it was about
 * none before: then, an earlier queue may have been suspended under this number. */
static bool bind(struct queue_order *order, const struct rbt_record *rec)
{
	const struct rbt_task *task = rbt_record_find_task(rec, order->handle);

	if (task == NULL || order->serial != 0) {
		return false;
	}
	order->serial = rbt_task_serial(task);
	return order->serial != 0;
}

/* If the queue is gone, or another one has its number, the next record will say so. Until then the
 * order stays, and is not carried out. */
static int suspend_queue(struct daemon *d, struct client *h, uint32_t handle, uint64_t deadline_ns)
{
	int r = hand_suspend_task(d, h, handle, deadline_ns);

	if (r == -ESTALE) {
		struct rbt_action resumed = {.op = RBT_ACT_RESUME_TASK, .task = handle};
		rbt_holding_apply(h->mine, &resumed, 0);
		return 0;
	}
	return r;
}

static int apply_to(struct daemon *d, struct program *p, struct client *h)
{
	const struct rbt_applied *a = &h->mine->applied;
	struct queue_orders *orders = &p->suspend.queues;
	uint64_t deadline_ns = rbt_now_ns() + LEASE_NS;
	int first = 0, r;

	for (uint32_t i = 0; i < orders->n; i++) {
		uint32_t handle = orders->list[i].handle;
		bool is_new = bind(&orders->list[i], &h->mine->rec);
		if (rbt_applied_has_task_off(a, handle) && !h->stale && !is_new) {
			continue;
		}
		r = suspend_queue(d, h, handle, deadline_ns);
		first = first == 0 ? r : first;
	}
	for (uint32_t i = a->n_tasks_off; i-- > 0;) {
		/* A lost hand has changed the list. */
		if (i < a->n_tasks_off && !queues_has(orders, a->tasks_off[i])) {
			r = hand_resume_task(d, h, a->tasks_off[i]);
			first = first == 0 ? r : first;
		}
	}
	return first;
}

int queues_apply(struct daemon *d, struct program *p)
{
	struct client *h;
	int first = 0;

	LIST_FOREACH (h, &p->clients, entries) {
		int r = has_queues(h) ? apply_to(d, p, h) : 0;
		first = first == 0 ? r : first;
	}
	return first;
}
