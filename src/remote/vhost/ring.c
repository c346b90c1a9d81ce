/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/vhost/ring.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

/* The layout of virtio's split ring. */
#define DESC_SIZE         16u
#define AVAIL_IDX         2u
#define AVAIL_RING(i)     (4u + 2u * (i))
#define USED_IDX          2u
#define USED_RING(i)      (4u + 8u * (i))
#define AVAIL_BYTES(size) (4u + 2u * (size) + 2u) /* with used_event */
#define USED_BYTES(size)  (4u + 8u * (size) + 2u) /* with avail_event */
#define USED_EVENT(size)  AVAIL_RING(size)
#define AVAIL_EVENT(size) USED_RING(size)

/* Copies what the guest may be changing. The compiler must not read the source again later. */
static void copy_once(void *to, const void *from, size_t size)
{
	memcpy(to, from, size);
	__asm__ volatile("" ::: "memory");
}

static uint16_t load16(const unsigned char *at)
{
	return le16toh(__atomic_load_n((const uint16_t *)(const void *)at, __ATOMIC_ACQUIRE));
}

static void store16(unsigned char *at, uint16_t value)
{
	__atomic_store_n((uint16_t *)(void *)at, htole16(value), __ATOMIC_RELEASE);
}

static bool is_aligned(const void *p, uintptr_t to)
{
	return (uintptr_t)p % to == 0;
}

int vhost_ring_map(struct vhost_ring *r, const struct vhost_memory *m)
{
	vhost_ring_unmap(r);
	if (r->size == 0 || r->size > VHOST_RING_MAX || (r->size & (r->size - 1)) != 0) {
		return -EINVAL;
	}
	const unsigned char *desc = vhost_memory_at_user(m, r->desc, (uint64_t)r->size * DESC_SIZE);
	const unsigned char *avail = vhost_memory_at_user(m, r->avail, AVAIL_BYTES(r->size));
	unsigned char *used = vhost_memory_at_user(m, r->used, USED_BYTES(r->size));
	if (desc == NULL || avail == NULL || used == NULL || !is_aligned(desc, 16) ||
		!is_aligned(avail, 2) || !is_aligned(used, 4)) {
		return -EINVAL;
	}
	r->desc_at = desc;
	r->avail_at = avail;
	r->used_at = used;
	r->n_used = load16(used + USED_IDX);
	r->has_told = false;
	return 0;
}

void vhost_ring_unmap(struct vhost_ring *r)
{
	r->desc_at = r->avail_at = NULL;
	r->used_at = NULL;
}

/* Where the descriptors of a chain are: in the ring's table, or in one that a descriptor names. */
struct table {
	const unsigned char *at;
	uint32_t n;
	bool is_indirect;
};

static struct vring_desc read_desc(const struct table *t, uint32_t i)
{
	struct vring_desc d;

	copy_once(&d, t->at + (size_t)i * DESC_SIZE, sizeof(d));
	d.addr = le64toh(d.addr);
	d.len = le32toh(d.len);
	d.flags = le16toh(d.flags);
	d.next = le16toh(d.next);
	return d;
}

/* The table that an indirect descriptor names. It must be the last of its chain, and tables do not
 * nest. */
static int enter_table(const struct vhost_ring *r, const struct vhost_memory *m,
	const struct vring_desc *d, struct table *t)
{
	const unsigned char *at = vhost_memory_at(m, d->addr, d->len);

	if (t->is_indirect || (d->flags & VRING_DESC_F_NEXT) != 0 || at == NULL || d->len == 0 ||
		d->len % DESC_SIZE != 0 || d->len / DESC_SIZE > r->size) {
		return -EPROTO;
	}
	*t = (struct table){at, d->len / DESC_SIZE, true};
	return 0;
}

static int add_piece(
	const struct vhost_memory *m, const struct vring_desc *d, struct vhost_chain *c)
{
	void *at = vhost_memory_at(m, d->addr, d->len);
	const bool is_in = (d->flags & VRING_DESC_F_WRITE) != 0;
	const size_t n = c->n_out + c->n_in;

	/* All pieces to read come before all pieces to write. */
	if (at == NULL || d->len == 0 || n == VHOST_RING_MAX || (!is_in && c->n_in > 0)) {
		return -EPROTO;
	}
	c->pieces[n] = (struct iovec){at, d->len};
	c->guest[n] = d->addr;
	if (is_in) {
		c->n_in++;
		c->in_bytes += d->len;
	} else {
		c->n_out++;
		c->out_bytes += d->len;
	}
	return 0;
}

