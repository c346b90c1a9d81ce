/* SPDX-License-Identifier: Apache-2.0 */
/* The RM model: trees, ownership, statuses, sizes, channel states, tokens, faults. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "softgpu/rm.h"
#include "softgpu/rm_params.h"

#define BAD_ADDRESS 16u

static struct rbt_rm *rm;
static struct rbt_rm_open *mine, *other;
static bool nice_caller, hesitant;
static unsigned n_hesitations, n_logged, reads_left;

/* When hesitant, the k-th attempt at a call gets k reads: as by a relay that fetches one piece
 * after another. */
static int copy_in(void *data, uint64_t addr, void *buf, size_t size)
{
	if (addr <= BAD_ADDRESS) {
		return -EFAULT;
	}
	if (hesitant && reads_left-- == 0) {
		n_hesitations++;
		return -ERESTART;
	}
	memcpy(buf, (const void *)(uintptr_t)addr, size);
	return 0;
}

static int copy_out(void *data, uint64_t addr, const void *buf, size_t size)
{
	if (addr <= BAD_ADDRESS) {
		return -EFAULT;
	}
	memcpy((void *)(uintptr_t)addr, buf, size);
	return 0;
}

static int caller_pid(void *data)
{
	return 42;
}

static bool may_nice(void *data)
{
	return nice_caller;
}

static bool is_control_fd(void *data, int fd)
{
	return fd == 3;
}

static void log_line(void *data, const char *line)
{
	n_logged++;
}

static const struct rbt_rm_env env = {
	.read = copy_in,
	.write = copy_out,
	.pid = caller_pid,
	.may_nice = may_nice,
	.is_control_fd = is_control_fd,
	.log = log_line,
};

static uint64_t delay_us;

static int call(struct rbt_rm_open *open, unsigned long request, void *arg)
{
	int r = 0;

	delay_us = 0;
	for (unsigned attempt = 0; attempt < 8; attempt++) {
		reads_left = attempt;
		r = rbt_rm_ioctl(open, (uint32_t)request, (uintptr_t)arg, &env, &delay_us);
		if (r != -ERESTART) {
			break;
		}
	}
	return r;
}

static uint32_t alloc_as(struct rbt_rm_open *open, uint32_t client, uint32_t parent,
	uint32_t *handle, uint32_t hclass, void *params, uint32_t size)
{
	struct nv_alloc64 a = {.root = client,
		.parent = parent,
		.object = *handle,
		.hclass = hclass,
		.params = (uintptr_t)params,
		.params_size = size,
		.status = 0xdead};

	CHECK_INT(call(open, NV_IOCTL_ALLOC64, &a), 0);
	*handle = a.object;
	return a.status;
}

static uint32_t control_as(struct rbt_rm_open *open, uint32_t client, uint32_t object, uint32_t cmd,
	void *params, uint32_t size)
{
	struct nv_control c = {.client = client,
		.object = object,
		.cmd = cmd,
		.params = (uintptr_t)params,
		.params_size = size,
		.status = 0xdead};

	CHECK_INT(call(open, NV_IOCTL_CONTROL, &c), 0);
	return c.status;
}

static uint32_t free_as(struct rbt_rm_open *open, uint32_t client, uint32_t object)
{
	struct nv_free f = {.client = client, .object = object, .status = 0xdead};

	CHECK_INT(call(open, NV_IOCTL_FREE, &f), 0);
	return f.status;
}

/* A client with a device, subdevice and groups, as a program has it. */
struct program {
	uint32_t client, device, subdevice, tsg, copy, channels[80];
};

static void make_group(struct program *p, uint32_t *tsg, uint32_t engine, uint32_t *channels, int n)
{
	struct nv_tsg_params params = {.engine_type = engine};

	*tsg = 0;
	CHECK_INT(alloc_as(mine, p->client, p->device, tsg, NV_CLASS_TSG, &params, sizeof(params)),
		NV_OK);
	for (int i = 0; i < n; i++) {
		channels[i] = 0;
		CHECK_INT(alloc_as(mine, p->client, *tsg, &channels[i], NV_CLASS_CHANNEL_HOPPER,
				  NULL, 0),
			NV_OK);
	}
}

