/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that only programs and the fake RM exchange; those that Rubato itself uses are in
 * rm_abi.h. */
#ifndef RBT_SOFTGPU_RM_PARAMS_H
#define RBT_SOFTGPU_RM_PARAMS_H

#include "backend/nvidia/rm_abi.h"

/* The two other classes that make a client; all behave alike here. */
#define NV_CLASS_ROOT          0x0000
#define NV_CLASS_ROOT_NON_PRIV 0x0001

#define NV_CTRL_GPU_GET_ATTACHED_IDS    0x00000201
#define NV_CTRL_CHANNEL_RESTART_RUNLIST 0xa06f0111

#define NV_ERR_INVALID_ADDRESS 0x1e

struct nv_sys_params {
	uint64_t memblock_size;
};

/* XFER_CMD: an ioctl whose argument is too large for the size field of an ioctl number. */
struct nv_xfer {
	uint32_t cmd, size;
	uint64_t arg; /* pointer */
};

struct nv_attached_ids_params {
	uint32_t gpu_id[NV_MAX_GPUS];
};
#define NV_GPU_ID_INVALID 0xffffffffu

struct nv_name_params {
	uint32_t flags; /* 0: ascii, 1: unicode */
	union {
		char ascii[64];
		uint16_t unicode[64];
	} name;
};

struct nv_ctxsw_params {
	uint32_t flags, channel, gfxp_mode, cilp_mode;
	uint32_t route_flags, pad;
	uint64_t route;
};
#define NV_CTXSW_FLAG_CILP 0x1
#define NV_CTXSW_CILP      2

struct nv_realtime_params {
	uint8_t realtime;
};

struct nv_restart_runlist_params {
	uint8_t force, bypass_wait;
};

static_assert(sizeof(struct nv_xfer) == 16, "transfer");
static_assert(sizeof(struct nv_name_params) == 132, "name");
static_assert(sizeof(struct nv_ctxsw_params) == 32, "context switch");
static_assert(sizeof(struct nv_attached_ids_params) == 128, "attached ids");

#endif
