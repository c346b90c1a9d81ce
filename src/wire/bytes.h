/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments and outputs as bytes. A number is 8 bytes. A block is its length, 8 bytes, and as many
 * bytes, filled up to a multiple of 8; the length RBT_WIRE_NULL means a null pointer, or an output
 * that was not written. A mistake (no room, or too few bytes) marks the writer or reader as bad;
 * calls after it do nothing, so that the mark need be checked only once.
 */
#ifndef RBT_WIRE_BYTES_H
#define RBT_WIRE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RBT_WIRE_NULL UINT64_MAX

struct rbt_wire_writer {
	uint8_t *buffer;
	size_t room, size;
	bool bad;
};

struct rbt_wire_reader {
	const uint8_t *buffer;
	size_t size, at;
	bool bad;
};

void rbt_wire_put(struct rbt_wire_writer *w, uint64_t number);
void rbt_wire_put_block(struct rbt_wire_writer *w, const void *block, size_t size);
/* A block whose bytes the caller fills in; NULL if there is no room. */
void *rbt_wire_put_room(struct rbt_wire_writer *w, size_t size);

uint64_t rbt_wire_get(struct rbt_wire_reader *r);
/* A block inside the reader's buffer, aligned to 8 like the buffer; NULL: a null pointer, or bad.
 *  */
const void *rbt_wire_get_block(struct rbt_wire_reader *r, size_t *ret_size);

#endif
