/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches memory for RM handles. Pure: it is fed words, and returns ranked candidates.
 *
 * A client handle is 0xc1d00000 + n, but so are the floats from -26 to -28. An object handle is
 * 0x5c000000 + n, but so is text with a backslash. Handles are recognised by their company: libcuda
 * keeps a client's handle within a few words of its objects' handles, and object numbers are small.
 * So candidates with such neighbours come first, however often others occur.
 */
#ifndef RBT_BACKEND_NVIDIA_SCAN_H
#define RBT_BACKEND_NVIDIA_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rbt_nv_scan;

struct rbt_nv_candidate {
	uint32_t handle;
	uint32_t count;      /* occurrences; saturates at 65535 */
	uint32_t neighbours; /* occurrences that have neighbours; saturates, too */
};

/* 0 or -ENOMEM. */
int rbt_nv_scan_create(struct rbt_nv_scan **ret);
void rbt_nv_scan_destroy(struct rbt_nv_scan *scan);

/*
 * Adds n aligned words. Neighbours are counted within one call. In libcuda's own memory a client
 * handle counts as if it had neighbours.
 */
void rbt_nv_scan_feed(struct rbt_nv_scan *scan, const uint32_t *words, size_t n, bool is_libcudas);

/*
 * The best candidates for client handles, best first, at most max; returns their number. `top` is
 * the newest handle that RM has assigned. A handle above it can only be from before the numbers
 * wrapped to zero (RM does so after 2^20 clients), and needs strong company.
 */
size_t rbt_nv_scan_clients(
	const struct rbt_nv_scan *scan, uint32_t top, struct rbt_nv_candidate *ret, size_t max);

/*
 * Candidates for object handles from `first` on: those seen near a client handle, in order, then
 * the others, in order; at most max. Returns their number.
 */
size_t rbt_nv_scan_objects(
	const struct rbt_nv_scan *scan, uint32_t first, uint32_t *ret, size_t max);

#endif
