/* SPDX-License-Identifier: Apache-2.0 */
/* The size of a GPU's memory, through objects of our own that are freed again. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "backend/nvidia/ops.h"
#include "backend/nvidia/rm.h"
#include "util/fd.h"

static int find_gpu_id(int ctl, uint32_t minor, uint32_t *ret)
{
	struct nv_card_info cards[NV_MAX_GPUS];
	int r = rbt_nv_card_info(ctl, cards);

	for (size_t i = 0; r == 0 && i < NV_MAX_GPUS; i++) {
		if (cards[i].valid && cards[i].minor_number == minor) {
			*ret = cards[i].gpu_id;
			return 0;
		}
	}
	return r < 0 ? r : -ENODEV;
}

/* RM numbers devices in its own way, so they are tried one after the other. */
static int read_size(int ctl, uint32_t client, uint32_t gpu_id, uint64_t *ret_bytes)
{
	for (uint32_t i = 0; i < NV_MAX_GPUS; i++) {
		struct nv_device_params device = {.device_id = i, .va_mode = NV_VA_MODE_MULTIPLE};
		struct nv_subdevice_params subdevice = {0};
		struct nv_gpu_id_params id = {0};
		uint32_t status, hdevice, hsubdevice;

		if (rbt_nv_alloc(ctl, client, client, NV_CLASS_DEVICE, &device, sizeof(device),
			    &status, &hdevice) < 0 ||
			status != NV_OK) {
			continue;
		}
		int r = rbt_nv_alloc(ctl, client, hdevice, NV_CLASS_SUBDEVICE, &subdevice,
			sizeof(subdevice), &status, &hsubdevice);
		if (r == 0 && status == NV_OK &&
			rbt_nv_control(ctl, client, hsubdevice, NV_CTRL_GPU_GET_ID, &id,
				sizeof(id)) == 0 &&
			id.gpu_id == gpu_id) {
			return rbt_nv_memory_size(ctl, client, hsubdevice, ret_bytes);
		}
		rbt_nv_free(ctl, client, client, hdevice);
	}
	return -ENODEV;
}

int rbt_nv_gpu_memory(uint32_t gpu, uint64_t *ret_bytes)
{
	char path[32];
	uint32_t client, gpu_id;
	int ctl = rbt_nv_open_control();

	if (ctl < 0) {
		return ctl;
	}
	/* A GPU answers only while a process has its node open. */
	snprintf(path, sizeof(path), NV_GPU_PATH_FMT, gpu);
	int node = open(path, O_RDWR | O_CLOEXEC);
	int r = node < 0 ? -errno : find_gpu_id(ctl, gpu, &gpu_id);

	r = r < 0 ? r : rbt_nv_alloc_client(ctl, &client);
	if (r == 0) {
		r = read_size(ctl, client, gpu_id, ret_bytes);
		rbt_nv_free(ctl, client, client, client);
	}
	rbt_close(&node);
	rbt_close(&ctl);
	return r;
}
