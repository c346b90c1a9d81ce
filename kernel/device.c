// SPDX-License-Identifier: GPL-2.0
/* The virtio device: binding, queues, and the watch over a silent host. */
#include <linux/fs.h>
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/virtio_config.h>

#include "compat.h"
#include "rubato.h"

#define MAX_DEVICES 32

static char *tag = RUBATO_TAG;
module_param(tag, charp, 0444);
MODULE_PARM_DESC(tag, "tag of the vhost-user-fs devices to bind to");

struct workqueue_struct *rubato_wq;
static struct class *rubato_class;
static dev_t first_number;
static DEFINE_IDA(minors);

static int add_event_buffer(struct rubato_device *dev, struct rubato_event *e)
{
	struct scatterlist sg;

	sg_init_one(&sg, e, sizeof(*e));
	return virtqueue_add_inbuf(dev->queues[0].vq, &sg, 1, e, GFP_ATOMIC);
}

/* The interrupt of the queue of events. */
static void events_done(struct virtqueue *vq)
{
	struct rubato_device *dev = vq->vdev->priv;
	struct rubato_queue *q = &dev->queues[0];
	struct rubato_event *e, copy;
	unsigned int written;
	unsigned long flags;

	WRITE_ONCE(dev->last_life, jiffies);
	spin_lock_irqsave(&q->lock, flags);
	do {
		virtqueue_disable_cb(vq);
		while ((e = virtqueue_get_buf(vq, &written))) {
			copy = *e;
			if (written >= sizeof(copy))
				rubato_session_event(dev, &copy);
			add_event_buffer(dev, e);
		}
	} while (q->is_up && !virtqueue_enable_cb(vq));
	if (q->is_up)
		virtqueue_kick(vq);
	spin_unlock_irqrestore(&q->lock, flags);
}

/* What the virtio core does before probe(), for a device that has been reset since. */
static int negotiate(struct virtio_device *vdev)
{
	int err;

	virtio_add_status(vdev, VIRTIO_CONFIG_S_ACKNOWLEDGE);
	virtio_add_status(vdev, VIRTIO_CONFIG_S_DRIVER);
	err = vdev->config->finalize_features(vdev);
	if (err)
		return err;
	virtio_add_status(vdev, VIRTIO_CONFIG_S_FEATURES_OK);
	return vdev->config->get_status(vdev) & VIRTIO_CONFIG_S_FEATURES_OK ? 0 : -ENODEV;
}

static int find_queues(struct rubato_device *dev)
{
	vq_callback_t *callbacks[RUBATO_MAX_QUEUES];
	struct virtqueue *vqs[RUBATO_MAX_QUEUES];
	unsigned int i, size;
	int err;

	for (i = 0; i < dev->n_queues; i++)
		callbacks[i] = i == 0 ? events_done : rubato_call_done;
	err = compat_find_vqs(dev->vdev, dev->n_queues, vqs, callbacks, "rubato");
	if (err)
		return err;
	size = virtqueue_get_vring_size(vqs[1]);
	if (size < 4) {
		dev->vdev->config->del_vqs(dev->vdev);
		return -EINVAL;
	}
	/* Two pieces are the request and its answer. */
	dev->max_pieces = min_t(unsigned int, size - 2, RUBATO_PIECES);
	for (i = 0; i < dev->n_queues; i++)
		dev->queues[i].vq = vqs[i];
	return 0;
}

static void set_up(struct rubato_device *dev, bool is_up)
{
	unsigned long flags;
	unsigned int i;

	dev->is_up = is_up;
	for (i = 0; i < dev->n_queues; i++) {
		spin_lock_irqsave(&dev->queues[i].lock, flags);
		dev->queues[i].is_up = is_up;
		spin_unlock_irqrestore(&dev->queues[i].lock, flags);
	}
}

/* The caller holds dev->state. */
static int start_queues(struct rubato_device *dev)
{
	unsigned int i, n;
	int err = dev->has_features ? 0 : negotiate(dev->vdev);

	if (!err)
		err = find_queues(dev);
	if (err)
		return err;
	dev->has_features = false;
	n = min_t(unsigned int, RUBATO_MAX_EVENTS, virtqueue_get_vring_size(dev->queues[0].vq));
	for (i = 0; i < n; i++)
		add_event_buffer(dev, &dev->events[i]);
	WRITE_ONCE(dev->last_life, jiffies);
	atomic_set(&dev->n_pings, 0);
	set_up(dev, true);
	virtio_device_ready(dev->vdev);
	virtqueue_kick(dev->queues[0].vq);
	return 0;
}

