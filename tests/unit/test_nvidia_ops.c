/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the backend sends to RM: this program has its own ioctl(), which takes the calls down and
 * answers them.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#include "backend/backend.h"
#include "backend/nvidia/rm_abi.h"
#include "check.h"

#define CLIENT    0xc1d00042u
#define MAX_CALLS 256

struct call {
	uint32_t object, cmd, count, first, disable, only;
	uint32_t value; /* timeslice or level */
};

static struct call calls[MAX_CALLS];
static size_t n_calls;
static uint32_t dead_channel; /* RM does not know it any more */
static uint32_t dead_object;
static uint32_t refused_channel; /* RM knows it, and says no */
static uint32_t always_status;   /* when not 0 */
static int interrupts;           /* so many calls end with EINTR first */

static uint32_t answer(const struct nv_control *c, struct call *call)
{
	void *params = (void *)(uintptr_t)c->params;

	if (c->object == dead_object) {
		return NV_ERR_OBJECT_NOT_FOUND;
	}
	if (c->cmd == NV_CTRL_FIFO_DISABLE_CHANNELS) {
		const struct nv_disable_channels_params *p = params;
		CHECK_INT(c->params_size, sizeof(*p));
		CHECK(p->count >= 1 && p->count <= NV_DISABLE_CHANNELS_MAX);
		call->count = p->count;
		call->first = p->channel[0];
		call->disable = p->disable;
		call->only = p->only_disable_scheduling;
		for (uint32_t i = 0; i < p->count; i++) {
			CHECK_INT(p->client[i], CLIENT);
			if (p->channel[i] == dead_channel) {
				return NV_ERR_OBJECT_NOT_FOUND;
			}
			if (p->channel[i] == refused_channel) {
				return NV_ERR_INSUFFICIENT_PERMISSIONS;
			}
		}
	} else if (c->cmd == NV_CTRL_TSG_SET_TIMESLICE) {
		call->value = (uint32_t)((struct nv_timeslice_params *)params)->timeslice_us;
	} else if (c->cmd == NV_CTRL_TSG_GET_TIMESLICE) {
		((struct nv_timeslice_params *)params)->timeslice_us = 2048;
	} else if (c->cmd == NV_CTRL_TSG_SET_INTERLEAVE_LEVEL) {
		call->value = ((struct nv_interleave_params *)params)->level;
	} else if (c->cmd == NV_CTRL_GPU_GET_PID_INFO) {
		struct nv_pid_info_params *p = params;
		CHECK_INT(p->count, 1);
		p->list[0].mem_private = 1000;
		p->list[0].mem_shared_owned = 24;
		p->list[0].mem_shared_duped = 5000;
	}
	return always_status;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;

	va_start(ap, request);
	struct nv_control *c = va_arg(ap, struct nv_control *);
	va_end(ap);
	CHECK_INT(fd, 77);
	CHECK(request == NV_IOCTL_CONTROL);
	if (interrupts > 0) {
		interrupts--;
		errno = EINTR;
		return -1;
	}
	CHECK(n_calls < MAX_CALLS);
	struct call *call = &calls[n_calls++ % MAX_CALLS];
	*call = (struct call){.object = c->object, .cmd = c->cmd};
	CHECK_INT(c->client, CLIENT);
	c->status = answer(c, call);
	return 0;
}

static struct rbt_task tasks[4];
static uint32_t channels[200];
static bool is_off[200];

/* Tasks 0 (compute, 80 channels) and 2 (copy, 40) on one GPU, 1 (compute, 70) and 3 (other, none)
 * on another. */
static struct rbt_record make_record(void)
{
	static const uint32_t counts[4] = {80, 70, 40, 0};
	struct rbt_record rec = {.fd = 77, .target_fd = 3, .backend = RBT_BACKEND_NVIDIA};
	uint32_t at = 0;

	for (uint32_t i = 0; i < 4; i++) {
		tasks[i] = (struct rbt_task){
			.handle = 0x5c000100 + i,
			.subdevice = i % 2 == 0 ? 0x5c000003 : 0x5c000013,
			.gpu = i % 2,
			.kind = i < 2    ? RBT_TASK_COMPUTE
				: i == 2 ? RBT_TASK_COPY
					 : RBT_TASK_OTHER,
			.first_channel = at,
			.n_channels = counts[i],
		};
		at += counts[i];
	}
	for (uint32_t i = 0; i < at; i++) {
		channels[i] = 0x5c001000 + i;
	}
	rec.client = CLIENT;
	rec.tasks = tasks;
	rec.n_tasks = 4;
	rec.channels = channels;
	rec.n_channels = at;
	memset(is_off, 0, sizeof(is_off));
	n_calls = 0;
	dead_channel = dead_object = refused_channel = always_status = 0;
	CHECK_INT(rbt_record_check(&rec), 0);
	return rec;
}

