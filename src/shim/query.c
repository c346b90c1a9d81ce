/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "shim/shim.h"

int shim_control(const struct shim_obj *client, uint32_t object, uint32_t cmd, void *params,
	uint32_t params_size, uint32_t *ret_status)
{
	struct nv_control ctl = {
		.client = client->handle,
		.object = object,
		.cmd = cmd,
		.params = (uintptr_t)params,
		.params_size = params_size,
	};

	*ret_status = NV_OK;
	if (!shim_fd_valid(&client->c.file)) {
		return -EBADF;
	}
	if (shim_raw_ioctl(shim_fd_get(&client->c.file), NV_IOCTL_CONTROL, &ctl) != 0) {
		return -errno;
	}
	*ret_status = ctl.status;
	return ctl.status == NV_OK ? 0 : -EIO;
}

struct shim_obj *shim_client_of(struct shim *s, const struct shim_obj *obj)
{
	return shim_find(s, obj->client, obj->client);
}

struct shim_obj *shim_subdevice_of(struct shim *s, const struct shim_obj *task)
{
	struct shim_obj *obj = shim_at(s, s->objs[task->parent].child);

	while (obj != NULL && obj->type != SHIM_SUBDEVICE) {
		obj = shim_at(s, obj->sibling);
	}
	return obj;
}

static int ask_gpu(const struct shim_obj *client, uint32_t subdevice, uint32_t *ret_gpu)
{
	struct nv_card_info cards[NV_MAX_GPUS];
	struct nv_gpu_id_params id = {0};
	uint32_t status;
	int r = shim_control(client, subdevice, NV_CTRL_GPU_GET_ID, &id, sizeof(id), &status);

	if (r < 0) {
		return r;
	}
	memset(cards, 0, sizeof(cards));
	if (shim_raw_ioctl(shim_fd_get(&client->c.file), NV_IOCTL_CARD_INFO, cards) != 0) {
		return -errno;
	}
	for (size_t i = 0; i < NV_MAX_GPUS; i++) {
		if (cards[i].valid && cards[i].gpu_id == id.gpu_id) {
			*ret_gpu = cards[i].minor_number;
			return 0;
		}
	}
	return -ENODEV;
}

/* Programs set the slices of their compute tasks themselves, so these are known. Other tasks keep
 * the driver's slice, which must be known before it is changed. */
static void ask_slice(const struct shim_obj *client, struct shim_obj *task)
{
	struct nv_timeslice_params slice = {0};
	uint32_t status;
	int r = shim_control(
		client, task->handle, NV_CTRL_TSG_GET_TIMESLICE, &slice, sizeof(slice), &status);

	if (r == 0 && slice.timeslice_us != 0) {
		task->t.own_us = task->t.applied_us = slice.timeslice_us;
	} else {
		task->t.valid &= ~(uint32_t)RBT_TASK_HAS_OWN_TIMESLICE;
	}
}

void shim_identify(struct shim *s, struct shim_obj *task)
{
	struct shim_obj *client = shim_client_of(s, task);
	struct shim_obj *subdevice = shim_subdevice_of(s, task);
	struct shim_obj *device = &s->objs[task->parent];
	struct nv_tsg_info_params info = {0};
	uint32_t status;

	if (device->d.state == SHIM_GPU_UNASKED && subdevice != NULL) {
		int r = ask_gpu(client, subdevice->handle, &device->d.gpu);
		device->d.state = r == 0 ? SHIM_GPU_KNOWN : SHIM_GPU_UNKNOWN;
	}
	if (!task->t.asked_id) {
		task->t.asked_id = true;
		if (shim_control(client, task->handle, NV_CTRL_TSG_GET_INFO, &info, sizeof(info),
			    &status) == 0) {
			task->t.id = info.tsg_id;
			task->t.valid |= RBT_TASK_HAS_ID;
		}
		if (task->t.kind != RBT_TASK_COMPUTE) {
			ask_slice(client, task);
		}
	}
}

bool shim_gpu_of(struct shim *s, const struct shim_obj *task, uint32_t *ret_gpu)
{
	const struct shim_obj *device = &s->objs[task->parent];

	if (device->d.state != SHIM_GPU_KNOWN) {
		return false;
	}
	*ret_gpu = device->d.gpu;
	return true;
}
