/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rubato.ko: programs of this virtual machine reach their workers on the host. The driver sends the
 * host requests (call.c), gives programs memory that the host sees, too (map.c), and serves the
 * character device (file.c). It knows nothing about the calls that programs make.
 *
 * Locks, in this order: device.state (queues come and go), session.maps_lock, queue.lock,
 * device.sessions_lock. The last two are taken in interrupts.
 */
#ifndef RUBATO_RUBATO_H
#define RUBATO_RUBATO_H

#include <linux/cdev.h>
#include <linux/completion.h>
#include <linux/device.h>
#include <linux/hashtable.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/scatterlist.h>
#include <linux/spinlock.h>
#include <linux/virtio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "rubato_uapi.h"

#define RUBATO_MAX_QUEUES 17
#define RUBATO_MAX_EVENTS 64
/* A host that says nothing for so long is lost. */
#define RUBATO_SILENT     (5 * HZ)
/* A worker starts in this time, maybe on a busy host. */
#define RUBATO_OPEN_TIME  (60 * HZ)

/* One request to the host. It is kept by its sender and by its queue. */
struct rubato_call {
	struct kref ref;
	struct completion done;
	int error; /* after `done` */
	/* Optional: called once, in any context, before `done`. */
	void (*finish)(struct rubato_call *call);
	void *data;
	struct list_head parked; /* the queue was full */
	struct rubato_queue *queue;
	struct scatterlist *pieces; /* of a MAP; freed with the call */
	/* What the host reads and writes. */
	struct rubato_request request;
	struct rubato_identity identity; /* of an OPEN */
	struct rubato_answer answer;
};

struct rubato_queue {
	spinlock_t lock;
	struct rubato_device *dev;
	struct virtqueue *vq;
	bool is_up;
	struct list_head parked; /* calls that wait for room */
};

/* One virtio device. It lives as long as it is bound, or a file of it is open. */
struct rubato_device {
	struct device dev;
	struct cdev cdev;
	int minor;
	struct virtio_device *vdev;
	struct mutex state;
	bool is_gone; /* unbound */
	bool is_up; /* queues exist */
	bool has_features; /* the virtio core has negotiated them for the first start */
	unsigned int n_queues;
	unsigned int max_pieces;
	struct rubato_queue queues[RUBATO_MAX_QUEUES];
	struct delayed_work watch;
	unsigned long last_life; /* jiffies when the host last said something */
	atomic_t n_pings; /* in flight */
	spinlock_t sessions_lock;
	DECLARE_HASHTABLE(sessions, 6);
	struct rubato_event events[RUBATO_MAX_EVENTS];
};

/* One open file. It is kept by the file, and by the table until the host has closed it. */
struct rubato_session {
	struct kref ref;
	struct hlist_node node;
	struct rubato_device *dev;
	struct rubato_queue *queue;
	u64 id;
	struct pid *owner;
	unsigned long flags;
	struct mutex maps_lock;
	struct list_head maps;
	struct work_struct free;
	wait_queue_head_t polled;
	DECLARE_BITMAP(rung, RUBATO_CHANNELS);
	DECLARE_BITMAP(ring_parked, RUBATO_CHANNELS);
	wait_queue_head_t channels[RUBATO_CHANNELS];
};

/* session.flags */
#define RUBATO_IS_LOST  0
#define RUBATO_IS_ENDED 1

extern struct workqueue_struct *rubato_wq;
extern const struct file_operations rubato_fops;

/* device.c */
/* Brings the queues up unless they are. */
int rubato_device_start(struct rubato_device *dev);
/* A new session: the host is watched while there is one. */
void rubato_device_watch(struct rubato_device *dev);

/* call.c */
struct rubato_call *rubato_call_new(struct rubato_queue *queue, u32 type, u64 session);
void rubato_call_put(struct rubato_call *call);
/* Sends it. -ECONNRESET if the queue is down; then finish() is not called. */
int rubato_call_post(struct rubato_call *call);
/*
 * Sends it and waits for the answer: an OPEN for RUBATO_OPEN_TIME, others for RUBATO_SILENT.
 * -ETIMEDOUT, or -EINTR if the process is killed; then the host still has the call.
 */
int rubato_call_wait(struct rubato_call *call);
/* Rings a channel. Never sleeps for long. */
int rubato_call_ring(struct rubato_session *s, u32 channel);
void rubato_call_done(struct virtqueue *vq);
void rubato_call_fail_all(struct rubato_queue *queue, struct list_head *parked);

/* file.c */
void rubato_session_get(struct rubato_session *s);
/* In any context. */
void rubato_session_put(struct rubato_session *s);
void rubato_session_event(struct rubato_device *dev, const struct rubato_event *e);
void rubato_session_lose(struct rubato_session *s);
void rubato_session_lose_all(struct rubato_device *dev);

/* map.c. The caller is the owner of the session. */
int rubato_map_create(struct rubato_session *s, struct vm_area_struct *vma);
int rubato_map_show(struct rubato_session *s, const struct rubato_range *range);
int rubato_map_share(struct rubato_session *s, const struct rubato_range *range);
int rubato_map_undo(struct rubato_session *s, const struct rubato_range *range);
void rubato_map_free_all(struct rubato_session *s);

#endif
