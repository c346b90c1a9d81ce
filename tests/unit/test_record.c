/* SPDX-License-Identifier: Apache-2.0 */
/* Records: what is received is refused unless it holds together. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/record.h"
#include "check.h"

static struct rbt_task tasks[2];
static uint32_t channels[5];

/* Two tasks with three and two channels. */
static struct rbt_record good_record(void)
{
	struct rbt_record rec = RBT_RECORD_INIT;

	tasks[0] = (struct rbt_task){.handle = 0x5c000010, .n_channels = 3};
	tasks[1] = (struct rbt_task){.handle = 0x5c000020, .first_channel = 3, .n_channels = 2};
	for (uint32_t i = 0; i < 5; i++) {
		channels[i] = 0x5c000030 + i;
	}
	rec.backend = RBT_BACKEND_NVIDIA;
	rec.tasks = tasks;
	rec.n_tasks = 2;
	rec.channels = channels;
	rec.n_channels = 5;
	return rec;
}

static void test_check_accepts(void)
{
	struct rbt_record rec = good_record();

	CHECK_INT(rbt_record_check(&rec), 0);
	tasks[1].n_channels = 0;
	CHECK_INT(rbt_record_check(&rec), 0);
	tasks[1].first_channel = 5;
	CHECK_INT(rbt_record_check(&rec), 0);
	rec = RBT_RECORD_INIT;
	CHECK_INT(rbt_record_check(&rec), 0);
}

static void test_check_refuses_counts(void)
{
	struct rbt_record rec = good_record();

	rec.n_tasks = RBT_RECORD_MAX_TASKS + 1;
	CHECK_INT(rbt_record_check(&rec), -EBADMSG);
	rec = good_record();
	rec.n_channels = RBT_RECORD_MAX_CHANNELS + 1;
	CHECK_INT(rbt_record_check(&rec), -EBADMSG);
	rec = good_record();
	rec.tasks = NULL;
	CHECK_INT(rbt_record_check(&rec), -EBADMSG);
	rec = good_record();
	rec.channels = NULL;
	CHECK_INT(rbt_record_check(&rec), -EBADMSG);
}

static void test_check_refuses_tasks(void)
{
	struct rbt_record rec = good_record();

	tasks[0].kind = RBT_TASK_OTHER + 1;
	CHECK_INT(rbt_record_check(&rec), -EBADMSG);
	rec = good_record();
	tasks[0].valid = 1u << 31;
	CHECK_INT(rbt_record_check(&rec), -EBADMSG);
	rec = good_record();
	tasks[1].n_channels = 3; /* one beyond the end */
	CHECK_INT(rbt_record_check(&rec), -EBADMSG);
	rec = good_record();
	tasks[1].first_channel = 0xfffffffe; /* the sum wraps to a small number */
	tasks[1].n_channels = 4;
	CHECK_INT(rbt_record_check(&rec), -EBADMSG);
	rec = good_record();
	tasks[1].first_channel = 2; /* shares a channel with the first */
	CHECK_INT(rbt_record_check(&rec), -EBADMSG);
}

/* On the heap, as received records are, and without a file. */
static struct rbt_record copy_of(const struct rbt_record *rec)
{
	struct rbt_record copy = *rec;

	copy.fd = -1;
	copy.tasks = malloc(rec->n_tasks * sizeof(*copy.tasks));
	copy.channels = malloc(rec->n_channels * sizeof(*copy.channels));
	if (copy.tasks == NULL || copy.channels == NULL) {
		abort();
	}
	memcpy(copy.tasks, rec->tasks, rec->n_tasks * sizeof(*copy.tasks));
	memcpy(copy.channels, rec->channels, rec->n_channels * sizeof(*copy.channels));
	return copy;
}

static void test_finish(void)
{
	struct rbt_record good = good_record(), rec = copy_of(&good);
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	rec.fd = fd;
	rbt_record_finish(&rec);
	CHECK(fcntl(fd, F_GETFD) < 0 && errno == EBADF);
	CHECK(rec.fd == -1 && rec.tasks == NULL && rec.n_tasks == 0);
	rbt_record_finish(&rec);
	rbt_record_finish(NULL);
}

static void test_registry(void)
{
	CHECK(rbt_backend_by_id(RBT_BACKEND_NVIDIA) == &rbt_backend_nvidia);
	CHECK(rbt_backend_by_id(0) == NULL);
	CHECK(rbt_backend_by_id(0xffffffff) == NULL);
	for (size_t i = 0; rbt_backends[i] != NULL; i++) {
		const struct rbt_backend *b = rbt_backends[i];
		CHECK(b->name != NULL && b->control_node != NULL && b->probe != NULL);
		CHECK(b->discover != NULL && b->may_write != NULL);
		CHECK_INT(b->lock_path != NULL, b->has_lock);
		CHECK(b->get_timeslice != NULL && b->set_timeslice != NULL);
		CHECK(b->suspend != NULL && b->resume != NULL);
		CHECK(rbt_backend_by_id(b->id) == b);
	}
}

int main(void)
{
	test_check_accepts();
	test_check_refuses_counts();
	test_check_refuses_tasks();
	test_finish();
	test_registry();
	return check_result();
}
