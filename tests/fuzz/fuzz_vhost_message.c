/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever QEMU sends, in whatever order: queues run only with rings in mapped memory, and no file
 * or mapping is left behind. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "remote/vhost/message.h"
#include "require.h"

#define MAX_MAP      0x1000u
#define MAX_MESSAGES 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int n_mapped;
static uint32_t running;

/* As long as QEMU says, and not a byte longer. */
static int map(struct vhost_device *d, int fd, uint64_t length, unsigned char **ret)
{
	REQUIRE(fcntl(fd, F_GETFD) >= 0);
	if (length > MAX_MAP) {
		return -EINVAL;
	}
	*ret = aligned_alloc(16, length == 0 ? 16 : (length + 15) / 16 * 16);
	memset(*ret, 0, length);
	n_mapped++;
	return 0;
}

static void unmap(struct vhost_device *d, unsigned char *base, uint64_t length)
{
	REQUIRE(running == 0);
	free(base);
	n_mapped--;
}

static void use(struct vhost_device *d, uint32_t queue)
{
	static struct vhost_chain chain;
	struct vhost_ring *r = &d->queues[queue].ring;

	for (int i = 0; i < 4 && vhost_ring_pop(r, &d->memory, &chain) > 0; i++) {
		vhost_chain_write(&chain, 0, "written", 7);
		vhost_ring_push(r, chain.head, 7);
	}
	vhost_ring_must_tell(r);
	vhost_ring_sleep(r);
}

static void start(struct vhost_device *d, uint32_t queue)
{
	REQUIRE(queue < VHOST_MAX_QUEUES && (running & 1u << queue) == 0);
	REQUIRE(fcntl(d->queues[queue].kick, F_GETFD) >= 0);
	running |= 1u << queue;
	use(d, queue);
}

static void stop(struct vhost_device *d, uint32_t queue)
{
	REQUIRE(queue < VHOST_MAX_QUEUES && (running & 1u << queue) != 0);
	use(d, queue);
	running &= ~(1u << queue);
}

static void ended(struct vhost_device *d, uint32_t queue)
{
	REQUIRE((running & 1u << queue) == 0);
}

static const struct vhost_device_ops ops = {map, unmap, start, stop, ended};

/* The next message of the input: request, flags, number of files, size of the payload, payload. */
static size_t take(const uint8_t *data, size_t size, int file, struct vhost_message *m)
{
	size_t n = data[3] < size - 4 ? data[3] : size - 4;

	memset(m, 0, sizeof(*m));
	n = n < sizeof(m->payload) ? n : sizeof(m->payload);
	m->header = (struct vhost_header){data[0] % 32, data[1] % 16, (uint32_t)n};
	memcpy(&m->payload, data + 4, n);
	m->n_fds = data[2] % (VHOST_MAX_REGIONS + 1);
	for (size_t i = 0; i < m->n_fds; i++) {
		m->fds[i] = dup(file);
	}
	return 4 + n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int file = -1;
	struct vhost_device d;
	struct vhost_message m, reply;

	if (file < 0) {
		file = open("/dev/null", O_RDWR | O_CLOEXEC);
	}
	const int lowest = dup(file);
	close(lowest);
	vhost_device_init(&d, &ops);
	for (int i = 0; i < MAX_MESSAGES && size >= 4; i++) {
		size_t n = take(data, size, file, &m);

		int result = vhost_device_handle(&d, &m, &reply);
		REQUIRE(result <= 1 && reply.header.size <= sizeof(reply.payload));
		for (size_t k = 0; k < m.n_fds; k++) {
			if (m.fds[k] >= 0) {
				close(m.fds[k]);
			}
		}
		data += n;
		size -= n;
	}
	vhost_device_finish(&d);
	REQUIRE(n_mapped == 0 && running == 0);
	/* The lowest free number is what it was: no file is left open. */
	REQUIRE(dup(file) == lowest);
	close(lowest);
	return 0;
}
