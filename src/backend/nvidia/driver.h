/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The version of the NVIDIA driver, and the layouts of its branch. Reading works with any driver;
 * writing needs a branch whose layouts were checked.
 */
#ifndef RBT_BACKEND_NVIDIA_DRIVER_H
#define RBT_BACKEND_NVIDIA_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

struct rbt_nv_driver {
	char version[32]; /* 580.159.04 */
	uint32_t major;
	bool known;
	/* libcuda repeats a GPFIFO_SCHEDULE that is answered with NV_ERR_BUSY_RETRY. */
	bool retries_schedule;
	uint32_t schedule_params_size; /* of GPFIFO_SCHEDULE: RM compares it exactly */
};

/* Finds the version in the text of /proc/driver/nvidia/version or /sys/module/nvidia/version. Pure.
 * 0 or -EBADMSG. */
int rbt_nv_driver_parse(const char *text, struct rbt_nv_driver *ret);

/* 0, -ENODEV if no driver is loaded, or -errno. */
int rbt_nv_driver_read(struct rbt_nv_driver *ret);

#endif
