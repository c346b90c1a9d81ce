/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/answers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/daemon.h"
#include "daemon/peers/rights.h"
#include "daemon/peers/server.h"
#include "daemon/policy/loading.h"
#include "daemon/policy/manager.h"
#include "sched/class.h"
#include "util/fd.h"
#include "util/sealed.h"

/* Sends a RESULT, with one file unless fd is negative. */
static void send_result(struct peer *peer, int error, uint32_t load, const char *text, int fd)
{
	struct rbt_msg_result msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_RESULT},
		.error = error,
		.load = load,
	};

	snprintf(msg.text, sizeof(msg.text), "%s", text);
	/* A tool that does not read its answers loses them. */
	rbt_send(peer->source.fd, &msg, sizeof(msg), &fd, fd >= 0, MSG_DONTWAIT);
}

__attribute__((format(printf, 3, 4))) static void answer(
	struct peer *peer, int error, const char *fmt, ...)
{
	char text[sizeof(((struct rbt_msg_result *)0)->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	send_result(peer, error, 0, text, -1);
}

void policy_answer_all(struct daemon *d, int error, const char *text, const char *log)
{
	const struct policy *p = d->policy.current;
	struct peer *peer;

	LIST_FOREACH (peer, &d->server.peers, entries) {
		if (!peer->policy_waits) {
			continue;
		}
		peer->policy_waits = false;
		int fd = log != NULL ? rbt_sealed_create("rubato-log", log, strlen(log)) : -1;
		if (error == 0) {
			peer->policy_load = p->number;
		}
		send_result(peer, error, error == 0 ? p->number : 0, text, fd);
		rbt_close(&fd);
	}
}

/* Whether the peer may change policies, and read their data; answers if not. */
static bool check_rights(const struct daemon *d, struct peer *peer)
{
	if (!may_raise(peer, RBT_PRIORITY_MAX)) {
		answer(peer, -EPERM, "policies are for root and the group %s", d->admins.group);
		return false;
	}
	return true;
}

static void on_load(struct daemon *d, struct peer *peer, const void *buf, size_t size,
	const int *fds, size_t n_fds)
{
	struct policy_request request = {.origin = POLICY_BY_USER, .peer = peer};
	struct rbt_why why = {""};
	void *bytes = NULL;

	int r = n_fds == 1 ? rbt_policy_load_decode(buf, size, &request.load) : -EBADMSG;
	if (r < 0) {
		answer(peer, r, "not understood");
		return;
	}
	if (peer->policy_waits) {
		answer(peer, -EBUSY, "your last policy is still being loaded");
		return;
	}
	r = rbt_sealed_read(fds[0], RBT_OBJECT_MAX_FILE, &bytes, &request.size);
	if (r < 0) {
		answer(peer, r, "the object is not in a sealed file of at most %u bytes",
			RBT_OBJECT_MAX_FILE);
		return;
	}
	request.bytes = bytes;
	r = policy_load(d, &request, &why);
	if (r < 0) {
		answer(peer, r, "%s", why.text);
	}
	free(bytes);
}

static void on_unload(struct daemon *d, struct peer *peer, const void *buf)
{
	struct rbt_msg_policy_unload msg;

	memcpy(&msg, buf, sizeof(msg));
	if (msg.load != 0 && msg.load != d->policy.n_loads) {
		answer(peer, -ESTALE, "another policy was loaded since");
		return;
	}
	int r = policy_unload(d);
	answer(peer, r, "%s", r == -ENOENT ? "no policy is loaded" : "");
}

static void on_show(const struct daemon *d, struct peer *peer)
{
	struct rbt_msg_policy msg;

	policy_fill(d, &msg);
	rbt_send(peer->source.fd, &msg, sizeof(msg), NULL, 0, MSG_DONTWAIT);
}

static void on_object(const struct daemon *d, struct peer *peer)
{
	const struct policy *p = d->policy.current;

	if (p == NULL) {
		answer(peer, -ENOENT, "no policy is loaded");
		return;
	}
	int fd = rbt_sealed_create("rubato-policy", p->object->file, p->object->size);
	if (fd < 0) {
		answer(peer, fd, "%s", strerror(-fd));
		return;
	}
	send_result(peer, 0, p->number, "", fd);
	rbt_close(&fd);
}

/* Carries out an operation on an entry. `ret` has room for a key and a value behind it. */
static int change_entry(struct policy *p, const struct rbt_policy_entry *e, char *ret)
{
	const struct rbt_object_map *m = &p->object->maps[e->map];
	int r;

	switch (e->op) {
	case RBT_POLICY_MAP_NEXT:
		r = rbt_engine_next_key(p->engine, e->map, e->key, ret);
		return r < 0 ? r : rbt_engine_lookup(p->engine, e->map, ret, ret + m->key_size);
	case RBT_POLICY_MAP_GET:
		memcpy(ret, e->key, m->key_size);
		return rbt_engine_lookup(p->engine, e->map, e->key, ret + m->key_size);
	case RBT_POLICY_MAP_SET:
		return rbt_engine_update(p->engine, e->map, e->key, e->value, BPF_ANY);
	case RBT_POLICY_MAP_DEL:
		return rbt_engine_delete(p->engine, e->map, e->key);
	default:
		return -EINVAL;
	}
}

/* 0, or -errno as proto/policy.h lists them. */
static int check_entry(const struct daemon *d, const struct rbt_policy_entry *e)
{
	const struct policy *p = d->policy.current;

	if (!policy_is_loaded(d)) {
		return -ENODATA;
	}
	if (e->load != p->number) {
		return -ESTALE;
	}
	if (e->map >= p->object->n_maps || p->object->maps[e->map].type == BPF_MAP_TYPE_RINGBUF) {
		return -EINVAL;
	}
	const struct rbt_object_map *m = &p->object->maps[e->map];
	const bool has_key = e->key_size == m->key_size;
	const bool has_value = e->value_size == m->value_size;
	const bool is_right = e->op == RBT_POLICY_MAP_NEXT  ? has_key || e->key_size == 0
			      : e->op == RBT_POLICY_MAP_SET ? has_key && has_value
							    : has_key;
	if (!is_right) {
		return -EINVAL;
	}
	return (uint64_t)m->key_size + m->value_size > RBT_POLICY_ENTRY_MAX ? -EMSGSIZE : 0;
}

static void on_map(struct daemon *d, struct peer *peer, const void *buf, size_t size)
{
	static char entry[RBT_POLICY_ENTRY_MAX], out[RBT_MSG_MAX];
	struct rbt_policy_entry e;

	if (rbt_policy_entry_decode(buf, size, &e) < 0) {
		answer(peer, -EBADMSG, "not understood");
		return;
	}
	int r = check_entry(d, &e);
	r = r < 0 ? r : change_entry(d->policy.current, &e, entry);
	if (r < 0 || e.op == RBT_POLICY_MAP_SET || e.op == RBT_POLICY_MAP_DEL) {
		answer(peer, r, "%s",
			r == -ENODATA ? "the policy is ejected or unloaded, and its maps are gone"
			: r < 0       ? strerror(-r)
				      : "");
		return;
	}
	const struct rbt_object_map *m = &d->policy.current->object->maps[e.map];
	const struct rbt_policy_entry found = {.op = e.op,
		.load = e.load,
		.map = e.map,
		.key = entry,
		.value = entry + m->key_size,
		.key_size = m->key_size,
		.value_size = m->value_size};
	ssize_t n = rbt_policy_entry_encode(&found, out, sizeof(out));
	if (n < 0) {
		answer(peer, (int)n, "the entry is too large");
		return;
	}
	rbt_send(peer->source.fd, out, (size_t)n, NULL, 0, MSG_DONTWAIT);
}

static void on_log(struct daemon *d, struct peer *peer, const void *buf)
{
	struct rbt_msg_policy_log msg;

	memcpy(&msg, buf, sizeof(msg));
	if (policy_is_loaded(d)) {
		policy_drain(d->policy.current);
	}
	const struct rbt_msg_policy_line *line = lines_find(&d->policy.lines, msg.number);
	if (line == NULL) {
		answer(peer, -EAGAIN, "no line yet");
		return;
	}
	rbt_send(peer->source.fd, line, sizeof(*line), NULL, 0, MSG_DONTWAIT);
}

bool policy_handles(uint32_t type)
{
	return type >= RBT_MSG_POLICY_LOAD && type <= RBT_MSG_POLICY_LOG;
}

void policy_handle(struct daemon *d, struct peer *peer, const void *buf, size_t size,
	const int *fds, size_t n_fds)
{
	struct rbt_msg_header h;

	memcpy(&h, buf, sizeof(h));
	if (h.type == RBT_MSG_POLICY_SHOW && size == sizeof(h)) {
		on_show(d, peer);
		return;
	}
	if (!check_rights(d, peer)) {
		return;
	}
	if (h.type == RBT_MSG_POLICY_LOAD) {
		on_load(d, peer, buf, size, fds, n_fds);
	} else if (h.type == RBT_MSG_POLICY_UNLOAD &&
		   size == sizeof(struct rbt_msg_policy_unload)) {
		on_unload(d, peer, buf);
	} else if (h.type == RBT_MSG_POLICY_OBJECT && size == sizeof(h)) {
		on_object(d, peer);
	} else if (h.type == RBT_MSG_POLICY_MAP) {
		on_map(d, peer, buf, size);
	} else if (h.type == RBT_MSG_POLICY_LOG && size == sizeof(struct rbt_msg_policy_log)) {
		on_log(d, peer, buf);
	} else {
		answer(peer, -EBADMSG, "not understood");
	}
}