static struct program make_program(uint32_t gpu, int n_channels)
{
	struct program p = {0};
	struct nv_device_params device = {.device_id = gpu};
	struct nv_subdevice_params subdevice = {0};
	uint32_t copies[2];

	CHECK_INT(alloc_as(mine, 0, 0, &p.client, NV_CLASS_ROOT_CLIENT, NULL, 0), NV_OK);
	CHECK_INT(alloc_as(mine, p.client, p.client, &p.device, NV_CLASS_DEVICE, &device,
			  sizeof(device)),
		NV_OK);
	CHECK_INT(alloc_as(mine, p.client, p.device, &p.subdevice, NV_CLASS_SUBDEVICE, &subdevice,
			  sizeof(subdevice)),
		NV_OK);
	make_group(&p, &p.tsg, NV_ENGINE_TYPE_GRAPHICS, p.channels, n_channels);
	make_group(&p, &p.copy, NV_ENGINE_TYPE_COPY0 + 2, copies, 2);
	return p;
}

static void begin(const char *driver)
{
	struct rbt_rm_config config = {
		.n_gpus = 2, .first_client = 0x9a000, .memory_bytes = 1ull << 30};

	strcpy(config.driver_version, driver);
	rm = rbt_rm_create(&config);
	mine = rbt_rm_open(rm, RBT_RM_NODE_CONTROL, 0, 1, 42, 0);
	other = rbt_rm_open(rm, RBT_RM_NODE_CONTROL, 0, 2, 43, 0);
	nice_caller = hesitant = false;
	n_logged = 0;
}

static void end(void)
{
	rbt_rm_destroy(rm);
}

static void take_info(const struct rbt_rm_tsg_info *info, void *data)
{
	struct rbt_rm_tsg_info *wanted = data;

	if (wanted->client == info->client && wanted->handle == info->handle) {
		*wanted = *info;
	}
}

static struct rbt_rm_tsg_info look(const struct program *p, uint32_t handle)
{
	struct rbt_rm_tsg_info info = {.client = p->client, .handle = handle};

	rbt_rm_each_tsg(rm, take_info, &info);
	return info;
}

static void count_tsg(const struct rbt_rm_tsg_info *info, void *data)
{
	++*(int *)data;
}

static int n_tsgs(void)
{
	int n = 0;

	rbt_rm_each_tsg(rm, count_tsg, &n);
	return n;
}

static void test_handles(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 8), q = make_program(0, 8);
	uint32_t chosen = 0xcafe0001, again = 0xcafe0001;

	CHECK_INT(p.client, 0xc1d9a000);
	CHECK_INT(q.client, 0xc1d9a001);
	CHECK_INT(p.device & NV_OBJECT_HANDLE_MASK, NV_OBJECT_HANDLE_BASE);
	/* Counted within a client, so the second program's are the same. */
	CHECK_INT(p.tsg, q.tsg);
	CHECK_INT(alloc_as(mine, p.client, p.device, &chosen, 0x70, NULL, 0), NV_OK);
	CHECK_INT(chosen, 0xcafe0001);
	CHECK_INT(alloc_as(mine, p.client, p.device, &again, 0x70, NULL, 0),
		NV_ERR_INSERT_DUPLICATE_NAME);
	end();
}

