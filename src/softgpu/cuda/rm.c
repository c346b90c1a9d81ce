/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/cuda/rm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "softgpu/rm/params.h"
#include "util/fd.h"

#define N_COPY_CHANNELS     4
#define CHANNEL_PARAMS_SIZE 368
#define BUSY_RETRY_MS       100
#define FIRST_3_BYTES       575 /* GPFIFO_SCHEDULE's parameters grew with this driver */

/* RM's status as an errno; statuses that matter to a program are distinguished. */
static int from_status(uint32_t status)
{
	switch (status) {
	case NV_OK:
		return 0;
	case NV_ERR_NO_MEMORY:
	case NV_ERR_INSUFFICIENT_RESOURCES:
		return -ENOMEM;
	case NV_ERR_INSUFFICIENT_PERMISSIONS:
		return -EACCES;
	case NV_ERR_GPU_IS_LOST:
		return -ENODEV;
	default:
		return -EIO;
	}
}

static int control(struct front_rm *rm, uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
	struct nv_control c = {.client = rm->client,
		.object = object,
		.cmd = cmd,
		.params = (uintptr_t)params,
		.params_size = size};
	struct timespec pause = {.tv_nsec = BUSY_RETRY_MS * 1000000L};

	for (;;) {
		c.status = 0;
		if (ioctl(rm->ctl, NV_IOCTL_CONTROL, &c) < 0) {
			return -errno;
		}
		/* "Later": RM, or an admission policy in its place, admits programs one by one. */
		if (c.status != NV_ERR_BUSY_RETRY) {
			return from_status(c.status);
		}
		nanosleep(&pause, NULL);
	}
}

static int alloc(struct front_rm *rm, uint32_t parent, uint32_t hclass, void *params, uint32_t size,
	uint32_t *ret)
{
	struct nv_alloc64 a = {.root = rm->client,
		.parent = parent,
		.hclass = hclass,
		.params = (uintptr_t)params,
		.params_size = size};

	if (ioctl(rm->ctl, NV_IOCTL_ALLOC64, &a) < 0) {
		return -errno;
	}
	if (a.status == NV_OK) {
		*ret = a.object;
	}
	return from_status(a.status);
}

static void free_object(struct front_rm *rm, uint32_t parent, uint32_t object)
{
	struct nv_free f = {.client = rm->client, .parent = parent, .object = object};

	if (object != 0) {
		(void)ioctl(rm->ctl, NV_IOCTL_FREE, &f);
	}
}

static int list_cards(struct front_rm *rm, struct front_card cards[FRONT_RM_GPUS])
{
	struct nv_card_info list[NV_MAX_GPUS] = {0};
	int n = 0;

	if (ioctl(rm->ctl, NV_IOCTL_CARD_INFO, list) < 0) {
		return -errno;
	}
	for (int i = 0; i < NV_MAX_GPUS; i++) {
		if (list[i].valid) {
			cards[n++] = (struct front_card){.domain = list[i].pci_domain,
				.bus = list[i].pci_bus,
				.slot = list[i].pci_slot,
				.minor = list[i].minor_number};
		}
	}
	return n;
}

static int open_client(struct front_rm *rm, struct front_card cards[FRONT_RM_GPUS])
{
	struct nv_check_version version = {.cmd = NV_CHECK_VERSION_QUERY};
	struct nv_sys_params sys = {0};
	struct nv_attached_ids_params ids;

	if (ioctl(rm->ctl, NV_IOCTL_CHECK_VERSION, &version) < 0 ||
		ioctl(rm->ctl, _IOWR(NV_IOCTL_TYPE, NV_ESC_SYS_PARAMS, struct nv_sys_params),
			&sys) < 0) {
		return -errno;
	}
	version.version[sizeof(version.version) - 1] = '\0';
	rm->old_schedule = strtol(version.version, NULL, 10) < FIRST_3_BYTES;
	int n = list_cards(rm, cards);
	if (n <= 0) {
		return n < 0 ? n : -ENOENT;
	}
	int r = alloc(rm, 0, NV_CLASS_ROOT_CLIENT, NULL, 0, &rm->client);
	if (r == 0) {
		r = control(rm, rm->client, NV_CTRL_GPU_GET_ATTACHED_IDS, &ids, sizeof(ids));
	}
	return r < 0 ? r : n;
}

