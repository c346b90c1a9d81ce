/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One virtqueue in split layout, from the device's side. The guest can write every byte of it at
 * any time: each value is copied once, checked, and only the copy is used. Pure: no calls, no
 * locks; a ring belongs to one thread at a time.
 */
#ifndef RBT_REMOTE_VHOST_RING_H
#define RBT_REMOTE_VHOST_RING_H

#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "remote/vhost/memory.h"

/* Larger rings are refused; a chain has at most as many pieces as its ring has entries. */
#define VHOST_RING_MAX 1024

struct vhost_ring {
	uint32_t size;                           /* entries: a power of two, 0 until it is set */
	bool has_event_idx;                      /* VIRTIO_RING_F_EVENT_IDX was negotiated */
	uint64_t desc, avail, used;              /* addresses in QEMU */
	const unsigned char *desc_at, *avail_at; /* NULL until vhost_ring_map() */
	unsigned char *used_at;
	uint16_t next;   /* counts chains taken: the next entry of `avail` */
	uint16_t n_used; /* counts chains given back: the next entry of `used` */
	uint16_t told;   /* n_used when the guest was last told */
	bool has_told;
};

/* One request: pieces of guest memory, first those to read, then those to write. */
struct vhost_chain {
	uint16_t head;
	size_t n_out, n_in;
	uint64_t out_bytes, in_bytes;
	struct iovec pieces[VHOST_RING_MAX]; /* n_out, then n_in */
	uint64_t guest[VHOST_RING_MAX];      /* the same, as addresses of the guest */
};

/* Finds the ring's parts in memory, and where the device left off (`next` is set by the caller). 0,
 * or -EINVAL if the size is wrong or a part is not in guest memory; the ring is unusable then. */
int vhost_ring_map(struct vhost_ring *r, const struct vhost_memory *m);
void vhost_ring_unmap(struct vhost_ring *r);

/* Takes the next chain. 1: *ret is filled; 0: there is none; -EPROTO: the ring is malformed. The
 * addresses in *ret are in guest memory; their contents change under the caller. */
int vhost_ring_pop(struct vhost_ring *r, const struct vhost_memory *m, struct vhost_chain *ret);

/* Gives a chain back; `written` bytes of its pieces to write were written. */
void vhost_ring_push(struct vhost_ring *r, uint16_t head, uint32_t written);

/* Whether the guest wants an interrupt for the chains that were given back since the last time this
 * returned true. */
bool vhost_ring_must_tell(struct vhost_ring *r);

/* Asks for a kick with the next chain. Returns false if there is one already: the caller must pop
 * again before it sleeps. */
bool vhost_ring_sleep(struct vhost_ring *r);

/* Copies bytes out of, or into, the chain's pieces to read, or to write, from byte `offset` on.
 * Returns how many bytes there were. */
size_t vhost_chain_read(const struct vhost_chain *c, uint64_t offset, void *buf, size_t size);
size_t vhost_chain_write(
	const struct vhost_chain *c, uint64_t offset, const void *buf, size_t size);

#endif
