/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NVIDIA's RM ioctl interface that Rubato speaks, declared from public facts: the
 * layouts have been the same from driver 515 to 595, except where a comment says otherwise.
 *
 * Every call is an ioctl of type 'F' on /dev/nvidiactl. The ioctl itself returns 0 when RM was
 * reached; RM's verdict is in the `status` field (rbt_nv_status_to_errno() translates it).
 */
#ifndef RBT_BACKEND_NVIDIA_RM_ABI_H
#define RBT_BACKEND_NVIDIA_RM_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define NV_CTL_PATH     "/dev/nvidiactl"
#define NV_CTL_MAJOR    195
#define NV_CTL_MINOR    255
#define NV_GPU_PATH_FMT "/dev/nvidia%u"
#define NV_VERSION_PATH "/proc/driver/nvidia/version"
#define NV_MAX_GPUS     32

/* ioctl numbers, type NV_IOCTL_TYPE */
#define NV_IOCTL_TYPE            'F'
#define NV_ESC_RM_FREE           0x29
#define NV_ESC_RM_CONTROL        0x2a
#define NV_ESC_RM_ALLOC          0x2b
#define NV_ESC_RM_DUP_OBJECT     0x34
#define NV_ESC_RM_SHARE          0x35
#define NV_ESC_CARD_INFO         0xc8
#define NV_ESC_REGISTER_FD       0xc9
#define NV_ESC_CHECK_VERSION_STR 0xd2
#define NV_ESC_IOCTL_XFER_CMD    0xd3
#define NV_ESC_SYS_PARAMS        0xd6

#define NV_IOCTL_FREE        _IOWR(NV_IOCTL_TYPE, NV_ESC_RM_FREE, struct nv_free)
#define NV_IOCTL_CONTROL     _IOWR(NV_IOCTL_TYPE, NV_ESC_RM_CONTROL, struct nv_control)
#define NV_IOCTL_ALLOC21     _IOWR(NV_IOCTL_TYPE, NV_ESC_RM_ALLOC, struct nv_alloc21)
#define NV_IOCTL_ALLOC64     _IOWR(NV_IOCTL_TYPE, NV_ESC_RM_ALLOC, struct nv_alloc64)
#define NV_IOCTL_REGISTER_FD _IOWR(NV_IOCTL_TYPE, NV_ESC_REGISTER_FD, struct nv_register_fd)

#define NV_IOCTL_CARD_INFO _IOWR(NV_IOCTL_TYPE, NV_ESC_CARD_INFO, struct nv_card_info[NV_MAX_GPUS])
#define NV_IOCTL_CHECK_VERSION                                                                     \
	_IOWR(NV_IOCTL_TYPE, NV_ESC_CHECK_VERSION_STR, struct nv_check_version)

struct nv_free {
	uint32_t client, parent, object, status;
};

struct nv_control {
	uint32_t client, object, cmd, flags;
	uint64_t params; /* pointer */
	uint32_t params_size, status;
};

/* The older of the two allocation forms. With `object` 0, RM chooses a handle and fills it in.
 * Before 535 there was no params_size, and status was at its place (at 24; the size was 32 too). */
struct nv_alloc21 {
	uint32_t root, parent, object, hclass;
	uint64_t params; /* pointer */
	uint32_t params_size, status;
};

/* The form that libcuda uses since 535. Earlier it had no params_size and was 40 bytes long: status
 * at 32 in 515 and 520; flags at 32, status at 36 in 525 and 530. */
struct nv_alloc64 {
	uint32_t root, parent, object, hclass;
	uint64_t params; /* pointer */
	uint64_t rights; /* pointer */
	uint32_t params_size, flags, status, pad;
};

/* CARD_INFO returns an array of NV_MAX_GPUS of these. */
struct nv_card_info {
	uint8_t valid, pad0[3];
	uint32_t pci_domain;
	uint8_t pci_bus, pci_slot, pci_function, pad1;
	uint16_t vendor_id, device_id;
	uint32_t gpu_id;
	uint16_t interrupt_line, pad2;
	uint64_t reg_address, reg_size, fb_address, fb_size;
	uint32_t minor_number;
	uint8_t dev_name[10], pad3[2];
};

