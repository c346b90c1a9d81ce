/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP server inside the daemon's loop, by libmicrohttpd: GET /metrics and nothing else. No
 * threads, no blocking; a few connections at a time, each with little memory, for one answer and
 * for no longer than HTTP_MAX_S, or HTTP_CROWDED_S while there are as many as can be. The library
 * is loaded when the first server is started: it brings a dozen others with it, which a daemon that
 * serves nothing does without.
 */
#ifndef RBT_DAEMON_METRICS_HTTP_H
#define RBT_DAEMON_METRICS_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_MAX_CONNECTIONS 8u
#define HTTP_MAX_S           30u
#define HTTP_CROWDED_S       2u

struct http;

/* Where the answer comes from. All mandatory. */
struct http_ops {
	void *(*open)(void *ctx);                             /* NULL: no memory */
	size_t (*read)(void *answer, char *buf, size_t size); /* 0: that was all */
	void (*close)(void *answer);
};

/*
 * Serves on a listening socket; takes ownership of it, also on failure. 0, -EOPNOTSUPP when built
 * without libmicrohttpd, -ELIBACC when it is not there, or -errno.
 */
int http_start(int listen_fd, const struct http_ops *ops, void *ctx, struct http **ret);
void http_stop(struct http *h); /* accepts NULL */

/* Becomes readable when there is something to do. Stays the server's. */
int http_fd(const struct http *h);
/* Does some of it. True: there is more to do at once. */
bool http_run(struct http *h);
/* Whether the last run found nothing that it could do, and somebody may be at the door: no file
 * descriptor was left to let him in. */
bool http_is_stuck(const struct http *h);
/* Whether it must be run now and then, for time that runs out. */
bool http_is_busy(const struct http *h);

#endif
