/* SPDX-License-Identifier: Apache-2.0 */
/* Calls as bytes in a ring, what a malformed ring leads to, and handles. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "wire/bytes.h"
#include "wire/handle.h"
#include "wire/ring.h"

static uint8_t *area;
static struct rbt_wire_call *call, *got;
static struct rbt_wire_answer *answer;

static void make_call(uint32_t size, uint64_t seed, bool queued)
{
	*call = (struct rbt_wire_call){.size = size,
		.number = (uint16_t)seed,
		.flags = queued ? RBT_WIRE_QUEUED : 0,
		.sequence = seed,
		.ticket = seed};
	memset(call + 1, (int)(seed & 0xff), size - sizeof(*call));
}

static void test_calls_come_in_order(void)
{
	struct rbt_wire_guest guest;
	struct rbt_wire_host host;
	uint64_t put = 0, taken = 0;

	memset(area, 0, RBT_WIRE_AREA);
	rbt_wire_guest_init(&guest, area);
	rbt_wire_host_init(&host, area);
	CHECK_INT(rbt_wire_host_has_call(&host), 0);
	/* Sizes that do not divide the ring's, several times around. */
	while (taken < 400) {
		uint32_t size = (uint32_t)(sizeof(*call) + put * 4096 % 100000 / 8 * 8);

		while (put < 400 && rbt_wire_guest_has_room(&guest, size) == 1) {
			make_call(size, put, true);
			CHECK(!rbt_wire_guest_put(&guest, call));
			CHECK_INT(rbt_wire_last_ticket(area), put);
			put++;
			size = (uint32_t)(sizeof(*call) + put * 4096 % 100000 / 8 * 8);
		}
		CHECK_INT(rbt_wire_host_take(&host, got), 0);
		make_call(got->size, taken, true);
		CHECK(memcmp(got, call, got->size) == 0);
		CHECK(!rbt_wire_host_done(&host, got->size));
		taken++;
	}
	CHECK_INT(rbt_wire_host_has_call(&host), 0);
	CHECK_INT(put, 400);
}

static void test_answers(void)
{
	struct rbt_wire_guest guest;
	struct rbt_wire_host host;

	memset(area, 0, RBT_WIRE_AREA);
	rbt_wire_guest_init(&guest, area);
	rbt_wire_host_init(&host, area);
	make_call(sizeof(*call), 1, false);
	rbt_wire_host_sleeps(&host, true);
	CHECK(rbt_wire_guest_put(&guest, call)); /* ring: the worker sleeps */
	CHECK(!rbt_wire_guest_is_answered(&guest, 1));
	rbt_wire_guest_sleeps(&guest, true);
	CHECK_INT(rbt_wire_host_take(&host, got), 0);
	*answer = (struct rbt_wire_answer){
		.size = sizeof(*answer) + 8, .result = 700, .sequence = got->sequence};
	memcpy(answer + 1, "answered", 8);
	rbt_wire_host_answer(&host, answer);
	CHECK(rbt_wire_host_done(&host, got->size)); /* ring: the guest sleeps */
	CHECK(!rbt_wire_host_done(&host, 0));        /* but only once */
	memset(answer, 0, sizeof(*answer) + 8);
	CHECK(rbt_wire_guest_is_answered(&guest, 1));
	CHECK_INT(rbt_wire_guest_answer(&guest, 1, answer, RBT_WIRE_MAX_CALL), 0);
	CHECK_INT(answer->result, 700);
	CHECK(memcmp(answer + 1, "answered", 8) == 0);
	CHECK_INT(rbt_wire_guest_answer(&guest, 1, answer, sizeof(*answer)), -EPROTO);
	CHECK_INT(rbt_wire_guest_answer(&guest, 2, answer, RBT_WIRE_MAX_CALL), -EPROTO);
}

static int take_as(uint64_t tail, uint32_t size)
{
	struct rbt_wire_host host;
	struct rbt_wire_call head = {.size = size};

	memset(area, 0, RBT_WIRE_HEADER + sizeof(head));
	rbt_wire_host_init(&host, area);
	((struct rbt_wire_area *)(void *)area)->tail = tail;
	memcpy(area + RBT_WIRE_HEADER, &head, sizeof(head));
	return rbt_wire_host_take(&host, got);
}

