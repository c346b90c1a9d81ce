/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/encode.h"

#include <errno.h>
#include <string.h>

static_assert(sizeof(struct rbt_msg_record) % _Alignof(struct rbt_task) == 0, "tasks are aligned");

void rbt_record_lay_out(struct rbt_record *rec, void *buf)
{
	rec->tasks = (struct rbt_task *)((struct rbt_msg_record *)buf + 1);
	rec->channels = (uint32_t *)(rec->tasks + rec->n_tasks);
}

/* If the data is in its place already, it stays there. */
static char *put(char *to, const void *from, size_t size)
{
	if (size > 0) {
		memmove(to, from, size);
	}
	return to + size;
}

ssize_t rbt_record_encode(
	const struct rbt_record *rec, enum rbt_msg_type type, void *buf, size_t size)
{
	struct rbt_msg_record msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = type},
		.backend = rec->backend,
		.client = rec->client,
		.target_fd = rec->target_fd,
		.n_tasks = rec->n_tasks,
		.n_channels = rec->n_channels,
		.flags = rec->flags,
	};
	size_t tasks_size = rec->n_tasks * sizeof(struct rbt_task);
	size_t channels_size = rec->n_channels * sizeof(uint32_t);

	if (sizeof(msg) + tasks_size + channels_size > size) {
		return -EMSGSIZE;
	}
	char *p = put(buf, &msg, sizeof(msg));
	p = put(p, rec->tasks, tasks_size);
	p = put(p, rec->channels, channels_size);
	return p - (char *)buf;
}
