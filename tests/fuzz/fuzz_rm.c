/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arbitrary calls of an arbitrary program on the RM model. The input is a list of calls; the
 * program's memory is the input itself, so that every struct the model reads is the fuzzer's.
 * Handles are small numbers that stand for those the model gave out: else hardly a call would get
 * past the first check.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "require.h"
#include "softgpu/rm/params.h"
#include "softgpu/rm/rm.h"

#define N_OPENS    3
#define N_HANDLES  64
#define ARG_AT     0x1000u
#define PARAMS_AT  0x10000u
#define MAX_PARAMS 16384u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	const uint8_t *data;
	size_t left;
	uint8_t arg[4096], params[MAX_PARAMS];
	uint32_t handles[N_HANDLES];
	unsigned n_handles;
	unsigned reads_left; /* that this attempt at a call gets */
} program;

static uint8_t next_byte(void)
{
	if (program.left == 0) {
		return 0;
	}
	program.left--;
	return *program.data++;
}

static uint32_t next_word(void)
{
	uint32_t v = next_byte();

	v |= (uint32_t)next_byte() << 8;
	v |= (uint32_t)next_byte() << 16;
	return v | (uint32_t)next_byte() << 24;
}

static uint32_t next_handle(void)
{
	uint8_t i = next_byte();

	return i < N_HANDLES ? program.handles[i] : i == 0xff ? next_word() : 0;
}

/* Mostly the client of the preamble, to which the remembered objects belong. */
static uint32_t next_client(void)
{
	uint8_t i = next_byte();

	return i < 0xc0 ? program.handles[0] : program.handles[i % N_HANDLES];
}

static uint8_t *memory(uint64_t addr, size_t size)
{
	if (addr >= ARG_AT && addr - ARG_AT <= sizeof(program.arg) &&
		size <= sizeof(program.arg) - (addr - ARG_AT)) {
		return program.arg + (addr - ARG_AT);
	}
	if (addr >= PARAMS_AT && addr - PARAMS_AT <= sizeof(program.params) &&
		size <= sizeof(program.params) - (addr - PARAMS_AT)) {
		return program.params + (addr - PARAMS_AT);
	}
	return NULL;
}

static int copy_in(void *data, uint64_t addr, void *buf, size_t size)
{
	const uint8_t *p = memory(addr, size);

	if (p == NULL) {
		return -EFAULT;
	}
	if (program.reads_left == 0) {
		return -ERESTART;
	}
	program.reads_left--;
	memcpy(buf, p, size);
	return 0;
}

static int copy_out(void *data, uint64_t addr, const void *buf, size_t size)
{
	uint8_t *p = memory(addr, size);

	if (p == NULL) {
		return -EFAULT;
	}
	memcpy(p, buf, size);
	return 0;
}

static int caller_pid(void *data)
{
	return 1 + (next_byte() & 3);
}

static bool yes_or_no(void *data)
{
	return next_byte() & 1;
}

static bool is_control_fd(void *data, int fd)
{
	return fd == 3;
}

static const struct rbt_rm_env env = {.read = copy_in,
	.write = copy_out,
	.pid = caller_pid,
	.may_nice = yes_or_no,
	.is_control_fd = is_control_fd};

static void fill_params(void)
{
	size_t n = (next_byte() & 31) * 4u;

	memset(program.params, 0, sizeof(program.params));
	for (size_t i = 0; i < n; i += 4) {
		/* Handles turn up in parameters too. */
		uint8_t b = next_byte();
		uint32_t v = b < 0x80   ? b & 3
			     : b < 0xf0 ? program.handles[b % N_HANDLES]
					: next_word();
		memcpy(program.params + i, &v, sizeof(v));
	}
	/* The list of channels to disable is far from the start. */
	for (size_t i = 0; i < 4; i++) {
		size_t at = offsetof(struct nv_disable_channels_params, channel) + i * 4;
		memcpy(program.params + at, &program.handles[next_byte() % N_HANDLES], 4);
	}
}

static uint32_t next_class(void)
{
	static const uint32_t classes[] = {NV_CLASS_ROOT_CLIENT, NV_CLASS_DEVICE,
		NV_CLASS_SUBDEVICE, NV_CLASS_TSG, NV_CLASS_CHANNEL_HOPPER, NV_CLASS_COMPUTE_HOPPER,
		NV_CLASS_SUBCONTEXT, NV_CLASS_MEMORY_LOCAL, 0x70};
	uint8_t i = next_byte();

	return i < sizeof(classes) / sizeof(classes[0]) ? classes[i] : next_word();
}

