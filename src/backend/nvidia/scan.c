/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/nvidia/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/nvidia/rm_abi.h"

#define N_CLIENTS (1u << 20)
#define N_OBJECTS (1u << 24)

/* The largest distance of a neighbour, in words. */
#define WINDOW 16

/* Object numbers that count as company. One word in 256 of random bits looks like an object handle,
 * but only one in 65536 looks like a low one; and the devices, subdevices and groups beside a
 * client have low numbers. */
#define LOW_OBJECTS 0x10000u

/* The neighbours that a handle above the top must have. */
#define STRONG_COMPANY 4

struct client_count {
	uint16_t count, neighbours;
};

/* Indexed by handle number instead of hashed: pages without handles cost nothing. */
struct rbt_nv_scan {
	struct client_count *clients;
	uint64_t *near_objects, *far_objects; /* bitmaps */
	bool is_libcudas;                     /* the words come from libcuda's memory */
};

static bool is_client(uint32_t word)
{
	return (word & NV_CLIENT_HANDLE_MASK) == NV_CLIENT_HANDLE_BASE;
}

/* Number 0 is excluded: libcuda starts at 1, and three zero bytes before a backslash are common. */
static bool is_object(uint32_t word)
{
	return (word & NV_OBJECT_HANDLE_MASK) == NV_OBJECT_HANDLE_BASE &&
	       word != NV_OBJECT_HANDLE_BASE;
}

int rbt_nv_scan_create(struct rbt_nv_scan **ret)
{
	struct rbt_nv_scan *scan = calloc(1, sizeof(*scan));

	if (scan == NULL) {
		return -ENOMEM;
	}
	scan->clients = calloc(N_CLIENTS, sizeof(*scan->clients));
	scan->near_objects = calloc(N_OBJECTS / 64, sizeof(uint64_t));
	scan->far_objects = calloc(N_OBJECTS / 64, sizeof(uint64_t));
	if (scan->clients == NULL || scan->near_objects == NULL || scan->far_objects == NULL) {
		rbt_nv_scan_destroy(scan);
		return -ENOMEM;
	}
	*ret = scan;
	return 0;
}

void rbt_nv_scan_destroy(struct rbt_nv_scan *scan)
{
	if (scan == NULL) {
		return;
	}
	free(scan->clients);
	free(scan->near_objects);
	free(scan->far_objects);
	free(scan);
}

static void mark(uint64_t *bitmap, uint32_t word)
{
	uint32_t n = word & ~NV_OBJECT_HANDLE_MASK;

	bitmap[n / 64] |= 1ull << (n % 64);
}

static bool is_marked(const uint64_t *bitmap, uint32_t n)
{
	return (bitmap[n / 64] >> (n % 64)) & 1;
}

static void count_client(struct rbt_nv_scan *scan, const uint32_t *words, size_t n, size_t at)
{
	struct client_count *c = &scan->clients[words[at] & ~NV_CLIENT_HANDLE_MASK];
	size_t from = at < WINDOW ? 0 : at - WINDOW;
	size_t to = n - at <= WINDOW ? n : at + WINDOW + 1;
	bool company = scan->is_libcudas;

	for (size_t i = from; i < to; i++) {
		if (is_object(words[i])) {
			company |= (words[i] & ~NV_OBJECT_HANDLE_MASK) < LOW_OBJECTS;
			mark(scan->near_objects, words[i]);
		}
	}
	c->count += c->count < UINT16_MAX;
	c->neighbours += company && c->neighbours < UINT16_MAX;
}

static void scan_block(
	struct rbt_nv_scan *scan, const uint32_t *words, size_t n, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		if (is_client(words[i])) {
			count_client(scan, words, n, i);
		} else if (is_object(words[i])) {
			mark(scan->far_objects, words[i]);
		}
	}
}

/* Almost no memory contains handles. So each block is first checked for any, without a branch per
 * word, which compilers turn into vector code. */
#define BLOCK 32

static bool block_has_any(const uint32_t *words)
{
	uint32_t any = 0;

	for (int i = 0; i < BLOCK; i++) {
		any |= (words[i] & NV_CLIENT_HANDLE_MASK) == NV_CLIENT_HANDLE_BASE;
		any |= (words[i] & NV_OBJECT_HANDLE_MASK) == NV_OBJECT_HANDLE_BASE;
	}
	return any != 0;
}

void rbt_nv_scan_feed(struct rbt_nv_scan *scan, const uint32_t *words, size_t n, bool is_libcudas)
{
	size_t i = 0;

	scan->is_libcudas = is_libcudas;
	for (; n - i >= BLOCK; i += BLOCK) {
		if (block_has_any(words + i)) {
			scan_block(scan, words, n, i, i + BLOCK);
		}
	}
	scan_block(scan, words, n, i, n);
}

/* Among equals, newer handles first: memory keeps stale ones. */
static bool ranks_before(const struct rbt_nv_candidate *a, const struct rbt_nv_candidate *b)
{
	if (a->neighbours != b->neighbours) {
		return a->neighbours > b->neighbours;
	}
	if (a->count != b->count) {
		return a->count > b->count;
	}
	return a->handle > b->handle;
}

/* Inserts c among the n best; with max candidates, the worst is dropped. Returns the new n. */
static size_t insert(
	struct rbt_nv_candidate *best, size_t n, size_t max, const struct rbt_nv_candidate *c)
{
	size_t at = n;

	while (at > 0 && ranks_before(c, &best[at - 1])) {
		at--;
	}
	if (at == max) {
		return n;
	}
	size_t kept = n < max ? n : max - 1;
	memmove(&best[at + 1], &best[at], (kept - at) * sizeof(*best));
	best[at] = *c;
	return kept + 1;
}

size_t rbt_nv_scan_clients(
	const struct rbt_nv_scan *scan, uint32_t top, struct rbt_nv_candidate *ret, size_t max)
{
	size_t n = 0;

	for (uint32_t i = 0; i < N_CLIENTS; i++) {
		struct rbt_nv_candidate c = {
			.handle = NV_CLIENT_HANDLE_BASE + i,
			.count = scan->clients[i].count,
			.neighbours = scan->clients[i].neighbours,
		};
		if (c.count == 0 || (c.handle > top && c.neighbours < STRONG_COMPANY)) {
			continue;
		}
		n = insert(ret, n, max, &c);
	}
	return n;
}

size_t rbt_nv_scan_objects(
	const struct rbt_nv_scan *scan, uint32_t first, uint32_t *ret, size_t max)
{
	size_t n = 0;

	for (int pass = 0; pass < 2; pass++) {
		const uint64_t *bitmap = pass == 0 ? scan->near_objects : scan->far_objects;
		for (uint32_t i = first & ~NV_OBJECT_HANDLE_MASK; i < N_OBJECTS && n < max; i++) {
			if (bitmap[i / 64] == 0) {
				i |= 63;
				continue;
			}
			if (is_marked(bitmap, i) &&
				!(pass == 1 && is_marked(scan->near_objects, i))) {
				ret[n++] = NV_OBJECT_HANDLE_BASE + i;
			}
		}
	}
	return n;
}