struct nv_register_fd {
	int32_t ctl_fd;
};

struct nv_check_version {
	uint32_t cmd, reply;
	char version[64];
};
#define NV_CHECK_VERSION_QUERY '2'

/* Handles that RM assigns: client numbers grow during a boot, object numbers within their
 * client. */
#define NV_CLIENT_HANDLE_BASE 0xc1d00000u
#define NV_CLIENT_HANDLE_MASK 0xfff00000u
#define NV_OBJECT_HANDLE_BASE 0x5c000000u
#define NV_OBJECT_HANDLE_MASK 0xff000000u

/* Classes */
#define NV_CLASS_MEMORY_LOCAL   0x0040 /* memory of the GPU, for libcuda */
#define NV_CLASS_ROOT_CLIENT    0x0041
#define NV_CLASS_DEVICE         0x0080
#define NV_CLASS_SUBDEVICE      0x2080
#define NV_CLASS_SUBCONTEXT     0x9067
#define NV_CLASS_TSG            0xa06c
#define NV_CLASS_CHANNEL_AMPERE 0xc56f
#define NV_CLASS_CHANNEL_HOPPER 0xc86f
#define NV_CLASS_COMPUTE_HOPPER 0xcbc0
#define NV_CLASS_COPY_HOPPER    0xc8b5

/* The low byte of the classes of channels (Kepler a06f … Blackwell ca6f), compute and copy engines
 * is the same in all generations. */
static inline int nv_class_is_channel(uint32_t hclass)
{
	return (hclass & 0xff) == 0x6f && hclass >= 0xa06f && hclass <= 0xffff;
}

static inline int nv_class_is_compute(uint32_t hclass)
{
	return (hclass & 0xff) == 0xc0 && hclass >= 0xa0c0 && hclass <= 0xffff;
}

static inline int nv_class_is_copy(uint32_t hclass)
{
	return (hclass & 0xff) == 0xb5 && hclass >= 0xa0b5 && hclass <= 0xffff;
}

/* Allocation parameters */
struct nv_device_params {
	uint32_t device_id, client_share, target_client, target_device, flags, pad0;
	uint64_t va_space_size, va_start, va_limit;
	uint32_t va_mode, pad1;
};

/* With this va_mode a device has no address space of its own; other modes make one when needed. */
#define NV_VA_MODE_MULTIPLE 2

struct nv_subdevice_params {
	uint32_t subdevice_id;
};

/* The same from 535 to 595. RM reads as many bytes as the class has, whatever params_size says. */
struct nv_tsg_params {
	uint32_t error_object, ecc_error_object, va_space, engine_type;
	uint8_t vgpu_plugin, pad[3];
};
#define NV_ENGINE_TYPE_GRAPHICS 0x01 /* GR0; GR1…GR7 follow: the engines that run kernels */
#define NV_ENGINE_TYPE_GR_LAST  0x08
#define NV_ENGINE_TYPE_COPY0    0x09
#define NV_ENGINE_TYPE_COPY9    0x12
#define NV_ENGINE_TYPE_COPY10   0x34
#define NV_ENGINE_TYPE_COPY19   0x3d

/* Controls on a client */
#define NV_CTRL_CLIENT_GET_HANDLE_INFO 0x00000d02
#define NV_HANDLE_INFO_PARENT          1
#define NV_HANDLE_INFO_CLASS           2
struct nv_handle_info_params {
	uint32_t object, index;
	uint64_t result;
};

/* Controls on a channel group (TSG) */
#define NV_CTRL_TSG_GPFIFO_SCHEDULE      0xa06c0101
#define NV_CTRL_TSG_SET_TIMESLICE        0xa06c0103
#define NV_CTRL_TSG_GET_TIMESLICE        0xa06c0104
#define NV_CTRL_TSG_PREEMPT              0xa06c0105
#define NV_CTRL_TSG_GET_INFO             0xa06c0106
#define NV_CTRL_TSG_SET_INTERLEAVE_LEVEL 0xa06c0107
#define NV_CTRL_TSG_GET_INTERLEAVE_LEVEL 0xa06c0108
#define NV_CTRL_TSG_MAKE_REALTIME        0xa06c0110

