/* SPDX-License-Identifier: Apache-2.0 */
/* The vhost-user protocol, as QEMU speaks it, and as it should not be spoken. */
#include "check.h"

#include <errno.h>
#include <linux/virtio_config.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "remote/vhost/message.h"

#define MEMORY_BYTES 0x10000u
#define PROTOCOL_BIT (1ull << 30)
#define NEED_REPLY   0x8u

static struct vhost_device d;
static struct vhost_message reply;
static unsigned char memory[MEMORY_BYTES] __attribute__((aligned(4096)));
static int n_mapped;
static uint32_t running, ended; /* bits of queues */

static int map(struct vhost_device *device, int fd, uint64_t length, unsigned char **ret)
{
	if (length > MEMORY_BYTES) {
		return -EINVAL;
	}
	n_mapped++;
	*ret = memory;
	return 0;
}

static void unmap(struct vhost_device *device, unsigned char *base, uint64_t length)
{
	CHECK(base == memory);
	n_mapped--;
}

static void start(struct vhost_device *device, uint32_t queue)
{
	CHECK((running & 1u << queue) == 0);
	CHECK(device->queues[queue].ring.desc_at != NULL);
	running |= 1u << queue;
}

static void stop(struct vhost_device *device, uint32_t queue)
{
	CHECK((running & 1u << queue) != 0);
	running &= ~(1u << queue);
}

static void end(struct vhost_device *device, uint32_t queue)
{
	CHECK((running & 1u << queue) == 0);
	ended |= 1u << queue;
}

static const struct vhost_device_ops ops = {map, unmap, start, stop, end};

static int send_message(struct vhost_message *m)
{
	m->header.flags |= 1;
	int result = vhost_device_handle(&d, m, &reply);
	for (size_t i = 0; i < m->n_fds; i++) {
		if (m->fds[i] >= 0) {
			close(m->fds[i]);
		}
	}
	return result;
}

static int send_u64(uint32_t request, uint64_t value, int n_fds)
{
	struct vhost_message m = {
		.header = {request, 0, 8}, .payload.u64 = value, .n_fds = (size_t)n_fds};

	if (n_fds > 0) {
		m.fds[0] = eventfd(0, EFD_CLOEXEC);
	}
	return send_message(&m);
}

static int send_state(uint32_t request, uint32_t index, uint32_t value)
{
	struct vhost_message m = {.header = {request, 0, 8}, .payload.state = {index, value}};

	return send_message(&m);
}

static int ask(uint32_t request)
{
	struct vhost_message m = {.header = {request, 0, 0}};

	return send_message(&m);
}

/* One region of guest memory at 0, at 0x7000_0000 in QEMU. */
static int send_memory(uint32_t n, uint64_t size, uint64_t offset)
{
	struct vhost_message m = {.header = {5, NEED_REPLY, 8 + n * 32}, .n_fds = n};

	m.payload.memory.n = n;
	for (uint32_t i = 0; i < n; i++) {
		m.payload.memory.regions[i].guest = i * 0x100000;
		m.payload.memory.regions[i].size = size;
		m.payload.memory.regions[i].user = 0x70000000 + i * 0x100000;
		m.payload.memory.regions[i].offset = offset;
		m.fds[i] = eventfd(0, EFD_CLOEXEC);
	}
	return send_message(&m);
}

static int send_address(uint32_t index, uint64_t at)
{
	struct vhost_message m = {.header = {9, 0, 40},
		.payload.address = {index, 0, 0x70000000 + at, 0x70000000 + at + 0x800,
			0x70000000 + at + 0x400, 0}};

	return send_message(&m);
}

static void set_up_queue(uint32_t i)
{
	CHECK_INT(send_state(8, i, 16), 0);
	CHECK_INT(send_state(10, i, 0), 0);
	CHECK_INT(send_address(i, 0x1000), 0);
	CHECK_INT(send_u64(12, i, 1), 0);
	CHECK_INT(send_u64(13, i, 1), 0);
}

static void test_negotiation(void)
{
	const uint64_t offered = 1ull << VIRTIO_F_VERSION_1 | PROTOCOL_BIT |
				 1ull << VIRTIO_RING_F_INDIRECT_DESC |
				 1ull << VIRTIO_RING_F_EVENT_IDX;

	CHECK_INT(ask(1), 1);
	CHECK_INT(reply.payload.u64, offered);
	CHECK_INT(reply.header.size, 8);
	CHECK_INT(reply.header.flags, 5);
	CHECK_INT(ask(15), 1);
	CHECK_INT(reply.payload.u64, 1 << 0 | 1 << 3 | 1 << 9);
	CHECK((reply.payload.u64 & 1 << 15) == 0); /* CONFIGURE_MEM_SLOTS */
	CHECK_INT(ask(17), 1);
	CHECK_INT(reply.payload.u64, VHOST_MAX_QUEUES);
	CHECK_INT(send_u64(2, offered, 0), 0);
	CHECK_INT(send_u64(2, 1ull << 34, 0), -EPROTO); /* packed rings */
	CHECK_INT(send_u64(2, offered, 0), -ENODATA);   /* again, and no memory has come */
	CHECK_INT(ask(3), 0);
}

