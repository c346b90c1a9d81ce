// SPDX-License-Identifier: GPL-2.0
/* The character device: one session per open file. */
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/poll.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "rubato.h"

/* Ids are not used again, also not by the next boot, whose sessions the host could mix up with those
 * of the last one. */
static atomic64_t next_id;

static void free_session(struct work_struct *work)
{
	struct rubato_session *s = container_of(work, struct rubato_session, free);

	rubato_map_free_all(s);
	put_pid(s->owner);
	put_device(&s->dev->dev);
	kvfree(s);
}

static void last_put(struct kref *ref)
{
	/* Unpinning pages sleeps, and the last reference may be dropped in an interrupt. */
	queue_work(rubato_wq, &container_of(ref, struct rubato_session, ref)->free);
}

void rubato_session_get(struct rubato_session *s)
{
	kref_get(&s->ref);
}

void rubato_session_put(struct rubato_session *s)
{
	kref_put(&s->ref, last_put);
}

static bool is_lost(const struct rubato_session *s)
{
	return test_bit(RUBATO_IS_LOST, &s->flags);
}

void rubato_session_lose(struct rubato_session *s)
{
	unsigned int i;

	set_bit(RUBATO_IS_LOST, &s->flags);
	for (i = 0; i < RUBATO_CHANNELS; i++)
		wake_up_all(&s->channels[i]);
	wake_up_all(&s->polled);
}

void rubato_session_lose_all(struct rubato_device *dev)
{
	struct rubato_session *s;
	unsigned long flags;
	int bucket;

	spin_lock_irqsave(&dev->sessions_lock, flags);
	hash_for_each(dev->sessions, bucket, s, node)
		rubato_session_lose(s);
	spin_unlock_irqrestore(&dev->sessions_lock, flags);
}

/* What the host says about a session; in an interrupt. */
void rubato_session_event(struct rubato_device *dev, const struct rubato_event *e)
{
	u64 id = le64_to_cpu(e->session);
	u32 number = le32_to_cpu(e->number);
	u32 type = le32_to_cpu(e->type);
	struct rubato_session *s;
	unsigned long flags;

	spin_lock_irqsave(&dev->sessions_lock, flags);
	hash_for_each_possible(dev->sessions, s, node, id) {
		if (s->id != id)
			continue;
		if (type == RUBATO_RUNG && number < RUBATO_CHANNELS) {
			set_bit(number, s->rung);
			wake_up_all(&s->channels[number]);
			wake_up_all(&s->polled);
		} else if (type == RUBATO_LOST) {
			rubato_session_lose(s);
		}
		break;
	}
	spin_unlock_irqrestore(&dev->sessions_lock, flags);
}

static struct rubato_session *new_session(struct rubato_device *dev)
{
	struct rubato_session *s = kvzalloc(sizeof(*s), GFP_KERNEL_ACCOUNT);
	unsigned int i;

	if (!s)
		return NULL;
	kref_init(&s->ref);
	get_device(&dev->dev);
	s->dev = dev;
	while (atomic64_read(&next_id) == 0)
		atomic64_cmpxchg(&next_id, 0, get_random_u64());
	s->id = atomic64_inc_return(&next_id);
	s->queue = &dev->queues[1 + (u32)s->id % (dev->n_queues - 1)];
	s->owner = get_pid(task_tgid(current));
	mutex_init(&s->maps_lock);
	INIT_LIST_HEAD(&s->maps);
	INIT_WORK(&s->free, free_session);
	init_waitqueue_head(&s->polled);
	for (i = 0; i < RUBATO_CHANNELS; i++)
		init_waitqueue_head(&s->channels[i]);
	return s;
}

static void add_session(struct rubato_session *s)
{
	unsigned long flags;

	rubato_session_get(s);
	spin_lock_irqsave(&s->dev->sessions_lock, flags);
	hash_add(s->dev->sessions, &s->node, s->id);
	spin_unlock_irqrestore(&s->dev->sessions_lock, flags);
	rubato_device_watch(s->dev);
}

static void remove_session(struct rubato_session *s)
{
	unsigned long flags;

	spin_lock_irqsave(&s->dev->sessions_lock, flags);
	hash_del(&s->node);
	spin_unlock_irqrestore(&s->dev->sessions_lock, flags);
	rubato_session_put(s);
}

/* The host has ended the worker, or is gone with it: memory is ours alone again. */
static void finish_close(struct rubato_call *call)
{
	remove_session(call->data);
}

/* Tells the host that the session has ended; does not wait. Its memory is kept until the host has
 * answered, since the worker may write to it until then. */
static void end_session(struct rubato_session *s)
{
	struct rubato_call *call;

	if (test_and_set_bit(RUBATO_IS_ENDED, &s->flags))
		return;
	rubato_session_lose(s);
	/* A few bytes for a process that goes: this must not fail. */
	do {
		call = rubato_call_new(s->queue, RUBATO_CLOSE, s->id);
		if (!call)
			schedule_timeout_uninterruptible(1);
	} while (!call);
	call->data = s;
	call->finish = finish_close;
	if (rubato_call_post(call) < 0)
		remove_session(s);
	rubato_call_put(call);
}

static int say_open(struct rubato_session *s)
{
	struct rubato_call *call = rubato_call_new(s->queue, RUBATO_OPEN, s->id);
	char command[TASK_COMM_LEN];
	int err;

	if (!call)
		return -ENOMEM;
	call->request.number = cpu_to_le32(RUBATO_PROTOCOL);
	call->identity.pid = cpu_to_le32(pid_nr(s->owner));
	get_task_comm(command, current->group_leader);
	memcpy(call->identity.command, command, sizeof(command));
	err = rubato_call_wait(call);
	rubato_call_put(call);
	return err;
}

