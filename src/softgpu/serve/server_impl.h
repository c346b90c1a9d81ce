/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the device server: connections, and calls under way. */
#ifndef RBT_SOFTGPU_SERVE_SERVER_IMPL_H
#define RBT_SOFTGPU_SERVE_SERVER_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softgpu/serve/link.h"
#include "softgpu/session/nodes.h"

struct packet;
struct call;
struct kfd_serve;

struct conn {
	struct conn *next;
	int fd;
	uint32_t uid; /* the peer's */
	int pid;
	bool broken;     /* to be dropped */
	bool is_program; /* its process uses a GPU */
	bool is_held;    /* its process is locked: its requests wait */
	struct packet *out;
	struct call *calls; /* waiting for bytes */
};

struct server {
	const char *dir;
	bool private;
	uint64_t id; /* different from any other server's */
	struct link_config config;
	struct rbt_rm *rm;
	struct gpus *gpus;
	struct nodes *nodes;
	struct kfd_serve *kfd; /* NULL without AMD GPUs */
	int received;          /* an fd that came with the current message; borrowed; -1 */
	struct conn *conns;
	size_t n_conns;
	int listener, lock, log;
	atomic_uint log_lines;
	uint64_t idle_since_ns; /* 0 while there are connections */
	uint64_t deaf_until_ns; /* out of fds: no new connections until then */
	size_t n_opens;
};

/* conn.c: packets that wait for the peer, or for their time. fd is borrowed; -1: none. */
void conn_send(struct conn *c, const void *msg, size_t size, int fd, uint64_t delay_us);
/* Sends the packets that are due. Returns the time of the next one (0: as soon as the peer takes
 * it; UINT64_MAX: none). */
uint64_t conn_flush(struct conn *c, uint64_t now_ns);
void conn_destroy(struct conn *c);

/* calls.c */
void call_begin(struct server *s, struct conn *c, const uint8_t *msg, size_t size);
void call_resume(struct server *s, struct conn *c, const uint8_t *msg, size_t size);
void call_open(struct server *s, struct conn *c, const uint8_t *msg, size_t size);
void calls_destroy(struct conn *c);
void calls_retry(struct server *s); /* calls that wait for other calls */

/* server.c: one line to the session's log; from any thread. */
void server_log(struct server *s, const char *line);

#endif