static void test_old_form(void)
{
	begin("580.159.04");
	struct nv_alloc21 a = {.hclass = NV_CLASS_ROOT_CLIENT, .status = 0xdead};
	struct nv_device_params device = {.device_id = 1};

	CHECK_INT(call(mine, NV_IOCTL_ALLOC21, &a), 0);
	CHECK_INT(a.status, NV_OK);
	CHECK_INT(a.object, 0xc1d9a000);
	struct nv_alloc21 b = {.root = a.object, .parent = a.object, .hclass = NV_CLASS_DEVICE};
	b.params = (uintptr_t)&device;
	CHECK_INT(call(mine, NV_IOCTL_ALLOC21, &b), 0);
	CHECK_INT(b.status, NV_OK);
	/* A size between the two forms is no form. */
	CHECK_INT(call(mine, _IOC(_IOC_READ | _IOC_WRITE, 'F', NV_ESC_RM_ALLOC, 40), &b), -ENOTTY);
	CHECK_INT(n_logged, 1);
	end();
}

static void test_parents(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 1);
	struct nv_device_params device = {.device_id = 2};
	struct nv_tsg_params tsg = {.engine_type = 0x20};
	uint32_t h = 0;

	CHECK_INT(alloc_as(mine, p.client, p.device, &h, NV_CLASS_CHANNEL_HOPPER, NULL, 0),
		NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_INT(alloc_as(mine, p.client, p.tsg, &h, NV_CLASS_COMPUTE_HOPPER, NULL, 0),
		NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_INT(alloc_as(mine, p.client, 0x123, &h, NV_CLASS_TSG, NULL, 0),
		NV_ERR_OBJECT_NOT_FOUND);
	CHECK_INT(alloc_as(mine, p.client, p.client, &h, NV_CLASS_DEVICE, &device, sizeof(device)),
		NV_ERR_INVALID_DEVICE);
	CHECK_INT(alloc_as(mine, p.client, p.client, &h, NV_CLASS_DEVICE, &device,
			  sizeof(device) - 4),
		NV_ERR_INVALID_PARAM_STRUCT);
	CHECK_INT(alloc_as(mine, p.client, p.device, &h, NV_CLASS_TSG, &tsg, sizeof(tsg)),
		NV_ERR_INVALID_ARGUMENT);
	CHECK_INT(alloc_as(mine, p.client, p.device, &h, 0x12345, NULL, 0), NV_ERR_INVALID_CLASS);
	CHECK_INT(alloc_as(mine, p.client, p.device, &h, NV_CLASS_TSG, (void *)8, sizeof(tsg)),
		NV_ERR_INVALID_ADDRESS);
	/* Failures leave nothing behind, and no handle was given out. */
	CHECK_INT(h, 0);
	CHECK_INT(n_tsgs(), 2);
	end();
}

static void test_free(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 8);
	struct nv_tsg_info_params info = {0};
	struct nv_token_params token;
	uint32_t channel = 0;

	CHECK_INT(free_as(mine, p.client, 0x999), NV_ERR_OBJECT_NOT_FOUND);
	CHECK_INT(free_as(mine, p.client, p.tsg), NV_OK);
	CHECK_INT(n_tsgs(), 1);
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_GET_INFO, &info, sizeof(info)),
		NV_ERR_OBJECT_NOT_FOUND);
	CHECK_INT(control_as(mine, p.client, p.channels[3], NV_CTRL_CHANNEL_GET_WORK_SUBMIT_TOKEN,
			  &token, sizeof(token)),
		NV_ERR_OBJECT_NOT_FOUND);
	/* Its numbers are free again. */
	make_group(&p, &p.tsg, NV_ENGINE_TYPE_GRAPHICS, &channel, 1);
	CHECK_INT(look(&p, p.tsg).id, 0);
	CHECK_INT(free_as(mine, p.client, p.client), NV_OK);
	CHECK_INT(n_tsgs(), 0);
	CHECK_INT(free_as(mine, p.client, p.client), NV_ERR_INVALID_CLIENT);
	end();
}

