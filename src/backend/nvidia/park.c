/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon must know before it parks a program, or brings it back. */
#include "backend/nvidia/park.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "backend/nvidia/driver.h"
#include "backend/nvidia/rm.h"
#include "util/fd.h"

/* The branch whose checkpoint calls were measured. Others are known to crash programs at a lock, or
 * to lose them at a restore. */
#define TRIED_BRANCH 580u

int rbt_nv_may_park(char *why, size_t size)
{
	struct rbt_nv_driver driver;
	int r = rbt_nv_driver_read(&driver);

	if (r == 0 && driver.major != TRIED_BRANCH) {
		snprintf(why, size, "parking was tried with driver %u only, and this is %s",
			TRIED_BRANCH, driver.version);
		r = -EPROTONOSUPPORT;
	}
	return r;
}

static int usage_on(
	const struct rbt_record *rec, const struct rbt_task *t, pid_t pid, uint64_t *ret_bytes)
{
	struct nv_pid_info_params p = {.count = 1};

	p.list[0].pid = (uint32_t)pid;
	p.list[0].index = NV_PID_INFO_VIDEO_MEMORY;
	int r = rbt_nv_control(
		rec->fd, rec->client, t->subdevice, NV_CTRL_GPU_GET_PID_INFO, &p, sizeof(p));
	if (r == 0) {
		*ret_bytes = p.list[0].result == NV_OK
				     ? p.list[0].mem_private + p.list[0].mem_shared_owned
				     : 0;
	}
	return r;
}

int rbt_nv_usage(const struct rbt_record *rec, pid_t pid, struct rbt_gpu_usage *list, size_t max)
{
	size_t n = 0;

	for (uint32_t i = 0; i < rec->n_tasks && n < max; i++) {
		const struct rbt_task *t = &rec->tasks[i];
		size_t k = 0;

		while (k < n && list[k].minor != t->gpu) {
			k++;
		}
		if (k < n || t->subdevice == 0) {
			continue;
		}
		list[n] = (struct rbt_gpu_usage){.minor = t->gpu};
		int r = usage_on(rec, t, pid, &list[n].bytes);
		if (r < 0) {
			return r;
		}
		n++;
	}
	return (int)n;
}

/* RM numbers devices in the order in which it attached them, so the card is found by its id. */
static int find_free(int ctl, uint32_t client, uint32_t gpu_id, uint64_t *ret_bytes)
{
	for (uint32_t i = 0; i < NV_MAX_GPUS; i++) {
		struct nv_device_params device = {.device_id = i, .va_mode = NV_VA_MODE_MULTIPLE};
		struct nv_subdevice_params params = {0};
		struct nv_gpu_id_params id = {0};
		uint32_t status = NV_OK, made = 0, subdevice = 0;

		if (rbt_nv_alloc(ctl, client, client, NV_CLASS_DEVICE, &device, sizeof(device),
			    &status, &made) < 0 ||
			status != NV_OK) {
			continue;
		}
		bool is_it = rbt_nv_alloc(ctl, client, made, NV_CLASS_SUBDEVICE, &params,
				     sizeof(params), &status, &subdevice) == 0 &&
			     status == NV_OK &&
			     rbt_nv_control(ctl, client, subdevice, NV_CTRL_GPU_GET_ID, &id,
				     sizeof(id)) == 0 &&
			     id.gpu_id == gpu_id;
		int r = is_it ? rbt_nv_memory_free(ctl, client, subdevice, ret_bytes) : -ENOENT;
		(void)rbt_nv_free(ctl, client, client, made);
		if (is_it) {
			return r;
		}
	}
	return -ENODEV;
}

static int free_of(int ctl, const struct nv_card_info *card, uint64_t *ret_bytes)
{
	uint32_t client = 0;
	char path[32];
	int r = rbt_nv_alloc_client(ctl, &client);

	if (r < 0) {
		return r;
	}
	/* A GPU answers only while a process has its node open. */
	snprintf(path, sizeof(path), NV_GPU_PATH_FMT, card->minor_number);
	int node = open(path, O_RDWR | O_CLOEXEC);
	r = node < 0 ? -errno : find_free(ctl, client, card->gpu_id, ret_bytes);
	(void)rbt_nv_free(ctl, client, client, client);
	rbt_close(&node);
	return r;
}

int rbt_nv_free_memory(uint32_t minor, uint64_t *ret_bytes)
{
	struct nv_card_info cards[NV_MAX_GPUS];
	int ctl = rbt_nv_open_control();
	int r = ctl < 0 ? ctl : rbt_nv_card_info(ctl, cards);

	for (size_t i = 0; r == 0 && i < NV_MAX_GPUS; i++) {
		if (cards[i].valid && cards[i].minor_number == minor) {
			r = free_of(ctl, &cards[i], ret_bytes);
			rbt_close(&ctl);
			return r;
		}
	}
	rbt_close(&ctl);
	return r < 0 ? r : -ENODEV;
}
