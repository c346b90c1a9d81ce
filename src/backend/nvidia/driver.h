/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which NVIDIA driver runs here, and what its family's layouts are. Reading works on any; writing
 * is for families whose layouts were checked.
 */
#ifndef RBT_BACKEND_NVIDIA_DRIVER_H
#define RBT_BACKEND_NVIDIA_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

struct rbt_nv_driver {
	char version[32]; /* 580.159.04 */
	uint32_t major;
	bool known;
	uint32_t schedule_params_size; /* of GPFIFO_SCHEDULE: RM compares it exactly */
};

/* Finds the version in what /proc/driver/nvidia/version or /sys/module/nvidia/version says. Pure.
 * 0 or -EBADMSG. */
int rbt_nv_driver_parse(const char *text, struct rbt_nv_driver *ret);

/* 0, -ENODEV when no driver is loaded, or -errno. */
int rbt_nv_driver_read(struct rbt_nv_driver *ret);

#endif
