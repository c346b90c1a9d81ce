/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softgpu/cuda/front.h"
#include "softgpu/serve/gpu_link.h"
#include "util/fd.h"
#include "util/time.h"

#define CHECK_EVERY_NS (50 * RBT_NS_PER_MS)

static int lost(struct front_device *dev)
{
	atomic_store(&dev->lost, true);
	return -ENODEV;
}

bool front_link_check_now(struct front_device *dev)
{
	struct pollfd p = {.fd = dev->sock, .events = POLLRDHUP};

	if (!atomic_load(&dev->lost) && poll(&p, 1, 0) > 0 &&
		(p.revents & (POLLHUP | POLLERR | POLLRDHUP | POLLNVAL)) != 0) {
		lost(dev);
	}
	return atomic_load(&dev->lost);
}

bool front_link_is_lost(struct front_device *dev)
{
	if (atomic_load_explicit(&dev->lost, memory_order_relaxed)) {
		return true;
	}
	struct timespec ts;

	/* The coarse clock: this is on the path of every launch. */
	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	uint64_t now_ns = (uint64_t)ts.tv_sec * RBT_NS_PER_S + (uint64_t)ts.tv_nsec;

	if (now_ns - atomic_load_explicit(&dev->seen_ns, memory_order_relaxed) < CHECK_EVERY_NS) {
		return false;
	}
	atomic_store_explicit(&dev->seen_ns, now_ns, memory_order_relaxed);
	return front_link_check_now(dev);
}

/* Receives the answer to one request; unexpected fds are closed. Returns its size or -errno. */
static ssize_t receive(struct front_device *dev, struct gpu_reply *reply, size_t room, int *ret_fds,
	size_t want_fds)
{
	int fds[RBT_MAX_FDS_PER_MSG] = {-1, -1, -1, -1};
	size_t n_fds = 0;
	ssize_t n;

	do {
		n = rbt_recv(dev->sock, reply, room, fds, &n_fds, 0);
	} while (n == -EINTR);
	if (n < (ssize_t)sizeof(*reply) || reply->h.magic != LINK_MAGIC ||
		reply->h.type != GPU_REPLY || reply->h.cookie != dev->cookie ||
		(reply->error == 0 && n_fds != want_fds)) {
		n = lost(dev);
	}
	for (size_t i = 0; i < n_fds; i++) {
		if (n > 0 && reply->error == 0) {
			ret_fds[i] = fds[i];
		} else {
			rbt_close(&fds[i]);
		}
	}
	return n;
}

/* One request and its answer, of at most `room` bytes. `fd`: to send along, or -1. */
static int ask(struct front_device *dev, void *request, size_t size, uint32_t type, int fd,
	struct gpu_reply *reply, size_t room, int *ret_fds, size_t want_fds)
{
	struct link_header *h = request;
	ssize_t r;

	pthread_mutex_lock(&dev->lock);
	if (atomic_load(&dev->lost)) {
		pthread_mutex_unlock(&dev->lock);
		return -ENODEV;
	}
	*h = (struct link_header){.magic = LINK_MAGIC, .type = type, .cookie = ++dev->cookie};
	do {
		r = rbt_send(dev->sock, request, size, &fd, fd >= 0, 0);
	} while (r == -EINTR);
	r = r < 0 ? lost(dev) : receive(dev, reply, room, ret_fds, want_fds);
	pthread_mutex_unlock(&dev->lock);
	if (r < 0) {
		return (int)r;
	}
	if (reply->error != 0) {
		return reply->error < 0 ? reply->error : -EPROTO;
	}
	if (type == GPU_MODULE && (uint64_t)r != sizeof(*reply) + reply->count * sizeof(uint64_t)) {
		return lost(dev);
	}
	return 0;
}

/* A request whose answer is a value. */
static int ask_value(
	struct front_device *dev, void *request, size_t size, uint32_t type, uint64_t *ret_value)
{
	struct gpu_reply reply;
	int r = ask(dev, request, size, type, -1, &reply, sizeof(reply), NULL, 0);

	if (r == 0) {
		*ret_value = reply.value;
	}
	return r;
}

