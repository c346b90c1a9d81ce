/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP server inside the daemon's loop, with libmicrohttpd: GET /metrics and nothing else.
 * It has no threads and does not block. It serves a few connections at a time. Each gets little
 * memory, one answer, and at most HTTP_MAX_S, or HTTP_CROWDED_MS if another peer waits for a place.
 * The library is loaded when the first server starts, because it loads a dozen other libraries,
 * which a daemon without metrics does not need.
 */
#ifndef RBT_DAEMON_METRICS_HTTP_H
#define RBT_DAEMON_METRICS_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_MAX_CONNECTIONS 8u
#define HTTP_MAX_S           30u
#define HTTP_CROWDED_MS      250u

struct http;

/* Produces the answer. All hooks are mandatory. */
struct http_ops {
	void *(*open)(void *ctx);                             /* NULL: no memory */
	size_t (*read)(void *answer, char *buf, size_t size); /* 0: the end of the answer */
	void (*close)(void *answer);
};

/*
 * Serves on a listening socket. Takes ownership of it, also on failure. Returns 0, -EOPNOTSUPP if
 * Rubato was built without libmicrohttpd, -ELIBACC if the library is not installed, or -errno.
 */
int http_start(int listen_fd, const struct http_ops *ops, void *ctx, struct http **ret);
void http_stop(struct http *h); /* accepts NULL */

/* Returns an fd that becomes readable when there is something to do. It stays the server's. */
int http_fd(const struct http *h);
/* Does a part of the work. Returns true if there is more to do at once. */
bool http_run(struct http *h);
/* Whether the last run found nothing that it could do although a peer may be waiting: there was no
 * file descriptor left to accept it. */
bool http_is_stuck(const struct http *h);
/* Whether the server must be run now and then, to end connections that have used up their time. */
bool http_is_busy(const struct http *h);

#endif
