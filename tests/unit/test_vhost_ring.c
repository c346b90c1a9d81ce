/* SPDX-License-Identifier: Apache-2.0 */
/* The device's side of a split ring: chains, tables, notifications, and everything that a hostile
 * driver can write. */
#include "check.h"

#include <errno.h>

#include "test_vhost_world.h"

static struct world w;
static struct vhost_chain chain;

static void begin(bool has_event_idx)
{
	world_init(&w, has_event_idx);
	CHECK_INT(vhost_ring_map(&w.ring, &w.memory), 0);
}

static int pop(void)
{
	return vhost_ring_pop(&w.ring, &w.memory, &chain);
}

static void test_memory(void)
{
	struct vhost_memory m = {0};
	unsigned char bytes[64];
	const struct vhost_region good = {0x1000, 0x9000, 64, 0, bytes};
	struct vhost_region r = good;

	CHECK_INT(vhost_memory_add(&m, &good), 0);
	CHECK_INT(vhost_memory_add(&m, &good), -EINVAL); /* overlaps itself */
	r.guest = 0x2000;
	CHECK_INT(vhost_memory_add(&m, &r), -EINVAL); /* QEMU's addresses overlap */
	r.user = 0x103f;
	r.guest = 0x103f;
	CHECK_INT(vhost_memory_add(&m, &r), -EINVAL);
	r.guest = r.user = UINT64_MAX - 62;
	CHECK_INT(vhost_memory_add(&m, &r), -EINVAL);
	r.guest = r.user = UINT64_MAX - 63;
	CHECK_INT(vhost_memory_add(&m, &r), -EINVAL);
	r.size = 0;
	CHECK_INT(vhost_memory_add(&m, &r), -EINVAL);
	CHECK(vhost_memory_at(&m, 0x1000, 64) == bytes);
	CHECK(vhost_memory_at(&m, 0x103f, 1) == bytes + 63);
	CHECK(vhost_memory_at(&m, 0x1040, 0) == bytes + 64);
	CHECK(vhost_memory_at(&m, 0x1000, 65) == NULL);
	CHECK(vhost_memory_at(&m, 0x1001, 64) == NULL);
	CHECK(vhost_memory_at(&m, 0xfff, 1) == NULL);
	CHECK(vhost_memory_at(&m, UINT64_MAX, 2) == NULL);
	CHECK(vhost_memory_at(&m, 0x1001, UINT64_MAX) == NULL);
	CHECK(vhost_memory_at_user(&m, 0x9001, 63) == bytes + 1);
	CHECK(vhost_memory_at_user(&m, 0x1000, 1) == NULL);
	for (uint64_t i = 1; i < VHOST_MAX_REGIONS; i++) {
		r = (struct vhost_region){0x10000 * i, 0x10000 * i, 1, 0, bytes};
		CHECK_INT(vhost_memory_add(&m, &r), 0);
	}
	r.guest = r.user = 1;
	CHECK_INT(vhost_memory_add(&m, &r), -ENOSPC);
}

static void test_chain(void)
{
	char text[16] = {0};

	begin(false);
	CHECK_INT(pop(), 0);
	memcpy(world_at(&w, WORLD_DATA), "hello ", 6);
	memcpy(world_at(&w, WORLD_HIGH), "world", 5);
	world_desc(&w, WORLD_DESC, 3, WORLD_DATA, 6, VRING_DESC_F_NEXT, 1);
	world_desc(&w, WORLD_DESC, 1, WORLD_HIGH, 5, VRING_DESC_F_NEXT, 7);
	world_desc(
		&w, WORLD_DESC, 7, WORLD_DATA + 64, 4, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 0);
	world_desc(&w, WORLD_DESC, 0, WORLD_DATA + 80, 8, VRING_DESC_F_WRITE, 0);
	world_offer(&w, 3);
	CHECK_INT(pop(), 1);
	CHECK_INT(chain.head, 3);
	CHECK_INT(chain.n_out, 2);
	CHECK_INT(chain.n_in, 2);
	CHECK_INT(chain.out_bytes, 11);
	CHECK_INT(chain.in_bytes, 12);
	CHECK_INT(chain.guest[1], WORLD_HIGH);
	CHECK_INT(vhost_chain_read(&chain, 0, text, sizeof(text)), 11);
	CHECK(memcmp(text, "hello world", 11) == 0);
	CHECK_INT(vhost_chain_read(&chain, 6, text, 3), 3);
	CHECK(memcmp(text, "wor", 3) == 0);
	CHECK_INT(vhost_chain_read(&chain, 11, text, 3), 0);
	CHECK_INT(vhost_chain_write(&chain, 2, "abcdef", 6), 6);
	CHECK(memcmp(world_at(&w, WORLD_DATA + 66), "ab", 2) == 0);
	CHECK(memcmp(world_at(&w, WORLD_DATA + 80), "cdef", 4) == 0);
	CHECK_INT(vhost_chain_write(&chain, 8, "abcdef", 6), 4);
	CHECK_INT(pop(), 0);
	vhost_ring_push(&w.ring, chain.head, 12);
	CHECK_INT(*world_used_idx(&w), 1);
	const uint32_t *used = (const uint32_t *)world_at(&w, WORLD_USED);
	CHECK_INT(used[1], 3);
	CHECK_INT(used[2], 12);
}