/* Mostly on an object of the preamble that the control is for. */
static void next_control(struct nv_control *c)
{
	static const struct {
		uint32_t cmd, size, handle;
	} controls[] = {
		{NV_CTRL_CLIENT_GET_HANDLE_INFO, 16, 0},
		{NV_CTRL_GPU_GET_ATTACHED_IDS, 128, 0},
		{NV_CTRL_TSG_GPFIFO_SCHEDULE, 3, 3},
		{NV_CTRL_TSG_SET_TIMESLICE, 8, 3},
		{NV_CTRL_TSG_GET_TIMESLICE, 8, 4},
		{NV_CTRL_TSG_PREEMPT, 8, 3},
		{NV_CTRL_TSG_GET_INFO, 4, 4},
		{NV_CTRL_TSG_SET_INTERLEAVE_LEVEL, 4, 3},
		{NV_CTRL_TSG_MAKE_REALTIME, 1, 3},
		{NV_CTRL_CHANNEL_GET_WORK_SUBMIT_TOKEN, 4, 5},
		{NV_CTRL_CHANNEL_RESTART_RUNLIST, 2, 5},
		{NV_CTRL_GPU_GET_NAME_STRING, 132, 2},
		{NV_CTRL_GPU_GET_ID, 4, 2},
		{NV_CTRL_GPU_GET_PID_INFO, 14408, 2},
		{NV_CTRL_FIFO_DISABLE_CHANNELS, 536, 2},
		{NV_CTRL_GR_SET_CTXSW_PREEMPTION_MODE, 32, 2},
	};
	uint8_t i = next_byte(), how = next_byte();

	c->client = next_client();
	c->cmd = controls[i % 16].cmd;
	c->params_size = controls[i % 16].size;
	c->object = program.handles[controls[i % 16].handle];
	c->params = PARAMS_AT;
	if (how >= 0xf8) {
		c->cmd = next_word();
		c->params_size = next_word();
	} else if (how >= 0xe0) {
		c->params_size = how;
		c->params = how;
	} else if (how >= 0xc0) {
		c->object = next_handle();
	}
}

/* Fills the argument of one call and returns its request. */
static uint32_t next_call(void)
{
	struct nv_alloc64 a64 = {.rights = 0};
	struct nv_alloc21 a21;
	struct nv_control c;
	struct nv_free f;

	memset(program.arg, 0, sizeof(program.arg));
	fill_params();
	switch (next_byte() % 7) {
	case 0:
	case 1:
		a64.root = next_client();
		a64.parent = next_handle();
		a64.object = next_byte() < 0xe0 ? 0 : next_handle();
		a64.hclass = next_class();
		a64.params = next_byte() & 1 ? PARAMS_AT : next_byte();
		a64.params_size = next_byte() < 0xe0 ? 0 : next_byte();
		memcpy(program.arg, &a64, sizeof(a64));
		return (uint32_t)NV_IOCTL_ALLOC64;
	case 2:
		a21 = (struct nv_alloc21){.root = next_client(), .parent = next_handle()};
		a21.hclass = next_class();
		a21.params = PARAMS_AT;
		memcpy(program.arg, &a21, sizeof(a21));
		return (uint32_t)NV_IOCTL_ALLOC21;
	case 3:
		f = (struct nv_free){.client = next_client(), .object = next_handle()};
		memcpy(program.arg, &f, sizeof(f));
		return (uint32_t)NV_IOCTL_FREE;
	case 4:
	case 5:
		c = (struct nv_control){.status = 1};
		next_control(&c);
		memcpy(program.arg, &c, sizeof(c));
		return (uint32_t)NV_IOCTL_CONTROL;
	default:
		for (size_t i = 0; i < 64; i++) {
			program.arg[i] = next_byte();
		}
		return next_byte() & 1
			       ? next_word()
			       : (uint32_t)_IOWR('F', NV_ESC_IOCTL_XFER_CMD, struct nv_xfer);
	}
}

static void remember(uint32_t request)
{
	struct nv_alloc21 a;

	if (request == (uint32_t)NV_IOCTL_ALLOC64 || request == (uint32_t)NV_IOCTL_ALLOC21) {
		memcpy(&a, program.arg, sizeof(a));
		program.handles[program.n_handles++ % N_HANDLES] = a.object;
	}
}

