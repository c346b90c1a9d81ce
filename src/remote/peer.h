/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's end of a link (link.h): a SOCK_SEQPACKET connection to the socket of `rubato serve`.
 * A guest process in a container makes it itself; for processes of a virtual machine the vhost-user
 * device makes one per open file of the guest's driver. `serve` reads HELLO and gives the
 * connection to a worker. The worker answers HELLO and every message after it with one ANSWER, in
 * order. The end of the connection, on either side, is the end of the worker.
 *
 * All fields are in native byte order: both ends are on one machine. Receivers check sizes against
 * types, and addresses against limits, before they use them.
 */
#ifndef RBT_REMOTE_PEER_H
#define RBT_REMOTE_PEER_H

#include <assert.h>
#include <stdint.h>

#include "remote/link.h"

#define RBT_PEER_MAGIC    0x67746272u /* "rbtg" */
#define RBT_PEER_VERSION  1
#define RBT_PEER_MAX_FDS  4
#define RBT_PEER_SEGMENTS 512 /* in one message; 1 GiB of 2 MiB blocks */

enum rbt_peer_type {
	RBT_PEER_HELLO = 1, /* struct rbt_peer_hello */
	RBT_PEER_MAP,       /* struct rbt_peer_map, segments; 1 to RBT_PEER_MAX_FDS files */
	RBT_PEER_UNMAP,     /* struct rbt_peer_range */
	RBT_PEER_CHANNEL,   /* struct rbt_peer_channel; two eventfds: the worker's, the guest's */
	RBT_PEER_CHANNEL_CLOSE, /* struct rbt_peer_channel; only its number counts */
	RBT_PEER_ANSWER,        /* struct rbt_peer_answer */
};

struct rbt_peer_header {
	uint32_t magic; /* RBT_PEER_MAGIC */
	uint32_t type;
};

struct rbt_peer_hello {
	struct rbt_peer_header header;
	uint32_t version; /* RBT_PEER_VERSION; the worker answers -EPROTO to another */
	uint32_t reserved;
	struct rbt_link_identity id;
};

struct rbt_peer_range {
	struct rbt_peer_header header;
	uint64_t address, size;
};

/* One piece of a mapping: `size` bytes at `offset` of file number `file` of this message. */
struct rbt_peer_segment {
	uint64_t offset, size;
	uint32_t file, reserved;
};

/*
 * Maps segments one after the other, from `address` on, shared, readable and writable. The sizes of
 * the segments are multiples of the page size and sum up to `size`. A larger mapping comes as
 * several messages; each is answered, and an UNMAP of the whole range covers all of them.
 */
struct rbt_peer_map {
	struct rbt_peer_header header;
	uint64_t address, size;
	uint32_t n_segments, n_files; /* struct rbt_peer_segment follow */
};

/* The worker waits on the first eventfd and writes the second. Both are non-blocking. */
struct rbt_peer_channel {
	struct rbt_peer_header header;
	uint32_t number, reserved;
	uint64_t address, size; /* of the ring */
};

struct rbt_peer_answer {
	struct rbt_peer_header header;
	uint32_t answers; /* the type that is answered */
	int32_t result;   /* 0, or a negative errno as in link.h */
};

static_assert(sizeof(struct rbt_peer_hello) == 80, "layout");
static_assert(sizeof(struct rbt_peer_range) == 24, "layout");
static_assert(sizeof(struct rbt_peer_segment) == 24, "layout");
static_assert(sizeof(struct rbt_peer_map) == 32, "layout");
static_assert(sizeof(struct rbt_peer_channel) == 32, "layout");
static_assert(sizeof(struct rbt_peer_answer) == 16, "layout");

#endif
