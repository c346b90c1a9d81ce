/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a policy, by their types in BTF. */
#ifndef RBT_POLICY_NUMBER_H
#define RBT_POLICY_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/typeinfo.h"

/* Whether a plain type is an integer, a bool or an enum, of 1, 2, 4 or 8 bytes. */
bool rbt_number_is(const struct btf_type *t);
bool rbt_number_is_signed(const struct btf_type *t);
bool rbt_number_is_bool(const struct btf_type *t);

/* Reads a number from `bits` (1 to 64) of its memory, from the bit `first` on. The result is
 * extended to 64 bits by the type's sign. */
uint64_t rbt_number_get(
	const struct btf_type *t, const void *memory, unsigned first, unsigned bits);
/* Writes the lower bits of a number. Other bits of the memory do not change. */
void rbt_number_put(void *memory, unsigned first, unsigned bits, uint64_t number);

/*
 * Parses a number for `bits` bits of this type: decimal or 0x…, true or false, or the name of an
 * enumerator. -EINVAL: it is none of them; -ERANGE: the type cannot have it.
 */
int rbt_number_parse(const struct rbt_btf *btf, const struct btf_type *t, unsigned bits,
	const char *text, uint64_t *ret);
/* The name of the enumerator with this number, or NULL. */
const char *rbt_number_enumerator(
	const struct rbt_btf *btf, const struct btf_type *t, uint64_t number);

#endif