/* Maps a memfd of the server, which must have at least that size; closes it. */
static int map_shared(int fd, size_t size, void *at, void **ret)
{
	struct stat st;
	void *p = MAP_FAILED;
	int r = -EPROTO;

	if (fstat(fd, &st) == 0 && (uint64_t)st.st_size >= size) {
		p = mmap(at, size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_NORESERVE | (at != NULL ? MAP_FIXED : 0), fd, 0);
		r = p == MAP_FAILED ? -errno : 0;
	}
	close(fd);
	if (r == 0) {
		*ret = p;
	}
	return r;
}

static int greet(struct front_device *dev)
{
	struct gpu_hello hello = {.version = GPU_ABI_VERSION, .gpu = (uint32_t)dev->ordinal};
	struct gpu_reply a;
	int fds[RBT_MAX_FDS_PER_MSG] = {-1, -1, -1, -1};
	void *arena = NULL, *bell = NULL;

	int r = ask(dev, &hello, sizeof(hello), GPU_HELLO, -1, &a, sizeof(a), fds, 2);
	if (r < 0) {
		return r;
	}
	r = map_shared(fds[0], a.value, NULL, &arena);
	if (r < 0) {
		rbt_close(&fds[1]);
		return r;
	}
	r = map_shared(fds[1], sizeof(struct gpu_bell), NULL, &bell);
	if (r < 0 || a.n_sms == 0) {
		munmap(arena, a.value);
		return r < 0 ? r : -EPROTO;
	}
	/* A forked child does not need them. */
	(void)madvise(arena, a.value, MADV_DONTFORK);
	dev->arena = arena;
	dev->bell = bell;
	dev->n_sms = a.n_sms;
	dev->memory_bytes = a.memory_bytes;
	dev->arena_bytes = a.value;
	return 0;
}

int front_link_open(struct front_device *dev)
{
	dev->sock = front_world_connect();
	if (dev->sock < 0) {
		return dev->sock;
	}
	int r = greet(dev);

	if (r < 0) {
		rbt_close(&dev->sock);
	}
	return r;
}

void front_link_forked(struct front_device *dev)
{
	/* Our copy would keep the parent's connection open after the parent's death. */
	rbt_close(&dev->sock);
}

int front_link_context(struct front_context *ctx, const struct front_rm_context *rm)
{
	struct gpu_context m = {
		.client = rm->client, .tsg = rm->tsgs[0], .n_channels = GPU_MAX_CHANNELS};
	struct gpu_reply a;
	int fds[RBT_MAX_FDS_PER_MSG] = {-1, -1, -1, -1};
	void *room = NULL;

	memcpy(m.channels, rm->channels, sizeof(m.channels));
	int r = ask(ctx->dev, &m, sizeof(m), GPU_CONTEXT, -1, &a, sizeof(a), fds, 1);
	if (r < 0) {
		return r;
	}
	ctx->number = (uint32_t)a.value;
	r = map_shared(fds[0], sizeof(struct gpu_room), NULL, &room);
	if (r < 0) {
		front_link_context_end(ctx);
		return r;
	}
	(void)madvise(room, sizeof(struct gpu_room), MADV_DONTFORK);
	ctx->room = room;
	return 0;
}

int front_link_context_end(struct front_context *ctx)
{
	struct gpu_object m = {.context = ctx->number};
	uint64_t value;

	return ask_value(ctx->dev, &m, sizeof(m), GPU_CONTEXT_END, &value);
}

int front_link_alloc(struct front_context *ctx, uint64_t size, CUdeviceptr *ret)
{
	struct gpu_memory m = {.context = ctx->number, .size = size};
	const struct front_device *dev = ctx->dev;
	uint64_t address = 0;
	int r = ask_value(ctx->dev, &m, sizeof(m), GPU_ALLOC, &address);

	if (r < 0) {
		return r;
	}
	if (address < GPU_MEMORY_VA || size > dev->memory_bytes ||
		address - GPU_MEMORY_VA > dev->arena_bytes - size) {
		return lost(ctx->dev);
	}
	*ret = address;
	return 0;
}

