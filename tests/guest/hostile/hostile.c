/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A driver that attacks its device: requests of every type with nonsense in them, then a malformed
 * ring in each queue, each malformed in its own way. It never waits for an answer.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>

#include "compat.h"
#include "rubato_uapi.h"

#define N_REQUESTS 400

static struct nonsense {
	struct rubato_request request;
	struct rubato_identity identity;
	struct rubato_answer answer;
} * all;

static void add(struct virtqueue *vq, struct nonsense *n, unsigned int out_size, void *to,
	unsigned int in_size)
{
	struct scatterlist out, in, *sgs[] = {&out, &in};

	sg_init_one(&out, n, out_size);
	sg_init_one(&in, to, in_size ? in_size : 1);
	virtqueue_add_sgs(vq, sgs, 1, in_size > 0, n, GFP_KERNEL);
	virtqueue_kick(vq);
}

static void send_nonsense(struct virtqueue *vq, struct nonsense *n, unsigned int i)
{
	unsigned int whole = sizeof(n->request) + sizeof(n->identity);

	get_random_bytes(n, sizeof(*n));
	n->request.type = cpu_to_le32(i % 10);
	n->request.session = cpu_to_le64(i % 7);
	n->request.number = cpu_to_le32(i % 3 ? (i % 300) : RUBATO_PROTOCOL);
	if (i % 5 == 0)
		add(vq, n, i % 4 ? whole : sizeof(n->request), n, 0);
	else if (i % 6 == 0)
		add(vq, n, whole, n, 4096);
	else
		add(vq, n, i % 4 ? whole : sizeof(n->request), &n->answer, sizeof(n->answer));
}

/* One session that stays: the device will have an event for it. */
static void send_open(struct virtqueue *vq, struct nonsense *n)
{
	memset(n, 0, sizeof(*n));
	n->request.type = cpu_to_le32(RUBATO_OPEN);
	n->request.session = cpu_to_le64(1000);
	n->request.number = cpu_to_le32(RUBATO_PROTOCOL);
	add(vq, n, sizeof(n->request) + sizeof(n->identity), &n->answer, sizeof(n->answer));
}

/* Waits until the device has taken all requests: it says so when it asks for the next kick. */
static void await_taken(struct virtqueue *vq)
{
	struct vring_avail *avail = phys_to_virt(virtqueue_get_avail_addr(vq));
	struct vring_used *used = phys_to_virt(virtqueue_get_used_addr(vq));
	__virtio16 *event = (__virtio16 *)&used->ring[virtqueue_get_vring_size(vq)];
	unsigned int i;

	for (i = 0; i < 3000 && READ_ONCE(*event) != READ_ONCE(avail->idx); i++)
		msleep(10);
}

/* The ring's parts are in our memory: they can say anything. */
static void malform(struct virtqueue *vq)
{
	struct vring_desc *desc = phys_to_virt(virtqueue_get_desc_addr(vq));
	struct vring_avail *avail = phys_to_virt(virtqueue_get_avail_addr(vq));
	unsigned int i, size = virtqueue_get_vring_size(vq);
	u16 next = le16_to_cpu((__force __le16)avail->idx);

	for (i = 0; i < size; i++) {
		desc[i].addr = (__force __virtio64)(vq->index == 1 ? ~0ull - 8 : 0x100000);
		desc[i].len = (__force __virtio32)cpu_to_le32(vq->index == 2 ? 0xffffffff : 16);
		desc[i].flags = (__force __virtio16)cpu_to_le16(
			vq->index == 3
				? VRING_DESC_F_INDIRECT
				: VRING_DESC_F_NEXT | (vq->index == 0 ? VRING_DESC_F_WRITE : 0));
		desc[i].next = 0; /* a loop */
	}
	for (i = 0; i < size; i++)
		avail->ring[i] = (__force __virtio16)cpu_to_le16(vq->index == 4 ? 0xffff : 0);
	avail->flags = 0;
	wmb();
	avail->idx = (__force __virtio16)cpu_to_le16(next + (vq->index == 3 ? 5000 : 1));
	wmb();
	virtqueue_notify(vq);
}

static int find_queues(struct virtio_device *vdev, struct virtqueue **vqs)
{
	vq_callback_t *callbacks[RUBATO_QUEUES] = {};

	return compat_find_vqs(vdev, RUBATO_QUEUES, vqs, callbacks, "hostile");
}

static int hostile_probe(struct virtio_device *vdev)
{
	struct virtqueue *vqs[RUBATO_QUEUES];
	unsigned int i;
	int err = find_queues(vdev, vqs);

	if (err)
		return err;
	virtio_device_ready(vdev);
	for (i = 0; i < N_REQUESTS; i++)
		send_nonsense(vqs[1 + i % (RUBATO_QUEUES - 1)], &all[i], i);
	send_open(vqs[1], &all[N_REQUESTS]);
	for (i = 1; i < RUBATO_QUEUES; i++)
		await_taken(vqs[i]);
	for (i = 0; i < RUBATO_QUEUES; i++)
		malform(vqs[i]);
	return 0;
}

static void hostile_remove(struct virtio_device *vdev)
{
	virtio_reset_device(vdev);
	vdev->config->del_vqs(vdev);
}

static const struct virtio_device_id ids[] = {{RUBATO_ID_FS, VIRTIO_DEV_ANY_ID}, {}};
static struct virtio_driver driver = {
	.driver.name = "hostile",
	.driver.owner = THIS_MODULE,
	.id_table = ids,
	.probe = hostile_probe,
	.remove = hostile_remove,
};

static int __init hostile_init(void)
{
	all = kcalloc(N_REQUESTS + 1, 4096, GFP_KERNEL);
	return all ? register_virtio_driver(&driver) : -ENOMEM;
}

static void __exit hostile_exit(void)
{
	unregister_virtio_driver(&driver);
	kfree(all);
}

module_init(hostile_init);
module_exit(hostile_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("a hostile guest, for Rubato's tests");
