/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to QEMU, and the threads of the device. */
#include "remote/vhost/backend.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/fd.h"
#include "util/log.h"
#include "util/owner.h"

static struct backend *backend_of(struct vhost_device *d)
{
	return RBT_OWNER_OF(d, struct backend, device);
}

/* A file that is shorter than QEMU says would kill us with SIGBUS. */
static int map(struct vhost_device *d, int fd, uint64_t length, unsigned char **ret)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	if (length > SIZE_MAX / 2 || (uint64_t)st.st_size < length) {
		return -EINVAL;
	}
	void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		return -errno;
	}
	*ret = at;
	return 0;
}

static void unmap(struct vhost_device *d, unsigned char *base, uint64_t length)
{
	munmap(base, length);
}

static void start(struct vhost_device *d, uint32_t queue)
{
	lane_start(backend_of(d), queue);
}

static void stop(struct vhost_device *d, uint32_t queue)
{
	lane_stop(backend_of(d), queue);
}

static void ended(struct vhost_device *d, uint32_t queue)
{
	backend_of(d)->lanes[queue].is_malformed = false;
	worker_end_all(backend_of(d));
}

static const struct vhost_device_ops ops = {map, unmap, start, stop, ended};

static void *serve_events(void *data)
{
	struct backend *b = data;
	struct epoll_event events[32];

	for (;;) {
		int n = epoll_wait(b->epoll, events, 32, -1);

		if (n < 0 && errno != EINTR) {
			rbt_error("epoll: %s", strerror(errno));
			return NULL;
		}
		pthread_mutex_lock(&b->turn);
		for (int i = 0; i < n; i++) {
			worker_event(b, events[i].data.u64);
		}
		worker_tell_guest(b);
		pthread_mutex_unlock(&b->turn);
	}
}

int backend_init(struct backend *b, const char *serve_path)
{
	static const struct rubato_config config = {
		.magic = RUBATO_MAGIC, .n_queues = RUBATO_QUEUES};

	vhost_device_init(&b->device, &ops);
	b->device.config = &config;
	b->device.config_size = sizeof(config);
	b->serve_path = serve_path;
	pthread_mutex_init(&b->turn, NULL);
	pthread_mutex_init(&b->sessions.lock, NULL);
	for (size_t i = 0; i < VHOST_MAX_QUEUES; i++) {
		pthread_mutex_init(&b->lanes[i].lock, NULL);
		b->lanes[i].stop = -1;
	}
	b->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (b->epoll < 0) {
		return -errno;
	}
	return -pthread_create(&b->events, NULL, serve_events, b);
}

/* Reads exactly so many bytes. 1, 0 at the end of the connection, or -errno. */
static int read_all(int sock, void *buf, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = recv(sock, (char *)buf + done, size - done, 0);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n == 0 ? 0 : -errno;
		}
		done += (size_t)n;
	}
	return 1;
}

static void take_files(struct msghdr *h, struct vhost_message *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c != NULL; c = CMSG_NXTHDR(h, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			m->n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			memcpy(m->fds, CMSG_DATA(c), m->n_fds * sizeof(int));
		}
	}
}

/* Receives one message. 1, 0 at the end, or -errno; files that came are in *m in any case. */
static int receive(int sock, struct vhost_message *m)
{
	char control[CMSG_SPACE(sizeof(m->fds))];
	struct iovec iov = {&m->header, sizeof(m->header)};
	struct msghdr h = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};

	memset(m, 0, sizeof(*m));
	ssize_t n = recvmsg(sock, &h, MSG_CMSG_CLOEXEC);
	if (n <= 0) {
		return n == 0 || errno == ECONNRESET ? 0 : -errno;
	}
	take_files(&h, m);
	int got = read_all(sock, (char *)&m->header + n, sizeof(m->header) - (size_t)n);
	if (got <= 0) {
		return got;
	}
	if (vhost_header_check(&m->header) < 0) {
		return -EPROTO;
	}
	return read_all(sock, &m->payload, m->header.size);
}

static int reply_to(int sock, struct vhost_message *reply)
{
	struct iovec parts[] = {
		{&reply->header, sizeof(reply->header)}, {&reply->payload, reply->header.size}};
	struct msghdr h = {.msg_iov = parts, .msg_iovlen = 2};
	const size_t size = parts[0].iov_len + parts[1].iov_len;

	return sendmsg(sock, &h, MSG_NOSIGNAL) == (ssize_t)size ? 0 : -EPIPE;
}

static void close_left(struct vhost_message *m)
{
	for (size_t i = 0; i < m->n_fds; i++) {
		rbt_close(&m->fds[i]);
	}
}

static void say_why(const struct vhost_message *m, int error)
{
	const char *name = vhost_request_name(m->header.request);

	if (error == -ENODATA) {
		rbt_error(
			"the guest's memory is not shared, so its programs cannot use the GPU: start "
			"QEMU with the options of `rubato vm-args` (memory-backend-memfd,share=on)");
	} else if (error == -EPROTO) {
		rbt_error("QEMU sent a malformed message: %s (%u), %u bytes, %zu files", name,
			m->header.request, m->header.size, m->n_fds);
	} else {
		rbt_error("%s of QEMU: %s", name, strerror(-error));
	}
}

/* Acts on one message and answers it. 1, or -errno with the reason logged. */
static int act(struct backend *b, int sock, struct vhost_message *m)
{
	struct vhost_message reply;

	pthread_mutex_lock(&b->turn);
	int result = vhost_device_handle(&b->device, m, &reply);
	pthread_mutex_unlock(&b->turn);
	rbt_debug("%s: %d", vhost_request_name(m->header.request), result);
	if (result < 0) {
		say_why(m, result);
	}
	if (result == 1 || (result < 0 && vhost_wants_reply(m))) {
		int error = reply_to(sock, &reply);
		result = error < 0 ? error : result;
	}
	/* QEMU may be started with memory that is not shared, and the guest may be rebooted. */
	return result == 0 || result == -ENODATA ? 1 : result;
}

/* One message. 1, 0 at the end of the connection, or -errno. */
static int serve_message(struct backend *b, int sock)
{
	struct vhost_message m;
	int result = receive(sock, &m);

	if (result < 0) {
		say_why(&m, result);
	} else if (result > 0) {
		result = act(b, sock, &m);
	}
	close_left(&m);
	return result;
}

int backend_serve(struct backend *b, int sock)
{
	int result;

	do {
		result = serve_message(b, sock);
	} while (result > 0);
	pthread_mutex_lock(&b->turn);
	vhost_device_finish(&b->device);
	for (size_t i = 0; i < VHOST_MAX_QUEUES; i++) {
		b->lanes[i].is_malformed = false;
	}
	worker_end_all(b);
	pthread_mutex_unlock(&b->turn);
	close(sock);
	return result;
}
