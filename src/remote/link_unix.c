/* SPDX-License-Identifier: Apache-2.0 */
/* The link of a guest process on the host's own kernel, such as one in a container: messages of
 * peer.h over a socket, memfds for memory, eventfds for doorbells. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "remote/peer.h"
#include "util/fd.h"
#include "util/time.h"

#define CONNECT_MS 5000

struct bells {
	int worker, guest; /* -1: the channel is not open */
};

struct link_unix {
	struct rbt_link base;
	int sock;
	atomic_bool lost;
	pthread_mutex_t lock; /* one message and its answer at a time */
	struct bells bells[RBT_LINK_CHANNELS];
};

static struct link_unix *unix_of(struct rbt_link *base)
{
	return (struct link_unix *)base; /* its first member */
}

static int lost(struct link_unix *l)
{
	atomic_store(&l->lost, true);
	return -ECONNRESET;
}

/* Waits until the socket can be read. */
static int wait_socket(struct link_unix *l, int64_t deadline_ns)
{
	for (;;) {
		struct pollfd p = {.fd = l->sock, .events = POLLIN};
		int64_t left_ns = deadline_ns - (int64_t)rbt_now_ns();
		int r = poll(&p, 1, left_ns > 0 ? (int)(left_ns / 1000000 + 1) : 0);

		if (r > 0) {
			return 0;
		}
		if (r == 0 || errno != EINTR) {
			return -ETIMEDOUT;
		}
	}
}

static int receive_answer(struct link_unix *l, uint32_t type, int64_t timeout_ns)
{
	struct rbt_peer_answer answer;
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;

	if (wait_socket(l, (int64_t)rbt_now_ns() + timeout_ns) < 0) {
		return lost(l);
	}
	ssize_t n = rbt_recv(l->sock, &answer, sizeof(answer), fds, &n_fds, 0);

	for (size_t i = 0; i < n_fds; i++) {
		rbt_close(&fds[i]);
	}
	if (n != sizeof(answer) || answer.header.magic != RBT_PEER_MAGIC ||
		answer.header.type != RBT_PEER_ANSWER || answer.answers != type ||
		answer.result > 0) {
		return lost(l);
	}
	return answer.result;
}

static int ask(struct link_unix *l, const void *message, size_t size, const int *fds, size_t n_fds,
	int64_t timeout_ns)
{
	uint32_t type = ((const struct rbt_peer_header *)message)->type;
	int r;

	if (atomic_load(&l->lost)) {
		return -ECONNRESET;
	}
	pthread_mutex_lock(&l->lock);
	do {
		r = rbt_send(l->sock, message, size, fds, n_fds, 0);
	} while (r == -EINTR);
	r = r < 0 ? lost(l) : receive_answer(l, type, timeout_ns);
	pthread_mutex_unlock(&l->lock);
	return r;
}

static struct rbt_peer_header header(enum rbt_peer_type type)
{
	return (struct rbt_peer_header){.magic = RBT_PEER_MAGIC, .type = type};
}

