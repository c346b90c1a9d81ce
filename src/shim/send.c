/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends the daemon a record of each client that has changed, with its device file. A record that
 * cannot be sent now stays dirty, and goes with a later call of the program.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "shim/shim.h"
#include "shim/submit.h"

static bool has_tasks(struct shim *s, const struct shim_obj *client)
{
	for (struct shim_obj *t = shim_first(s, SHIM_TASK); t != NULL; t = shim_next(s, t)) {
		if (t->t.reported && (client == NULL || t->client == client->handle)) {
			return true;
		}
	}
	return false;
}

static void disconnect(struct shim *s)
{
	shim_fd_close(&shim_owned.sock);
	s->run_told = false;
	if (s->board_told) {
		s->board_told = false;
		shim_board_unshare();
	}
	shim_kfd_disconnect(s);
	for (struct shim_obj *c = shim_first(s, SHIM_CLIENT), *next; c != NULL; c = next) {
		next = shim_next(s, c);
		c->c.told = false;
		c->c.dirty = true;
		if (c->c.freed) {
			shim_remove(s, c);
		}
	}
	/* The daemon may or may not have restored the slices that it had set. */
	for (struct shim_obj *t = shim_first(s, SHIM_TASK); t != NULL; t = shim_next(s, t)) {
		t->t.applied_us = 0;
	}
}

static int send_hello(int sock)
{
	struct rbt_msg_hello hello = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_HELLO},
		.loaded_ns = shim_config.loaded_ns,
	};
	struct rbt_msg_treat treat = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_TREAT},
		.treat = shim_config.treat,
	};

	struct rbt_msg_guest guest = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_GUEST},
		.guest = shim_config.guest,
	};

	int r = shim_sys_send(sock, &hello, sizeof(hello), -1);
	r = r == 0 ? shim_sys_send(sock, &treat, sizeof(treat), -1) : r;
	return r == 0 && guest.guest.vm[0] != '\0' ? shim_sys_send(sock, &guest, sizeof(guest), -1)
						   : r;
}

static enum shim_daemon connect_daemon(struct shim *s, uint64_t now_ns)
{
	bool has_queues = shim_kfd_has_queues(s) && shim_agent_is_up();

	if (now_ns < s->next_connect_ns || (!has_queues && !has_tasks(s, NULL))) {
		return SHIM_DAEMON_NONE;
	}
	int sock = shim_sys_connect(shim_config.socket);
	if (sock == -EAGAIN) {
		return SHIM_DAEMON_BUSY;
	}
	s->next_connect_ns = now_ns + SHIM_LOOK_NS;
	if (sock == -ENOENT || sock == -ECONNREFUSED) {
		shim_heal_consider(s, now_ns);
	}
	if (sock < 0) {
		return SHIM_DAEMON_NONE;
	}
	shim_heal_found(s);
	shim_owned.any = true;
	if (shim_fd_own(&shim_owned.sock, sock) < 0) {
		return SHIM_DAEMON_NONE;
	}
	/* The daemon will take the GPU's lock and read the slices: first give back both. */
	shim_apply_withdraw(s);
	if (send_hello(shim_fd_get(&shim_owned.sock)) < 0) {
		disconnect(s);
		return SHIM_DAEMON_NONE;
	}
	return SHIM_DAEMON_UP;
}

static void take_ledger(struct shim *s, const void *buf, int size, int fd)
{
	struct rbt_msg_ledger msg;

	if (size != (int)sizeof(msg) || fd < 0) {
		return;
	}
	memcpy(&msg, buf, sizeof(msg));
	if (msg.h.magic == RBT_PROTOCOL_MAGIC && msg.h.type == RBT_MSG_LEDGER &&
		shim_memory_join(s, fd, msg.slot) == 0) {
		shim_fd_close(&shim_owned.ledger);
		(void)shim_fd_dup(&shim_owned.ledger, fd);
	}
}

/* Reads what the daemon has sent: ledgers, and from an older daemon the answer that it does not
 * understand. False: it has closed its end. */
static bool hear_daemon(struct shim *s)
{
	char buf[sizeof(struct rbt_msg_result)];
	int n, fd;

	while ((n = shim_sys_recv_fd(shim_fd_get(&shim_owned.sock), buf, sizeof(buf), &fd)) > 0) {
		take_ledger(s, buf, n, fd);
		if (fd >= 0) {
			shim_sys_close(fd);
		}
	}
	return n == -EAGAIN || n == -EINTR;
}