/* RM compares sizes exactly. This struct grew from two bytes to three with 575. */
struct nv_schedule_params {
	uint8_t enable, skip_submit, skip_enable;
};
#define NV_SCHEDULE_PARAMS_SIZE_BEFORE_575 2
#define NV_SCHEDULE_PARAMS_SIZE            3

struct nv_timeslice_params {
	uint64_t timeslice_us;
};

struct nv_preempt_params {
	uint8_t wait, manual_timeout, pad[2];
	uint32_t timeout_us;
};

struct nv_tsg_info_params {
	uint32_t tsg_id; /* unique within its runlist only */
};

struct nv_interleave_params {
	uint32_t level; /* 0 low, 1 medium, 2 high */
};

/* Memory of a GPU; the last member came with 535, before it the struct ended at 120. */
struct nv_memory_params {
	uint32_t owner, type, flags, width, height;
	int32_t pitch;
	uint32_t attr, attr2, format, compr_covg, zcull_covg, pad0;
	uint64_t range_lo, range_hi, size, alignment, offset, limit, address;
	uint32_t ctag_offset, va_space, internal_flags, tag;
	int32_t numa_node;
	uint32_t pad1;
};
#define NV_MEMORY_PARAMS_SIZE_BEFORE_535 120

/* Controls on a channel */
#define NV_CTRL_CHANNEL_GET_WORK_SUBMIT_TOKEN 0xc36f0108
struct nv_token_params {
	uint32_t token;
};
/* From NV_CLASS_CHANNEL_AMPERE on, the token that rings a channel's doorbell contains its
 * runlist. */
#define NV_TOKEN_CHANNEL(token) (0xfffu & (token))
#define NV_TOKEN_RUNLIST(token) (((token) >> 16) & 0x7fu)

/* Controls on a subdevice */
#define NV_CTRL_GPU_GET_NAME_STRING          0x20800110
#define NV_CTRL_GPU_GET_ID                   0x20800142
#define NV_CTRL_GPU_GET_GID_INFO             0x2080014a
#define NV_CTRL_GPU_GET_PID_INFO             0x2080018e
#define NV_CTRL_FIFO_DISABLE_CHANNELS        0x2080110b
#define NV_CTRL_FB_GET_INFO                  0x20801303
#define NV_CTRL_GR_SET_CTXSW_PREEMPTION_MODE 0x20801210

struct nv_gpu_id_params {
	uint32_t gpu_id;
};

/* index and flags 0: the UUID as text, "GPU-" and so on. */
struct nv_gid_params {
	uint32_t index, flags, length;
	char data[256];
};

struct nv_pid_info {
	uint32_t pid, index, result, pad;
	uint64_t mem_private, mem_shared_owned, mem_shared_duped;
	uint64_t protected_private, protected_shared_owned, protected_shared_duped;
	uint32_t compute_instance, gpu_instance;
};
#define NV_PID_INFO_MAX          200
#define NV_PID_INFO_VIDEO_MEMORY 0
struct nv_pid_info_params {
	uint32_t count, pad;
	struct nv_pid_info list[NV_PID_INFO_MAX];
};

/* About the GPU's memory, in KiB. The list's length depends on the driver's version. */
struct nv_fb_info {
	uint32_t index, data;
};
#define NV_FB_INFO_TOTAL   0x08
#define NV_FB_INFO_FREE    0x16
#define NV_FB_INFO_MAX     0x80
#define NV_FB_INFO_SIZE(n) (4 + 8 * (n))
static inline uint32_t nv_fb_info_max(unsigned driver)
{
	return driver >= 580 ? NV_FB_INFO_MAX : driver >= 560 ? 0x39 : driver >= 545 ? 0x37 : 0x36;
}
struct nv_fb_info_params {
	uint32_t count;
	struct nv_fb_info list[NV_FB_INFO_MAX];
};

#define NV_DISABLE_CHANNELS_MAX 64
struct nv_disable_channels_params {
	uint8_t disable, pad0[3];
	uint32_t count;
	uint8_t only_disable_scheduling, rewind_gp_put, pad1[6];
	uint64_t event;
	uint32_t client[NV_DISABLE_CHANNELS_MAX], channel[NV_DISABLE_CHANNELS_MAX];
};