static const struct rbt_backend *const be = &rbt_backend_nvidia;

static void test_batches(void)
{
	struct rbt_record rec = make_record();

	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), 0);
	CHECK_INT(n_calls, 4);
	/* First GPU: 80 + 40 channels; second: 70. */
	CHECK(calls[0].object == 0x5c000003 && calls[0].count == 64);
	CHECK(calls[0].first == 0x5c001000);
	CHECK(calls[1].object == 0x5c000003 && calls[1].count == 56);
	CHECK(calls[2].object == 0x5c000013 && calls[2].count == 64);
	CHECK(calls[2].first == 0x5c001000 + 80);
	CHECK(calls[3].object == 0x5c000013 && calls[3].count == 6);
	for (size_t i = 0; i < 4; i++) {
		CHECK(calls[i].disable == 1 && calls[i].only == 0);
	}
}

static void test_scopes_and_modes(void)
{
	struct rbt_record rec = make_record();

	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_COMPUTE, RBT_SUSPEND_SCHEDULING_ONLY), 0);
	CHECK_INT(n_calls, 4);
	CHECK_INT(calls[1].count, 16);
	CHECK(calls[0].disable == 1 && calls[0].only == 1);
	n_calls = 0;
	CHECK_INT(be->resume(&rec, is_off, RBT_SCOPE_COMPUTE), 0);
	CHECK_INT(n_calls, 4);
	CHECK(calls[0].disable == 0 && calls[0].only == 0);
	n_calls = 0;
	rec.n_tasks = 0;
	CHECK_INT(be->resume(&rec, is_off, RBT_SCOPE_ALL), 0);
	CHECK_INT(n_calls, 0);
}

/* A task in setup is not taken off, and let back in any case. */
static void test_new_task(void)
{
	struct rbt_record rec = make_record();

	tasks[0].valid = RBT_TASK_IS_NEW;
	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), 0);
	CHECK_INT(n_calls, 3);
	CHECK(calls[0].object == 0x5c000003 && calls[0].count == 40);
	CHECK(calls[0].first == 0x5c001000 + 150);
	n_calls = 0;
	CHECK_INT(be->resume(&rec, is_off, RBT_SCOPE_COMPUTE), 0);
	CHECK_INT(n_calls, 4);
	CHECK(rbt_record_is_new(&rec));
	rbt_record_make_old(&rec);
	CHECK(!rbt_record_is_new(&rec));
	/* Then only what is not off yet: the other GPU's compute task was let back. */
	n_calls = 0;
	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), 0);
	CHECK_INT(n_calls, 4);
	CHECK(calls[1].object == 0x5c000003 && calls[1].count == 16);
	/* Of others nothing says when they are ready. */
	tasks[2].valid = RBT_TASK_IS_NEW;
	CHECK(!rbt_record_is_new(&rec));
}

/* RM counts: nobody is disabled twice. What is let back is told in any case. */
static void test_not_twice(void)
{
	struct rbt_record rec = make_record();

	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_COMPUTE, RBT_SUSPEND_SCHEDULING_ONLY), 0);
	n_calls = 0;
	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_COMPUTE, RBT_SUSPEND_SCHEDULING_ONLY), 0);
	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_COMPUTE, RBT_SUSPEND_FULL), 0);
	CHECK_INT(n_calls, 0);
	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), 0);
	CHECK_INT(n_calls, 1);
	CHECK(calls[0].count == 40 && calls[0].first == 0x5c001000 + 150);
	n_calls = 0;
	CHECK_INT(be->resume(&rec, is_off, RBT_SCOPE_OTHERS), 0);
	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), 0);
	CHECK_INT(n_calls, 2);
	CHECK(calls[1].disable == 1 && calls[1].count == 40);
	n_calls = 0;
	CHECK_INT(be->resume(&rec, is_off, RBT_SCOPE_ALL), 0);
	CHECK_INT(be->resume(&rec, is_off, RBT_SCOPE_ALL), 0);
	CHECK_INT(n_calls, 8);
	/* A channel that refused may be asked again; a vanished one may come back. */
	refused_channel = channels[0];
	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_COMPUTE, RBT_SUSPEND_FULL), -EPERM);
	CHECK(!is_off[0] && !is_off[63] && is_off[64] && is_off[79] && is_off[149]);
	refused_channel = 0;
	dead_channel = channels[5];
	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_COMPUTE, RBT_SUSPEND_FULL), 0);
	CHECK(is_off[4] && !is_off[5] && is_off[6]);
	dead_channel = 0;
	n_calls = 0;
	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_COMPUTE, RBT_SUSPEND_FULL), 0);
	CHECK(n_calls == 1 && calls[0].count == 1 && calls[0].first == 0x5c001005);
	dead_channel = channels[5];
	CHECK_INT(be->resume(&rec, is_off, RBT_SCOPE_ALL), 0);
	CHECK(!is_off[4] && !is_off[5] && !is_off[149]);
}

