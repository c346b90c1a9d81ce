/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker for tests of the virtio transport: `worker SOCKET [MAX]` listens as `rubato serve` does
 * (remote/peer.h), and forks a process per guest program, at most MAX at a time. It serves talk.h
 * instead of CUDA, so that tests see what the transport alone does.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "remote/peer.h"
#include "talk.h"

struct channel {
	int mine, guests;
	struct talk *talk;
	uint64_t n_woken;
};

union body {
	struct rbt_peer_header header;
	struct rbt_peer_hello hello;
	struct rbt_peer_map map;
	struct rbt_peer_range range;
	struct rbt_peer_channel channel;
	char bytes[sizeof(struct rbt_peer_map) +
		   RBT_PEER_SEGMENTS * sizeof(struct rbt_peer_segment)];
};

struct message {
	union body *body;
	int fds[RBT_PEER_MAX_FDS];
	size_t n_fds;
};

static void do_call(struct channel *c, struct talk *t)
{
	unsigned char *at = (unsigned char *)(uintptr_t)t->address;

	switch (t->op) {
	case TALK_ECHO:
		t->result = t->value + 1;
		break;
	case TALK_SUM:
		t->result = talk_sum(at, t->size);
		break;
	case TALK_FILL:
		memset(at, (int)t->value, t->size);
		break;
	case TALK_COUNT:
		t->result = c->n_woken;
		break;
	}
}

static void *serve_channel(void *data)
{
	struct channel *c = data;
	uint64_t count;

	while (read(c->mine, &count, sizeof(count)) == sizeof(count)) {
		c->n_woken++;
		if (__atomic_load_n(&c->talk->state, __ATOMIC_ACQUIRE) != 1) {
			continue;
		}
		do_call(c, c->talk);
		__atomic_store_n(&c->talk->state, 2, __ATOMIC_RELEASE);
		count = 1;
		if (write(c->guests, &count, sizeof(count)) < 0) {
			break;
		}
	}
	return NULL;
}

static int map(const struct message *m)
{
	const struct rbt_peer_segment *segments =
		(const void *)(m->body->bytes + sizeof(struct rbt_peer_map));
	uint64_t at = m->body->map.address;

	for (uint32_t i = 0; i < m->body->map.n_segments; i++) {
		const struct rbt_peer_segment *s = &segments[i];

		void *got = mmap((void *)(uintptr_t)at, s->size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_FIXED_NOREPLACE, m->fds[s->file], (off_t)s->offset);
		if (got == MAP_FAILED) {
			return -errno;
		}
		at += s->size;
	}
	return at - m->body->map.address == m->body->map.size ? 0 : -EINVAL;
}

static int open_channel(struct message *m)
{
	struct channel *c = malloc(sizeof(*c));
	pthread_t thread;

	if (c == NULL || m->n_fds != 2) {
		return -EINVAL;
	}
	*c = (struct channel){m->fds[0], m->fds[1], (void *)(uintptr_t)m->body->channel.address, 0};
	m->n_fds = 0;
	/* This worker has a thread per channel, and lets it sleep. */
	fcntl(c->mine, F_SETFL, fcntl(c->mine, F_GETFL) & ~O_NONBLOCK);
	return -pthread_create(&thread, NULL, serve_channel, c);
}

static int act(struct message *m)
{
	switch (m->body->header.type) {
	case RBT_PEER_HELLO:
		fprintf(stderr, "worker %d: guest pid %u, %s\n", getpid(), m->body->hello.id.pid,
			m->body->hello.id.command);
		return m->body->hello.version == RBT_PEER_VERSION ? 0 : -EPROTO;
	case RBT_PEER_MAP:
		return map(m);
	case RBT_PEER_UNMAP:
		return munmap((void *)(uintptr_t)m->body->range.address, m->body->range.size) < 0
			       ? -errno
			       : 0;
	case RBT_PEER_CHANNEL:
		return open_channel(m);
	case RBT_PEER_CHANNEL_CLOSE:
		return 0;
	default:
		return -EPROTO;
	}
}

static bool receive(int sock, struct message *m)
{
	char control[CMSG_SPACE(sizeof(m->fds))];
	struct iovec iov = {m->body->bytes, sizeof(*m->body)};
	struct msghdr h = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};

	m->n_fds = 0;
	if (recvmsg(sock, &h, MSG_CMSG_CLOEXEC) <= 0) {
		return false;
	}
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);
	if (c != NULL && c->cmsg_type == SCM_RIGHTS) {
		m->n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(m->fds, CMSG_DATA(c), m->n_fds * sizeof(int));
	}
	return true;
}

static void serve(int sock)
{
	static union body body;
	struct message m = {.body = &body};

	while (receive(sock, &m)) {
		struct rbt_peer_answer a = {
			{RBT_PEER_MAGIC, RBT_PEER_ANSWER}, m.body->header.type, 0};

		a.result = act(&m);
		for (size_t i = 0; i < m.n_fds; i++) {
			close(m.fds[i]);
		}
		if (send(sock, &a, sizeof(a), MSG_NOSIGNAL) < 0) {
			break;
		}
	}
}

/* Refuses as serve does when there are too many programs. */
static void refuse(int sock)
{
	static union body body;
	struct message m = {.body = &body};
	struct rbt_peer_answer a = {{RBT_PEER_MAGIC, RBT_PEER_ANSWER}, RBT_PEER_HELLO, -EUSERS};

	if (receive(sock, &m)) {
		send(sock, &a, sizeof(a), MSG_NOSIGNAL);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const int max = argc > 2 ? atoi(argv[2]) : 64;
	int n = 0, listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (argc < 2 || listener < 0) {
		fprintf(stderr, "usage: worker SOCKET [MAX]\n");
		return 2;
	}
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", argv[1]);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(listener, 64) < 0) {
		perror("worker: bind");
		return 1;
	}
	for (;;) {
		int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		while (waitpid(-1, NULL, WNOHANG) > 0) {
			n--;
		}
		if (sock >= 0 && n >= max) {
			refuse(sock);
		} else if (sock >= 0 && fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(listener);
			serve(sock);
			_exit(0);
		} else {
			n++;
		}
		close(sock);
	}
}