int front_link_pin(struct front_context *ctx, uint64_t size, void *address)
{
	struct gpu_memory m = {
		.context = ctx->number, .size = size, .address = (uint64_t)(uintptr_t)address};
	struct gpu_reply a;
	int fds[RBT_MAX_FDS_PER_MSG] = {-1, -1, -1, -1};
	void *p = NULL;
	int r = ask(ctx->dev, &m, sizeof(m), GPU_PIN, -1, &a, sizeof(a), fds, 1);

	if (r < 0) {
		return r;
	}
	r = map_shared(fds[0], size, address, &p);
	if (r < 0) {
		(void)front_link_free(ctx, (uint64_t)(uintptr_t)address);
	}
	return r;
}

int front_link_share(
	struct front_context *ctx, uint64_t address, uint64_t size, int fd, uint64_t offset)
{
	struct gpu_share m = {
		.context = ctx->number, .size = size, .address = address, .offset = offset};
	struct gpu_reply a;

	return ask(ctx->dev, &m, sizeof(m), GPU_SHARE, fd, &a, sizeof(a), NULL, 0);
}

int front_link_free(struct front_context *ctx, CUdeviceptr address)
{
	struct gpu_memory m = {.context = ctx->number, .address = address};
	uint64_t value;

	return ask_value(ctx->dev, &m, sizeof(m), GPU_FREE, &value);
}

/* Puts the text into an unnamed file. */
static int text_file(const char *text, size_t size)
{
	int fd = memfd_create("ptx", MFD_CLOEXEC);

	if (fd < 0) {
		return -errno;
	}
	while (size > 0) {
		ssize_t n = write(fd, text, size);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			int r = n < 0 ? -errno : -ENOSPC;

			close(fd);
			return r;
		}
		text += n;
		size -= (size_t)n;
	}
	return fd;
}

int front_link_load(struct front_context *ctx, const char *text, size_t size, uint32_t *ret_module,
	uint64_t *ret_addresses, size_t n_addresses, char *error, size_t room)
{
	struct gpu_module m = {.context = ctx->number, .size = size};
	size_t values = n_addresses * sizeof(uint64_t),
	       reply_room = sizeof(struct gpu_reply) + values;
	struct gpu_reply *reply = calloc(1, reply_room);
	int fd = text_file(text, size);

	if (reply == NULL || fd < 0) {
		free(reply);
		rbt_close(&fd);
		return fd < 0 ? fd : -ENOMEM;
	}
	int r = ask(ctx->dev, &m, sizeof(m), GPU_MODULE, fd, reply, reply_room, NULL, 0);
	close(fd);
	if (r == 0 && reply->count != n_addresses) {
		r = -EPROTO;
	}
	if (r == 0) {
		*ret_module = (uint32_t)reply->value;
		memcpy(ret_addresses, reply + 1, values);
	} else if (room > 0) {
		snprintf(error, room, "%.*s", (int)sizeof(reply->text), reply->text);
	}
	free(reply);
	return r;
}

int front_link_unload(struct front_context *ctx, uint32_t module)
{
	struct gpu_object m = {.context = ctx->number, .object = module};
	uint64_t value;

	return ask_value(ctx->dev, &m, sizeof(m), GPU_UNLOAD, &value);
}

int front_link_memory(struct front_context *ctx, uint64_t *ret_free)
{
	struct gpu_object m = {.context = ctx->number};

	return ask_value(ctx->dev, &m, sizeof(m), GPU_MEMORY, ret_free);
}

int front_link_process(struct gpu_process *m, uint32_t *ret_result, uint32_t *ret_state)
{
	struct front_device link = {.sock = front_world_connect()};
	struct gpu_reply a;

	if (link.sock < 0) {
		return link.sock;
	}
	pthread_mutex_init(&link.lock, NULL);
	int r = ask(&link, m, sizeof(*m), GPU_PROCESS, -1, &a, sizeof(a), NULL, 0);
	rbt_close(&link.sock);
	pthread_mutex_destroy(&link.lock);
	if (r == 0) {
		*ret_result = (uint32_t)a.value;
		*ret_state = a.n_sms;
	}
	return r;
}