/* RM status codes that matter here */
#define NV_OK                           0x00
#define NV_ERR_BUSY_RETRY               0x03
#define NV_ERR_GPU_IS_LOST              0x0f
#define NV_ERR_INSUFFICIENT_RESOURCES   0x1a
#define NV_ERR_INSUFFICIENT_PERMISSIONS 0x1b
#define NV_ERR_INVALID_ARGUMENT         0x1f
#define NV_ERR_INVALID_CHANNEL          0x21
#define NV_ERR_INVALID_CLASS            0x22
#define NV_ERR_INVALID_CLIENT           0x23
#define NV_ERR_INVALID_DEVICE           0x26
#define NV_ERR_INVALID_OBJECT           0x31
#define NV_ERR_INVALID_OBJECT_HANDLE    0x33
#define NV_ERR_INVALID_OBJECT_PARENT    0x36
#define NV_ERR_INVALID_PARAM_STRUCT     0x3a
#define NV_ERR_INVALID_STATE            0x40
#define NV_ERR_NO_MEMORY                0x51
#define NV_ERR_NOT_SUPPORTED            0x56
#define NV_ERR_OBJECT_NOT_FOUND         0x57
#define NV_ERR_OPERATING_SYSTEM         0x59
#define NV_ERR_TIMEOUT                  0x65
#define NV_ERR_RESOURCE_LOST            0x6e /* it is being freed */
#define NV_ERR_INSERT_DUPLICATE_NAME    0x19

/* The slices of libcuda's tasks without Rubato: libcuda sets that of the compute group, the others
 * have RM's default. */
#define NV_DEFAULT_COMPUTE_TIMESLICE_US 2048
#define NV_DEFAULT_TIMESLICE_US         1024
/* The level that RM gives a new group. */
#define NV_DEFAULT_INTERLEAVE 1

static_assert(sizeof(struct nv_free) == 16, "NVOS00");
static_assert(sizeof(struct nv_gid_params) == 268, "GET_GID_INFO");
static_assert(sizeof(struct nv_control) == 32, "NVOS54");
static_assert(offsetof(struct nv_control, status) == 28, "NVOS54");
static_assert(sizeof(struct nv_alloc21) == 32, "NVOS21");
static_assert(sizeof(struct nv_alloc64) == 48, "NVOS64");
static_assert(offsetof(struct nv_alloc64, status) == 40, "NVOS64");
static_assert(sizeof(struct nv_card_info) == 72, "card info");
static_assert(offsetof(struct nv_card_info, gpu_id) == 16, "card info");
static_assert(offsetof(struct nv_card_info, minor_number) == 56, "card info");
static_assert(sizeof(struct nv_check_version) == 72, "version check");
static_assert(sizeof(struct nv_device_params) == 56, "device parameters");
static_assert(offsetof(struct nv_device_params, va_mode) == 48, "device parameters");
static_assert(sizeof(struct nv_memory_params) == 128, "memory parameters");
static_assert(offsetof(struct nv_memory_params, size) == 64, "memory parameters");
static_assert(offsetof(struct nv_tsg_params, engine_type) == 12, "channel group parameters");
static_assert(sizeof(struct nv_tsg_params) == 20, "channel group parameters");
static_assert(sizeof(struct nv_handle_info_params) == 16, "handle info");
static_assert(sizeof(struct nv_schedule_params) == NV_SCHEDULE_PARAMS_SIZE, "schedule");
static_assert(sizeof(struct nv_preempt_params) == 8, "preempt");
static_assert(sizeof(struct nv_pid_info) == 72, "pid info");
static_assert(sizeof(struct nv_pid_info_params) == 14408, "pid info");
static_assert(sizeof(struct nv_fb_info_params) == NV_FB_INFO_SIZE(NV_FB_INFO_MAX), "memory info");
static_assert(sizeof(struct nv_disable_channels_params) == 536, "disable channels");
static_assert(NV_IOCTL_CONTROL == 0xc020462aUL, "control request");

#endif