/* One channel that has gone must not keep the others from being resumed. */
static void test_dead_channel(void)
{
	struct rbt_record rec = make_record();

	dead_channel = channels[5];
	CHECK_INT(be->resume(&rec, is_off, RBT_SCOPE_ALL), 0);
	CHECK_INT(n_calls, 1 + 64 + 3);
	rec = make_record();
	tasks[0].n_channels = 1;
	rec.n_tasks = 1;
	dead_channel = channels[0];
	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), -ENOENT);
	CHECK_INT(n_calls, 1);
}

/* What has gone must not hide that others go on running. */
static void test_dead_and_refused(void)
{
	struct rbt_record rec = make_record();

	dead_channel = channels[5];
	refused_channel = channels[100];
	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), -EPERM);
	rec = make_record();
	dead_channel = channels[5];
	tasks[1].subdevice = 0;
	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), -EOPNOTSUPP);
}

static void test_errors(void)
{
	struct rbt_record rec = make_record();
	struct rbt_program_stats stats = {.valid = 9};
	uint64_t us = 7;

	dead_object = tasks[0].handle;
	CHECK_INT(be->get_timeslice(&rec, &tasks[0], &us), -ENOENT);
	CHECK_INT(us, 7);
	CHECK_INT(be->set_timeslice(&rec, &tasks[0], 1), -ENOENT);
	dead_object = tasks[0].subdevice;
	CHECK_INT(be->stats(&rec, 1, &stats), -ENOENT);
	CHECK_INT(stats.valid, 9);
	dead_object = 0;
	always_status = NV_ERR_INSUFFICIENT_PERMISSIONS;
	CHECK_INT(be->set_interleave(&rec, &tasks[0], 2), -EPERM);
	n_calls = 0;
	CHECK_INT(be->suspend(&rec, is_off, RBT_SCOPE_ALL, RBT_SUSPEND_FULL), -EPERM);
	CHECK_INT(n_calls, 4); /* no retry one by one */
	always_status = NV_ERR_GPU_IS_LOST;
	CHECK_INT(be->resume(&rec, is_off, RBT_SCOPE_ALL), -EIO);
	always_status = 0;
	tasks[1].subdevice = 0;
	n_calls = 0;
	CHECK_INT(be->resume(&rec, is_off, RBT_SCOPE_ALL), -EOPNOTSUPP);
	CHECK_INT(n_calls, 2); /* the other GPU's are resumed all the same */
}

static void test_values(void)
{
	struct rbt_record rec = make_record();
	struct rbt_program_stats stats;
	uint64_t us;
	char path[32];

	interrupts = 2;
	CHECK_INT(be->get_timeslice(&rec, &tasks[0], &us), 0);
	CHECK_INT(us, 2048);
	CHECK_INT(be->set_timeslice(&rec, &tasks[0], 0), -EINVAL);
	CHECK_INT(n_calls, 1);
	CHECK_INT(be->set_timeslice(&rec, &tasks[1], 1), 0);
	CHECK(calls[1].object == tasks[1].handle && calls[1].value == 1);
	CHECK_INT(be->set_interleave(&rec, &tasks[1], 3), -EINVAL);
	CHECK_INT(be->set_interleave(&rec, &tasks[1], 2), 0);
	CHECK_INT(calls[2].value, 2);
	CHECK_INT(be->preempt(&rec, &tasks[1], 1000), 0);
	CHECK_INT(calls[3].cmd, NV_CTRL_TSG_PREEMPT);
	CHECK_INT(be->stats(&rec, 1234, &stats), 0);
	CHECK_INT(stats.memory_bytes, 2048); /* two GPUs, one question each */
	CHECK_INT(be->lock_path(3, path, sizeof(path)), 0);
	CHECK(strcmp(path, "/dev/nvidia3") == 0);
	CHECK_INT(be->lock_path(3, path, 5), -ENAMETOOLONG);
}

int main(void)
{
	test_batches();
	test_scopes_and_modes();
	test_new_task();
	test_not_twice();
	test_dead_channel();
	test_dead_and_refused();
	test_errors();
	test_values();
	return check_result();
}
