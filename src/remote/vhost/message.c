/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/vhost/message.h"

#include <errno.h>
#include <linux/virtio_config.h>
#include <string.h>

#include "util/fd.h"

enum {
	GET_FEATURES = 1,
	SET_FEATURES,
	SET_OWNER,
	RESET_OWNER,
	SET_MEM_TABLE,
	SET_VRING_NUM = 8,
	SET_VRING_ADDR,
	SET_VRING_BASE,
	GET_VRING_BASE,
	SET_VRING_KICK,
	SET_VRING_CALL,
	SET_VRING_ERR,
	GET_PROTOCOL_FEATURES,
	SET_PROTOCOL_FEATURES,
	GET_QUEUE_NUM,
	SET_VRING_ENABLE,
	GET_CONFIG = 24,
	SET_CONFIG,
	N_REQUESTS,
};

#define FLAG_VERSION     0x3u
#define VERSION          0x1u
#define FLAG_REPLY       0x4u
#define FLAG_NEED_REPLY  0x8u
#define F_PROTOCOL       30 /* VHOST_USER_F_PROTOCOL_FEATURES */
#define PROTOCOL_MQ      0
#define PROTOCOL_REPLY   3
#define PROTOCOL_CONFIG  9
#define BIT(n)           (UINT64_C(1) << (n))
#define QUEUE_MASK       0xffu /* of the payload of KICK, CALL and ERR */
#define QUEUE_WITHOUT_FD 0x100u
#define OFFERED                                                                                    \
	(BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_RING_F_INDIRECT_DESC) |                              \
		BIT(VIRTIO_RING_F_EVENT_IDX) | BIT(F_PROTOCOL))
#define OFFERED_PROTOCOL (BIT(PROTOCOL_MQ) | BIT(PROTOCOL_REPLY) | BIT(PROTOCOL_CONFIG))

/* Acts on a message whose size has been checked. Returns as vhost_device_handle() does; a handler
 * that returns 1 has filled the reply's payload and its size. */
typedef int handler(struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply);

void vhost_device_init(struct vhost_device *d, const struct vhost_device_ops *ops)
{
	*d = (struct vhost_device){.ops = ops};
	for (size_t i = 0; i < VHOST_MAX_QUEUES; i++) {
		d->queues[i].kick = d->queues[i].call = -1;
	}
	for (size_t i = 0; i < VHOST_MAX_REGIONS; i++) {
		d->files[i] = -1;
	}
}

static void stop_queue(struct vhost_device *d, uint32_t i)
{
	if (d->queues[i].is_running) {
		d->ops->stop(d, i);
		d->queues[i].is_running = false;
	}
	vhost_ring_unmap(&d->queues[i].ring);
}

/* A queue runs when it has a kick file, is enabled, and its ring is in memory. Without protocol
 * features, rings are enabled from the start. */
static void try_start(struct vhost_device *d, uint32_t i)
{
	struct vhost_queue *q = &d->queues[i];
	const bool is_enabled = q->is_enabled || (d->features & BIT(F_PROTOCOL)) == 0;

	if (q->is_running || q->kick < 0 || !is_enabled) {
		return;
	}
	q->ring.has_event_idx = (d->features & BIT(VIRTIO_RING_F_EVENT_IDX)) != 0;
	if (vhost_ring_map(&q->ring, &d->memory) == 0) {
		q->is_running = true;
		d->ops->start(d, i);
	}
}

static void drop_memory(struct vhost_device *d)
{
	for (size_t i = 0; i < d->memory.n; i++) {
		const struct vhost_region *r = &d->memory.regions[i];

		d->ops->unmap(d, r->base - r->file_offset, r->file_offset + r->size);
	}
	for (size_t i = 0; i < VHOST_MAX_REGIONS; i++) {
		rbt_close(&d->files[i]);
	}
	d->memory.n = 0;
}

void vhost_device_finish(struct vhost_device *d)
{
	for (uint32_t i = 0; i < VHOST_MAX_QUEUES; i++) {
		stop_queue(d, i);
		rbt_close(&d->queues[i].kick);
		rbt_close(&d->queues[i].call);
	}
	drop_memory(d);
	d->features = 0;
}

static int reply_u64(struct vhost_message *reply, uint64_t value)
{
	reply->payload.u64 = value;
	reply->header.size = sizeof(value);
	return 1;
}

static int get_features(
	struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	return reply_u64(reply, OFFERED);
}

static int set_features(
	struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	/* QEMU sets features, then memory. If memory is not shared, it may send none at all. */
	const bool has_no_memory = d->features != 0 && d->memory.n == 0;

	if ((m->payload.u64 & ~OFFERED) != 0) {
		return -EPROTO;
	}
	d->features = m->payload.u64;
	return has_no_memory ? -ENODATA : 0;
}

static int do_nothing(struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	return 0;
}

