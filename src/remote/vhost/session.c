/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the guest's driver: each is checked, and forwarded to the session's worker. */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "remote/peer.h"
#include "remote/vhost/backend.h"
#include "util/fd.h"

#define PAGE 4096u

struct session *session_find(struct backend *b, uint64_t id)
{
	for (size_t i = 0; i < MAX_SESSIONS; i++) {
		if (b->sessions.all[i].is_used && b->sessions.all[i].id == id) {
			return &b->sessions.all[i];
		}
	}
	return NULL;
}

static struct session *add_session(struct backend *b, uint64_t id)
{
	for (size_t i = 0; i < MAX_SESSIONS; i++) {
		struct session *s = &b->sessions.all[i];

		if (s->is_used) {
			continue;
		}
		*s = (struct session){.id = id, .is_used = true, .sock = -1};
		for (size_t c = 0; c < RBT_LINK_CHANNELS; c++) {
			s->channels[c] = (struct channel){-1, -1, false};
		}
		return s;
	}
	return NULL;
}

/* The worker has a copy of this eventfd: to close ours does not end the watch. */
void session_close_channel(struct backend *b, struct session *s, uint32_t number)
{
	struct channel *c = &s->channels[number];

	if (c->to_guest >= 0) {
		epoll_ctl(b->epoll, EPOLL_CTL_DEL, c->to_guest, NULL);
	}
	rbt_close(&c->to_worker);
	rbt_close(&c->to_guest);
	c->is_rung = false;
}

static void close_files(struct backend *b, struct session *s)
{
	rbt_close(&s->sock);
	for (uint32_t c = 0; c < RBT_LINK_CHANNELS; c++) {
		session_close_channel(b, s, c);
	}
}

void session_free(struct backend *b, struct session *s)
{
	close_files(b, s);
	s->is_used = false;
}

void session_lose(struct backend *b, struct session *s)
{
	bool was_opening = false;

	close_files(b, s);
	for (size_t i = 0; i < s->n_pending; i++) {
		was_opening |= s->pending[i].type == RUBATO_OPEN;
		lane_complete(b, &s->pending[i], -ECONNRESET);
	}
	s->n_pending = 0;
	s->is_lost = true;
	if (s->is_closing) {
		lane_complete(b, &s->close, 0);
	}
	/* A session that never was open, or is closed, is known to nobody. */
	if (s->is_closing || was_opening) {
		s->is_used = false;
		return;
	}
	s->must_tell_lost = true;
	b->sessions.has_news = true;
}

static uint32_t number_of(const struct backend *b, const struct session *s)
{
	return (uint32_t)(s - b->sessions.all);
}

static int watch(struct backend *b, const struct session *s, int fd, uint32_t source)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = SOURCE(number_of(b, s), source)};

	return epoll_ctl(b->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* Sends a message to the worker, and remembers the request until its answer. */
static int forward(struct backend *b, struct session *s, const struct request *r, const void *msg,
	size_t size, const int *fds, size_t n_fds)
{
	char control[CMSG_SPACE(sizeof(int) * RBT_PEER_MAX_FDS)] = {0};
	struct iovec iov = {(void *)msg, size};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};

	if (s->n_pending == MAX_PENDING) {
		return -EBUSY;
	}
	if (n_fds > 0) {
		h.msg_control = control;
		h.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		struct cmsghdr *c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	if (sendmsg(s->sock, &h, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		return errno == EPIPE ? -ECONNRESET : -errno;
	}
	s->pending[s->n_pending++] = *r;
	return 0;
}

static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (sock < 0) {
		return -errno;
	}
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0) {
		int error = errno == EAGAIN ? -ECONNREFUSED : -errno;
		rbt_close(&sock);
		return error;
	}
	return sock;
}