static void unix_close(struct rbt_link *base)
{
	struct link_unix *l = unix_of(base);

	if (l == NULL) {
		return;
	}
	rbt_close(&l->sock);
	for (size_t i = 0; i < RBT_LINK_CHANNELS; i++) {
		rbt_close(&l->bells[i].worker);
		rbt_close(&l->bells[i].guest);
	}
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static int unix_open(const char *path, const struct rbt_link_identity *id, struct rbt_link **ret)
{
	struct rbt_peer_hello hello = {
		.header = header(RBT_PEER_HELLO), .version = RBT_PEER_VERSION, .id = *id};
	struct link_unix *l = calloc(1, sizeof(*l));

	if (l == NULL) {
		return -ENOMEM;
	}
	l->base.ops = &rbt_link_unix;
	pthread_mutex_init(&l->lock, NULL);
	for (size_t i = 0; i < RBT_LINK_CHANNELS; i++) {
		l->bells[i] = (struct bells){-1, -1};
	}
	l->sock = rbt_connect(path, CONNECT_MS);
	int r = l->sock < 0 ? l->sock : ask(l, &hello, sizeof(hello), NULL, 0, RBT_LINK_OPEN_NS);

	if (r < 0) {
		unix_close(&l->base);
		return r;
	}
	*ret = &l->base;
	return 0;
}

/* A sealed memfd: it cannot shrink, so no reader of it gets SIGBUS. */
static int make_memory(size_t size)
{
	int fd = memfd_create("rubato-remote", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0) {
		return -errno;
	}
	if (ftruncate(fd, (off_t)size) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	return fd;
}

/* Lets the worker map a whole file. */
static int send_map(struct link_unix *l, void *at, size_t size, int fd)
{
	struct {
		struct rbt_peer_map map;
		struct rbt_peer_segment segment;
	} m = {.map = {.header = header(RBT_PEER_MAP),
		       .address = (uint64_t)(uintptr_t)at,
		       .size = size,
		       .n_segments = 1,
		       .n_files = 1},
		.segment = {.size = size}};

	return ask(l, &m, sizeof(m), &fd, 1, RBT_LINK_REPLY_NS);
}

static int send_unmap(struct link_unix *l, void *at, size_t size)
{
	struct rbt_peer_range m = {
		.header = header(RBT_PEER_UNMAP), .address = (uint64_t)(uintptr_t)at, .size = size};

	return ask(l, &m, sizeof(m), NULL, 0, RBT_LINK_REPLY_NS);
}

static int unix_map(struct rbt_link *base, void *at, size_t size)
{
	struct link_unix *l = unix_of(base);
	int fd = make_memory(size), r = 0;

	if (fd < 0) {
		return fd;
	}
	void *p = mmap(at, size, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0);

	if (p == MAP_FAILED) {
		r = -errno;
	} else if (p != at) { /* a kernel before 4.17 takes the address as a hint */
		munmap(p, size);
		r = -EEXIST;
	}
	if (r == 0) {
		(void)madvise(at, size, MADV_DONTFORK);
		r = send_map(l, at, size, fd);
		if (r < 0) {
			munmap(at, size);
		}
	}
	close(fd);
	return r;
}

/* Whether all of the range is the program's own memory: private, anonymous, and no stack. Memory
 * of another kind means something to others that a copy would not. */
static bool is_own_memory(uintptr_t from, uintptr_t to)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	while (maps != NULL && from < to && fgets(line, sizeof(line), maps) != NULL) {
		unsigned long begin, end, inode;
		char rights[5], name[16] = "";

		if (sscanf(line, "%lx-%lx %4s %*x %*s %lu %15s", &begin, &end, rights, &inode,
			    name) < 4 ||
			end <= from) {
			continue;
		}
		if (begin > from || strcmp(rights, "rw-p") != 0 || inode != 0 ||
			(name[0] == '[' && strcmp(name, "[heap]") != 0)) {
			break;
		}
		from = end;
	}
	if (maps != NULL) {
		fclose(maps);
	}
	return from >= to;
}

/* Puts a memfd with the same contents in the memory's place. (A thread that writes to memory while
 * it is being registered has no promise about these writes from CUDA either.) */
static int unix_share(struct rbt_link *base, void *at, size_t size)
{
	struct link_unix *l = unix_of(base);

	if (!is_own_memory((uintptr_t)at, (uintptr_t)at + size)) {
		return -EOPNOTSUPP;
	}
	int fd = make_memory(size);

	if (fd < 0) {
		return fd;
	}
	int r = send_map(l, at, size, fd);
	size_t done = 0;

	while (r == 0 && done < size) {
		ssize_t n = pwrite(fd, (const char *)at + done, size - done, (off_t)done);

		r = n < 0 && errno != EINTR ? -errno : 0;
		done += n > 0 ? (size_t)n : 0;
	}
	if (r == 0 && mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
			      MAP_FAILED) {
		r = -errno;
	}
	if (r < 0) {
		(void)send_unmap(l, at, size);
	}
	close(fd);
	return r;
}

static int unix_unmap(struct rbt_link *base, void *at, size_t size)
{
	int r = send_unmap(unix_of(base), at, size);

	if ((uintptr_t)at >= RBT_LINK_MAP_BASE && (uintptr_t)at < RBT_LINK_MAP_END) {
		munmap(at, size);
	}
	return r;
}

static int unix_channel(struct rbt_link *base, uint32_t number, void *area, size_t size)
{
	struct link_unix *l = unix_of(base);
	struct rbt_peer_channel m = {.header = header(RBT_PEER_CHANNEL),
		.number = number,
		.address = (uint64_t)(uintptr_t)area,
		.size = size};
	int fds[2] = {
		eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	int r = fds[0] < 0 || fds[1] < 0 ? -EMFILE
					 : ask(l, &m, sizeof(m), fds, 2, RBT_LINK_REPLY_NS);

	if (r < 0) {
		rbt_close(&fds[0]);
		rbt_close(&fds[1]);
		return r;
	}
	l->bells[number] = (struct bells){fds[0], fds[1]};
	return 0;
}

static int unix_channel_close(struct rbt_link *base, uint32_t number)
{
	struct link_unix *l = unix_of(base);
	struct rbt_peer_channel m = {.header = header(RBT_PEER_CHANNEL_CLOSE), .number = number};
	int r = ask(l, &m, sizeof(m), NULL, 0, RBT_LINK_REPLY_NS);

	rbt_close(&l->bells[number].worker);
	rbt_close(&l->bells[number].guest);
	return r;
}

static int unix_ring(struct rbt_link *base, uint32_t channel)
{
	struct link_unix *l = unix_of(base);
	const uint64_t one = 1;

	/* A full counter is a rung bell, too. */
	if (write(l->bells[channel].worker, &one, sizeof(one)) < 0 && errno != EAGAIN) {
		return lost(l);
	}
	return atomic_load(&l->lost) ? -ECONNRESET : 0;
}

static int unix_wait(struct rbt_link *base, uint32_t channel, int64_t deadline_ns)
{
	struct link_unix *l = unix_of(base);
	uint64_t count;

	for (;;) {
		struct pollfd p[2] = {{.fd = l->bells[channel].guest, .events = POLLIN},
			{.fd = l->sock, .events = POLLRDHUP}};
		int64_t left_ns =
			deadline_ns == RBT_LINK_FOREVER ? -1 : deadline_ns - (int64_t)rbt_now_ns();

		if (atomic_load(&l->lost)) {
			return -ECONNRESET;
		}
		if (deadline_ns != RBT_LINK_FOREVER && left_ns <= 0) {
			return -ETIMEDOUT;
		}
		/* No longer than a second: another thread may find out that the link is lost. */
		int r = poll(p, 2,
			left_ns < 0 || left_ns > 1000000000 ? 1000 : (int)(left_ns / 1000000 + 1));
		if (r < 0 && errno != EINTR) {
			return lost(l);
		}
		if (r > 0 && (p[0].revents & POLLIN) != 0) {
			(void)!read(p[0].fd, &count, sizeof(count));
			return 0;
		}
		if (r > 0 && p[1].revents != 0) {
			return lost(l);
		}
	}
}

const struct rbt_link_ops rbt_link_unix = {
	.name = "unix",
	.open = unix_open,
	.map = unix_map,
	.share = unix_share,
	.unmap = unix_unmap,
	.channel = unix_channel,
	.channel_close = unix_channel_close,
	.ring = unix_ring,
	.wait = unix_wait,
	.close = unix_close,
};
