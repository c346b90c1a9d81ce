/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/bytes.h"

#include <string.h>

static size_t padded(size_t size)
{
	return (size + 7) & ~(size_t)7;
}

void rbt_wire_put(struct rbt_wire_writer *w, uint64_t number)
{
	if (w->bad || w->room - w->size < sizeof(number)) {
		w->bad = true;
		return;
	}
	memcpy(w->buffer + w->size, &number, sizeof(number));
	w->size += sizeof(number);
}

void *rbt_wire_put_room(struct rbt_wire_writer *w, size_t size)
{
	rbt_wire_put(w, size);
	if (w->bad || size > w->room - w->size || padded(size) > w->room - w->size) {
		w->bad = true;
		return NULL;
	}
	uint8_t *at = w->buffer + w->size;

	memset(at + size, 0, padded(size) - size);
	w->size += padded(size);
	return at;
}

void rbt_wire_put_block(struct rbt_wire_writer *w, const void *block, size_t size)
{
	if (block == NULL) {
		rbt_wire_put(w, RBT_WIRE_NULL);
		return;
	}
	void *at = rbt_wire_put_room(w, size);

	if (at != NULL) {
		memcpy(at, block, size);
	}
}

uint64_t rbt_wire_get(struct rbt_wire_reader *r)
{
	uint64_t number;

	if (r->bad || r->size - r->at < sizeof(number)) {
		r->bad = true;
		return 0;
	}
	memcpy(&number, r->buffer + r->at, sizeof(number));
	r->at += sizeof(number);
	return number;
}

const void *rbt_wire_get_block(struct rbt_wire_reader *r, size_t *ret_size)
{
	uint64_t size = rbt_wire_get(r);

	*ret_size = 0;
	if (r->bad || size == RBT_WIRE_NULL) {
		return NULL;
	}
	if (size > r->size - r->at || padded(size) > r->size - r->at) {
		r->bad = true;
		return NULL;
	}
	const void *at = r->buffer + r->at;

	r->at += padded(size);
	*ret_size = size;
	return at;
}