static int open_session(struct backend *b, const struct rubato_request *q, const struct request *r,
	const struct vhost_chain *chain)
{
	struct rubato_identity id;
	struct rbt_peer_hello hello = {
		.header = {RBT_PEER_MAGIC, RBT_PEER_HELLO}, .version = RBT_PEER_VERSION};
	struct session *s = session_find(b, le64toh(q->session));

	if (vhost_chain_read(chain, sizeof(*q), &id, sizeof(id)) < sizeof(id) || s != NULL) {
		return -EINVAL;
	}
	if (r->number != RUBATO_PROTOCOL) {
		return -EPROTO;
	}
	hello.id.pid = le32toh(id.pid);
	memcpy(hello.id.command, id.command, sizeof(hello.id.command) - 1);
	s = add_session(b, le64toh(q->session));
	if (s == NULL) {
		return -EUSERS;
	}
	s->sock = connect_to(b->serve_path);
	int error = s->sock < 0 ? s->sock : watch(b, s, s->sock, SOURCE_SOCKET);
	if (error == 0) {
		error = forward(b, s, r, &hello, sizeof(hello), NULL, 0);
	}
	if (error < 0) {
		session_free(b, s);
	}
	return error;
}

/* The worker ends when its connection does. The answer comes when it has ended, so that it does not
 * write to memory that the guest uses for something else again. */
static int close_session(struct backend *b, struct session *s, const struct request *r)
{
	if (s->is_closing) {
		return -EINVAL;
	}
	if (s->is_lost) {
		session_free(b, s);
		lane_complete(b, r, 0);
		return 0;
	}
	s->is_closing = true;
	s->close = *r;
	shutdown(s->sock, SHUT_WR);
	return 0;
}

struct map_message {
	struct rbt_peer_map map;
	struct rbt_peer_segment segments[RBT_PEER_SEGMENTS];
};

/* A MAP with its files: those of the regions that it has memory of. */
struct mapping {
	struct map_message msg;
	int fds[RBT_PEER_MAX_FDS];
	uint32_t regions[RBT_PEER_MAX_FDS]; /* of the files */
};

/* The number of a region's file in the message, or -E2BIG. */
static int find_file(struct mapping *m, const struct backend *b, uint32_t region)
{
	uint32_t *n = &m->msg.map.n_files;

	for (uint32_t i = 0; i < *n; i++) {
		if (m->regions[i] == region) {
			return (int)i;
		}
	}
	if (*n == RBT_PEER_MAX_FDS) {
		return -E2BIG;
	}
	m->regions[*n] = region;
	m->fds[*n] = b->device.files[region];
	return (int)(*n)++;
}

/* Adds the memory of one piece. Neighbours in one file become one segment: each segment is one
 * mapping of the worker, and processes have a limited number of those. */
static int add_segment(const struct backend *b, uint64_t guest, uint64_t size, struct mapping *m)
{
	const struct vhost_memory *memory = &b->device.memory;
	const struct vhost_region *region = vhost_memory_region(memory, guest, size);
	struct rbt_peer_map *map = &m->msg.map;

	if (region == NULL || guest % PAGE != 0 || size % PAGE != 0) {
		return -EINVAL;
	}
	const int file = find_file(m, b, (uint32_t)(region - memory->regions));
	if (file < 0) {
		return file;
	}
	const uint64_t offset = region->file_offset + (guest - region->guest);
	struct rbt_peer_segment *last =
		map->n_segments > 0 ? &m->msg.segments[map->n_segments - 1] : NULL;
	map->size += size;
	if (last != NULL && last->file == (uint32_t)file && last->offset + last->size == offset) {
		last->size += size;
		return 0;
	}
	if (map->n_segments == RBT_PEER_SEGMENTS) {
		return -E2BIG;
	}
	m->msg.segments[map->n_segments++] =
		(struct rbt_peer_segment){.offset = offset, .size = size, .file = (uint32_t)file};
	return 0;
}

static int map_memory(struct backend *b, struct session *s, const struct rubato_request *q,
	const struct request *r, const struct vhost_chain *chain)
{
	struct mapping m = {.msg.map.header = {RBT_PEER_MAGIC, RBT_PEER_MAP}};
	struct rbt_peer_map *map = &m.msg.map;

	map->address = le64toh(q->address);
	/* The first piece is the answer's. */
	for (size_t i = 1; i < chain->n_in; i++) {
		const size_t k = chain->n_out + i;
		int error = add_segment(b, chain->guest[k], chain->pieces[k].iov_len, &m);

		if (error < 0) {
			return error;
		}
	}
	if (map->size == 0 || map->size != le64toh(q->size)) {
		return -EINVAL;
	}
	return forward(b, s, r, &m.msg, sizeof(*map) + map->n_segments * sizeof(m.msg.segments[0]),
		m.fds, map->n_files);
}