static bool connected(struct shim *s)
{
	if (shim_fd_get(&shim_owned.sock) < 0) {
		return false;
	}
	if (shim_fd_valid(&shim_owned.sock) && hear_daemon(s)) {
		return true;
	}
	disconnect(s);
	return false;
}

/*
 * The table has the newest first. Each list is reversed, so that the daemon sees objects in the
 * order they were made. If there is no room for all, the newest are left out: objects that the
 * daemon knows must stay in the record, or it could not resume what it has taken off.
 */

/* False: there was room for some of them only. */
static bool put_channels(struct shim *s, const struct shim_obj *task, uint32_t *channels,
	uint32_t room, uint32_t *ret_n)
{
	uint32_t n = 0, i = 0;

	for (struct shim_obj *ch = shim_at(s, task->child); ch != NULL;
		ch = shim_at(s, ch->sibling)) {
		n++;
	}
	for (struct shim_obj *ch = shim_at(s, task->child); ch != NULL;
		ch = shim_at(s, ch->sibling), i++) {
		if (n - 1 - i < room) {
			channels[n - 1 - i] = ch->handle;
		}
	}
	*ret_n = n < room ? n : room;
	return n <= room;
}

/* The indices of the client's reported tasks, as many as a record holds. */
static uint32_t put_order(
	struct shim *s, const struct shim_obj *client, uint16_t *order, bool *ret_all)
{
	uint16_t last[RBT_RECORD_MAX_TASKS]; /* of those met so far; the last one is the oldest */
	uint32_t n = 0;

	for (struct shim_obj *t = shim_first(s, SHIM_TASK); t != NULL; t = shim_next(s, t)) {
		if (t->t.reported && t->client == client->handle) {
			last[n++ % RBT_RECORD_MAX_TASKS] = (uint16_t)(t - s->objs);
		}
	}
	*ret_all = n <= RBT_RECORD_MAX_TASKS;
	uint32_t n_put = *ret_all ? n : RBT_RECORD_MAX_TASKS;
	for (uint32_t i = 0; i < n_put; i++) {
		order[i] = last[(n - 1 - i) % RBT_RECORD_MAX_TASKS];
	}
	return n_put;
}

static void describe(struct shim *s, const struct shim_obj *obj, struct rbt_task *ret)
{
	const struct shim_obj *subdevice = shim_subdevice_of(s, obj);
	uint32_t gpu = 0;
	uint32_t has_gpu = shim_gpu_of(s, obj, &gpu) ? RBT_TASK_HAS_GPU : 0;
	/* Tasks of other kinds are never new: nothing shows when they are ready, and nothing
	 * depends on it. */
	uint32_t not_new = obj->t.kind != RBT_TASK_COMPUTE ? RBT_TASK_IS_NEW : 0;

	*ret = (struct rbt_task){
		.handle = obj->handle,
		.subdevice = subdevice != NULL ? subdevice->handle : 0,
		.gpu = gpu,
		.kind = obj->t.kind,
		.runlist = obj->t.runlist,
		.id = obj->t.id,
		.creator_tid = obj->t.creator_tid,
		.valid = (obj->t.valid | has_gpu) & ~not_new,
		.own_timeslice_us = obj->t.own_us,
	};
}

/* Into s->message, which has room for any record. Its size. */
static size_t build_record(struct shim *s, const struct shim_obj *client)
{
	struct rbt_record rec = {
		.flags = s->lossy ? RBT_RECORD_PARTIAL : 0,
		.backend = RBT_BACKEND_NVIDIA,
		.client = client->handle,
		.target_fd = shim_fd_get(&client->c.file),
	};
	uint16_t order[RBT_RECORD_MAX_TASKS];
	bool all;

	rec.n_tasks = put_order(s, client, order, &all);
	rec.flags |= all ? 0 : RBT_RECORD_PARTIAL;
	rbt_record_lay_out(&rec, s->message);
	for (uint32_t i = 0; i < rec.n_tasks; i++) {
		const struct shim_obj *obj = &s->objs[order[i]];
		struct rbt_task *task = &rec.tasks[i];
		describe(s, obj, task);
		task->first_channel = rec.n_channels;
		if (!put_channels(s, obj, rec.channels + rec.n_channels,
			    RBT_RECORD_MAX_CHANNELS - rec.n_channels, &task->n_channels)) {
			rec.flags |= RBT_RECORD_PARTIAL;
		}
		rec.n_channels += task->n_channels;
	}
	return (size_t)rbt_record_encode(&rec, RBT_MSG_RECORD, s->message, sizeof(s->message));
}

