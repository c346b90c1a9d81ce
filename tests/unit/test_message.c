/* SPDX-License-Identifier: Apache-2.0 */
/* Records survive the journey through a message; anything
 * cut, grown or contradictory is refused. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "check.h"
#include "proto/message.h"

static char buf[RBT_RECORD_MSG_MAX];

static size_t encode_sample(void)
{
	struct rbt_task tasks[2] = {
		{
			.handle = 0x5c000010,
			.kind = RBT_TASK_COMPUTE,
			.n_channels = 3,
			.own_timeslice_us = 2048,
		},
		{
			.handle = 0x5c000020,
			.kind = RBT_TASK_COPY,
			.first_channel = 3,
			.n_channels = 1,
		},
	};
	uint32_t channels[4] = {1, 2, 3, 4};
	struct rbt_record rec = {
		.fd = -1,
		.target_fd = 12,
		.backend = RBT_BACKEND_NVIDIA,
		.client = 0xc1d00007,
		.flags = RBT_RECORD_PARTIAL,
		.n_tasks = 2,
		.n_channels = 4,
		.tasks = tasks,
		.channels = channels,
	};

	ssize_t n = rbt_record_encode(&rec, RBT_MSG_RECORD, buf, sizeof(buf));
	CHECK(n > 0);
	CHECK_INT(rbt_record_encode(&rec, RBT_MSG_RECORD, buf, (size_t)n - 1), -EMSGSIZE);
	return (size_t)n;
}

static void test_round_trip(void)
{
	struct rbt_record rec;
	size_t n = encode_sample();

	CHECK_INT(rbt_record_decode(buf, n, &rec), 0);
	CHECK_INT(rec.fd, -1);
	CHECK_INT(rec.target_fd, 12);
	CHECK_INT(rec.client, 0xc1d00007);
	CHECK_INT(rec.flags, RBT_RECORD_PARTIAL);
	CHECK_INT(rec.n_tasks, 2);
	CHECK_INT(rec.tasks[0].own_timeslice_us, 2048);
	CHECK_INT(rec.channels[3], 4);
	rbt_record_finish(&rec);
}

/* As the shim does it: the arrays are filled where they stand in the message. */
static void test_in_place(void)
{
	static _Alignas(struct rbt_task) char message[RBT_RECORD_MSG_MAX];
	struct rbt_record rec, laid;
	size_t n = encode_sample();

	CHECK_INT(rbt_record_decode(buf, n, &rec), 0);
	laid = rec;
	rbt_record_lay_out(&laid, message);
	memcpy(laid.tasks, rec.tasks, rec.n_tasks * sizeof(rec.tasks[0]));
	memcpy(laid.channels, rec.channels, rec.n_channels * sizeof(rec.channels[0]));
	CHECK_INT(rbt_record_encode(&laid, RBT_MSG_RECORD, message, sizeof(message)), (ssize_t)n);
	CHECK(memcmp(message, buf, n) == 0);
	rbt_record_finish(&rec);
}

static void test_refusals(void)
{
	struct rbt_record rec;
	struct rbt_msg_record msg;
	size_t n = encode_sample();

	for (size_t cut = 0; cut < n; cut++) {
		CHECK_INT(rbt_record_decode(buf, cut, &rec), -EBADMSG);
	}
	CHECK_INT(rbt_record_decode(buf, n + 1, &rec), -EBADMSG);
	memcpy(&msg, buf, sizeof(msg));
	msg.n_tasks = UINT32_MAX;
	memcpy(buf, &msg, sizeof(msg));
	CHECK_INT(rbt_record_decode(buf, n, &rec), -EBADMSG);
	n = encode_sample();
	struct rbt_task task;
	memcpy(&task, buf + sizeof(msg), sizeof(task));
	task.first_channel = UINT32_MAX;
	memcpy(buf + sizeof(msg), &task, sizeof(task));
	CHECK_INT(rbt_record_decode(buf, n, &rec), -EBADMSG);
}

int main(void)
{
	test_round_trip();
	test_in_place();
	test_refusals();
	return check_result();
}
