/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for RM handles in memory. Pure: it is fed words, and answers ranked candidates.
 *
 * A client handle is 0xc1d00000 + n, and so are the floats from -26 to -28; an object handle is
 * 0x5c000000 + n, and so is text with a backslash. What tells handles apart is company: libcuda
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
	uint32_t neighbours; /* those in company: likewise */
};

/* 0 or -ENOMEM. */
int rbt_nv_scan_create(struct rbt_nv_scan **ret);
void rbt_nv_scan_destroy(struct rbt_nv_scan *scan);

/*
 * Takes in n aligned words. Neighbourhood is judged within one call; in memory of libcuda's own a
 * client handle needs none to count as in company.
 */
void rbt_nv_scan_feed(struct rbt_nv_scan *scan, const uint32_t *words, size_t n, bool is_libcudas);

/*
 * The best candidates for client handles, best first, at most max; returns how many. `top` is the
 * newest handle RM gave out. One above it can only be from before the numbers started again at zero
 * (RM does so after 2^20 clients), and is believed only in strong company.
 */
size_t rbt_nv_scan_clients(
	const struct rbt_nv_scan *scan, uint32_t top, struct rbt_nv_candidate *ret, size_t max);

/*
 * Candidates for object handles from `first` on: those seen near a client handle, in order, then
 * the others, in order; at most max. Returns how many.
 */
size_t rbt_nv_scan_objects(
	const struct rbt_nv_scan *scan, uint32_t first, uint32_t *ret, size_t max);

#endif