static void test_life(void)
{
	CHECK_INT(send_memory(1, MEMORY_BYTES, 0), 1); /* with an answer */
	CHECK_INT(reply.payload.u64, 0);
	CHECK_INT(n_mapped, 1);
	set_up_queue(2);
	CHECK_INT(running, 0); /* not enabled yet */
	CHECK_INT(send_state(18, 2, 1), 0);
	CHECK_INT(running, 1 << 2);
	CHECK(d.queues[2].ring.has_event_idx);
	/* Memory changes under a running ring: it starts again, and has not ended. */
	CHECK_INT(send_memory(2, MEMORY_BYTES / 2, 0), 1);
	CHECK_INT(running, 1 << 2);
	CHECK_INT(ended, 0);
	CHECK_INT(n_mapped, 2);
	d.queues[2].ring.next = 77;
	CHECK_INT(send_state(11, 2, 0), 1);
	CHECK_INT(reply.payload.state.index, 2);
	CHECK_INT(reply.payload.state.value, 77);
	CHECK_INT(running, 0);
	CHECK_INT(ended, 1 << 2);
}

/* A ring outside of memory does not run. */
static void test_bad_rings(void)
{
	set_up_queue(1);
	CHECK_INT(send_state(18, 1, 1), 0);
	CHECK_INT(running, 1 << 1);
	CHECK_INT(send_address(1, MEMORY_BYTES), 0);
	CHECK_INT(running, 0);
	CHECK_INT(send_address(1, 0x1000), 0);
	CHECK_INT(running, 1 << 1);
	CHECK_INT(send_state(8, 1, 17), 0);
	CHECK_INT(send_address(1, 0x1000), 0);
	CHECK_INT(running, 0);
}

static void test_memory_not_shared(void)
{
	CHECK_INT(send_memory(0, 0, 0), -ENODATA);
	CHECK_INT(reply.payload.u64, 1); /* refused */
	CHECK_INT(n_mapped, 0);
	CHECK_INT(d.memory.n, 0);
}

static void test_malformed(void)
{
	struct vhost_message m = {.header = {5, 0, 8 + 32}, .payload.memory.n = 2};

	CHECK_INT(send_message(&m), -EPROTO);                    /* fewer files than regions */
	CHECK_INT(send_memory(1, MEMORY_BYTES + 1, 0), -EINVAL); /* the file is shorter */
	CHECK_INT(send_memory(1, 16, UINT64_MAX - 8), -EPROTO);
	CHECK_INT(send_memory(2, 0x100001, 0), -EINVAL);
	CHECK_INT(n_mapped, 0);
	CHECK_INT(send_state(8, VHOST_MAX_QUEUES, 16), -EPROTO);
	CHECK_INT(send_u64(12, 0xff, 1), -EPROTO);
	CHECK_INT(send_u64(12, 1, 0), -EPROTO); /* a kick without its file */
	CHECK_INT(send_u64(12, 0x101, 0), 0);   /* it may be left out */
	CHECK_INT(ask(0), -EPROTO);
	CHECK_INT(ask(6), -EPROTO);
	CHECK_INT(ask(UINT32_MAX), -EPROTO);
	CHECK_INT(ask(2), -EPROTO); /* too short */
	m = (struct vhost_message){.header = {1, 4, 0}};
	CHECK_INT(send_message(&m), -EPROTO); /* a reply */
	CHECK_INT(vhost_header_check(&(struct vhost_header){1, 1, 100000}), -EPROTO);
	CHECK_INT(vhost_header_check(&(struct vhost_header){1, 2, 0}), -EPROTO);
}

static void test_config(void)
{
	static const char config[] = "0123456789abcdef";
	struct vhost_message m = {.header = {24, 0, 12 + 8}, .payload.config = {12, 8, 0, {0}}};

	d.config = config;
	d.config_size = 16;
	CHECK_INT(send_message(&m), 1);
	CHECK_INT(reply.header.size, 20);
	CHECK(memcmp(reply.payload.config.bytes, "cdef\0\0\0\0", 8) == 0);
	m.payload.config = (struct vhost_config_payload){UINT32_MAX, UINT32_MAX, 0, {0}};
	CHECK_INT(send_message(&m), 1);
}

int main(void)
{
	vhost_device_init(&d, &ops);
	test_negotiation();
	test_life();
	test_bad_rings();
	test_memory_not_shared();
	test_malformed();
	test_config();
	vhost_device_finish(&d);
	CHECK_INT(n_mapped, 0);
	CHECK_INT(running, 0);
	return check_result();
}
