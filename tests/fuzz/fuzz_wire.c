/* SPDX-License-Identifier: Apache-2.0 */
/* A ring as a hostile guest writes it, and an answer as a hostile host does: whatever is in them,
 * both ends stay inside the area and inside their buffers. */
#include <stdlib.h>
#include <string.h>

#include "require.h"
#include "wire/bytes.h"
#include "wire/ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Everything that a call or an answer has, in the way that its first bytes say. */
static void walk(const uint8_t *bytes, size_t size)
{
	struct rbt_wire_reader r = {.buffer = bytes, .size = size};
	unsigned sum = 0;

	for (size_t i = 0; !r.bad && i < size; i++) {
		size_t n = 0;
		const uint8_t *block;

		if (bytes[i] & 1) {
			sum += (unsigned)rbt_wire_get(&r);
			continue;
		}
		block = rbt_wire_get_block(&r, &n);
		REQUIRE(block != NULL || n == 0);
		for (size_t k = 0; k < n; k += 61) {
			sum += block[k];
		}
	}
	REQUIRE(r.at <= r.size);
	(void)*(volatile unsigned *)&sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t *area;
	static struct rbt_wire_call *call;
	static struct rbt_wire_answer *answer;
	struct rbt_wire_area *head;
	struct rbt_wire_host host;
	struct rbt_wire_guest guest;

	if (area == NULL) {
		area = aligned_alloc(64, RBT_WIRE_AREA);
		call = malloc(RBT_WIRE_MAX_CALL);
		answer = malloc(RBT_WIRE_MAX_CALL);
	}
	if (area == NULL || call == NULL || answer == NULL || size < 16) {
		return 0;
	}
	/* Near the ring's end, so that calls wrap. */
	size_t at = RBT_WIRE_REQUESTS - data[0] * 8u, rest = size - 16;
	size_t room = RBT_WIRE_REQUESTS - at;

	head = (struct rbt_wire_area *)(void *)area;
	memset(area, 0, RBT_WIRE_HEADER);
	memcpy(&head->tail, data + 8, sizeof(head->tail));
	if ((data[1] & 15) != 0) { /* any other position is refused, or a large ring */
		head->tail = at + rest;
	}
	rest = rest < RBT_WIRE_REQUESTS ? rest : RBT_WIRE_REQUESTS;
	memcpy(area + RBT_WIRE_HEADER + at, data + 16, rest < room ? rest : room);
	if (rest > room) {
		memcpy(area + RBT_WIRE_HEADER, data + 16 + room, rest - room);
	}
	rbt_wire_host_init(&host, area);
	host.head = at;
	while (rbt_wire_host_has_call(&host) == 1 && rbt_wire_host_take(&host, call) == 0) {
		walk((const uint8_t *)(call + 1), call->size - sizeof(*call));
		(void)rbt_wire_host_done(&host, call->size);
	}
	memcpy(area + RBT_WIRE_ANSWER_AT, data,
		size < RBT_WIRE_ANSWER_ROOM ? size : RBT_WIRE_ANSWER_ROOM);
	rbt_wire_guest_init(&guest, area);
	struct rbt_wire_answer first;

	memcpy(&first, data, size < sizeof(first) ? size : sizeof(first));
	if (size >= sizeof(first) &&
		rbt_wire_guest_answer(&guest, first.sequence, answer, RBT_WIRE_MAX_CALL) == 0) {
		walk((const uint8_t *)(answer + 1), answer->size - sizeof(*answer));
	}
	(void)rbt_wire_guest_has_room(&guest, 64);
	return 0;
}