/* Clients belong to the open file, and go with it. */
static void test_ownership(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 8);
	struct nv_timeslice_params slice = {.timeslice_us = 7};
	uint32_t h = 0;

	CHECK_INT(rbt_rm_log_lines(rm), 0);
	CHECK_INT(control_as(
			  other, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice, sizeof(slice)),
		NV_ERR_INVALID_CLIENT);
	CHECK_INT(free_as(other, p.client, p.client), NV_ERR_INVALID_CLIENT);
	CHECK_INT(alloc_as(other, p.client, p.device, &h, NV_CLASS_TSG, NULL, 0),
		NV_ERR_INVALID_CLIENT);
	CHECK_INT(control_as(mine, 0xc1d00001, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice,
			  sizeof(slice)),
		NV_ERR_INVALID_CLIENT);
	CHECK_INT(rbt_rm_log_lines(rm), 4);
	CHECK_INT(look(&p, p.tsg).timeslice_us, NV_DEFAULT_TIMESLICE_US);
	rbt_rm_close(mine);
	CHECK_INT(n_tsgs(), 0);
	end();
}

static void test_tsg_controls(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 8), q = make_program(0, 8), r = make_program(1, 8);
	struct nv_timeslice_params slice = {.timeslice_us = 1};
	struct nv_tsg_info_params info = {.tsg_id = 99};
	struct nv_preempt_params preempt = {.wait = 1};

	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice, 8), NV_OK);
	CHECK_INT(look(&p, p.tsg).timeslice_us, 1);
	slice.timeslice_us = 0;
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_GET_TIMESLICE, &slice, 8), NV_OK);
	CHECK_INT(slice.timeslice_us, 1);
	slice.timeslice_us = 0;
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice, 8),
		NV_ERR_INVALID_ARGUMENT);
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_PREEMPT, &preempt, sizeof(preempt)),
		NV_OK);
	CHECK_INT(look(&p, p.tsg).n_preempts, 1);
	/* Numbers are a runlist's own: both of a program's groups are 0, another program's 1,
	 * another GPU's 0. */
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_GET_INFO, &info, 4), NV_OK);
	CHECK_INT(info.tsg_id, 0);
	CHECK_INT(control_as(mine, p.client, p.copy, NV_CTRL_TSG_GET_INFO, &info, 4), NV_OK);
	CHECK_INT(info.tsg_id, 0);
	CHECK_INT(control_as(mine, q.client, q.tsg, NV_CTRL_TSG_GET_INFO, &info, 4), NV_OK);
	CHECK_INT(info.tsg_id, 1);
	CHECK_INT(control_as(mine, r.client, r.tsg, NV_CTRL_TSG_GET_INFO, &info, 4), NV_OK);
	CHECK_INT(info.tsg_id, 0);
	CHECK_INT(look(&p, p.copy).runlist, 10);
	CHECK_INT(look(&p, p.copy).engine, RBT_RM_ENGINE_COPY);
	/* On an object that is no group, and with a parameter that cannot be read. */
	CHECK_INT(control_as(mine, p.client, p.channels[0], NV_CTRL_TSG_GET_INFO, &info, 4),
		NV_ERR_NOT_SUPPORTED);
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_GET_INFO, (void *)8, 4),
		NV_ERR_INVALID_ADDRESS);
	end();
}

static void test_privilege(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 1);
	struct nv_interleave_params level = {.level = 2};
	struct nv_realtime_params realtime = {.realtime = 1};

	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_INTERLEAVE_LEVEL, &level, 4),
		NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_MAKE_REALTIME, &realtime, 1),
		NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_INT(look(&p, p.tsg).interleave, 0);
	nice_caller = true;
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_INTERLEAVE_LEVEL, &level, 4),
		NV_OK);
	CHECK_INT(look(&p, p.tsg).interleave, 2);
	CHECK_INT(
		control_as(mine, p.client, p.tsg, NV_CTRL_TSG_MAKE_REALTIME, &realtime, 1), NV_OK);
	CHECK(look(&p, p.tsg).realtime);
	level.level = 3;
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_INTERLEAVE_LEVEL, &level, 4),
		NV_ERR_INVALID_ARGUMENT);
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_GET_INTERLEAVE_LEVEL, &level, 4),
		NV_ERR_NOT_SUPPORTED);
	end();
}

