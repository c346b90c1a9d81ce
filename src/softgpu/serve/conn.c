/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "softgpu/serve/server_impl.h"
#include "util/fd.h"
#include "util/time.h"

#define MAX_QUEUED 65536

struct packet {
	struct packet *next;
	uint64_t due_ns;
	size_t size;
	int fd;
	uint8_t bytes[];
};

static int send_now(struct conn *c, const void *msg, size_t size, int fd)
{
	return rbt_send(c->fd, msg, size, &fd, fd >= 0 ? 1 : 0, MSG_DONTWAIT);
}

void conn_send(struct conn *c, const void *msg, size_t size, int fd, uint64_t delay_us)
{
	if (c->broken) {
		return;
	}
	if (c->out == NULL && delay_us == 0) {
		int r = send_now(c, msg, size, fd);
		if (r == 0) {
			return;
		}
		if (r != -EAGAIN) {
			c->broken = true;
			return;
		}
	}
	struct packet *p = malloc(sizeof(*p) + size);
	int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	if (p == NULL || (fd >= 0 && copy < 0)) {
		/* A lost answer would leave a program waiting for ever; if the connection is lost,
		 * its calls fail. */
		free(p);
		rbt_close(&copy);
		c->broken = true;
		return;
	}
	*p = (struct packet){
		.due_ns = rbt_now_ns() + delay_us * RBT_NS_PER_US, .size = size, .fd = copy};
	memcpy(p->bytes, msg, size);
	struct packet **last = &c->out;
	unsigned n = 0;
	for (; *last != NULL; n++) {
		last = &(*last)->next;
	}
	/* A supervisor has at most as many calls under way as there are threads. A peer that does
	 * not read must not fill our memory. */
	c->broken = n >= MAX_QUEUED;
	*last = p;
}

static void packet_destroy(struct packet *p)
{
	rbt_close(&p->fd);
	free(p);
}

uint64_t conn_flush(struct conn *c, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	for (struct packet **at = &c->out; *at != NULL && !c->broken;) {
		struct packet *p = *at;
		if (p->due_ns > now_ns) {
			next_ns = p->due_ns < next_ns ? p->due_ns : next_ns;
			at = &p->next;
			continue;
		}
		int r = send_now(c, p->bytes, p->size, p->fd);
		if (r == -EAGAIN) {
			return 0;
		}
		c->broken = r < 0;
		*at = p->next;
		packet_destroy(p);
	}
	return next_ns;
}

void conn_destroy(struct conn *c)
{
	struct packet *next;

	for (struct packet *p = c->out; p != NULL; p = next) {
		next = p->next;
		packet_destroy(p);
	}
	calls_destroy(c);
	rbt_close(&c->fd);
	free(c);
}
