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
	copy.is_off = NULL;
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

/* What is off is known of the object, not of its handle. */
static void test_off(void)
{
	struct rbt_record rec = good_record(), copy = RBT_RECORD_INIT, newer = RBT_RECORD_INIT;

	tasks[0].id = 6;
	tasks[1].id = 7;
	tasks[0].valid = tasks[1].valid = RBT_TASK_HAS_ID;
	copy = copy_of(&rec);
	newer = copy_of(&rec);
	CHECK_INT(rbt_record_inherit_off(&newer, &copy), 0);
	CHECK(newer.is_off == NULL);
	CHECK_INT(rbt_record_mark_off(&copy), 0);
	copy.is_off[1] = false;
	/* The first task has another channel in place of its third; the second is another. */
	newer.channels[2] = 0x5c000099;
	newer.tasks[1].id = 8;
	newer.tasks[0].runlist = 3; /* is known by now */
	newer.tasks[0].valid |= RBT_TASK_HAS_RUNLIST;
	CHECK_INT(rbt_record_inherit_off(&newer, &copy), 0);
	CHECK(newer.is_off[0] && !newer.is_off[1] && !newer.is_off[2]);
	CHECK(!newer.is_off[3] && !newer.is_off[4]);
	rbt_record_finish(&copy);
	CHECK(copy.is_off == NULL);
	rbt_record_finish(&newer);
	rec = RBT_RECORD_INIT;
	CHECK_INT(rbt_record_mark_off(&rec), 0);
}

static void test_subtract(void)
{
	struct rbt_record rec = good_record(), left = RBT_RECORD_INIT, newer = RBT_RECORD_INIT;

	tasks[0].valid = tasks[1].valid = RBT_TASK_HAS_OWN_TIMESLICE;
	newer = copy_of(&rec);
	left = copy_of(&rec);
	rbt_record_subtract(&left, &newer);
	CHECK_INT(left.n_tasks, 0);
	rbt_record_finish(&left);
	/* The second alone, with one of its channels. */
	newer.tasks[0] = newer.tasks[1];
	newer.tasks[0].n_channels = newer.n_tasks = 1;
	left = copy_of(&rec);
	rbt_record_subtract(&left, &newer);
	CHECK_INT(left.n_tasks, 1);
	CHECK(memcmp(&left.tasks[0], &tasks[0], sizeof(tasks[0])) == 0);
	rbt_record_finish(&left);
	/* The other channel may be there too, if not all is said. */
	newer.flags = RBT_RECORD_PARTIAL;
	left = copy_of(&rec);
	CHECK_INT(rbt_record_mark_off(&left), 0);
	left.is_off[3] = false;
	rbt_record_subtract(&left, &newer);
	CHECK_INT(left.n_tasks, 2);
	CHECK_INT(left.tasks[1].n_channels, 1);
	CHECK_INT(left.channels[3], channels[4]);
	CHECK(left.is_off[3]);
	CHECK_INT(left.tasks[1].valid, 0);
	rbt_record_finish(&left);
	rbt_record_finish(&newer);
}

static void test_append(void)
{
	struct rbt_record rec = good_record(), a = RBT_RECORD_INIT, b = RBT_RECORD_INIT;

	a = copy_of(&rec);
	b = copy_of(&rec);
	CHECK_INT(rbt_record_append(&a, &b), 0);
	CHECK_INT(a.n_tasks, rec.n_tasks * 2);
	CHECK(a.is_off == NULL);
	CHECK_INT(rbt_record_check(&a), 0);
	/* What is off stays so. */
	CHECK_INT(rbt_record_mark_off(&b), 0);
	uint32_t n = a.n_channels;
	CHECK_INT(rbt_record_append(&a, &b), 0);
	CHECK_INT(rbt_record_check(&a), 0);
	CHECK(!a.is_off[n - 1] && a.is_off[n] && a.is_off[a.n_channels - 1]);
	CHECK_INT(a.channels[n + 1], b.channels[b.tasks[0].first_channel + 1]);
	/* As much as there is room for. */
	while (a.n_tasks < RBT_RECORD_MAX_TASKS && a.n_channels < RBT_RECORD_MAX_CHANNELS - 8) {
		CHECK_INT(rbt_record_append(&a, &b), 0);
	}
	for (int i = 0; i < 4; i++) {
		CHECK_INT(rbt_record_append(&a, &b), 0);
	}
	CHECK_INT(rbt_record_check(&a), 0);
	rbt_record_finish(&a);
	rbt_record_finish(&b);
}

static void test_registry(void)
{
	CHECK(rbt_backend_by_id(RBT_BACKEND_NVIDIA) == &rbt_backend_nvidia);
	CHECK(rbt_backend_by_id(0) == NULL);
	CHECK(rbt_backend_by_id(0xffffffff) == NULL);
	for (size_t i = 0; rbt_backends[i] != NULL; i++) {
		const struct rbt_backend *b = rbt_backends[i];
		CHECK(b->name != NULL && b->control_node != NULL && b->probe != NULL);
		CHECK(b->discover != NULL && b->may_write != NULL && b->lock_path != NULL);
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
	test_off();
	test_subtract();
	test_append();
	test_registry();
	return check_result();
}