static void test_sizes(void)
{
	static const struct {
		const char *driver;
		uint32_t good, bad;
	} cases[] = {{"580.159.04", 3, 2}, {"575.51", 3, 2}, {"570.86.15", 2, 3}, {"515.1", 2, 3}};
	struct nv_schedule_params schedule = {.enable = 1};
	struct nv_timeslice_params slice = {.timeslice_us = 5};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(cases[i].driver);
		struct program p = make_program(0, 1);
		CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_GPFIFO_SCHEDULE, &schedule,
				  cases[i].bad),
			NV_ERR_INVALID_PARAM_STRUCT);
		CHECK(!look(&p, p.tsg).scheduled);
		CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_GPFIFO_SCHEDULE, &schedule,
				  cases[i].good),
			NV_OK);
		CHECK(look(&p, p.tsg).scheduled);
		CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice, 4),
			NV_ERR_INVALID_PARAM_STRUCT);
		end();
	}
}

static uint32_t disable(struct program *p, uint32_t first, uint32_t n, bool off, bool only)
{
	struct nv_disable_channels_params d = {
		.disable = off, .count = n, .only_disable_scheduling = only};

	for (uint32_t i = 0; i < n && i < NV_DISABLE_CHANNELS_MAX; i++) {
		d.client[i] = p->client;
		d.channel[i] = p->channels[first + i];
	}
	return control_as(
		mine, p->client, p->subdevice, NV_CTRL_FIFO_DISABLE_CHANNELS, &d, sizeof(d));
}

static void test_disable(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 70), q = make_program(1, 2);
	uint32_t kept = p.channels[1];

	CHECK_INT(disable(&p, 0, 65, true, false), NV_ERR_INVALID_ARGUMENT);
	CHECK_INT(look(&p, p.tsg).n_enabled, 70);
	CHECK_INT(disable(&p, 0, 64, true, false), NV_OK);
	CHECK_INT(disable(&p, 64, 6, true, true), NV_OK);
	CHECK_INT(look(&p, p.tsg).n_enabled, 0);
	CHECK_INT(look(&p, p.tsg).n_disabled_full, 64);
	CHECK_INT(look(&p, p.tsg).n_disabled_scheduling, 6);
	CHECK_INT(disable(&p, 60, 10, false, false), NV_OK);
	CHECK_INT(look(&p, p.tsg).n_enabled, 10);
	CHECK_INT(look(&p, p.tsg).n_disabled_full, 60);
	/* Channels made meanwhile run. */
	make_group(&p, &p.copy, NV_ENGINE_TYPE_COPY0, p.channels + 70, 1);
	CHECK_INT(look(&p, p.copy).n_enabled, 1);
	/* One bad entry, and nothing happens. */
	p.channels[1] = p.tsg;
	CHECK_INT(disable(&p, 0, 2, false, false), NV_ERR_INVALID_CHANNEL);
	CHECK_INT(look(&p, p.tsg).n_disabled_full, 60);
	/* Nor through the subdevice of another GPU. */
	p.channels[1] = kept;
	p.subdevice = q.subdevice;
	p.device = q.device;
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_FIFO_DISABLE_CHANNELS, NULL, 0),
		NV_ERR_NOT_SUPPORTED);
	struct nv_disable_channels_params d = {
		.count = 1, .client = {p.client}, .channel = {p.channels[0]}};
	CHECK_INT(control_as(mine, q.client, q.subdevice, NV_CTRL_FIFO_DISABLE_CHANNELS, &d,
			  sizeof(d)),
		NV_ERR_INVALID_CHANNEL);
	d.client[0] = 0xc1d00000;
	CHECK_INT(control_as(mine, q.client, q.subdevice, NV_CTRL_FIFO_DISABLE_CHANNELS, &d,
			  sizeof(d)),
		NV_ERR_INVALID_CLIENT);
	end();
}