/* Resets the device and fails everything that waits for it. The caller holds dev->state. */
static void stop_queues(struct rubato_device *dev)
{
	struct list_head parked[RUBATO_MAX_QUEUES];
	unsigned long flags;
	unsigned int i;

	if (!dev->is_up)
		return;
	set_up(dev, false);
	for (i = 0; i < dev->n_queues; i++) {
		INIT_LIST_HEAD(&parked[i]);
		spin_lock_irqsave(&dev->queues[i].lock, flags);
		list_splice_init(&dev->queues[i].parked, &parked[i]);
		spin_unlock_irqrestore(&dev->queues[i].lock, flags);
	}
	virtio_reset_device(dev->vdev);
	rubato_session_lose_all(dev);
	for (i = 1; i < dev->n_queues; i++)
		rubato_call_fail_all(&dev->queues[i], &parked[i]);
	while (virtqueue_detach_unused_buf(dev->queues[0].vq))
		;
	dev->vdev->config->del_vqs(dev->vdev);
}

int rubato_device_start(struct rubato_device *dev)
{
	int err = 0;

	if (mutex_lock_killable(&dev->state))
		return -EINTR;
	if (dev->is_gone)
		err = -ENODEV;
	else if (!dev->is_up)
		err = start_queues(dev);
	mutex_unlock(&dev->state);
	return err;
}

static bool has_sessions(struct rubato_device *dev)
{
	unsigned long flags;
	bool has;

	spin_lock_irqsave(&dev->sessions_lock, flags);
	has = !hash_empty(dev->sessions);
	spin_unlock_irqrestore(&dev->sessions_lock, flags);
	return has;
}

static void finish_ping(struct rubato_call *call)
{
	struct rubato_device *dev = call->data;

	atomic_dec_if_positive(&dev->n_pings);
}

static void ping(struct rubato_device *dev)
{
	struct rubato_call *call;

	if (atomic_read(&dev->n_pings) > 0)
		return;
	call = rubato_call_new(&dev->queues[1], RUBATO_PING, 0);
	if (!call)
		return;
	call->data = dev;
	call->finish = finish_ping;
	atomic_inc(&dev->n_pings);
	if (rubato_call_post(call) < 0)
		atomic_dec_if_positive(&dev->n_pings);
	rubato_call_put(call);
}

/* Once a second while there are sessions: a program may wait for a host that is gone, and would wait
 * for ever. */
static void watch(struct work_struct *work)
{
	struct rubato_device *dev = container_of(work, struct rubato_device, watch.work);

	mutex_lock(&dev->state);
	if (dev->is_up && has_sessions(dev)) {
		if (time_after(jiffies, READ_ONCE(dev->last_life) + RUBATO_SILENT)) {
			dev_warn(&dev->dev, "the host is silent: all programs lose their GPU; the device is reset\n");
			stop_queues(dev);
		} else {
			ping(dev);
			queue_delayed_work(rubato_wq, &dev->watch, HZ);
		}
	}
	mutex_unlock(&dev->state);
}

void rubato_device_watch(struct rubato_device *dev)
{
	mutex_lock(&dev->state);
	/* Silence counts from now on if nobody has been there to listen. */
	if (!dev->is_gone && queue_delayed_work(rubato_wq, &dev->watch, HZ))
		WRITE_ONCE(dev->last_life, jiffies);
	mutex_unlock(&dev->state);
}

static bool has_our_tag(struct virtio_device *vdev)
{
	char found[RUBATO_TAG_SIZE + 1] = {};

	virtio_cread_bytes(vdev, 0, found, RUBATO_TAG_SIZE);
	return !strcmp(found, tag);
}

/* Reads the number of queues; -ENODEV if the device is not ours. */
static int read_config(struct virtio_device *vdev, unsigned int *n)
{
	struct rubato_config config;
	__le32 n_requests;

	if (vdev->id.device == RUBATO_ID_FS) {
		if (!has_our_tag(vdev))
			return -ENODEV;
		virtio_cread_bytes(vdev, RUBATO_TAG_SIZE, &n_requests, sizeof(n_requests));
		*n = 1 + le32_to_cpu(n_requests);
	} else {
		virtio_cread_bytes(vdev, 0, &config, sizeof(config));
		if (config.magic != cpu_to_le32(RUBATO_MAGIC))
			return -ENODEV;
		*n = le32_to_cpu(config.n_queues);
	}
	if (*n < 2)
		return -EINVAL;
	*n = min_t(unsigned int, *n, RUBATO_MAX_QUEUES);
	return 0;
}

static void release_device(struct device *d)
{
	struct rubato_device *dev = container_of(d, struct rubato_device, dev);

	ida_free(&minors, dev->minor);
	kfree(dev);
}

static struct rubato_device *new_device(struct virtio_device *vdev, unsigned int n_queues)
{
	struct rubato_device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	unsigned int i;

