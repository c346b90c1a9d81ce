/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics/http.h"

#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "util/fd.h"
#include "util/time.h"

#define LIBRARY      "libmicrohttpd.so.12"
#define IDLE_S       10u    /* a silent connection ends after this time */
#define MEMORY_LIMIT 32768u /* per connection */
#define BLOCK_SIZE   16384u

/* The library's functions that we use. */
static struct {
	__typeof__(MHD_start_daemon) *start_daemon;
	__typeof__(MHD_stop_daemon) *stop_daemon;
	__typeof__(MHD_run) *run;
	__typeof__(MHD_get_timeout) *get_timeout;
	__typeof__(MHD_get_daemon_info) *get_daemon_info;
	__typeof__(MHD_get_connection_info) *get_connection_info;
	__typeof__(MHD_queue_response) *queue_response;
	__typeof__(MHD_create_response_from_callback) *response_from_callback;
	__typeof__(MHD_create_response_from_buffer) *response_from_buffer;
	__typeof__(MHD_add_response_header) *add_response_header;
	__typeof__(MHD_destroy_response) *destroy_response;
} mhd;

struct http {
	struct MHD_Daemon *daemon;
	int fd, listen_fd; /* the library's */
	const struct http_ops *ops;
	void *ctx;
	struct {
		int fd; /* belongs to the library */
		uint64_t since_ns;
	} connections[HTTP_MAX_CONNECTIONS]; /* since_ns is 0 if the entry is free */
	bool has_room;                       /* a connection has ended in this run */
	bool is_stuck;                       /* there was no connection, and none came */
};

/* An answer that is being sent. */
struct answer {
	const struct http_ops *ops;
	void *data;
};

static int load(void)
{
	static const struct {
		const char *name;
		void *to;
	} symbols[] = {
		{"MHD_start_daemon", &mhd.start_daemon},
		{"MHD_stop_daemon", &mhd.stop_daemon},
		{"MHD_run", &mhd.run},
		{"MHD_get_timeout", &mhd.get_timeout},
		{"MHD_get_daemon_info", &mhd.get_daemon_info},
		{"MHD_get_connection_info", &mhd.get_connection_info},
		{"MHD_queue_response", &mhd.queue_response},
		{"MHD_create_response_from_callback", &mhd.response_from_callback},
		{"MHD_create_response_from_buffer", &mhd.response_from_buffer},
		{"MHD_add_response_header", &mhd.add_response_header},
		{"MHD_destroy_response", &mhd.destroy_response},
	};
	static bool is_loaded;

	if (is_loaded) {
		return 0;
	}
	/* The library is never unloaded, because the libraries that it needs do not survive
	 * unloading. */
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		return -ELIBACC;
	}
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(library, symbols[i].name);
		if (symbol == NULL) {
			return -ELIBACC;
		}
		memcpy(symbols[i].to, &symbol, sizeof(symbol));
	}
	is_loaded = true;
	return 0;
}

static ssize_t read_answer(void *data, uint64_t pos, char *buf, size_t max)
{
	struct answer *a = data;
	size_t n = a->ops->read(a->data, buf, max);

	return n > 0 ? (ssize_t)n : MHD_CONTENT_READER_END_OF_STREAM;
}

static void free_answer(void *data)
{
	struct answer *a = data;

	a->ops->close(a->data);
	free(a);
}

