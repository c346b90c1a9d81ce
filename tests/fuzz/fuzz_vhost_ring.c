/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a guest writes into its memory, also while its device reads it: the device touches
 * nothing outside of guest memory, and comes to an end. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "remote/vhost/ring.h"
#include "require.h"

#define LOW_AT    0x1000u
#define HIGH_AT   0x100000000u
#define HIGH_SIZE 256u
#define MAX_LOW   8192u
#define MAX_STEPS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first bytes of the input. */
struct head {
	uint8_t log_size, flags;
	uint16_t desc, avail, used, next;
};

static bool is_inside(const struct vhost_memory *m, const struct iovec *piece, uint64_t guest)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct vhost_region *r = &m->regions[i];
		const unsigned char *at = piece->iov_base;

		if (at >= r->base && piece->iov_len <= r->size &&
			(size_t)(at - r->base) <= r->size - piece->iov_len) {
			return guest - r->guest == (uint64_t)(at - r->base);
		}
	}
	return false;
}

static void check_chain(
	const struct vhost_memory *m, const struct vhost_ring *r, const struct vhost_chain *c)
{
	unsigned char buf[64];
	uint64_t out = 0, in = 0;

	REQUIRE(c->n_out + c->n_in > 0 && c->n_out + c->n_in <= VHOST_RING_MAX);
	REQUIRE(c->head < r->size);
	for (size_t i = 0; i < c->n_out + c->n_in; i++) {
		REQUIRE(c->pieces[i].iov_len > 0 && is_inside(m, &c->pieces[i], c->guest[i]));
		*(i < c->n_out ? &out : &in) += c->pieces[i].iov_len;
	}
	REQUIRE(out == c->out_bytes && in == c->in_bytes);
	size_t n = vhost_chain_read(c, out / 2, buf, sizeof(buf));
	REQUIRE(n == (out - out / 2 < sizeof(buf) ? out - out / 2 : sizeof(buf)));
	memset(buf, 0xa5, sizeof(buf));
	n = vhost_chain_write(c, in / 2, buf, sizeof(buf));
	REQUIRE(n == (in - in / 2 < sizeof(buf) ? in - in / 2 : sizeof(buf)));
}

static void run(struct vhost_ring *r, const struct vhost_memory *m, const uint8_t *more, size_t n)
{
	static struct vhost_chain c;

	for (unsigned step = 0; step < MAX_STEPS; step++) {
		const uint16_t before = r->next;
		int got = vhost_ring_pop(r, m, &c);

		REQUIRE(r->next == (uint16_t)(before + (got == 1)));
		if (got < 0) {
			return;
		}
		if (got > 0) {
			check_chain(m, r, &c);
			vhost_ring_push(r, c.head, (uint32_t)c.in_bytes);
			vhost_ring_must_tell(r);
		} else if (vhost_ring_sleep(r) && n < 3) {
			return;
		}
		/* The guest goes on writing. */
		if (n >= 3) {
			const struct vhost_region *low = &m->regions[0];

			low->base[(more[0] << 8 | more[1]) % low->size] ^= more[2];
			more += 3;
			n -= 3;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct head h;
	struct vhost_memory m = {0};

	if (size < sizeof(h) + 1) {
		return 0;
	}
	memcpy(&h, data, sizeof(h));
	data += sizeof(h);
	size -= sizeof(h);
	/* A quarter of the input is for later. */
	size_t low_size = size - size / 4 > MAX_LOW ? MAX_LOW : size - size / 4;
	unsigned char *low = aligned_alloc(16, (low_size + 15) / 16 * 16);
	unsigned char *high = calloc(1, HIGH_SIZE);
	memcpy(low, data, low_size);
	REQUIRE(vhost_memory_add(&m, &(struct vhost_region){LOW_AT, LOW_AT, low_size, 0, low}) ==
		0);
	REQUIRE(vhost_memory_add(
			&m, &(struct vhost_region){HIGH_AT, HIGH_AT, HIGH_SIZE, 0, high}) == 0);
	struct vhost_ring r = {.size = 1u << h.log_size % 12,
		.has_event_idx = h.flags & 1,
		.desc = LOW_AT + h.desc % MAX_LOW / 16 * 16,
		.avail = LOW_AT + h.avail % MAX_LOW / 2 * 2,
		.used = (h.flags & 2 ? HIGH_AT : LOW_AT) + h.used % MAX_LOW / 4 * 4,
		.next = h.next};
	if (vhost_ring_map(&r, &m) == 0) {
		run(&r, &m, data + low_size, size - low_size);
	}
	free(low);
	free(high);
	return 0;
}