static int add_region(struct vhost_device *d, struct vhost_message *m, size_t i)
{
	const uint64_t offset = m->payload.memory.regions[i].offset;
	struct vhost_region r = {
		.guest = m->payload.memory.regions[i].guest,
		.user = m->payload.memory.regions[i].user,
		.size = m->payload.memory.regions[i].size,
		.file_offset = offset,
	};
	unsigned char *base = NULL;

	if (offset + r.size < offset) {
		return -EPROTO;
	}
	int error = d->ops->map(d, m->fds[i], offset + r.size, &base);
	if (error < 0) {
		return error;
	}
	r.base = base + offset;
	error = vhost_memory_add(&d->memory, &r);
	if (error < 0) {
		d->ops->unmap(d, base, offset + r.size);
		return error;
	}
	d->files[i] = m->fds[i];
	m->fds[i] = -1;
	return 0;
}

/* QEMU may change the memory of running rings. */
static int set_mem_table(
	struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	const uint32_t n = m->payload.memory.n;
	int error = 0;

	if (n > VHOST_MAX_REGIONS || n != m->n_fds ||
		m->header.size != 8 + n * sizeof(m->payload.memory.regions[0])) {
		return -EPROTO;
	}
	for (uint32_t i = 0; i < VHOST_MAX_QUEUES; i++) {
		stop_queue(d, i);
	}
	drop_memory(d);
	for (size_t i = 0; i < n && error == 0; i++) {
		error = add_region(d, m, i);
	}
	if (error == 0 && n == 0) {
		error = -ENODATA;
	}
	if (error < 0) {
		drop_memory(d);
		return error;
	}
	for (uint32_t i = 0; i < VHOST_MAX_QUEUES; i++) {
		try_start(d, i);
	}
	return 0;
}

static int set_vring_num(
	struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	stop_queue(d, m->payload.state.index);
	d->queues[m->payload.state.index].ring.size = m->payload.state.value;
	return 0;
}

static int set_vring_addr(
	struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	const struct vhost_address_payload *a = &m->payload.address;
	struct vhost_ring *r = &d->queues[a->index].ring;

	stop_queue(d, a->index);
	r->desc = a->desc;
	r->used = a->used;
	r->avail = a->avail;
	try_start(d, a->index);
	return 0;
}

static int set_vring_base(
	struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	stop_queue(d, m->payload.state.index);
	d->queues[m->payload.state.index].ring.next = (uint16_t)m->payload.state.value;
	return 0;
}

/* This is how QEMU stops a ring, and how it resets a device. */
static int get_vring_base(
	struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	struct vhost_queue *q = &d->queues[m->payload.state.index];

	stop_queue(d, m->payload.state.index);
	d->ops->ended(d, m->payload.state.index);
	rbt_close(&q->kick);
	rbt_close(&q->call);
	reply->payload.state = (struct vhost_state_payload){m->payload.state.index, q->ring.next};
	reply->header.size = sizeof(reply->payload.state);
	return 1;
}

/* Takes the message's file, if there is to be one. */
static int take_file(struct vhost_message *m, int *file)
{
	const bool has_none = (m->payload.u64 & QUEUE_WITHOUT_FD) != 0;

	if (m->n_fds != (has_none ? 0 : 1)) {
		return -EPROTO;
	}
	rbt_close(file);
	if (!has_none) {
		*file = m->fds[0];
		m->fds[0] = -1;
	}
	return 0;
}

static int set_vring_kick(
	struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	const uint32_t i = (uint32_t)(m->payload.u64 & QUEUE_MASK);

	stop_queue(d, i);
	int error = take_file(m, &d->queues[i].kick);
	try_start(d, i);
	return error;
}

static int set_vring_call(
	struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	const uint32_t i = (uint32_t)(m->payload.u64 & QUEUE_MASK);

	stop_queue(d, i);
	int error = take_file(m, &d->queues[i].call);
	try_start(d, i);
	return error;
}

static int get_protocol_features(
	struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	return reply_u64(reply, OFFERED_PROTOCOL);
}

static int get_queue_num(
	struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	return reply_u64(reply, VHOST_MAX_QUEUES);
}

static int set_vring_enable(
	struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	const uint32_t i = m->payload.state.index;

	stop_queue(d, i);
	d->queues[i].is_enabled = m->payload.state.value != 0;
	try_start(d, i);
	return 0;
}

/* The reply has the size of the question; bytes that we do not have are 0. */
static int get_config(struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	const struct vhost_config_payload *ask = &m->payload.config;
	struct vhost_config_payload *c = &reply->payload.config;

	*c = (struct vhost_config_payload){ask->offset, ask->size, ask->flags, {0}};
	for (uint32_t i = 0; i < ask->size && i < VHOST_MAX_CONFIG; i++) {
		if ((uint64_t)ask->offset + i < d->config_size) {
			c->bytes[i] = ((const uint8_t *)d->config)[ask->offset + i];
		}
	}
	reply->header.size = m->header.size;
	return 1;
}