static uint32_t token_of(struct program *p, uint32_t channel)
{
	struct nv_token_params token = {.token = UINT32_MAX};

	CHECK_INT(control_as(mine, p->client, channel, NV_CTRL_CHANNEL_GET_WORK_SUBMIT_TOKEN,
			  &token, sizeof(token)),
		NV_OK);
	return token.token;
}

static void test_tokens(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 3), q = make_program(0, 3);
	uint32_t tsg, channels[2];

	make_group(&p, &tsg, NV_ENGINE_TYPE_COPY0 + 1, channels, 2);
	CHECK_INT(token_of(&p, p.channels[0]), 0);
	CHECK_INT(token_of(&p, p.channels[2]), 2);
	CHECK_INT(token_of(&q, q.channels[0]), 3);
	CHECK_INT(token_of(&p, channels[1]), 9 << 16 | 1);
	CHECK_INT(NV_TOKEN_RUNLIST(token_of(&p, channels[1])), 9);
	end();
}

static void test_handle_info(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 1);
	struct nv_handle_info_params info = {
		.object = p.channels[0], .index = NV_HANDLE_INFO_PARENT};

	CHECK_INT(control_as(mine, p.client, p.client, NV_CTRL_CLIENT_GET_HANDLE_INFO, &info, 16),
		NV_OK);
	CHECK_INT(info.result, p.tsg);
	info.index = NV_HANDLE_INFO_CLASS;
	CHECK_INT(control_as(mine, p.client, p.client, NV_CTRL_CLIENT_GET_HANDLE_INFO, &info, 16),
		NV_OK);
	CHECK_INT(info.result, NV_CLASS_CHANNEL_HOPPER);
	info.object = p.device;
	info.index = NV_HANDLE_INFO_PARENT;
	CHECK_INT(control_as(mine, p.client, p.client, NV_CTRL_CLIENT_GET_HANDLE_INFO, &info, 16),
		NV_OK);
	CHECK_INT(info.result, p.client);
	info.object = 0x5c00ffff;
	CHECK_INT(control_as(mine, p.client, p.client, NV_CTRL_CLIENT_GET_HANDLE_INFO, &info, 16),
		NV_ERR_OBJECT_NOT_FOUND);
	end();
}

static void test_memory(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 1);
	struct nv_memory_params memory = {.size = 1000ull << 20};
	static struct nv_pid_info_params info;
	uint32_t h = 0, h2 = 0;

	info = (struct nv_pid_info_params){.count = 2, .list = {{.pid = 42}, {.pid = 7}}};
	CHECK_INT(control_as(mine, p.client, p.subdevice, NV_CTRL_GPU_GET_PID_INFO, &info,
			  sizeof(info)),
		NV_OK);
	CHECK(info.list[0].mem_private > 0);
	CHECK_INT(info.list[1].result, NV_ERR_OBJECT_NOT_FOUND);
	CHECK_INT(alloc_as(mine, p.client, p.device, &h, NV_CLASS_MEMORY_LOCAL, &memory,
			  sizeof(memory)),
		NV_OK);
	CHECK_INT(control_as(mine, p.client, p.subdevice, NV_CTRL_GPU_GET_PID_INFO, &info,
			  sizeof(info)),
		NV_OK);
	CHECK_INT(info.list[0].mem_private, 1000ull << 20);
	CHECK_INT(alloc_as(mine, p.client, p.device, &h2, NV_CLASS_MEMORY_LOCAL, &memory,
			  sizeof(memory)),
		NV_ERR_NO_MEMORY);
	CHECK_INT(free_as(mine, p.client, h), NV_OK);
	CHECK_INT(alloc_as(mine, p.client, p.device, &h2, NV_CLASS_MEMORY_LOCAL, &memory,
			  sizeof(memory)),
		NV_OK);
	info.count = NV_PID_INFO_MAX + 1;
	CHECK_INT(control_as(mine, p.client, p.subdevice, NV_CTRL_GPU_GET_PID_INFO, &info,
			  sizeof(info)),
		NV_ERR_INVALID_ARGUMENT);
	end();
}

