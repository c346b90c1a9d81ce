/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies a client's objects by queries to RM. */
#ifndef RBT_BACKEND_NVIDIA_CLASSIFY_H
#define RBT_BACKEND_NVIDIA_CLASSIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/nvidia/rm_abi.h"
#include "backend/nvidia/scan.h"
#include "backend/record.h"

/* Whether `client` was made on this open file description: 1, 0 or -errno. Each 0 writes a line to
 * the kernel log. */
int rbt_nv_client_is_here(int fd, uint32_t client);

/*
 * Finds the client's tasks among the handles from the scan and the lowest ones, and fills in all of
 * *ret but fd and target_fd. 0, -ENXIO if it has none, or -errno. The record is marked
 * RBT_RECORD_PARTIAL if it could not hold them all. `cards` (NV_MAX_GPUS of them) translate GPU ids
 * to minor numbers.
 */
int rbt_nv_classify(int fd, uint32_t client, const struct rbt_nv_scan *scan,
	const struct nv_card_info *cards, struct rbt_record *ret);

#endif