static void test_malformed_rings(void)
{
	struct rbt_wire_guest guest;

	CHECK_INT(take_as(64, 64), 0);
	CHECK_INT(take_as(0, 64), -EPROTO);
	CHECK_INT(take_as(8, 64), -EPROTO);
	CHECK_INT(take_as(64, 72), -EPROTO);
	CHECK_INT(take_as(64, 31), -EPROTO);
	CHECK_INT(take_as(64, 36), -EPROTO);
	CHECK_INT(take_as(RBT_WIRE_REQUESTS, RBT_WIRE_MAX_CALL + 8), -EPROTO);
	CHECK_INT(take_as(RBT_WIRE_REQUESTS + 8, 64), -EPROTO);
	CHECK_INT(take_as(UINT64_MAX, 64), -EPROTO);
	memset(area, 0, RBT_WIRE_HEADER);
	rbt_wire_guest_init(&guest, area);
	((struct rbt_wire_area *)(void *)area)->head = 8; /* more than was ever put */
	CHECK_INT(rbt_wire_guest_has_room(&guest, 64), -EPROTO);
}

static void test_bytes(void)
{
	_Alignas(8) uint8_t buffer[64];
	struct rbt_wire_writer w = {.buffer = buffer, .room = sizeof(buffer)};
	size_t size = 9;

	rbt_wire_put(&w, 77);
	rbt_wire_put_block(&w, "hello", 6);
	rbt_wire_put_block(&w, NULL, 0);
	rbt_wire_put_block(&w, "", 0);
	CHECK_INT(w.size, 8 + 16 + 8 + 8);
	struct rbt_wire_reader r = {.buffer = buffer, .size = w.size};

	CHECK_INT(rbt_wire_get(&r), 77);
	CHECK(strcmp(rbt_wire_get_block(&r, &size), "hello") == 0);
	CHECK_INT(size, 6);
	CHECK(rbt_wire_get_block(&r, &size) == NULL && !r.bad);
	CHECK(rbt_wire_get_block(&r, &size) != NULL && size == 0 && !r.bad);
	CHECK_INT(rbt_wire_get(&r), 0);
	CHECK(r.bad);
	rbt_wire_put_block(&w, buffer, 17);
	CHECK(w.bad);
	rbt_wire_put(&w, 1);
	CHECK_INT(w.size, 48); /* nothing after a mistake */
	const uint64_t lies[] = {SIZE_MAX - 3, 9, 8};

	for (size_t i = 0; i < 3; i++) {
		struct rbt_wire_reader liar = {.buffer = (const uint8_t *)&lies[i], .size = 8};

		CHECK(rbt_wire_get_block(&liar, &size) == NULL && liar.bad && size == 0);
	}
}

static void test_handles(void)
{
	enum { N = 1000 };
	static char objects[N];
	static uint64_t handles[N];
	struct rbt_handles t;

	CHECK_INT(rbt_handles_init(&t, N), 0);
	for (int i = 0; i < N; i++) {
		handles[i] = rbt_handles_add(&t, RBT_HANDLE_EVENT, &objects[i]);
		CHECK(handles[i] > 2);
	}
	CHECK_INT(rbt_handles_add(&t, RBT_HANDLE_STREAM, &objects[0]), 0); /* full */
	for (int i = 0; i < N; i++) {
		CHECK(rbt_handles_find(&t, RBT_HANDLE_EVENT, handles[i]) == &objects[i]);
		CHECK(rbt_handles_find(&t, RBT_HANDLE_STREAM, handles[i]) == NULL);
		CHECK(rbt_handles_add(&t, RBT_HANDLE_EVENT, &objects[i]) == handles[i]);
	}
	for (int i = 0; i < N; i += 2) {
		rbt_handles_remove(&t, handles[i]);
		CHECK(rbt_handles_find(&t, RBT_HANDLE_EVENT, handles[i]) == NULL);
		rbt_handles_remove(&t, handles[i]);
	}
	for (int i = 0; i < N; i += 2) {
		uint64_t again = rbt_handles_add(&t, RBT_HANDLE_STREAM, &objects[i]);

		CHECK(rbt_handles_find(&t, RBT_HANDLE_STREAM, again) == &objects[i]);
		CHECK(rbt_handles_find(&t, RBT_HANDLE_EVENT, handles[i]) == NULL);
		CHECK(rbt_handle_kind_of(again) == RBT_HANDLE_STREAM);
	}
	CHECK(rbt_handles_find(&t, RBT_HANDLE_EVENT, 0) == NULL);
	CHECK(rbt_handles_find(&t, RBT_HANDLE_EVENT, UINT64_MAX) == NULL);
	rbt_handles_finish(&t);
}

int main(void)
{
	area = aligned_alloc(64, RBT_WIRE_AREA);
	call = malloc(RBT_WIRE_MAX_CALL);
	got = malloc(RBT_WIRE_MAX_CALL);
	answer = malloc(RBT_WIRE_MAX_CALL);
	if (area == NULL || call == NULL || got == NULL || answer == NULL) {
		return 1;
	}
	test_calls_come_in_order();
	test_answers();
	test_malformed_rings();
	test_bytes();
	test_handles();
	free(area);
	free(call);
	free(got);
	free(answer);
	return check_result();
}