	if (!dev)
		return NULL;
	dev->minor = ida_alloc_max(&minors, MAX_DEVICES - 1, GFP_KERNEL);
	if (dev->minor < 0) {
		kfree(dev);
		return NULL;
	}
	dev->vdev = vdev;
	dev->n_queues = n_queues;
	dev->has_features = true;
	mutex_init(&dev->state);
	spin_lock_init(&dev->sessions_lock);
	hash_init(dev->sessions);
	INIT_DELAYED_WORK(&dev->watch, watch);
	for (i = 0; i < RUBATO_MAX_QUEUES; i++) {
		spin_lock_init(&dev->queues[i].lock);
		INIT_LIST_HEAD(&dev->queues[i].parked);
		dev->queues[i].dev = dev;
	}
	device_initialize(&dev->dev);
	dev->dev.class = rubato_class;
	dev->dev.parent = &vdev->dev;
	dev->dev.devt = MKDEV(MAJOR(first_number), dev->minor);
	dev->dev.release = release_device;
	cdev_init(&dev->cdev, &rubato_fops);
	dev->cdev.owner = THIS_MODULE;
	return dev;
}

static int rubato_probe(struct virtio_device *vdev)
{
	struct rubato_device *dev;
	unsigned int n_queues;
	int err = read_config(vdev, &n_queues);

	if (err)
		return err;
	dev = new_device(vdev, n_queues);
	if (!dev)
		return -ENOMEM;
	vdev->priv = dev;
	err = dev_set_name(&dev->dev, "rubato%d", dev->minor);
	if (!err)
		err = rubato_device_start(dev);
	if (!err)
		err = cdev_device_add(&dev->cdev, &dev->dev);
	if (err) {
		mutex_lock(&dev->state);
		stop_queues(dev);
		mutex_unlock(&dev->state);
		put_device(&dev->dev);
	}
	return err;
}

static void rubato_remove(struct virtio_device *vdev)
{
	struct rubato_device *dev = vdev->priv;

	cdev_device_del(&dev->cdev, &dev->dev);
	mutex_lock(&dev->state);
	dev->is_gone = true;
	stop_queues(dev);
	mutex_unlock(&dev->state);
	cancel_delayed_work_sync(&dev->watch);
	put_device(&dev->dev);
}

static const struct virtio_device_id ids[] = {
	{RUBATO_ID_FS, VIRTIO_DEV_ANY_ID},
	{RUBATO_ID_TEST, VIRTIO_DEV_ANY_ID},
	{},
};
MODULE_DEVICE_TABLE(virtio, ids);

static struct virtio_driver driver = {
	.driver.name = "rubato",
	.driver.owner = THIS_MODULE,
	.id_table = ids,
	.probe = rubato_probe,
	.remove = rubato_remove,
};

/* A kernel with virtiofs built in has bound it to our device, which has the id of a file system. */
static int take_over(struct device *d, void *unused)
{
	struct virtio_device *vdev = dev_to_virtio(d);
	bool is_taken;

	device_lock(d);
	is_taken = d->driver && d->driver != &driver.driver && vdev->id.device == RUBATO_ID_FS && has_our_tag(vdev);
	device_unlock(d);
	if (is_taken)
		device_release_driver(d);
	return 0;
}

/* As for other GPUs: what a program may do with it is the host's decision. */
static char *devnode(DEVNODE_CONST struct device *dev, umode_t *mode)
{
	if (mode)
		*mode = 0666;
	return NULL;
}

static int __init rubato_init(void)
{
	int err = alloc_chrdev_region(&first_number, 0, MAX_DEVICES, "rubato");

	if (err)
		return err;
	rubato_class = compat_class_create("rubato");
	if (IS_ERR(rubato_class)) {
		err = PTR_ERR(rubato_class);
		goto no_class;
	}
	rubato_class->devnode = devnode;
	rubato_wq = alloc_workqueue("rubato", WQ_UNBOUND, 0);
	if (!rubato_wq) {
		err = -ENOMEM;
		goto no_wq;
	}
	err = register_virtio_driver(&driver);
	if (!err) {
		bus_for_each_dev(driver.driver.bus, NULL, NULL, take_over);
		/* Binds what has just become free. Its errors are the devices', not the module's. */
		err = driver_attach(&driver.driver);
		return 0;
	}
	destroy_workqueue(rubato_wq);
no_wq:
	class_destroy(rubato_class);
no_class:
	unregister_chrdev_region(first_number, MAX_DEVICES);
	return err;
}

static void __exit rubato_exit(void)
{
	unregister_virtio_driver(&driver);
	/* Waits for sessions that are being freed. */
	destroy_workqueue(rubato_wq);
	class_destroy(rubato_class);
	unregister_chrdev_region(first_number, MAX_DEVICES);
}

module_init(rubato_init);
module_exit(rubato_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("CUDA for programs of a virtual machine, by Rubato on its host");
