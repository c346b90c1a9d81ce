/* SPDX-License-Identifier: Apache-2.0 */
/* The link of a program in a virtual machine: the character device of kernel/rubato.ko. */
#include "remote/link_virtio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rubato_uapi.h"
#include "util/fd.h"
#include "util/owner.h"

static_assert(RBT_LINK_BLOCK == RUBATO_BLOCK, "one size of blocks");
static_assert(RBT_LINK_CHANNELS == RUBATO_CHANNELS, "as many channels");
static_assert(RBT_LINK_FOREVER == RUBATO_FOREVER, "one word for no deadline");

/* Memory of map(), which close() gives back. */
struct area {
	struct area *next;
	void *at;
	size_t size;
};

struct virtio_link {
	struct rbt_link base;
	int fd;
	pid_t pid;          /* of the process that opened it; its children have no link */
	struct area *areas; /* a stack without a lock; entries are freed by close() alone */
};

static struct virtio_link *virtio_of(struct rbt_link *link)
{
	return RBT_OWNER_OF(link, struct virtio_link, base);
}

/* The driver's errors are those of link.h. A file of another process has no link. */
static int ask(struct rbt_link *link, unsigned long request, const void *argument)
{
	int result;

	do {
		result = ioctl(virtio_of(link)->fd, request, argument);
	} while (result < 0 && errno == EINTR);
	if (result == 0) {
		return 0;
	}
	return errno == EPERM || errno == EBADF ? -ECONNRESET : -errno;
}

static int virtio_open(const char *path, const struct rbt_link_identity *id, struct rbt_link **ret)
{
	struct virtio_link *v = malloc(sizeof(*v));

	(void)id; /* the driver knows better */
	if (v == NULL) {
		return -ENOMEM;
	}
	do {
		v->fd = open(path, O_RDWR | O_CLOEXEC);
	} while (v->fd < 0 && errno == EINTR);
	if (v->fd < 0) {
		int error = errno == ENXIO || errno == ENODEV ? -ENOENT : -errno;

		free(v);
		return error;
	}
	v->base.ops = &rbt_link_virtio;
	v->pid = getpid();
	v->areas = NULL;
	*ret = &v->base;
	return 0;
}

static int virtio_map(struct rbt_link *link, void *at, size_t size)
{
	struct virtio_link *v = virtio_of(link);
	const struct rubato_range range = {(uintptr_t)at, size};
	struct area *a = malloc(sizeof(*a));

	if (a == NULL) {
		return -ENOMEM;
	}
	void *got =
		mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, v->fd, 0);
	int error = got == MAP_FAILED ? -errno : 0;
	/* Kernels before 4.17 take the address for a hint. */
	if (error == 0 && got != at) {
		munmap(got, size);
		error = -EEXIST;
	} else if (error == 0) {
		error = ask(link, RUBATO_IOC_MAP, &range);
		if (error < 0) {
			ask(link, RUBATO_IOC_UNMAP, &range);
			munmap(at, size);
		}
	}
	if (error < 0) {
		free(a);
		return error;
	}
	*a = (struct area){__atomic_load_n(&v->areas, __ATOMIC_RELAXED), at, size};
	while (!__atomic_compare_exchange_n(
		&v->areas, &a->next, a, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
	}
	return 0;
}

static int virtio_share(struct rbt_link *link, void *at, size_t size)
{
	const struct rubato_range range = {(uintptr_t)at, size};

	return ask(link, RUBATO_IOC_SHARE, &range);
}

/* Takes the area out of use; whether it was one of map(). */
static bool forget_area(struct virtio_link *v, const void *at, size_t size)
{
	for (struct area *a = __atomic_load_n(&v->areas, __ATOMIC_ACQUIRE); a != NULL;
		a = a->next) {
		size_t expected = size;

		if (__atomic_load_n(&a->at, __ATOMIC_RELAXED) == at &&
			__atomic_compare_exchange_n(&a->size, &expected, 0, false, __ATOMIC_RELAXED,
				__ATOMIC_RELAXED)) {
			return true;
		}
	}
	return false;
}

static int virtio_unmap(struct rbt_link *link, void *at, size_t size)
{
	const struct rubato_range range = {(uintptr_t)at, size};
	int error = ask(link, RUBATO_IOC_UNMAP, &range);

	if (error == 0 && forget_area(virtio_of(link), at, size)) {
		munmap(at, size);
	}
	return error;
}

static int virtio_channel(struct rbt_link *link, uint32_t number, void *area, size_t size)
{
	const struct rubato_channel channel = {
		.number = number, .address = (uintptr_t)area, .size = size};

	return ask(link, RUBATO_IOC_CHANNEL, &channel);
}

static int virtio_channel_close(struct rbt_link *link, uint32_t number)
{
	return ask(link, RUBATO_IOC_CHANNEL_CLOSE, &number);
}

static int virtio_ring(struct rbt_link *link, uint32_t channel)
{
	return ask(link, RUBATO_IOC_RING, &channel);
}

static int virtio_wait(struct rbt_link *link, uint32_t channel, int64_t deadline_ns)
{
	const struct rubato_wait wait = {.channel = channel, .deadline_ns = deadline_ns};

	return ask(link, RUBATO_IOC_WAIT, &wait);
}

static void virtio_close(struct rbt_link *link)
{
	if (link == NULL) {
		return;
	}
	struct virtio_link *v = virtio_of(link);
	const bool is_ours = v->pid == getpid();
	rbt_close(&v->fd);
	for (struct area *a = v->areas; a != NULL;) {
		struct area *next = a->next;

		/* In a child there is something else at these addresses, or nothing. */
		if (is_ours && a->size > 0) {
			munmap(a->at, a->size);
		}
		free(a);
		a = next;
	}
	free(v);
}

const struct rbt_link_ops rbt_link_virtio = {
	.name = "virtio",
	.open = virtio_open,
	.map = virtio_map,
	.share = virtio_share,
	.unmap = virtio_unmap,
	.channel = virtio_channel,
	.channel_close = virtio_channel_close,
	.ring = virtio_ring,
	.wait = virtio_wait,
	.close = virtio_close,
};