static int rubato_open(struct inode *inode, struct file *file)
{
	struct rubato_device *dev = container_of(inode->i_cdev, struct rubato_device, cdev);
	struct rubato_session *s;
	int err = rubato_device_start(dev);

	if (err)
		return err;
	s = new_session(dev);
	if (!s)
		return -ENOMEM;
	add_session(s);
	err = say_open(s);
	if (!err) {
		file->private_data = s;
		return stream_open(inode, file);
	}
	/* The host may have made a worker in the meantime. */
	end_session(s);
	rubato_session_put(s);
	return err;
}

/* Called for each close() of each process that has the file. */
static int rubato_flush(struct file *file, fl_owner_t id)
{
	struct rubato_session *s = file->private_data;

	if (s->owner == task_tgid(current))
		end_session(s);
	return 0;
}

static int rubato_release(struct inode *inode, struct file *file)
{
	struct rubato_session *s = file->private_data;

	end_session(s);
	rubato_session_put(s);
	return 0;
}

/* A request about a channel. */
static int tell_channel(struct rubato_session *s, u32 type, const struct rubato_channel *c)
{
	struct rubato_call *call = rubato_call_new(s->queue, type, s->id);
	int err;

	if (!call)
		return -ENOMEM;
	call->request.number = cpu_to_le32(c->number);
	call->request.address = cpu_to_le64(c->address);
	call->request.size = cpu_to_le64(c->size);
	err = rubato_call_wait(call);
	rubato_call_put(call);
	return err;
}

static int wait_channel(struct rubato_session *s, const struct rubato_wait *w)
{
	wait_queue_head_t *head = &s->channels[w->channel];
	ktime_t deadline = ns_to_ktime(w->deadline_ns);
	DEFINE_WAIT(entry);
	int err;

	for (;;) {
		prepare_to_wait(head, &entry, TASK_KILLABLE);
		err = 0;
		if (test_and_clear_bit(w->channel, s->rung))
			break;
		err = -ECONNRESET;
		if (is_lost(s))
			break;
		err = -EINTR;
		if (fatal_signal_pending(current))
			break;
		err = -ETIMEDOUT;
		if (w->deadline_ns != RUBATO_FOREVER && ktime_get() >= deadline)
			break;
		if (w->deadline_ns == RUBATO_FOREVER)
			schedule();
		else
			schedule_hrtimeout(&deadline, HRTIMER_MODE_ABS);
	}
	finish_wait(head, &entry);
	return err;
}

union argument {
	struct rubato_range range;
	struct rubato_channel channel;
	struct rubato_wait wait;
	u32 number;
};

static int act(struct rubato_session *s, unsigned int cmd, const union argument *a)
{
	struct rubato_channel channel = {};

	switch (cmd) {
	case RUBATO_IOC_MAP:
		return rubato_map_show(s, &a->range);
	case RUBATO_IOC_SHARE:
		return rubato_map_share(s, &a->range);
	case RUBATO_IOC_UNMAP:
		return rubato_map_undo(s, &a->range);
	case RUBATO_IOC_CHANNEL:
		if (a->channel.number >= RUBATO_CHANNELS || a->channel.reserved)
			return -EINVAL;
		clear_bit(a->channel.number, s->rung);
		return tell_channel(s, RUBATO_CHANNEL_OPEN, &a->channel);
	case RUBATO_IOC_WAIT:
		if (a->wait.channel >= RUBATO_CHANNELS || a->wait.reserved)
			return -EINVAL;
		return wait_channel(s, &a->wait);
	}
	if (a->number >= RUBATO_CHANNELS)
		return -EINVAL;
	channel.number = a->number;
	return cmd == RUBATO_IOC_RING ? rubato_call_ring(s, a->number)
				      : tell_channel(s, RUBATO_CHANNEL_CLOSE, &channel);
}

static long rubato_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct rubato_session *s = file->private_data;
	union argument a = {};
	int err;

	switch (cmd) {
	case RUBATO_IOC_MAP:
	case RUBATO_IOC_SHARE:
	case RUBATO_IOC_UNMAP:
	case RUBATO_IOC_CHANNEL:
	case RUBATO_IOC_CHANNEL_CLOSE:
	case RUBATO_IOC_RING:
	case RUBATO_IOC_WAIT:
		break;
	default:
		return -ENOTTY;
	}
	if (s->owner != task_tgid(current))
		return -EPERM;
	if (copy_from_user(&a, (void __user *)arg, _IOC_SIZE(cmd)))
		return -EFAULT;
	if (is_lost(s))
		return -ECONNRESET;
	err = act(s, cmd, &a);
	/* A worker that does not answer is as good as gone. */
	if (err == -ETIMEDOUT && cmd != RUBATO_IOC_WAIT) {
		rubato_session_lose(s);
		err = -ECONNRESET;
	}
	return err;
}

static __poll_t rubato_poll(struct file *file, struct poll_table_struct *table)
{
	struct rubato_session *s = file->private_data;

	poll_wait(file, &s->polled, table);
	if (is_lost(s))
		return EPOLLERR | EPOLLHUP;
	return bitmap_empty(s->rung, RUBATO_CHANNELS) ? 0 : EPOLLIN | EPOLLRDNORM;
}

static int rubato_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct rubato_session *s = file->private_data;

	if (s->owner != task_tgid(current))
		return -EPERM;
	return is_lost(s) ? -ECONNRESET : rubato_map_create(s, vma);
}

const struct file_operations rubato_fops = {
	.owner = THIS_MODULE,
	.open = rubato_open,
	.flush = rubato_flush,
	.release = rubato_release,
	.unlocked_ioctl = rubato_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.poll = rubato_poll,
	.mmap = rubato_mmap,
};
