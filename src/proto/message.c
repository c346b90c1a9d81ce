/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/fd.h"

static void *copy_array(const void *src, size_t size)
{
	/* malloc(0) may return NULL, which would look like a lack of memory. */
	void *p = malloc(size > 0 ? size : 1);

	if (p != NULL && size > 0) {
		memcpy(p, src, size);
	}
	return p;
}

int rbt_record_decode(const void *buf, size_t size, struct rbt_record *ret)
{
	struct rbt_msg_record msg;
	struct rbt_record rec = RBT_RECORD_INIT;
	const char *p = (const char *)buf + sizeof(msg);
	int r;

	if (size < sizeof(msg)) {
		return -EBADMSG;
	}
	memcpy(&msg, buf, sizeof(msg));
	if (msg.n_tasks > RBT_RECORD_MAX_TASKS || msg.n_channels > RBT_RECORD_MAX_CHANNELS) {
		return -EBADMSG;
	}
	size_t tasks_size = msg.n_tasks * sizeof(struct rbt_task);
	size_t channels_size = msg.n_channels * sizeof(uint32_t);
	if (size != sizeof(msg) + tasks_size + channels_size) {
		return -EBADMSG;
	}
	rec.backend = msg.backend;
	rec.client = msg.client;
	rec.target_fd = msg.target_fd;
	rec.flags = msg.flags;
	rec.n_tasks = msg.n_tasks;
	rec.n_channels = msg.n_channels;
	rec.tasks = copy_array(p, tasks_size);
	rec.channels = copy_array(p + tasks_size, channels_size);
	r = rec.tasks == NULL || rec.channels == NULL ? -ENOMEM : rbt_record_check(&rec);
	if (r < 0) {
		rbt_record_finish(&rec);
		return r;
	}
	*ret = rec;
	return 0;
}

int rbt_records_send(int sock, const struct rbt_record *recs, size_t n)
{
	static char msg[RBT_RECORD_MSG_MAX];
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		ssize_t size = rbt_record_encode(&recs[i], RBT_MSG_ATTACH, msg, sizeof(msg));
		r = size < 0 ? (int)size : rbt_send(sock, msg, (size_t)size, &recs[i].fd, 1, 0);
	}
	return r;
}
