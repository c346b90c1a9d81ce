/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls into NVIDIA's resource manager (RM), on any open file description of /dev/nvidiactl. RM
 * checks the description, not the calling process: a client obeys every process that holds the file
 * on which it was made.
 */
#ifndef RBT_BACKEND_NVIDIA_RM_H
#define RBT_BACKEND_NVIDIA_RM_H

#include <stdint.h>

#include "backend/nvidia/rm_abi.h"

/* The only place where RM's status becomes an errno. 0 or -errno; an unknown status is -EIO. */
int rbt_nv_status_to_errno(uint32_t status);

/* Opens /dev/nvidiactl, which does not access any GPU. Returns an fd, -ENODEV if there is no
 * driver, or -errno. */
int rbt_nv_open_control(void);

/* One control; `size` must be exactly the size that RM expects. 0 or -errno. */
int rbt_nv_control(
	int fd, uint32_t client, uint32_t object, uint32_t cmd, void *params, uint32_t size);

/* The same, for callers that distinguish statuses. 0 if RM answered, -errno if it was not
 * reached. */
int rbt_nv_control_status(int fd, uint32_t client, uint32_t object, uint32_t cmd, void *params,
	uint32_t size, uint32_t *ret_status);

/* Information about an `object` of the client (NV_HANDLE_INFO_*). 0 if RM answered; *ret is filled
 * in only if *ret_status is NV_OK. */
int rbt_nv_handle_info(int fd, uint32_t client, uint32_t object, uint32_t index,
	uint32_t *ret_status, uint32_t *ret);

/* Allocates a root client on fd. 0 or -errno. */
int rbt_nv_alloc_client(int fd, uint32_t *ret_client);

/* Allocates an object below `parent`, under a handle that RM chooses. The parameters, 256 bytes at
 * most, are padded with zeroes for drivers that expect more. 0 if RM answered; *ret_object is
 * filled in only if *ret_status is NV_OK. */
int rbt_nv_alloc(int fd, uint32_t client, uint32_t parent, uint32_t hclass, const void *params,
	uint32_t size, uint32_t *ret_status, uint32_t *ret_object);

/* Frees an object and all below it; a client frees itself (parent = object = client). 0 or
 * -errno. */
int rbt_nv_free(int fd, uint32_t client, uint32_t parent, uint32_t object);

/* The driver's cards, sleeping ones too. `cards` has NV_MAX_GPUS entries. 0 or -errno. */
int rbt_nv_card_info(int fd, struct nv_card_info *cards);

/* The size of a GPU's memory, through any client's subdevice. 0 or -errno. */
int rbt_nv_memory_size(int fd, uint32_t client, uint32_t subdevice, uint64_t *ret_bytes);
/* Its free memory, in the same way. */
int rbt_nv_memory_free(int fd, uint32_t client, uint32_t subdevice, uint64_t *ret_bytes);

#endif
