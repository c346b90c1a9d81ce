/* SPDX-License-Identifier: Apache-2.0 */
/* A model of RM and a program on it, inside the test's own process. */
#ifndef RBT_TESTS_SOFTGPU_WORLD_H
#define RBT_TESTS_SOFTGPU_WORLD_H

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "check.h"
#include "softgpu/rm/params.h"
#include "softgpu/rm/rm.h"

#define BAD_ADDRESS 16u

static struct rbt_rm *rm;
static struct rbt_rm_open *mine, *other;
static bool nice_caller, hesitant;
static unsigned n_hesitations, n_logged, reads_left;
#define CALLER 42
static int caller = CALLER; /* the pid of who makes calls */

/* When hesitant, the k-th attempt at a call gets k reads: as by a relay that fetches one piece
 * after another. */
static inline int copy_in(void *data, uint64_t addr, void *buf, size_t size)
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

static inline int copy_out(void *data, uint64_t addr, const void *buf, size_t size)
{
	if (addr <= BAD_ADDRESS) {
		return -EFAULT;
	}
	memcpy((void *)(uintptr_t)addr, buf, size);
	return 0;
}

static inline int caller_pid(void *data)
{
	return caller;
}

static inline bool may_nice(void *data)
{
	return nice_caller;
}

static inline bool is_control_fd(void *data, int fd)
{
	return fd == 3;
}

static inline void log_line(void *data, const char *line)
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

static inline int call(struct rbt_rm_open *open, unsigned long request, void *arg)
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

static inline uint32_t alloc_as(struct rbt_rm_open *open, uint32_t client, uint32_t parent,
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

static inline uint32_t control_as(struct rbt_rm_open *open, uint32_t client, uint32_t object,
	uint32_t cmd, void *params, uint32_t size)
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

static inline uint32_t free_as(struct rbt_rm_open *open, uint32_t client, uint32_t object)
{
	struct nv_free f = {.client = client, .object = object, .status = 0xdead};

	CHECK_INT(call(open, NV_IOCTL_FREE, &f), 0);
	return f.status;
}

/* A client with a device, subdevice and groups, as a program has it. */
struct program {
	uint32_t client, device, subdevice, tsg, copy, channels[80], copies[2];
};

static inline void make_group(
	struct program *p, uint32_t *tsg, uint32_t engine, uint32_t *channels, int n)
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

static inline struct program make_program(uint32_t gpu, int n_channels)
{
	struct program p = {0};
	struct nv_device_params device = {.device_id = gpu};
	struct nv_subdevice_params subdevice = {0};

	CHECK_INT(alloc_as(mine, 0, 0, &p.client, NV_CLASS_ROOT_CLIENT, NULL, 0), NV_OK);
	CHECK_INT(alloc_as(mine, p.client, p.client, &p.device, NV_CLASS_DEVICE, &device,
			  sizeof(device)),
		NV_OK);
	CHECK_INT(alloc_as(mine, p.client, p.device, &p.subdevice, NV_CLASS_SUBDEVICE, &subdevice,
			  sizeof(subdevice)),
		NV_OK);
	make_group(&p, &p.tsg, NV_ENGINE_TYPE_GRAPHICS, p.channels, n_channels);
	make_group(&p, &p.copy, NV_ENGINE_TYPE_COPY0 + 2, p.copies, 2);
	return p;
}

static inline void begin(const char *driver)
{
	struct rbt_rm_config config = {
		.n_gpus = 2, .first_client = 0x9a000, .memory_bytes = 1ull << 30};

	strcpy(config.driver_version, driver);
	rm = rbt_rm_create(&config);
	mine = rbt_rm_open(rm, RBT_RM_NODE_CONTROL, 0, 1, CALLER, 0);
	other = rbt_rm_open(rm, RBT_RM_NODE_CONTROL, 0, 2, 43, 0);
	nice_caller = hesitant = false;
	n_logged = 0;
}

static inline void end(void)
{
	rbt_rm_destroy(rm);
}

static inline void take_info(const struct rbt_rm_tsg_info *info, void *data)
{
	struct rbt_rm_tsg_info *wanted = data;

	if (wanted->client == info->client && wanted->handle == info->handle) {
		*wanted = *info;
	}
}

static inline struct rbt_rm_tsg_info look(const struct program *p, uint32_t handle)
{
	struct rbt_rm_tsg_info info = {.client = p->client, .handle = handle};

	rbt_rm_each_tsg(rm, take_info, &info);
	return info;
}

static inline void count_tsg(const struct rbt_rm_tsg_info *info, void *data)
{
	++*(int *)data;
}

static inline int n_tsgs(void)
{
	int n = 0;

	rbt_rm_each_tsg(rm, count_tsg, &n);
	return n;
}

#endif
