/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the daemon about the program's AMD queues; a socket to the agent takes the place of a
 * device file. */
#include <errno.h>
#include <stddef.h>

#include "shim/kfd.h"
#include "shim/shim.h"

bool shim_kfd_has_queues(const struct shim *s)
{
	return s->kfd.n_queues > 0;
}

/* The daemon finds the GPU's number itself. */
static void describe(const struct shim_queue *q, uint32_t at, struct rbt_task *ret)
{
	*ret = (struct rbt_task){
		.handle = q->own.queue_id,
		.subdevice = q->gpu_id,
		.kind = shim_kfd_kind(q->type) == RBT_AGENT_COMPUTE ? RBT_TASK_COMPUTE
								    : RBT_TASK_COPY,
		.id = q->own.queue_id,
		.creator_tid = q->creator_tid,
		.valid = RBT_TASK_HAS_ID | RBT_TASK_HAS_CREATOR | RBT_TASK_HAS_SETTINGS,
		.first_channel = at,
		.n_channels = 1,
		.own_priority = (uint16_t)q->own.queue_priority,
		.serial = shim_kfd_serial(q),
		.own_percentage = q->own.queue_percentage & 0xff,
	};
}

/* Into s->message; its size. More queues than a record has room for are no less the agent's: it
 * acts on all of them. */
static size_t build_record(struct shim *s)
{
	struct rbt_record rec = {
		.flags = RBT_RECORD_AGENT | (s->kfd.partial ? RBT_RECORD_PARTIAL : 0),
		.backend = RBT_BACKEND_AMD,
		.client = (uint32_t)s->pid,
		.target_fd = -1,
	};
	uint32_t ids[RBT_RECORD_MAX_TASKS] = {0};

	for (uint32_t id = 0; id < s->kfd.n_used && rec.n_tasks < RBT_RECORD_MAX_TASKS; id++) {
		if (s->kfd.queues[id].used) {
			ids[rec.n_tasks++] = id;
		}
	}
	rec.n_channels = rec.n_tasks;
	rbt_record_lay_out(&rec, s->message);
	for (uint32_t i = 0; i < rec.n_tasks; i++) {
		describe(&s->kfd.queues[ids[i]], i, &rec.tasks[i]);
		rec.channels[i] = ids[i];
	}
	return (size_t)rbt_record_encode(&rec, RBT_MSG_RECORD, s->message, sizeof(s->message));
}

static int send_gone(const struct shim *s, int sock)
{
	struct rbt_msg_client msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_CLIENT_GONE},
		.backend = RBT_BACKEND_AMD,
		.client = (uint32_t)s->pid,
	};

	return shim_sys_send(sock, &msg, sizeof(msg), -1);
}

/* The socket to the agent goes with the first record; later ones are about the same program. */
static int send_first(struct shim *s, int sock)
{
	int pair[2];
	int r = shim_sys_socketpair(pair);

	if (r < 0) {
		return r;
	}
	r = shim_sys_send(sock, s->message, build_record(s), pair[1]);
	shim_sys_close(pair[1]);
	if (r < 0) {
		shim_sys_close(pair[0]);
		return r;
	}
	shim_fd_close(&shim_owned.link);
	shim_owned.any = true;
	r = shim_fd_own(&shim_owned.link, pair[0]);
	shim_agent_poke();
	return r;
}

int shim_kfd_send(struct shim *s, int sock)
{
	struct shim_kfd *k = &s->kfd;
	int r = 0;

	/* Without the agent nothing can be done to the program: then it is not mentioned. */
	if (!k->dirty || !shim_agent_is_up()) {
		return 0;
	}
	if (k->n_queues == 0) {
		r = k->told ? send_gone(s, sock) : 0;
	} else if (k->told && shim_fd_valid(&shim_owned.link)) {
		r = shim_sys_send(sock, s->message, build_record(s), -1);
	} else {
		r = send_first(s, sock);
	}
	if (r < 0) {
		return r;
	}
	k->dirty = false;
	k->told = k->n_queues > 0;
	return 0;
}

void shim_kfd_withdraw(struct shim *s)
{
	if (s->kfd.told && shim_fd_valid(&shim_owned.sock)) {
		(void)send_gone(s, shim_fd_get(&shim_owned.sock));
	}
	shim_kfd_disconnect(s);
}

void shim_kfd_disconnect(struct shim *s)
{
	s->kfd.told = false;
	s->kfd.dirty = s->kfd.n_queues > 0;
}