static int send_gone(int sock, const struct shim_obj *client)
{
	struct rbt_msg_client msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_CLIENT_GONE},
		.backend = RBT_BACKEND_NVIDIA,
		.client = client->handle,
	};

	return shim_sys_send(sock, &msg, sizeof(msg), -1);
}

/* 0 or -errno; the client may be removed from the table by this. */
static int send_client(struct shim *s, struct shim_obj *client)
{
	int sock = shim_fd_get(&shim_owned.sock);
	bool live = !client->c.freed && has_tasks(s, client) && shim_fd_valid(&client->c.file);
	int r = 0;

	if (live) {
		size_t size = build_record(s, client);
		r = shim_sys_send(sock, s->message, size, shim_fd_get(&client->c.file));
	} else if (client->c.told) {
		r = send_gone(sock, client);
	}
	if (r < 0) {
		return r;
	}
	client->c.dirty = false;
	client->c.told = live;
	if (client->c.freed) {
		shim_remove(s, client);
	}
	return 0;
}

static bool is_passing(int error)
{
	/* ETOOMANYREFS: too many fds are on their way to daemons that do not read. */
	return error == -EAGAIN || error == -EINTR || error == -ENOBUFS || error == -ENOMEM ||
	       error == -ETOOMANYREFS;
}

/* Once per connection, if there is anything to count: 0, or -errno of the socket. If no board can
 * be made now, the next change tries again. */
static int send_board(struct shim *s)
{
	struct rbt_msg_header msg = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_BOARD};
	int fd = s->board_told || !shim_submit_enabled() ? -EALREADY : shim_board_share();

	if (fd < 0) {
		return 0;
	}
	shim_gate_publish(s);
	int r = shim_sys_send(shim_fd_get(&shim_owned.sock), &msg, sizeof(msg), fd);
	shim_sys_close(fd);
	s->board_told = r == 0;
	return r;
}

/* Once per connection. The ledger goes along, so that a new daemon finds in it also those processes
 * of the run that make no call at present. */
static int send_run(struct shim *s)
{
	struct rbt_msg_run msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_RUN},
		.slot = s->memory.slot,
	};
	bool has_ledger = s->memory.shared != NULL && shim_fd_valid(&shim_owned.ledger);

	if (s->run_told) {
		return 0;
	}
	memcpy(msg.name, shim_config.run, sizeof(msg.name));
	int r = shim_sys_send(shim_fd_get(&shim_owned.sock), &msg, sizeof(msg),
		has_ledger ? shim_fd_get(&shim_owned.ledger) : -1);
	s->run_told = r == 0;
	return r;
}

bool shim_awaits_ledger(const struct shim *s, uint64_t now_ns)
{
	return s->run_told && s->memory.shared == NULL && shim_config.treat.memory != 0 &&
	       now_ns < s->next_connect_ns + SHIM_LOOK_NS;
}

static int send_changes(struct shim *s)
{
	int first = send_run(s);

	first = first == 0 ? send_board(s) : first;
	if (first < 0) {
		return first;
	}
	for (struct shim_obj *c = shim_first(s, SHIM_CLIENT), *next; c != NULL; c = next) {
		next = shim_next(s, c);
		int r = c->c.dirty ? send_client(s, c) : 0;
		if (r < 0) {
			return r;
		}
	}
	return shim_kfd_send(s, shim_fd_get(&shim_owned.sock));
}

enum shim_daemon shim_tell_daemon(struct shim *s, uint64_t now_ns)
{
	if (shim_config.no_daemon || shim_config.socket[0] == '\0') {
		return SHIM_DAEMON_NONE;
	}
	for (;;) {
		enum shim_daemon daemon = connected(s) ? SHIM_DAEMON_UP : connect_daemon(s, now_ns);
		if (daemon != SHIM_DAEMON_UP) {
			return daemon;
		}
		int r = send_changes(s);
		if (r == 0 || is_passing(r)) {
			return r == 0 ? SHIM_DAEMON_UP : SHIM_DAEMON_BUSY;
		}
		/* At most once more: attempts to connect are limited in time. */
		disconnect(s);
	}
}