static void test_cards(void)
{
	begin("580.159.04");
	struct program p = make_program(1, 1);
	static struct nv_card_info cards[NV_MAX_GPUS];
	struct nv_attached_ids_params ids = {0};
	struct nv_gpu_id_params id = {0};
	struct nv_name_params name = {0};
	struct nv_check_version version = {.cmd = NV_CHECK_VERSION_QUERY};

	CHECK_INT(call(mine, NV_IOCTL_CARD_INFO, cards), 0);
	CHECK(cards[0].valid && cards[1].valid && !cards[2].valid);
	CHECK_INT(cards[1].minor_number, 1);
	CHECK_INT(control_as(mine, p.client, p.client, NV_CTRL_GPU_GET_ATTACHED_IDS, &ids,
			  sizeof(ids)),
		NV_OK);
	CHECK_INT(ids.gpu_id[1], cards[1].gpu_id);
	CHECK_INT(ids.gpu_id[2], NV_GPU_ID_INVALID);
	CHECK_INT(control_as(mine, p.client, p.subdevice, NV_CTRL_GPU_GET_ID, &id, sizeof(id)),
		NV_OK);
	CHECK_INT(id.gpu_id, cards[1].gpu_id);
	CHECK_INT(control_as(mine, p.client, p.subdevice, NV_CTRL_GPU_GET_NAME_STRING, &name,
			  sizeof(name)),
		NV_OK);
	CHECK(strcmp(name.name.ascii, RBT_RM_GPU_NAME) == 0);
	CHECK_INT(call(mine, NV_IOCTL_CHECK_VERSION, &version), 0);
	CHECK(strcmp(version.version, "580.159.04") == 0);
	version = (struct nv_check_version){.version = "570.1"};
	CHECK_INT(call(mine, NV_IOCTL_CHECK_VERSION, &version), -EINVAL);
	end();
}

static void test_nodes(void)
{
	begin("580.159.04");
	struct rbt_rm_open *gpu = rbt_rm_open(rm, RBT_RM_NODE_GPU, 1, 3, 42, 0);
	struct rbt_rm_open *uvm = rbt_rm_open(rm, RBT_RM_NODE_UVM, 0, 4, 42, 0);
	struct nv_register_fd reg = {.ctl_fd = 3}, wrong = {.ctl_fd = 4};
	struct nv_alloc64 a = {.hclass = NV_CLASS_ROOT_CLIENT};

	CHECK_INT(call(gpu, NV_IOCTL_REGISTER_FD, &reg), 0);
	CHECK_INT(call(gpu, NV_IOCTL_REGISTER_FD, &wrong), -EINVAL);
	CHECK_INT(call(gpu, NV_IOCTL_ALLOC64, &a), -EINVAL);
	CHECK_INT(call(uvm, NV_IOCTL_ALLOC64, &a), -ENOTTY);
	CHECK_INT(call(mine, _IOWR('K', 1, uint32_t), &a), -ENOTTY);
	CHECK_INT(call(mine, NV_IOCTL_ALLOC64, (void *)8), -EFAULT);
	CHECK_INT(n_logged, 2);
	end();
}

static void test_transfer(void)
{
	begin("580.159.04");
	struct nv_alloc64 a = {.hclass = NV_CLASS_ROOT_CLIENT, .status = 0xdead};
	struct nv_xfer xfer = {.cmd = NV_ESC_RM_ALLOC, .size = sizeof(a), .arg = (uintptr_t)&a};

	CHECK_INT(call(mine, _IOWR('F', NV_ESC_IOCTL_XFER_CMD, struct nv_xfer), &xfer), 0);
	CHECK_INT(a.status, NV_OK);
	CHECK_INT(a.object, 0xc1d9a000);
	end();
}

