// SPDX-License-Identifier: GPL-2.0
/* Requests to the host over virtqueues. */
#include <linux/slab.h>

#include "rubato.h"

struct rubato_call *rubato_call_new(struct rubato_queue *queue, u32 type, u64 session)
{
	struct rubato_call *call = kzalloc(sizeof(*call), GFP_KERNEL);

	if (!call)
		return NULL;
	kref_init(&call->ref);
	init_completion(&call->done);
	INIT_LIST_HEAD(&call->parked);
	call->queue = queue;
	call->request.type = cpu_to_le32(type);
	call->request.session = cpu_to_le64(session);
	return call;
}

static void free_call(struct kref *ref)
{
	struct rubato_call *call = container_of(ref, struct rubato_call, ref);

	kfree(call->pieces);
	kfree(call);
}

void rubato_call_put(struct rubato_call *call)
{
	kref_put(&call->ref, free_call);
}

/* The host is done with the call, or will never be. */
static void finish_call(struct rubato_call *call, int error)
{
	call->error = error;
	if (call->finish)
		call->finish(call);
	complete(&call->done);
	rubato_call_put(call);
}

/* Adds the call to its virtqueue. The caller holds the queue's lock. */
static int add_call(struct rubato_call *call)
{
	struct scatterlist request, identity, answer, *sgs[4];
	unsigned int out = 0, in = 0;

	sg_init_one(&request, &call->request, sizeof(call->request));
	sgs[out++] = &request;
	if (call->request.type == cpu_to_le32(RUBATO_OPEN)) {
		sg_init_one(&identity, &call->identity, sizeof(call->identity));
		sgs[out++] = &identity;
	}
	if (call->request.type != cpu_to_le32(RUBATO_RING)) {
		sg_init_one(&answer, &call->answer, sizeof(call->answer));
		sgs[out + in++] = &answer;
	}
	if (call->pieces)
		sgs[out + in++] = call->pieces;
	return virtqueue_add_sgs(call->queue->vq, sgs, out, in, call, GFP_ATOMIC);
}

static void set_ring_parked(struct rubato_call *call, bool is_parked)
{
	struct rubato_session *s = call->data;
	u32 channel = le32_to_cpu(call->request.number);

	if (call->request.type != cpu_to_le32(RUBATO_RING))
		return;
	if (is_parked)
		set_bit(channel, s->ring_parked);
	else
		clear_bit(channel, s->ring_parked);
	/* Before what the program wrote is looked at, and before the host sees the call. */
	smp_mb__after_atomic();
}

/* Adds parked calls while there is room. The caller holds the queue's lock. */
static bool add_parked(struct rubato_queue *q)
{
	struct rubato_call *call, *next;
	bool is_new = false;

	list_for_each_entry_safe(call, next, &q->parked, parked) {
		/* First: once it is added, the host may see it at once, and a program on another
		 * CPU must not take it for a doorbell that is still to come. */
		set_ring_parked(call, false);
		if (add_call(call) < 0) {
			set_ring_parked(call, true);
			break;
		}
		list_del_init(&call->parked);
		is_new = true;
	}
	return is_new;
}

int rubato_call_post(struct rubato_call *call)
{
	struct rubato_queue *q = call->queue;
	bool must_notify = false;
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&q->lock, flags);
	if (!q->is_up) {
		err = -ECONNRESET;
	} else {
		kref_get(&call->ref);
		/* Parked calls go first. A full queue is no error: the call waits for room. */
		list_add_tail(&call->parked, &q->parked);
		if (add_parked(q))
			must_notify = virtqueue_kick_prepare(q->vq);
	}
	if (must_notify)
		virtqueue_notify(q->vq);
	spin_unlock_irqrestore(&q->lock, flags);
	return err;
}

int rubato_call_wait(struct rubato_call *call)
{
	bool is_open = call->request.type == cpu_to_le32(RUBATO_OPEN);
	long left;
	int err = rubato_call_post(call);

	if (err)
		return err;
	left = wait_for_completion_killable_timeout(&call->done, is_open ? RUBATO_OPEN_TIME : RUBATO_SILENT);
	if (left == 0)
		return -ETIMEDOUT;
	return left < 0 ? -EINTR : call->error;
}

static void finish_ring(struct rubato_call *call)
{
	rubato_session_put(call->data);
}

/*
 * A RING that is still parked has not been seen by the host: it also covers what the program wrote
 * since. So a full queue holds at most one RING per channel.
 */
int rubato_call_ring(struct rubato_session *s, u32 channel)
{
	struct rubato_call *call;
	int err;

	if (test_bit(channel, s->ring_parked))
		return 0;
	call = rubato_call_new(s->queue, RUBATO_RING, s->id);
	if (!call)
		return -ENOMEM;
	call->request.number = cpu_to_le32(channel);
	call->data = s;
	call->finish = finish_ring;
	rubato_session_get(s);
	set_bit(channel, s->ring_parked);
	err = rubato_call_post(call);
	if (err) {
		clear_bit(channel, s->ring_parked);
		rubato_session_put(s);
	}
	rubato_call_put(call);
	return err;
}

static int error_of(const struct rubato_call *call, unsigned int written)
{
	u32 error = le32_to_cpu(call->answer.error);

	if (call->request.type == cpu_to_le32(RUBATO_RING))
		return 0;
	if (written < sizeof(call->answer) || error > MAX_ERRNO)
		return -EIO;
	return -(int)error;
}

/* The interrupt of a request queue. */
void rubato_call_done(struct virtqueue *vq)
{
	struct rubato_device *dev = vq->vdev->priv;
	struct rubato_queue *q = &dev->queues[vq->index];
	struct rubato_call *call, *next;
	unsigned int written;
	unsigned long flags;
	LIST_HEAD(done);

	WRITE_ONCE(dev->last_life, jiffies);
	spin_lock_irqsave(&q->lock, flags);
	do {
		virtqueue_disable_cb(vq);
		while ((call = virtqueue_get_buf(vq, &written))) {
			call->error = error_of(call, written);
			list_add_tail(&call->parked, &done);
		}
	} while (q->is_up && !virtqueue_enable_cb(vq));
	if (q->is_up && add_parked(q) && virtqueue_kick_prepare(vq))
		virtqueue_notify(vq);
	spin_unlock_irqrestore(&q->lock, flags);
	list_for_each_entry_safe(call, next, &done, parked) {
		list_del_init(&call->parked);
		finish_call(call, call->error);
	}
}

/* The device has been reset. The lists are nobody else's. */
void rubato_call_fail_all(struct rubato_queue *queue, struct list_head *parked)
{
	struct rubato_call *call, *next;

	while ((call = virtqueue_detach_unused_buf(queue->vq)))
		finish_call(call, -ECONNRESET);
	list_for_each_entry_safe(call, next, parked, parked) {
		list_del_init(&call->parked);
		finish_call(call, -ECONNRESET);
	}
}
