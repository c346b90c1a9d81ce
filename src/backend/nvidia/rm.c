/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/nvidia/rm.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

#include "backend/nvidia/driver.h"

#define MAX_ALLOC_PARAMS 256

int rbt_nv_status_to_errno(uint32_t status)
{
	switch (status) {
	case NV_OK:
		return 0;
	case NV_ERR_BUSY_RETRY:
		return -EAGAIN;
	case NV_ERR_INSERT_DUPLICATE_NAME:
		return -EEXIST;
	case NV_ERR_INSUFFICIENT_PERMISSIONS:
		return -EPERM;
	case NV_ERR_INVALID_ARGUMENT:
	case NV_ERR_INVALID_PARAM_STRUCT:
		return -EINVAL;
	case NV_ERR_INVALID_CHANNEL:
	case NV_ERR_INVALID_CLIENT:
	case NV_ERR_INVALID_OBJECT:
	case NV_ERR_INVALID_OBJECT_HANDLE:
	case NV_ERR_INVALID_OBJECT_PARENT:
	case NV_ERR_OBJECT_NOT_FOUND:
	case NV_ERR_RESOURCE_LOST:
		return -ENOENT;
	case NV_ERR_INVALID_CLASS:
	case NV_ERR_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	case NV_ERR_INVALID_DEVICE:
		return -ENODEV;
	case NV_ERR_INVALID_STATE:
		return -EBUSY;
	case NV_ERR_INSUFFICIENT_RESOURCES:
	case NV_ERR_NO_MEMORY:
		return -ENOMEM;
	case NV_ERR_TIMEOUT:
		return -ETIMEDOUT;
	default:
		return -EIO;
	}
}

static int rm_ioctl(int fd, unsigned long request, void *arg)
{
	int r;

	do {
		r = ioctl(fd, request, arg);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

int rbt_nv_open_control(void)
{
	int fd = open(NV_CTL_PATH, O_RDWR | O_CLOEXEC);

	if (fd >= 0) {
		return fd;
	}
	/* The node may exist without its driver. */
	return errno == ENOENT || errno == ENXIO ? -ENODEV : -errno;
}

int rbt_nv_control_status(int fd, uint32_t client, uint32_t object, uint32_t cmd, void *params,
	uint32_t size, uint32_t *ret_status)
{
	struct nv_control arg = {
		.client = client,
		.object = object,
		.cmd = cmd,
		.params = (uintptr_t)params,
		.params_size = size,
	};
	int r = rm_ioctl(fd, NV_IOCTL_CONTROL, &arg);

	if (r < 0) {
		return r;
	}
	*ret_status = arg.status;
	return 0;
}

int rbt_nv_control(
	int fd, uint32_t client, uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
	uint32_t status;
	int r = rbt_nv_control_status(fd, client, object, cmd, params, size, &status);

	return r < 0 ? r : rbt_nv_status_to_errno(status);
}

int rbt_nv_handle_info(int fd, uint32_t client, uint32_t object, uint32_t index,
	uint32_t *ret_status, uint32_t *ret)
{
	struct nv_handle_info_params p = {.object = object, .index = index};
	int r = rbt_nv_control_status(
		fd, client, client, NV_CTRL_CLIENT_GET_HANDLE_INFO, &p, sizeof(p), ret_status);

	if (r == 0 && *ret_status == NV_OK) {
		*ret = (uint32_t)p.result;
	}
	return r;
}

int rbt_nv_alloc(int fd, uint32_t client, uint32_t parent, uint32_t hclass, const void *params,
	uint32_t size, uint32_t *ret_status, uint32_t *ret_object)
{
	uint64_t padded[MAX_ALLOC_PARAMS / sizeof(uint64_t)] = {0};
	struct nv_alloc21 arg = {.root = client, .parent = parent, .hclass = hclass};

	assert(size <= sizeof(padded));
	if (size > 0) {
		memcpy(padded, params, size);
		arg.params = (uintptr_t)padded;
	}
	int r = rm_ioctl(fd, NV_IOCTL_ALLOC21, &arg);
	if (r < 0) {
		return r;
	}
	/* Before 535 the status was at the offset of params_size. We sent zero there, which means
	 * the class's own size, so either field works. */
	*ret_status = arg.status != NV_OK ? arg.status : arg.params_size;
	if (*ret_status == NV_OK) {
		*ret_object = arg.object;
	}
	return 0;
}

int rbt_nv_alloc_client(int fd, uint32_t *ret_client)
{
	uint32_t status;
	int r = rbt_nv_alloc(fd, 0, 0, NV_CLASS_ROOT_CLIENT, NULL, 0, &status, ret_client);

	return r < 0 ? r : rbt_nv_status_to_errno(status);
}

int rbt_nv_free(int fd, uint32_t client, uint32_t parent, uint32_t object)
{
	struct nv_free arg = {.client = client, .parent = parent, .object = object};
	int r = rm_ioctl(fd, NV_IOCTL_FREE, &arg);

	return r < 0 ? r : rbt_nv_status_to_errno(arg.status);
}

int rbt_nv_card_info(int fd, struct nv_card_info *cards)
{
	memset(cards, 0, sizeof(*cards) * NV_MAX_GPUS);
	return rm_ioctl(fd, NV_IOCTL_CARD_INFO, cards);
}

/* One fact about a GPU's memory. */
static int ask_memory(
	int fd, uint32_t client, uint32_t subdevice, uint32_t index, uint64_t *ret_bytes)
{
	struct nv_fb_info_params p = {.count = 1, .list = {{.index = index}}};
	struct rbt_nv_driver driver;
	int r = rbt_nv_driver_read(&driver);

	if (r == 0) {
		r = rbt_nv_control(fd, client, subdevice, NV_CTRL_FB_GET_INFO, &p,
			NV_FB_INFO_SIZE(nv_fb_info_max(driver.major)));
	}
	if (r == 0) {
		*ret_bytes = (uint64_t)p.list[0].data << 10;
	}
	return r;
}

int rbt_nv_memory_size(int fd, uint32_t client, uint32_t subdevice, uint64_t *ret_bytes)
{
	uint64_t bytes = 0;
	int r = ask_memory(fd, client, subdevice, NV_FB_INFO_TOTAL, &bytes);

	r = r == 0 && bytes == 0 ? -ENODATA : r;
	if (r == 0) {
		*ret_bytes = bytes;
	}
	return r;
}

int rbt_nv_memory_free(int fd, uint32_t client, uint32_t subdevice, uint64_t *ret_bytes)
{
	return ask_memory(fd, client, subdevice, NV_FB_INFO_FREE, ret_bytes);
}