/* A GPU's node, device and subdevice, and its name. */
static int open_gpu(struct front_rm *rm, int gpu, struct front_card *card)
{
	struct nv_device_params device = {.device_id = (uint32_t)gpu};
	struct nv_subdevice_params subdevice = {0};
	struct nv_name_params name = {0};
	struct nv_register_fd reg = {.ctl_fd = rm->ctl};
	char path[32];

	snprintf(path, sizeof(path), NV_GPU_PATH_FMT, card->minor);
	rm->gpu[gpu] = open(path, O_RDWR | O_CLOEXEC);
	if (rm->gpu[gpu] < 0 || ioctl(rm->gpu[gpu], NV_IOCTL_REGISTER_FD, &reg) < 0) {
		return -errno;
	}
	int r = alloc(rm, rm->client, NV_CLASS_DEVICE, &device, sizeof(device), &rm->device[gpu]);
	if (r == 0) {
		r = alloc(rm, rm->device[gpu], NV_CLASS_SUBDEVICE, &subdevice, sizeof(subdevice),
			&rm->subdevice[gpu]);
	}
	if (r == 0 && control(rm, rm->subdevice[gpu], NV_CTRL_GPU_GET_NAME_STRING, &name,
			      sizeof(name)) == 0) {
		snprintf(card->name, sizeof(card->name), "%.*s", (int)sizeof(card->name) - 1,
			name.name.ascii);
	}
	return r;
}

int front_rm_open(struct front_rm *rm, struct front_card cards[FRONT_RM_GPUS])
{
	rm->uvm = -1;
	for (int i = 0; i < FRONT_RM_GPUS; i++) {
		rm->gpu[i] = -1;
	}
	rm->ctl = open(NV_CTL_PATH, O_RDWR | O_CLOEXEC);
	if (rm->ctl < 0) {
		return -errno;
	}
	int n = open_client(rm, cards), r = n;

	rm->uvm = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < n && r >= 0; i++) {
		r = open_gpu(rm, i, &cards[i]);
	}
	if (r < 0) {
		front_rm_forked(rm);
		return r;
	}
	return n;
}

void front_rm_forked(struct front_rm *rm)
{
	rbt_close(&rm->ctl);
	rbt_close(&rm->uvm);
	for (int i = 0; i < FRONT_RM_GPUS; i++) {
		rbt_close(&rm->gpu[i]);
	}
}

struct group {
	uint32_t engine, engine_class;
	int n_channels;
};

/* Group, channels, engines, tokens, and only then the runlist. */
static int make_group(struct front_rm *rm, int gpu, const struct group *g, uint32_t *ret_tsg,
	uint32_t *ret_channels)
{
	struct nv_tsg_params tsg = {.engine_type = g->engine};
	struct nv_schedule_params schedule = {.enable = 1};
	struct nv_token_params token;
	uint8_t channel[CHANNEL_PARAMS_SIZE] = {0};
	uint32_t subcontext[3] = {0}, handle;
	int r = alloc(rm, rm->device[gpu], NV_CLASS_TSG, &tsg, sizeof(tsg), ret_tsg);

	if (r == 0 && g->engine == NV_ENGINE_TYPE_GRAPHICS) {
		r = alloc(
			rm, *ret_tsg, NV_CLASS_SUBCONTEXT, subcontext, sizeof(subcontext), &handle);
	}
	for (int i = 0; i < g->n_channels && r == 0; i++) {
		r = alloc(rm, *ret_tsg, NV_CLASS_CHANNEL_HOPPER, channel, sizeof(channel),
			&ret_channels[i]);
		if (r == 0) {
			r = alloc(rm, ret_channels[i], g->engine_class, NULL, 0, &handle);
		}
	}
	for (int i = 0; i < g->n_channels && r == 0; i++) {
		r = control(rm, ret_channels[i], NV_CTRL_CHANNEL_GET_WORK_SUBMIT_TOKEN, &token,
			sizeof(token));
	}
	if (r == 0) {
		r = control(rm, *ret_tsg, NV_CTRL_TSG_GPFIFO_SCHEDULE, &schedule,
			rm->old_schedule ? NV_SCHEDULE_PARAMS_SIZE_BEFORE_575
					 : NV_SCHEDULE_PARAMS_SIZE);
	}
	return r;
}