static void test_indirect(void)
{
	begin(false);
	for (unsigned i = 0; i < WORLD_SIZE; i++) {
		world_desc(&w, WORLD_TABLE, i, WORLD_DATA + 16 * i, 16,
			i + 1 < WORLD_SIZE ? VRING_DESC_F_NEXT : 0, (uint16_t)(i + 1));
	}
	world_desc(&w, WORLD_DESC, 0, WORLD_TABLE, 16 * WORLD_SIZE, VRING_DESC_F_INDIRECT, 0);
	world_offer(&w, 0);
	CHECK_INT(pop(), 1);
	CHECK_INT(chain.n_out, WORLD_SIZE);
	CHECK_INT(chain.out_bytes, 16 * WORLD_SIZE);
	/* A table may follow ordinary descriptors, and begins at any address. */
	memmove((char *)world_at(&w, WORLD_TABLE) + 1, world_at(&w, WORLD_TABLE), 32);
	world_desc(&w, WORLD_TABLE + 1, 1, WORLD_DATA, 1, 0, 0);
	world_desc(&w, WORLD_DESC, 1, WORLD_DATA, 1, VRING_DESC_F_NEXT, 2);
	world_desc(&w, WORLD_DESC, 2, WORLD_TABLE + 1, 32, VRING_DESC_F_INDIRECT, 0);
	world_offer(&w, 1);
	CHECK_INT(pop(), 1);
	CHECK_INT(chain.n_out, 3);
}

/* One wrong descriptor each; flags and next as given. */
static void check_refused(
	const char *what, uint64_t address, uint32_t size, uint16_t flags, uint16_t next)
{
	begin(false);
	world_desc(&w, WORLD_DESC, 0, address, size, flags, next);
	world_offer(&w, 0);
	int got = pop();
	if (got != -EPROTO) {
		fprintf(stderr, "%s: %d\n", what, got);
	}
	CHECK_INT(got, -EPROTO);
}

static void test_malformed(void)
{
	check_refused("beyond memory", WORLD_LOW + WORLD_BYTES - 1, 2, 0, 0);
	check_refused("between regions", WORLD_LOW + WORLD_BYTES, 1, 0, 0);
	check_refused("around the end", UINT64_MAX - 3, 8, 0, 0);
	check_refused("all of it", 0, UINT32_MAX, 0, 0);
	check_refused("empty", WORLD_DATA, 0, 0, 0);
	check_refused("loop", WORLD_DATA, 1, VRING_DESC_F_NEXT, 0);
	check_refused("next outside", WORLD_DATA, 1, VRING_DESC_F_NEXT, WORLD_SIZE);
	check_refused("table outside", WORLD_LOW + WORLD_BYTES - 8, 16, VRING_DESC_F_INDIRECT, 0);
	check_refused("odd table", WORLD_TABLE, 17, VRING_DESC_F_INDIRECT, 0);
	check_refused("empty table", WORLD_TABLE, 0, VRING_DESC_F_INDIRECT, 0);
	check_refused("large table", WORLD_TABLE, 16 * (WORLD_SIZE + 1), VRING_DESC_F_INDIRECT, 0);
	check_refused("table with a successor", WORLD_TABLE, 16,
		VRING_DESC_F_INDIRECT | VRING_DESC_F_NEXT, 1);
	/* A table in a table: descriptor 0 names itself. */
	check_refused("nested table", WORLD_DESC, 16, VRING_DESC_F_INDIRECT, 0);

	begin(false);
	world_desc(&w, WORLD_DESC, 0, WORLD_DATA, 1, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 1);
	world_desc(&w, WORLD_DESC, 1, WORLD_DATA, 1, 0, 0);
	world_offer(&w, 0);
	CHECK_INT(pop(), -EPROTO); /* to read after to write */
	begin(false);
	world_offer(&w, WORLD_SIZE);
	CHECK_INT(pop(), -EPROTO); /* no such head */
	begin(false);
	((uint16_t *)world_at(&w, WORLD_AVAIL))[1] = WORLD_SIZE + 1;
	CHECK_INT(pop(), -EPROTO); /* more chains than entries */
}