/* How the queue that a message is about can be found in its payload. */
enum about { NO_QUEUE, IN_STATE, IN_U64 };

static const struct {
	const char *name;
	handler *handle;
	uint32_t min_size, max_size;
	enum about about;
} requests[N_REQUESTS] = {
	[GET_FEATURES] = {"GET_FEATURES", get_features, 0, 0, NO_QUEUE},
	[SET_FEATURES] = {"SET_FEATURES", set_features, 8, 8, NO_QUEUE},
	[SET_OWNER] = {"SET_OWNER", do_nothing, 0, 0, NO_QUEUE},
	[RESET_OWNER] = {"RESET_OWNER", do_nothing, 0, 0, NO_QUEUE},
	[SET_MEM_TABLE] = {"SET_MEM_TABLE", set_mem_table, 8, sizeof(struct vhost_memory_payload),
		NO_QUEUE},
	[SET_VRING_NUM] = {"SET_VRING_NUM", set_vring_num, 8, 8, IN_STATE},
	[SET_VRING_ADDR] = {"SET_VRING_ADDR", set_vring_addr, 40, 40, IN_STATE},
	[SET_VRING_BASE] = {"SET_VRING_BASE", set_vring_base, 8, 8, IN_STATE},
	[GET_VRING_BASE] = {"GET_VRING_BASE", get_vring_base, 8, 8, IN_STATE},
	[SET_VRING_KICK] = {"SET_VRING_KICK", set_vring_kick, 8, 8, IN_U64},
	[SET_VRING_CALL] = {"SET_VRING_CALL", set_vring_call, 8, 8, IN_U64},
	[SET_VRING_ERR] = {"SET_VRING_ERR", do_nothing, 8, 8, IN_U64},
	[GET_PROTOCOL_FEATURES] = {"GET_PROTOCOL_FEATURES", get_protocol_features, 0, 0, NO_QUEUE},
	[SET_PROTOCOL_FEATURES] = {"SET_PROTOCOL_FEATURES", do_nothing, 8, 8, NO_QUEUE},
	[GET_QUEUE_NUM] = {"GET_QUEUE_NUM", get_queue_num, 0, 0, NO_QUEUE},
	[SET_VRING_ENABLE] = {"SET_VRING_ENABLE", set_vring_enable, 8, 8, IN_STATE},
	[GET_CONFIG] = {"GET_CONFIG", get_config, 12, sizeof(struct vhost_config_payload),
		NO_QUEUE},
	[SET_CONFIG] = {"SET_CONFIG", do_nothing, 12, sizeof(struct vhost_config_payload),
		NO_QUEUE},
};

const char *vhost_request_name(uint32_t request)
{
	return request < N_REQUESTS && requests[request].name != NULL ? requests[request].name
								      : "unknown request";
}

int vhost_header_check(const struct vhost_header *h)
{
	if ((h->flags & FLAG_VERSION) != VERSION || (h->flags & FLAG_REPLY) != 0 ||
		h->size > sizeof(union vhost_payload)) {
		return -EPROTO;
	}
	return 0;
}

static bool names_a_queue(const struct vhost_message *m, enum about about)
{
	switch (about) {
	case IN_STATE:
		return m->payload.state.index < VHOST_MAX_QUEUES;
	case IN_U64:
		return (m->payload.u64 & QUEUE_MASK) < VHOST_MAX_QUEUES;
	case NO_QUEUE:
		break;
	}
	return true;
}

static int act(struct vhost_device *d, struct vhost_message *m, struct vhost_message *reply)
{
	const uint32_t request = m->header.request;

	if (request >= N_REQUESTS || requests[request].handle == NULL ||
		m->header.size < requests[request].min_size ||
		m->header.size > requests[request].max_size ||
		!names_a_queue(m, requests[request].about)) {
		return -EPROTO;
	}
	return requests[request].handle(d, m, reply);
}

bool vhost_wants_reply(const struct vhost_message *m)
{
	return (m->header.flags & FLAG_NEED_REPLY) != 0;
}

int vhost_device_handle(
	struct vhost_device *d, struct vhost_message *m, struct vhost_message *ret_reply)
{
	memset(ret_reply, 0, sizeof(*ret_reply));
	int result = vhost_header_check(&m->header) < 0 ? -EPROTO : act(d, m, ret_reply);
	ret_reply->header.request = m->header.request;
	ret_reply->header.flags = VERSION | FLAG_REPLY;
	if (result == 0 && vhost_wants_reply(m)) {
		return reply_u64(ret_reply, 0);
	}
	if (result < 0) {
		reply_u64(ret_reply, 1);
	}
	return result;
}