static int make_groups(struct front_rm *rm, struct front_rm_context *x)
{
	struct nv_ctxsw_params ctxsw = {.flags = NV_CTXSW_FLAG_CILP, .cilp_mode = NV_CTXSW_CILP};
	struct nv_timeslice_params slice = {.timeslice_us = NV_DEFAULT_COMPUTE_TIMESLICE_US};
	struct group kernels = {NV_ENGINE_TYPE_GRAPHICS, NV_CLASS_COMPUTE_HOPPER, GPU_MAX_CHANNELS};
	uint32_t unused[N_COPY_CHANNELS];
	int r = make_group(rm, x->gpu, &kernels, &x->tsgs[0], x->channels);

	for (uint32_t i = 1; i < FRONT_RM_TSGS && r == 0; i++) {
		struct group copies = {
			NV_ENGINE_TYPE_COPY0 + i - 1, NV_CLASS_COPY_HOPPER, N_COPY_CHANNELS};

		r = make_group(rm, x->gpu, &copies, &x->tsgs[i], unused);
	}
	ctxsw.channel = x->tsgs[0];
	if (r == 0) {
		r = control(rm, rm->subdevice[x->gpu], NV_CTRL_GR_SET_CTXSW_PREEMPTION_MODE, &ctxsw,
			sizeof(ctxsw));
	}
	/* Last of all, as libcuda does: a slice that was set before is lost. */
	if (r == 0) {
		r = control(rm, x->tsgs[0], NV_CTRL_TSG_SET_TIMESLICE, &slice, sizeof(slice));
	}
	return r;
}

int front_rm_context_make(struct front_rm *rm, int gpu, struct front_rm_context *ret)
{
	struct front_rm_context x = {.gpu = gpu, .client = rm->client};

	pthread_mutex_lock(&rm->lock);
	int r = make_groups(rm, &x);
	pthread_mutex_unlock(&rm->lock);
	if (r < 0) {
		front_rm_context_free(rm, &x);
		return r;
	}
	*ret = x;
	return 0;
}

void front_rm_context_free(struct front_rm *rm, struct front_rm_context *x)
{
	(void)front_rm_memory(rm, x, 0);
	pthread_mutex_lock(&rm->lock);
	/* Channels and engines are freed with their group. */
	for (int i = FRONT_RM_TSGS; i > 0; i--) {
		free_object(rm, rm->device[x->gpu], x->tsgs[i - 1]);
	}
	pthread_mutex_unlock(&rm->lock);
}

/* Adds one object. 0 or -errno. */
static int add_memory(struct front_rm *rm, struct front_rm_context *x, uint64_t size)
{
	struct nv_memory_params params = {.size = size};
	uint32_t handle;
	int r = alloc(
		rm, rm->device[x->gpu], NV_CLASS_MEMORY_LOCAL, &params, sizeof(params), &handle);

	if (r == 0) {
		x->memory[x->n_memory].handle = handle;
		x->memory[x->n_memory++].size = size;
		x->memory_bytes += size;
	}
	return r;
}

static void drop_memory(struct front_rm *rm, struct front_rm_context *x)
{
	x->n_memory--;
	x->memory_bytes -= x->memory[x->n_memory].size;
	free_object(rm, rm->device[x->gpu], x->memory[x->n_memory].handle);
}

static int grow_memory(struct front_rm *rm, struct front_rm_context *x, uint64_t want)
{
	uint64_t last = 0;

	if (x->n_memory == FRONT_RM_OBJECTS) {
		/* The last object is replaced by a larger one, or made again. */
		last = x->memory[x->n_memory - 1].size;
		drop_memory(rm, x);
	}
	int r = add_memory(rm, x, want - x->memory_bytes);
	if (r < 0 && last > 0) {
		(void)add_memory(rm, x, last);
	}
	return r;
}

int front_rm_memory(struct front_rm *rm, struct front_rm_context *x, uint64_t bytes)
{
	uint64_t want = (bytes + FRONT_RM_CHUNK - 1) / FRONT_RM_CHUNK * FRONT_RM_CHUNK;
	int r = 0;

	pthread_mutex_lock(&rm->lock);
	while (x->n_memory > 0 && x->memory_bytes - x->memory[x->n_memory - 1].size >= want) {
		drop_memory(rm, x);
	}
	if (want > x->memory_bytes) {
		r = grow_memory(rm, x, want);
	}
	pthread_mutex_unlock(&rm->lock);
	return r;
}