static void test_map(void)
{
	world_init(&w, false);
	w.ring.size = 0;
	CHECK_INT(vhost_ring_map(&w.ring, &w.memory), -EINVAL);
	w.ring.size = 12;
	CHECK_INT(vhost_ring_map(&w.ring, &w.memory), -EINVAL);
	w.ring.size = VHOST_RING_MAX * 2;
	CHECK_INT(vhost_ring_map(&w.ring, &w.memory), -EINVAL);
	w.ring.size = WORLD_SIZE;
	w.ring.desc += 8;
	CHECK_INT(vhost_ring_map(&w.ring, &w.memory), -EINVAL);
	w.ring.desc -= 8;
	w.ring.used = WORLD_USER + WORLD_LOW + WORLD_BYTES - 4 - 8 * WORLD_SIZE;
	CHECK_INT(vhost_ring_map(&w.ring, &w.memory), -EINVAL); /* no room for avail_event */
	w.ring.used = WORLD_USER + WORLD_USED;
	*world_used_idx(&w) = 65535;
	CHECK_INT(vhost_ring_map(&w.ring, &w.memory), 0);
	vhost_ring_push(&w.ring, 0, 0);
	CHECK_INT(*world_used_idx(&w), 0); /* goes on where the last device was */
}

static void test_flags(void)
{
	uint16_t *avail;

	begin(false);
	avail = world_at(&w, WORLD_AVAIL);
	vhost_ring_push(&w.ring, 0, 0);
	CHECK(vhost_ring_must_tell(&w.ring));
	CHECK(!vhost_ring_must_tell(&w.ring)); /* nothing new */
	avail[0] = VRING_AVAIL_F_NO_INTERRUPT;
	vhost_ring_push(&w.ring, 0, 0);
	CHECK(!vhost_ring_must_tell(&w.ring));
	CHECK(vhost_ring_sleep(&w.ring));
	world_offer(&w, 0);
	CHECK(!vhost_ring_sleep(&w.ring));
}

static void test_event_idx(void)
{
	uint16_t *used_event, *avail_event;

	begin(true);
	used_event = (uint16_t *)world_at(&w, WORLD_AVAIL) + 2 + WORLD_SIZE;
	avail_event = (uint16_t *)world_at(&w, WORLD_USED) + 2 + 4 * WORLD_SIZE;
	vhost_ring_push(&w.ring, 0, 0);
	CHECK(vhost_ring_must_tell(&w.ring)); /* the first time, always */
	*used_event = 3;                      /* tell me when the fourth one comes */
	vhost_ring_push(&w.ring, 0, 0);
	CHECK(!vhost_ring_must_tell(&w.ring));
	vhost_ring_push(&w.ring, 0, 0);
	CHECK(!vhost_ring_must_tell(&w.ring));
	vhost_ring_push(&w.ring, 0, 0);
	CHECK(vhost_ring_must_tell(&w.ring));
	vhost_ring_push(&w.ring, 0, 0);
	CHECK(!vhost_ring_must_tell(&w.ring));
	*used_event = 6; /* several at once pass it */
	vhost_ring_push(&w.ring, 0, 0);
	vhost_ring_push(&w.ring, 0, 0);
	vhost_ring_push(&w.ring, 0, 0);
	CHECK(vhost_ring_must_tell(&w.ring));

	world_desc(&w, WORLD_DESC, 0, WORLD_DATA, 1, 0, 0);
	world_offer(&w, 0);
	CHECK(!vhost_ring_sleep(&w.ring));
	CHECK_INT(pop(), 1);
	CHECK(vhost_ring_sleep(&w.ring));
	CHECK_INT(*avail_event, 1);
}

/* Counters wrap at 2^16. */
static void test_wrap(void)
{
	begin(true);
	world_desc(&w, WORLD_DESC, 0, WORLD_DATA, 1, 0, 0);
	for (unsigned i = 0; i < 70000; i++) {
		world_offer(&w, 0);
		if (pop() != 1) {
			CHECK(false);
			return;
		}
		vhost_ring_push(&w.ring, chain.head, 0);
	}
	CHECK_INT(*world_used_idx(&w), 70000 % 65536);
}

int main(void)
{
	test_memory();
	test_chain();
	test_indirect();
	test_malformed();
	test_map();
	test_flags();
	test_event_idx();
	test_wrap();
	return check_result();
}