static int unmap_memory(struct backend *b, struct session *s, const struct rubato_request *q,
	const struct request *r)
{
	struct rbt_peer_range msg = {
		{RBT_PEER_MAGIC, RBT_PEER_UNMAP}, le64toh(q->address), le64toh(q->size)};

	return forward(b, s, r, &msg, sizeof(msg), NULL, 0);
}

static int open_channel(struct backend *b, struct session *s, const struct rubato_request *q,
	const struct request *r)
{
	struct channel *c = &s->channels[r->number];
	struct rbt_peer_channel msg = {.header = {RBT_PEER_MAGIC, RBT_PEER_CHANNEL},
		.number = r->number,
		.address = le64toh(q->address),
		.size = le64toh(q->size)};

	if (c->to_worker >= 0) {
		return -EEXIST;
	}
	c->to_worker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->to_guest = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int error = c->to_worker < 0 || c->to_guest < 0 ? -EUSERS : 0;
	if (error == 0) {
		error = watch(b, s, c->to_guest, r->number);
	}
	if (error == 0) {
		error = forward(b, s, r, &msg, sizeof(msg), (int[]){c->to_worker, c->to_guest}, 2);
	}
	if (error < 0) {
		session_close_channel(b, s, r->number);
	}
	return error;
}

static int end_channel(struct backend *b, struct session *s, const struct request *r)
{
	struct rbt_peer_channel msg = {
		.header = {RBT_PEER_MAGIC, RBT_PEER_CHANNEL_CLOSE}, .number = r->number};

	if (s->channels[r->number].to_worker < 0) {
		return -EINVAL;
	}
	int error = forward(b, s, r, &msg, sizeof(msg), NULL, 0);
	session_close_channel(b, s, r->number);
	return error;
}

static int ring_channel(struct backend *b, struct session *s, const struct request *r)
{
	const uint64_t one = 1;

	if (s->channels[r->number].to_worker >= 0) {
		ssize_t ignored = write(s->channels[r->number].to_worker, &one, sizeof(one));
		(void)ignored;
	}
	lane_complete(b, r, 0);
	return 0;
}

static int act(struct backend *b, const struct rubato_request *q, const struct request *r,
	const struct vhost_chain *chain)
{
	struct session *s = session_find(b, le64toh(q->session));

	if (r->type == RUBATO_PING) {
		lane_complete(b, r, 0);
		return 0;
	}
	if (r->type == RUBATO_OPEN) {
		return open_session(b, q, r, chain);
	}
	if (s == NULL || (r->type != RUBATO_CLOSE && (s->is_lost || s->is_closing))) {
		return -ECONNRESET;
	}
	const bool has_channel = r->number < RBT_LINK_CHANNELS;
	switch (r->type) {
	case RUBATO_CLOSE:
		return close_session(b, s, r);
	case RUBATO_MAP:
		return map_memory(b, s, q, r, chain);
	case RUBATO_UNMAP:
		return unmap_memory(b, s, q, r);
	case RUBATO_CHANNEL_OPEN:
		return has_channel ? open_channel(b, s, q, r) : -EINVAL;
	case RUBATO_CHANNEL_CLOSE:
		return has_channel ? end_channel(b, s, r) : -EINVAL;
	case RUBATO_RING:
		return has_channel ? ring_channel(b, s, r) : -EINVAL;
	default:
		return -EOPNOTSUPP;
	}
}

void session_request(struct backend *b, const struct rubato_request *q, struct request *r,
	const struct vhost_chain *chain)
{
	pthread_mutex_lock(&b->sessions.lock);
	int error = act(b, q, r, chain);
	pthread_mutex_unlock(&b->sessions.lock);
	if (error < 0) {
		lane_complete(b, r, error);
	}
}