/* A call whose bytes are not there yet changes nothing until they are. */
static void test_restart(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 1);
	struct nv_timeslice_params slice = {.timeslice_us = 9};
	uint32_t before = n_tsgs();

	hesitant = true;
	n_hesitations = 0;
	CHECK_INT(
		control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice, sizeof(slice)),
		NV_OK);
	/* Once for the argument, once for the parameters. */
	CHECK_INT(n_hesitations, 2);
	CHECK_INT(look(&p, p.tsg).timeslice_us, 9);
	struct program q = make_program(0, 2);
	CHECK_INT(n_tsgs(), before + 2);
	CHECK_INT(look(&q, q.tsg).n_channels, 2);
	end();
}

static void test_faults(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 1);
	struct nv_timeslice_params slice = {.timeslice_us = 3};
	struct rbt_rm_fault busy = {
		.cmd = NV_CTRL_TSG_SET_TIMESLICE, .status = NV_ERR_BUSY_RETRY, .has_status = 1};
	struct rbt_rm_fault io = {.nr = NV_ESC_RM_FREE, .error = EIO, .count = 1};
	struct rbt_rm_fault slow = {.cmd = NV_CTRL_TSG_GET_TIMESLICE, .delay_us = 500, .count = 1};
	struct rbt_rm_fault bad = {.error = ERESTART};
	struct nv_free f = {.client = p.client, .object = p.copy};

	busy.count = 2;
	CHECK_INT(rbt_rm_add_fault(rm, &busy), 0);
	CHECK_INT(rbt_rm_add_fault(rm, &io), 0);
	CHECK_INT(rbt_rm_add_fault(rm, &slow), 0);
	CHECK_INT(rbt_rm_add_fault(rm, &bad), -EINVAL);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice, 8),
			NV_ERR_BUSY_RETRY);
		CHECK_INT(look(&p, p.tsg).timeslice_us, NV_DEFAULT_TIMESLICE_US);
	}
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice, 8), NV_OK);
	CHECK_INT(call(mine, NV_IOCTL_FREE, &f), -EIO);
	CHECK_INT(call(mine, NV_IOCTL_FREE, &f), 0);
	CHECK_INT(f.status, NV_OK);
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_GET_TIMESLICE, &slice, 8), NV_OK);
	CHECK_INT(delay_us, 500);
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_GET_TIMESLICE, &slice, 8), NV_OK);
	CHECK_INT(delay_us, 0);
	busy.count = 0;
	CHECK_INT(rbt_rm_add_fault(rm, &busy), 0);
	rbt_rm_clear_faults(rm);
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice, 8), NV_OK);
	end();
}

/* A tree as deep as a program likes must not use up our stack. */
static void test_deep(void)
{
	begin("580.159.04");
	uint32_t client = 0, parent, h;

	CHECK_INT(alloc_as(mine, 0, 0, &client, NV_CLASS_ROOT_CLIENT, NULL, 0), NV_OK);
	parent = client;
	for (int i = 0; i < 200000; i++) {
		h = 0;
		if (alloc_as(mine, client, parent, &h, 0x70, NULL, 0) != NV_OK) {
			CHECK(false);
			break;
		}
		parent = h;
	}
	CHECK_INT(free_as(mine, client, client), NV_OK);
	end();
}

int main(void)
{
	test_handles();
	test_old_form();
	test_parents();
	test_free();
	test_ownership();
	test_tsg_controls();
	test_privilege();
	test_sizes();
	test_disable();
	test_tokens();
	test_handle_info();
	test_memory();
	test_cards();
	test_nodes();
	test_transfer();
	test_restart();
	test_faults();
	test_deep();
	return check_result();
}