static enum MHD_Result queue(
	struct MHD_Connection *c, unsigned status, struct MHD_Response *response)
{
	if (response == NULL) {
		return MHD_NO;
	}
	/* One answer per connection: each connection has limited time, and then makes room for
	 * others. */
	mhd.add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
		mhd.add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	}
	mhd.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
		status == MHD_HTTP_OK ? "text/plain; version=0.0.4; charset=utf-8" : "text/plain");
	enum MHD_Result r = mhd.queue_response(c, status, response);
	mhd.destroy_response(response);
	return r;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned status, const char *text)
{
	return queue(c, status,
		mhd.response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result answer(struct http *h, struct MHD_Connection *c)
{
	struct answer *a = calloc(1, sizeof(*a));

	if (a == NULL) {
		return MHD_NO;
	}
	a->ops = h->ops;
	a->data = h->ops->open(h->ctx);
	if (a->data == NULL) {
		free(a);
		return MHD_NO;
	}
	struct MHD_Response *response = mhd.response_from_callback(
		MHD_SIZE_UNKNOWN, BLOCK_SIZE, read_answer, a, free_answer);
	if (response == NULL) {
		free_answer(a);
	}
	return queue(c, MHD_HTTP_OK, response);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **state)
{
	struct http *h = ctx;

	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET or HEAD\n");
	}
	if (*state == NULL) {
		/* the first call has only the headers; the answer is sent in the next one */
		*state = h;
		return MHD_YES;
	}
	/* The body of a GET is ignored. */
	*upload_size = 0;
	if (strcmp(url, "/metrics") != 0 && strcmp(url, "/") != 0) {
		return refuse(c, MHD_HTTP_NOT_FOUND, "see /metrics\n");
	}
	return answer(h, c);
}

static void on_connection(void *ctx, struct MHD_Connection *c, void **socket_state,
	enum MHD_ConnectionNotificationCode code)
{
	struct http *h = ctx;
	const union MHD_ConnectionInfo *info =
		mhd.get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);

	for (size_t i = 0; info != NULL && i < HTTP_MAX_CONNECTIONS; i++) {
		bool is_begin = code == MHD_CONNECTION_NOTIFY_STARTED;
		bool is_free = h->connections[i].since_ns == 0;

		if (is_begin ? is_free : !is_free && h->connections[i].fd == info->connect_fd) {
			h->connections[i].fd = info->connect_fd;
			h->connections[i].since_ns = is_begin ? rbt_now_ns() : 0;
			h->has_room = h->has_room || !is_begin;
			h->is_stuck = false;
			return;
		}
	}
}

/* Whether a peer waits and there is no place for it. The library does not listen then, so this is
 * found out at ticks. */
static bool is_crowded(const struct http *h)
{
	struct pollfd pfd = {.fd = h->listen_fd, .events = POLLIN};

	for (size_t i = 0; i < HTTP_MAX_CONNECTIONS; i++) {
		if (h->connections[i].since_ns == 0) {
			return false;
		}
	}
	return poll(&pfd, 1, 0) == 1;
}

/* Ends connections that have used up their time. A peer that reads a byte now and then would stay
 * for ever. */
static void end_overdue(struct http *h)
{
	uint64_t now_ns = rbt_now_ns();
	/* A scrape takes only milliseconds: a connection that takes longer is not one. */
	uint64_t max_ns =
		is_crowded(h) ? HTTP_CROWDED_MS * RBT_NS_PER_MS : HTTP_MAX_S * RBT_NS_PER_S;

	for (size_t i = 0; i < HTTP_MAX_CONNECTIONS; i++) {
		uint64_t since_ns = h->connections[i].since_ns;
		if (since_ns != 0 && now_ns - since_ns > max_ns) {
			shutdown(h->connections[i].fd, SHUT_RDWR);
		}
	}
}

int http_start(int listen_fd, const struct http_ops *ops, void *ctx, struct http **ret)
{
	struct http *h = calloc(1, sizeof(*h));
	int r = h == NULL ? -ENOMEM : load();

	if (r < 0) {
		goto fail;
	}
	h->ops = ops;
	h->ctx = ctx;
	h->daemon = mhd.start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, h,
		MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT,
		HTTP_MAX_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_LIMIT,
		MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
		h, MHD_OPTION_END);
	if (h->daemon == NULL) {
		r = -EIO;
		goto fail;
	}
	const union MHD_DaemonInfo *info = mhd.get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (info == NULL) {
		mhd.stop_daemon(h->daemon); /* closes the socket too */
		free(h);
		return -EIO;
	}
	h->fd = info->epoll_fd;
	h->listen_fd = listen_fd;
	*ret = h;
	return 0;

fail:
	rbt_close(&listen_fd);
	free(h);
	return r;
}

void http_stop(struct http *h)
{
	if (h != NULL) {
		mhd.stop_daemon(h->daemon);
		free(h);
	}
}

int http_fd(const struct http *h)
{
	return h->fd;
}

bool http_is_busy(const struct http *h)
{
	for (size_t i = 0; i < HTTP_MAX_CONNECTIONS; i++) {
		if (h->connections[i].since_ns != 0) {
			return true;
		}
	}
	return false;
}

bool http_run(struct http *h)
{
	MHD_UNSIGNED_LONG_LONG timeout_ms = 0;

	end_overdue(h);
	h->has_room = false;
	h->is_stuck = !http_is_busy(h);
	mhd.run(h->daemon);
	/* At its limit of connections the library does not listen. It listens again only if it is
	 * run once more after a connection has ended. */
	if (h->has_room) {
		return true;
	}
	/* Work that needs no waiting causes no event, so the caller has to run the server again. */
	return mhd.get_timeout(h->daemon, &timeout_ms) == MHD_YES && timeout_ms == 0;
}

bool http_is_stuck(const struct http *h)
{
	return h->is_stuck;
}
