/* SPDX-License-Identifier: Apache-2.0 */
/* The RM model: trees, ownership, controls with their
 * statuses and sizes, channel states, tokens. */
#include "test_softgpu_world.h"

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
	CHECK_INT(look(&p, p.tsg).interleave, 1);
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
		uint32_t good, bad, status;
	} cases[] = {{"580.159.04", 3, 2, NV_ERR_INVALID_ARGUMENT},
		{"575.51", 3, 2, NV_ERR_INVALID_ARGUMENT},
		{"570.86.15", 2, 3, NV_ERR_INVALID_ARGUMENT},
		{"545.23.06", 2, 3, NV_ERR_INVALID_PARAM_STRUCT},
		{"515.1", 2, 3, NV_ERR_INVALID_PARAM_STRUCT}};
	struct nv_schedule_params schedule = {.enable = 1};
	struct nv_timeslice_params slice = {.timeslice_us = 5};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(cases[i].driver);
		struct program p = make_program(0, 1);
		CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_GPFIFO_SCHEDULE, &schedule,
				  cases[i].bad),
			cases[i].status);
		CHECK(!look(&p, p.tsg).scheduled);
		CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_GPFIFO_SCHEDULE, &schedule,
				  cases[i].good),
			NV_OK);
		CHECK(look(&p, p.tsg).scheduled);
		CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice, 4),
			cases[i].status);
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

static uint64_t fb_info(const struct program *p, uint32_t index)
{
	static struct nv_fb_info_params params;

	params.count = 1;
	params.list[0].index = index;
	CHECK_INT(control_as(mine, p->client, p->subdevice, NV_CTRL_FB_GET_INFO, &params,
			  sizeof(params)),
		NV_OK);
	return (uint64_t)params.list[0].data << 10;
}

/* A checkpointed process takes no memory, and comes back with default slices. */
static void test_checkpoint(void)
{
	begin("580.159.04");
	struct program p = make_program(0, 1);
	struct nv_memory_params memory = {.size = 64 << 20};
	struct nv_timeslice_params slice = {.timeslice_us = 2048};
	uint32_t handle = 0;
	uint64_t total = fb_info(&p, NV_FB_INFO_TOTAL);

	CHECK_INT(alloc_as(mine, p.client, p.device, &handle, NV_CLASS_MEMORY_LOCAL, &memory,
			  sizeof(memory)),
		NV_OK);
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_SET_TIMESLICE, &slice, 8), NV_OK);
	CHECK_INT(fb_info(&p, NV_FB_INFO_FREE), total - (64 << 20));
	rbt_rm_set_off(rm, caller_pid(NULL), true);
	rbt_rm_set_off(rm, caller_pid(NULL), true);
	CHECK_INT(fb_info(&p, NV_FB_INFO_FREE), total);
	rbt_rm_set_off(rm, caller_pid(NULL), false);
	CHECK_INT(fb_info(&p, NV_FB_INFO_FREE), total - (64 << 20));
	CHECK_INT(control_as(mine, p.client, p.tsg, NV_CTRL_TSG_GET_TIMESLICE, &slice, 8), NV_OK);
	CHECK_INT(slice.timeslice_us, NV_DEFAULT_TIMESLICE_US);
	rbt_rm_set_off(rm, caller_pid(NULL), true);
	CHECK_INT(free_as(mine, p.client, handle), NV_OK);
	CHECK_INT(fb_info(&p, NV_FB_INFO_FREE), total);
	end();
}

int main(void)
{
	test_checkpoint();
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
	return check_result();
}