/* What every program has, so that an input need not find it first. */
static void make_program(struct rbt_rm_open *open)
{
	static const struct {
		uint32_t hclass, parent, value; /* parent: index of its handle */
	} objects[] = {
		{NV_CLASS_ROOT_CLIENT, 0, 0},
		{NV_CLASS_DEVICE, 0, 1},
		{NV_CLASS_SUBDEVICE, 1, 0},
		{NV_CLASS_TSG, 1, NV_ENGINE_TYPE_GRAPHICS},
		{NV_CLASS_TSG, 1, NV_ENGINE_TYPE_COPY10},
		{NV_CLASS_CHANNEL_HOPPER, 3, 0},
		{NV_CLASS_CHANNEL_HOPPER, 3, 0},
		{NV_CLASS_CHANNEL_HOPPER, 4, 0},
	};
	struct nv_alloc21 a;
	uint64_t delay_us;

	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
		struct nv_tsg_params tsg = {.engine_type = objects[i].value};
		struct nv_device_params device = {.device_id = objects[i].value};
		memset(program.params, 0, sizeof(program.params));
		if (objects[i].hclass == NV_CLASS_TSG) {
			memcpy(program.params, &tsg, sizeof(tsg));
		} else if (objects[i].hclass == NV_CLASS_DEVICE) {
			memcpy(program.params, &device, sizeof(device));
		}
		a = (struct nv_alloc21){.root = program.handles[0],
			.parent = program.handles[objects[i].parent],
			.hclass = objects[i].hclass,
			.params = PARAMS_AT};
		memcpy(program.arg, &a, sizeof(a));
		program.reads_left = 8;
		REQUIRE(rbt_rm_ioctl(open, (uint32_t)NV_IOCTL_ALLOC21, ARG_AT, &env, &delay_us) ==
			0);
		remember((uint32_t)NV_IOCTL_ALLOC21);
	}
}

static void check_group(const struct rbt_rm_tsg_info *t, void *data)
{
	uint64_t *sum = data;

	REQUIRE(t->n_channels == t->n_enabled + t->n_disabled_full + t->n_disabled_scheduling);
	REQUIRE(t->timeslice_us > 0);
	REQUIRE(t->gpu < 2 && t->interleave <= 2);
	*sum += t->id;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rbt_rm_config config = {.driver_version = "580.1",
		.n_gpus = 2,
		.first_client = 0xffff0,
		.memory_bytes = 1 << 20,
		.quirks = RBT_RM_QUIRKS_ALL};
	struct rbt_rm_open *opens[N_OPENS];
	struct rbt_rm_fault fault = {
		.nr = NV_ESC_RM_FREE, .has_status = 1, .status = 3, .count = 2};
	/* Sizes are the caller's then. */
	struct rbt_rm_fault any = {.cmd = NV_CTRL_TSG_SET_TIMESLICE, .size = RBT_RM_ANY_SIZE};
	uint64_t delay_us, sum = 0;

	program.data = data;
	program.left = size;
	program.n_handles = 0;
	memset(program.handles, 0, sizeof(program.handles));
	struct rbt_rm *rm = rbt_rm_create(&config);
	REQUIRE(rm != NULL);
	for (uint64_t i = 0; i < N_OPENS; i++) {
		opens[i] = rbt_rm_open(rm, RBT_RM_NODE_CONTROL, 0, i, (int)i, 0);
	}
	make_program(opens[0]);
	while (program.left > 0) {
		uint8_t how = next_byte();
		if (how == 0xfe) {
			rbt_rm_close(opens[0]);
			opens[0] = rbt_rm_open(rm, RBT_RM_NODE_CONTROL, 0, 0, 0, 0);
		} else if (how == 0xfd) {
			(void)rbt_rm_add_fault(rm, &fault);
			(void)rbt_rm_add_fault(rm, &any);
		}
		uint32_t request = next_call();
		/* As a relay that fetches one piece after another, or as one that has them all. */
		unsigned attempt = how & 1 ? 0 : 8;
		int r;
		do {
			program.reads_left = attempt++;
			r = rbt_rm_ioctl(opens[how < 0xe0 ? 0 : how % N_OPENS], request, ARG_AT,
				&env, &delay_us);
		} while (r == -ERESTART);
		REQUIRE(r <= 0);
		remember(request);
	}
	rbt_rm_each_tsg(rm, check_group, &sum);
	rbt_rm_destroy(rm);
	return 0;
}
