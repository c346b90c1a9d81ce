/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces http.c if Rubato is built without libmicrohttpd. */
#include "daemon/metrics/http.h"

#include <errno.h>

#include "util/fd.h"

int http_start(int listen_fd, const struct http_ops *ops, void *ctx, struct http **ret)
{
	rbt_close(&listen_fd);
	return -EOPNOTSUPP;
}

void http_stop(struct http *h)
{
}

int http_fd(const struct http *h)
{
	return -1;
}

bool http_run(struct http *h)
{
	return false;
}

bool http_is_stuck(const struct http *h)
{
	return false;
}

bool http_is_busy(const struct http *h)
{
	return false;
}