static int walk(const struct vhost_ring *r, const struct vhost_memory *m, struct vhost_chain *c)
{
	struct table t = {r->desc_at, r->size, false};
	uint32_t i = c->head;

	/* A chain that is longer than its table has a loop. */
	for (uint32_t steps = 0; steps <= r->size; steps++) {
		if (i >= t.n) {
			return -EPROTO;
		}
		struct vring_desc d = read_desc(&t, i);
		if ((d.flags & VRING_DESC_F_INDIRECT) != 0) {
			int error = enter_table(r, m, &d, &t);
			if (error < 0) {
				return error;
			}
			i = 0;
			continue;
		}
		int error = add_piece(m, &d, c);
		if (error < 0) {
			return error;
		}
		if ((d.flags & VRING_DESC_F_NEXT) == 0) {
			return 0;
		}
		i = d.next;
	}
	return -EPROTO;
}

int vhost_ring_pop(struct vhost_ring *r, const struct vhost_memory *m, struct vhost_chain *ret)
{
	/* Acquire: the entries that the guest counted are read after its counter. */
	uint16_t waiting = (uint16_t)(load16(r->avail_at + AVAIL_IDX) - r->next);

	if (waiting == 0) {
		return 0;
	}
	if (waiting > r->size) {
		return -EPROTO;
	}
	ret->head = load16(r->avail_at + AVAIL_RING(r->next % r->size));
	ret->n_out = ret->n_in = 0;
	ret->out_bytes = ret->in_bytes = 0;
	if (ret->head >= r->size) {
		return -EPROTO;
	}
	int error = walk(r, m, ret);
	if (error < 0) {
		return error;
	}
	r->next++;
	return 1;
}

void vhost_ring_push(struct vhost_ring *r, uint16_t head, uint32_t written)
{
	struct vring_used_elem e = {htole32(head), htole32(written)};

	memcpy(r->used_at + USED_RING(r->n_used % r->size), &e, sizeof(e));
	r->n_used++;
	/* Release: a guest that sees the counter sees the entry, and the bytes written. */
	store16(r->used_at + USED_IDX, r->n_used);
}

bool vhost_ring_must_tell(struct vhost_ring *r)
{
	const uint16_t now = r->n_used, before = r->told;

	if (r->has_told && now == before) {
		return false;
	}
	/* The guest publishes its wish, then looks at the counter; we do the reverse. Without this
	 * fence both could miss the other's store. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	bool must = (load16(r->avail_at) & VRING_AVAIL_F_NO_INTERRUPT) == 0;
	if (r->has_event_idx) {
		uint16_t event = load16(r->avail_at + USED_EVENT(r->size));

		must = !r->has_told || (uint16_t)(now - event - 1) < (uint16_t)(now - before);
	}
	r->told = now;
	r->has_told = true;
	return must;
}

bool vhost_ring_sleep(struct vhost_ring *r)
{
	if (r->has_event_idx) {
		store16(r->used_at + AVAIL_EVENT(r->size), r->next);
	}
	/* The guest counts its chain, then looks whether to kick; we do the reverse. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return load16(r->avail_at + AVAIL_IDX) == r->next;
}

/* Copies between `buf` and the pieces from `first` on. */
static size_t copy_pieces(const struct iovec *pieces, size_t n, uint64_t offset, void *to,
	const void *from, size_t size)
{
	size_t done = 0;

	for (size_t i = 0; i < n && done < size; i++) {
		if (offset >= pieces[i].iov_len) {
			offset -= pieces[i].iov_len;
			continue;
		}
		size_t part = pieces[i].iov_len - (size_t)offset;
		char *at = (char *)pieces[i].iov_base + offset;
		part = part < size - done ? part : size - done;
		if (to != NULL) {
			copy_once((char *)to + done, at, part);
		} else {
			memcpy(at, (const char *)from + done, part);
		}
		done += part;
		offset = 0;
	}
	return done;
}

size_t vhost_chain_read(const struct vhost_chain *c, uint64_t offset, void *buf, size_t size)
{
	return copy_pieces(c->pieces, c->n_out, offset, buf, NULL, size);
}

size_t vhost_chain_write(const struct vhost_chain *c, uint64_t offset, const void *buf, size_t size)
{
	return copy_pieces(c->pieces + c->n_out, c->n_in, offset, NULL, buf, size);
}
